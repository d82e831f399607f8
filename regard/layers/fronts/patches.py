"""Images -> vectors: a linear projection of each patch (Dosovitskiy et al. 2021), or a stem."""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import InputError
from regard.inputs.arrays import Dense
from regard.kernels.dropout import Dropout
from regard.kernels.linear import Linear
from regard.layers.context import Context
from regard.layers.convolution_2d import Convolution2d
from regard.layers.fronts.front import Front
from regard.layers.layout import Layout


class Patches(Front):
    """dropout([first; W p_1 + b; …; W p_N + b] + PE), equation 1 of the paper.

    p_i holds the pixels of patch i, channel by channel, row by row, so W is the kernel of a
    convolution whose stride equals its kernel size. The patches follow the `first` tokens, row by
    row. With a stem, its output at each cell replaces W p_i + b.

    Args:
        image: Height and width of the images that the model was made for, in pixels; images of
            other sizes are read, too, unless `fixed`.
        patch: The side of a patch, which divides both.
        channels: Number of channels: 1 (grey) or 3 (red, green, blue).
        dim: Width of a vector.
        dropout: Dropout rate on the sum of patch and position.
        first: Number of learned tokens before the patches: 1 for [CLS], 2 with a distillation
            token, 0 for none.
        stem_width: Channels between the convolutions of a stem; None: no stem, but patches.
        fixed: Whether an image can have no more patches than `image`, because of its positions.

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
        stem_width: int | None = None,
        fixed: bool = False,
    ) -> None:
        super().__init__()
        self.image, self.patch, self.channels, self.fixed = image, patch, channels, fixed
        self.grid = image[0] // patch, image[1] // patch
        if stem_width is None:
            self.projection = Linear(channels * patch * patch, dim)
        else:
            self.stem = Stem(channels, stem_width, dim, patch, image)
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
            InputError: If the images have other channels, or a size that is not whole patches.
        """
        channels, height, width = source.values.shape[1:]
        rows, columns = grid = height // self.patch, width // self.patch
        whole_patches = (rows * self.patch, columns * self.patch) == (
            height,
            width,
        ) and rows * columns
        exceeds_grid = rows * columns > self.grid[0] * self.grid[1]
        if channels != self.channels or not whole_patches or (self.fixed and exceeds_grid):
            raise self._size_error(channels, height, width)
        length = self.tokens_before + rows * columns
        return Layout((length,) * len(source), source.device, grid, self.tokens_before)

    def _size_error(self, channels: int, height: int, width: int) -> InputError:
        """The error for images of the wrong size: what would fit."""
        own_shape = " x ".join(map(str, (self.channels, *self.image)))
        fix = None
        if channels == self.channels and not self.fixed:
            sides = (max(1, round(side / self.patch)) * self.patch for side in (height, width))
            nearest_size = " x ".join(map(str, sides))
            fix = f"height and width must be multiples of {self.patch}: {nearest_size} would fit"
        return InputError(
            "images",
            got=f"{channels} x {height} x {width}",
            expected=f"{own_shape}: channels, height, width",
            fix=fix,
        )

    def read(self, source: Dense, ctx: Context) -> Tensor:
        """(images, channels, height, width) -> (tokens, dim)."""
        x = self._embed_patches(source.values)  # (images, patches, dim)
        if self.first is not None:
            x = torch.cat((self.first.expand(len(source), -1, -1), x), dim=1)
        x = x.flatten(0, 1)  # (tokens, dim)
        return self.dropout(ctx.scheme.add_grid(x, ctx.layout))

    def _embed_patches(self, images: Tensor) -> Tensor:
        """The vector of each patch: (images, channels, height, width) -> (images, patches, dim)."""
        if hasattr(self, "stem"):
            return self.stem(images).flatten(2).transpose(1, 2)
        patches = cut_patches(images, self.patch)  # (images, patches, channels · patch²)
        return self.projection(patches.flatten(0, 1)).view(*patches.shape[:2], -1)


class Stem(nn.Module):
    """Convolutions of 3 x 3 without bias, each followed by ReLU and max-pooling by 2.

    The convolutional tokenizer of CCT (Hassani et al. 2021).

    Args:
        channels: Channels of the image.
        width: Channels between the convolutions.
        dim: Channels of the output.
        patch: A power of two: by how much height and width become smaller.
        image: Height and width of the images that the model was made for.
    """

    def __init__(
        self, channels: int, width: int, dim: int, patch: int, image: tuple[int, int]
    ) -> None:
        super().__init__()
        count = max(1, patch.bit_length() - 1)
        widths = [channels, *[width] * (count - 1), dim]
        self.halve = patch > 1
        self.convolutions = nn.ModuleList(
            Convolution2d(before, after, 3, output_cells=(image[0] >> i) * (image[1] >> i))
            for i, (before, after) in enumerate(pairwise(widths))
        )

    def forward(self, images: Tensor) -> Tensor:
        """(images, channels, height, width) -> (images, dim, height / patch, width / patch)."""
        x = images.contiguous(memory_format=torch.channels_last)  # faster on a CPU
        for convolution in self.convolutions:
            x = convolution(x).relu()
            x = F.max_pool2d(x, 3, stride=2, padding=1) if self.halve else x
        return x


def cut_patches(images: Tensor, patch: int) -> Tensor:
    """Cuts images (images, channels, height, width) into patches.

    Returns:
        (images, patches, channels · patch · patch).

    Example:
        >>> cut_patches(torch.arange(8).view(1, 1, 2, 4), 2)
        tensor([[[0, 1, 4, 5],
                 [2, 3, 6, 7]]])
    """
    count, channels, height, width = images.shape
    # (images, channels, rows, patch, columns, patch) -> (images, rows, columns, channels, …)
    tiles = images.reshape(count, channels, height // patch, patch, width // patch, patch)
    return tiles.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)
