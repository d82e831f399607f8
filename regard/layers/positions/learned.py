"""Learned positions: tokens come in, and go out with a learned vector of each position added."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.layers.layout import Layout
from regard.layers.positions.base import Positions


class Learned(Positions):
    """A learned vector for each position (GPT-2, BERT); position 0 is row `first` of the table.

    Args:
        dim: Width of a token.
        heads: Not used.
        max_length: Number of positions.
        first: The row of position 0.
        grid: For images: the rows and columns of patches that the table is learned for.
        before: For images: the number of tokens before the patches.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        max_length: int,
        *,
        first: int = 0,
        grid: tuple[int, int] | None = None,
        before: int = 0,
    ) -> None:
        super().__init__()
        del heads
        self.first, self.grid, self.before = first, grid, before
        self.table = nn.Parameter(torch.empty(first + max_length, dim))
        nn.init.normal_(self.table, std=0.02)

    def add(self, x: Tensor, positions: Tensor) -> Tensor:
        """x + table[first + positions]."""
        return x + self.table[self.first + positions if self.first else positions]

    def add_grid(self, x: Tensor, layout: Layout) -> Tensor:
        """x + table; for another grid than the table's, its patches are interpolated."""
        if self.grid is None or layout.grid is None or layout.grid == self.grid:
            return self.add(x, layout.positions)
        table = interpolate_table(self.table[self.first :], self.grid, layout.grid, self.before)
        return x + table[layout.positions]


def interpolate_table(
    table: Tensor, grid: tuple[int, int], new_grid: tuple[int, int], before: int
) -> Tensor:
    """Position vectors for another grid of patches, by bicubic interpolation of rows and columns.

    Args:
        table: (before + rows · columns, dim) The vectors for `grid`.
        grid: Rows and columns of the table.
        new_grid: Rows and columns of the result.
        before: Number of rows of the table before the grid, which stay as they are.

    Returns:
        (before + rows · columns of `new_grid`, dim).
    """
    plane = table[before:].view(1, *grid, -1).permute(0, 3, 1, 2)  # (1, dim, rows, columns)
    plane = F.interpolate(plane, new_grid, mode="bicubic", align_corners=False)
    return torch.cat((table[:before], plane[0].flatten(1).t()))  # (dim, patches) -> (patches, dim)
