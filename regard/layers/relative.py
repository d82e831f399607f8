"""Relative position bias in a grid: a number for each head and offset between two tokens (Swin).

A module maps q and the layout to a bias (1, heads, query, key), which one attention layer adds to
its scores: `Attention(score_bias=…)`.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import InputError
from regard.layers.layout import Layout


class RelativeBias(nn.Module):
    """A learned bias for each head and offset in rows and columns (Swin).

    Args:
        heads: Number of heads.
        size: The side of the largest window: offsets range from 1 - size to size - 1.
    """

    def __init__(self, heads: int, size: int) -> None:
        super().__init__()
        self.size = size
        self.table = nn.Parameter(torch.empty((2 * size - 1) ** 2, heads))
        nn.init.trunc_normal_(self.table, std=0.02)

    def numbers(self) -> Tensor:
        """The bias of each offset and head: ((2 size - 1)², heads)."""
        return self.table

    def forward(self, q: Tensor, layout: Layout) -> Tensor:
        """numbers[offset of query and key]: (1, heads, query, key)."""
        sides = layout.window_shape
        if sides is None or max(sides) > self.size or sides[0] * sides[1] != layout.longest:
            raise InputError(
                "a bias of offsets in a grid",
                got="tokens in no grid" if sides is None else f"a grid of {sides[0]} x {sides[1]}",
                expected=f"windows of at most {self.size} x {self.size}",
            )
        row, column = (
            axis.flatten()
            for axis in torch.meshgrid(*(torch.arange(side) for side in sides), indexing="ij")
        )  # row and column of each token of a window: (cells,)
        down, right = row[:, None] - row, column[:, None] - column  # (query, key)
        index = (down + self.size - 1) * (2 * self.size - 1) + right + self.size - 1
        return self.numbers()[index.to(q.device)].permute(2, 0, 1)[None]


def resized_table(table: Tensor, size: int) -> Tensor:
    """A table of biases for windows of another size, by bicubic interpolation of its offsets.

    Args:
        table: ((2 s - 1)², heads) The numbers of windows of s x s.
        size: The side of the other windows.

    Returns:
        ((2 size - 1)², heads): the numbers of the farthest offsets stay those of the corners.

    Example:
        >>> resized_table(torch.arange(9.0)[:, None], 3)[::12, 0]
        tensor([0., 4., 8.])
    """
    side = math.isqrt(len(table))
    plane = table.t().reshape(1, -1, side, side)  # (1, heads, rows, columns)
    sides = 2 * size - 1, 2 * size - 1
    plane = F.interpolate(plane.float(), sides, mode="bicubic", align_corners=True)
    return plane.flatten(2)[0].t().to(table)


class RelativeBiasNet(RelativeBias):
    """The same bias, computed by a small network from log-scaled offsets (Swin-V2).

    The windows may differ in size.

    Args:
        heads: Number of heads.
        size: The side of the largest window.
        hidden: Width of the network's hidden layer.
        trained: The side of the windows by which offsets are scaled, if not `size`: that of the
            first training, so that larger windows extrapolate.
    """

    offsets: Tensor

    def __init__(
        self, heads: int, size: int, hidden: int = 512, trained: int | None = None
    ) -> None:
        nn.Module.__init__(self)
        self.size = size
        self.net = nn.Sequential(
            nn.Linear(2, hidden), nn.ReLU(), nn.Linear(hidden, heads, bias=False)
        )
        steps = 8 * torch.arange(1 - size, size) / max(1, (trained or size) - 1)  # from -8 to 8
        steps = steps.sign() * (1 + steps.abs()).log2() / 3  # log2(8)
        pairs = torch.cartesian_prod(steps, steps)  # (offsets, 2)
        self.register_buffer("offsets", pairs, persistent=False)

    def numbers(self) -> Tensor:
        """16 sigmoid(net(log offset)): ((2 size - 1)², heads)."""
        return 16 * self.net(self.offsets).sigmoid()
