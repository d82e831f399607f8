"""`Front`, the base class of input layers, which turn a model's input into vectors for a stack."""

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
        """The layout of the tokens of each example, known before any vector is computed.

        Args:
            source: The `Input` of this front: `Ragged` ids for `Embed`, `Dense` for `Patches`.
        """

    @abstractmethod
    def read(self, source: Any, ctx: Context) -> Tensor:
        """The vector of each token, with its position added: (tokens, dim).

        Args:
            source: As for `layout`.
            ctx: The context of the stack that follows; its layout is `layout(source)`.
        """
