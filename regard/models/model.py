"""`Model`, the base class of the models of all families."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard.layers import Tap
from regard.layers.fronts.front import Front
from regard.models.config import ModelConfig

LOGITS = {"logits": 0}
"""The tap site of a vocabulary head's output, which has no heads."""


class Model(nn.Module, ABC):
    """A model: fronts (input layers), stacks, stored under the names in `config.stacks`, and heads.

    The first stack is the one that reads the input.
    """

    config: ModelConfig

    @abstractmethod
    def hidden(self, source: Any, tap: Tap | None = None) -> Tensor:
        """The output of the first stack for each token of an `Input`: (tokens, dim)."""

    def vocabularies(self) -> dict[str, int]:
        """Name -> size of the vocabularies that the model was built with, stored by these names."""
        return {name: getattr(self, name) for name in self.config.VOCABULARIES}

    @abstractmethod
    def embeds(self) -> Sequence[Front]:
        """The input layers: of source and target, or of the only input."""

    @abstractmethod
    def sites(self) -> dict[str, int]:
        """All tap sites of the model, with the number of heads at each (0: not per head)."""

    def heads(self) -> list[str]:
        """The names of all attention heads, such as `decoder.1.cross.3`."""
        counts = {site: count for site, count in self.sites().items() if site.endswith(".heads")}
        return [
            f"{site.removesuffix('.heads')}.{head}"
            for site, count in counts.items()
            for head in range(count)
        ]

    mixed: torch.dtype | None = None
    """The dtype of matrix products in inference (autocast); None: fp32 throughout."""

    @property
    def device(self) -> torch.device:
        """The device of the weights; inputs must be on the same device."""
        return next(self.parameters()).device

    @property
    def reader(self) -> str:
        """The name of the first stack, which reads the input."""
        return next(iter(self.config.stacks))

    def depths(self) -> list[list[nn.Module]]:
        """The modules of the first stack by depth: fronts and positions, each block, final norm."""
        stack = getattr(self, self.reader)
        layers = [[block] for block in stack.blocks]
        return [[*self.embeds(), stack.positions], *layers, [stack.final_norm]]
