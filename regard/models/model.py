"""What a model of any family can say of itself, whatever its shape."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard.layers import Tap
from regard.layers.fronts.front import Front
from regard.models.config import ModelConfig


class Model(nn.Module, ABC):
    """Stacks by the names that the config gives them, the fronts before them, and heads."""

    config: ModelConfig

    @abstractmethod
    def hidden(self, source: Any, tap: Tap | None = None) -> Tensor:
        """What leaves the stack that reads, for each token of an `Input`: (tokens, dim)."""

    @abstractmethod
    def vocabularies(self) -> dict[str, int]:
        """What it was built with beside its config, by name."""

    @abstractmethod
    def embeds(self) -> Sequence[Front]:
        """What gives each token its first vector: of source and target, or of the only input."""

    @abstractmethod
    def sites(self) -> dict[str, int]:
        """Every site a tap can name, with its number of heads (0 where there are none)."""

    def heads(self) -> list[str]:
        """Every attention head's name, such as `decoder.1.cross.3`."""
        counts = {site: count for site, count in self.sites().items() if site.endswith(".heads")}
        return [
            f"{site.removesuffix('.heads')}.{head}"
            for site, count in counts.items()
            for head in range(count)
        ]

    mixed: torch.dtype | None = None
    """What matrix products are computed in where the model is used: None for fp32 throughout."""

    @property
    def device(self) -> torch.device:
        """Where its weights are; what it reads has to be there, too."""
        return next(self.parameters()).device

    @property
    def reader(self) -> str:
        """The name of the stack that reads."""
        return next(iter(self.config.stacks))

    def depths(self) -> list[list[nn.Module]]:
        """The parts that read, from below: fronts, each layer, what stands on top."""
        stack = getattr(self, self.reader)
        layers = [[block] for block in stack.blocks]
        return [[*self.embeds(), stack.positions], *layers, [stack.final_norm]]
