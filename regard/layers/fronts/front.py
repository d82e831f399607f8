"""What stands before a stack: it turns what a model reads into vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor, nn

from regard.layers.context import Context
from regard.layers.layout import Layout


class Front(nn.Module, ABC):
    """Input -> vectors (tokens, dim). `Embed` is the front of text, `Patches` that of images."""

    @abstractmethod
    def layout(self, source: Any) -> Layout:
        """How many tokens each example becomes, by arithmetic: nothing is computed yet.

        Args:
            source: The `Input` of this front: `Ragged` ids for `Embed`, `Dense` for `Patches`.
        """

    @abstractmethod
    def read(self, source: Any, ctx: Context) -> Tensor:
        """The vector of each token, with its position added: (tokens, dim).

        Args:
            source: As for `layout`.
            ctx: Of the stack that reads it; its layout is that of `layout(source)`.
        """
