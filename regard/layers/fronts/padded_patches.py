"""Images of any size -> vectors of patches with a norm: the front of Swin."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from regard.errors import InputError
from regard.inputs.arrays import Dense
from regard.kernels.dropout import Dropout
from regard.kernels.linear import Linear
from regard.layers.context import Context
from regard.layers.fronts.front import Front
from regard.layers.fronts.patches import cut_patches
from regard.layers.layout import Layout
from regard.layers.norms import norm
from regard.layers.stages_config import GridStages


class PaddedPatches(Front):
    """dropout(norm(W p_i + b)) of each patch p_i; the image is filled with zeros to whole patches.

    Args:
        config: The settings of the encoder.

    Example:
        >>> import torch
        >>> from regard.layers.stages_config import GridStages
        >>> front = PaddedPatches(GridStages(image=(8, 8), patch=2, dim=16, depths=(1, 1)))
        >>> image = Dense(torch.zeros(1, 3, 5, 9))
        >>> front.patch_layout(image).grid, front.layout(image).grid  # before and after a merge
        ((3, 5), (2, 3))
    """

    def __init__(self, config: GridStages) -> None:
        super().__init__()
        front = config.front
        self.image, self.patch, self.channels = front.image, front.patch, front.channels
        self.merges = len(config.depths) - 1
        self.projection = Linear(front.channels * front.patch**2, config.dim)
        self.norm = norm("layer", config.dim)
        self.dropout = Dropout(config.dropout)

    def patch_layout(self, source: Dense) -> Layout:
        """The layout of the patches of each image, in a grid.

        Raises:
            InputError: If the images have other channels, or no pixels.
        """
        channels, height, width = source.values.shape[1:]
        if channels != self.channels or not height * width:
            own_shape = " x ".join(map(str, (self.channels, *self.image)))
            raise InputError(
                "images",
                got=f"{channels} x {height} x {width}",
                expected=f"{own_shape}: channels, height, width",
                fix=f"{self.channels} x H x W of any height and width would fit",
            )
        return grid_layout(source, (-(-height // self.patch), -(-width // self.patch)))

    def layout(self, source: Dense) -> Layout:
        """The layout of an image's cells after the last stage, in a grid."""
        patches = self.patch_layout(source)
        assert patches.grid is not None  # of images
        stride = 2**self.merges
        rows, columns = (-(-side // stride) for side in patches.grid)
        return grid_layout(source, (rows, columns))

    def read(self, source: Dense, ctx: Context) -> Tensor:
        """(images, channels, height, width) -> (tokens, dim)."""
        del ctx
        height, width = source.values.shape[2:]
        pixels = F.pad(source.values, (0, -width % self.patch, 0, -height % self.patch))
        patches = cut_patches(pixels, self.patch).flatten(0, 1)  # (tokens, channels · patch²)
        return self.dropout(self.norm(self.projection(patches)))


def grid_layout(source: Dense, grid: tuple[int, int]) -> Layout:
    """The layout of images that are grids of cells."""
    return Layout((grid[0] * grid[1],) * len(source), source.device, grid)
