"""Sinusoidal positions of patches, which go out with waves of row and column added to them."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.layers.layout import Layout
from regard.layers.positions.base import Positions


def sinusoid_2d(grid: tuple[int, int], dim: int, before: int = 0) -> Tensor:
    """[sin(i w); cos(i w); sin(j w); cos(j w)] of the patch in row i, column j: (tokens, dim).

    The frequencies are w_k = 10000^(-4k/dim), k = 0 … dim/4 - 1 (Chen et al. 2021, MoCo v3). The
    `before` tokens before the patches have zeros.

    Example:
        >>> sinusoid_2d((1, 2), 4, before=1).round(decimals=2)
        tensor([[0.0000, 0.0000, 0.0000, 0.0000],
                [0.0000, 1.0000, 0.0000, 1.0000],
                [0.0000, 1.0000, 0.8400, 0.5400]])
    """
    rate = 10000.0 ** (-torch.arange(dim // 4, dtype=torch.float64) / (dim // 4))
    sides = [torch.arange(side, dtype=torch.float64) for side in grid]
    axes = torch.meshgrid(*sides, indexing="ij")  # rows and columns, (rows, columns) each
    angles = [axis.flatten()[:, None] * rate for axis in axes]  # (patches, dim / 4) each
    waves = torch.cat([wave for angle in angles for wave in (angle.sin(), angle.cos())], dim=1)
    return torch.cat((torch.zeros(before, dim, dtype=torch.float64), waves)).float()


class Sinusoidal2D(Positions):
    """Sinusoids of row and column, added to the patches of an image. Not learned.

    Args:
        dim: Width of a token, a multiple of 4.
        heads: Not used.
        max_length: Number of columns, if there is no grid: one row of tokens.
        grid: Rows and columns of patches.
        before: Number of tokens before the patches.
    """

    table: Tensor

    def __init__(
        self,
        dim: int,
        heads: int,
        max_length: int,
        *,
        grid: tuple[int, int] | None = None,
        before: int = 0,
    ) -> None:
        super().__init__()
        del heads
        self.dim, self.grid, self.before = dim, grid or (1, max_length), before
        self.register_buffer("table", sinusoid_2d(self.grid, dim, before), persistent=False)

    def add(self, x: Tensor, positions: Tensor) -> Tensor:
        """x + PE(positions), counted over the tokens of an image."""
        return x + self.table[positions]

    def add_grid(self, x: Tensor, layout: Layout) -> Tensor:
        """x + PE(row, column), for a grid of any size."""
        if layout.grid is None or layout.grid == self.grid:
            return self.add(x, layout.positions)
        return x + sinusoid_2d(layout.grid, self.dim, self.before).to(x)[layout.positions]
