"""Images -> vectors: a linear projection of each square patch (Dosovitskiy et al. 2021)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.data.input import Dense
from regard.errors import InputError
from regard.layers.context import Context
from regard.layers.fronts.front import Front
from regard.layers.kernels.dropout import Dropout
from regard.layers.kernels.linear import Linear
from regard.layers.layout import Layout


class Patches(Front):
    """dropout([first; W p_1 + b; …; W p_N + b] + PE), equation 1 of the paper.

    p_i holds the pixels of patch i, channel by channel, row by row, so W is the kernel of a
    convolution whose stride equals its kernel size. The patches follow the `first` tokens, row by
    row.

    Args:
        image: Height and width of an image, in pixels.
        patch: The side of a patch, which divides both.
        channels: Number of channels: 1 (grey) or 3 (red, green, blue).
        dim: Width of a vector.
        dropout: Dropout rate on the sum of patch and position.
        first: Number of learned tokens before the patches: 1 for [CLS], 0 for none.

    Example:
        >>> front = Patches((4, 6), patch=2, channels=1, dim=8)
        >>> front.layout(Dense(torch.zeros(5, 1, 4, 6))).lengths     # [CLS] and 2 x 3 patches
        (7, 7, 7, 7, 7)
    """

    def __init__(
        self,
        image: tuple[int, int],
        patch: int,
        channels: int,
        dim: int,
        dropout: float = 0.0,
        *,
        first: int = 1,
    ) -> None:
        super().__init__()
        self.image, self.patch, self.channels = image, patch, channels
        self.grid = image[0] // patch, image[1] // patch
        self.projection = Linear(channels * patch * patch, dim)
        self.first = nn.Parameter(torch.empty(first, dim)) if first else None
        if self.first is not None:
            nn.init.normal_(self.first, std=0.02)
        self.dropout = Dropout(dropout)

    @property
    def tokens_before(self) -> int:
        """The number of tokens before the patches of each image."""
        return 0 if self.first is None else len(self.first)

    def layout(self, source: Dense) -> Layout:
        """The layout of each image: the first tokens, then a grid of patches.

        Raises:
            InputError: If the images have another size.
        """
        expected = (self.channels, *self.image)
        if source.values.shape[1:] != expected:
            shape = " x ".join(map(str, source.values.shape[1:]))
            wanted = " x ".join(map(str, expected))
            raise InputError("images", got=shape, expected=f"{wanted}: channels, height, width")
        length = self.tokens_before + self.grid[0] * self.grid[1]
        return Layout((length,) * len(source), source.device, self.grid, self.tokens_before)

    def read(self, source: Dense, ctx: Context) -> Tensor:
        """(images, channels, height, width) -> (tokens, dim)."""
        patches = cut(source.values, self.patch)  # (images, patches, channels · patch²)
        x = self.projection(patches.flatten(0, 1)).view(len(source), patches.shape[1], -1)
        if self.first is not None:
            x = torch.cat((self.first.expand(len(source), -1, -1), x), dim=1)
        x = x.flatten(0, 1)  # (tokens, dim)
        return self.dropout(ctx.positions.add(x, ctx.where))


def cut(images: Tensor, patch: int) -> Tensor:
    """Cuts images (images, channels, height, width) into patches.

    Returns:
        (images, patches, channels · patch · patch).

    Example:
        >>> cut(torch.arange(8).view(1, 1, 2, 4), 2)
        tensor([[[0, 1, 4, 5],
                 [2, 3, 6, 7]]])
    """
    count, channels, height, width = images.shape
    # (images, channels, rows, patch, columns, patch) -> (images, rows, columns, channels, …)
    tiles = images.reshape(count, channels, height // patch, patch, width // patch, patch)
    return tiles.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)
