"""Sentences end to end <-> padded rows: the one place that knows about padding.

Between layers, x is (tokens, dim): the sentences of a batch one after another, so that norms,
projections and feed-forward never work on padding. Only attention needs rows of equal length;
it scatters its queries, keys and values into rows, and gathers the result back.

    lengths 2, 3      tokens (5, dim)              rows (2, heads, 3, head_dim)
                      a0 a1 b0 b1 b2    <->        a0 a1 --
                                                   b0 b1 b2

The tokens of a picture stand in a grid, row by row. `windows` lays the same tokens out in squares,
a row for each square, so that attention looks no farther; between layers nothing changes.

    grid 2 x 4        tokens (8, dim)              windows of 2 x 2: (2, heads, 4, head_dim)
    a b c d           a b c d e f g h     <->      a b e f
    e f g h                                        c d g h
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.errors import InputError
from regard.layers.masks import Mask


class InTime(NamedTuple):
    """The tokens of a batch, all first ones first, then all second ones; the longest text leads."""

    tokens: Tensor  # (tokens,) which token comes when
    tokens_back: Tensor  # (tokens,) when each comes
    counts: Tensor  # (longest,) how many come at each time, on the CPU
    rows: Tensor  # (batch,) the rows, the longest first
    rows_back: Tensor


class Layout:
    """How many tokens each sentence of a batch has, and where they lie in padded rows.

    Args:
        lengths: Tokens of each sentence.
        device: Where its tensors live.
        grid: Rows and columns, where the tokens of each are a picture's.
        first: How many tokens stand before the grid, such as [CLS].

    Example:
        >>> layout = Layout((2, 3))
        >>> x = torch.arange(5.0).view(5, 1)
        >>> layout.rows(x, heads=1)[:, 0, :, 0]
        tensor([[0., 1., 0.],
                [2., 3., 4.]])
        >>> layout.tokens(layout.rows(x, heads=1)).flatten()
        tensor([0., 1., 2., 3., 4.])
    """

    def __init__(
        self,
        lengths: Sequence[int],
        device: torch.device | str = "cpu",
        grid: tuple[int, int] | None = None,
        first: int = 0,
    ) -> None:
        self.lengths = tuple(lengths)
        self.device, self.grid, self.first = device, grid, first
        self.sides = grid  # rows and columns of the tokens that look at each other
        self.batch = len(self.lengths)
        self.longest = max(self.lengths, default=0)
        self.even = self.lengths.count(self.longest) == self.batch
        if grid is not None and set(self.lengths) - {first + grid[0] * grid[1]}:
            raise InputError(
                "a grid of tokens",
                got=f"lengths {', '.join(map(str, sorted(set(self.lengths))))}",
                expected=f"{first} + {grid[0]} x {grid[1]} each",
            )

    def take(self, rows: Sequence[int]) -> Layout:
        """Of some sentences alone, in the order in which they are named."""
        return Layout([self.lengths[row] for row in rows], self.device, self.grid, self.first)

    def keys(self, query: int) -> list[int]:
        """The tokens that a record's columns stand for, where token `query` looks: all of them."""
        del query
        return list(range(self.longest))

    def windows(self, size: int, shift: int = 0) -> Windows:
        """The same tokens in squares of size x size, moved by `shift` rows and columns (Swin)."""
        if self.grid is None or self.first:
            raise InputError(
                "windows",
                got=f"{self.first} tokens before a grid" if self.grid else "tokens in no grid",
                expected="a grid and nothing before it",
            )
        if not 0 <= shift < size:
            raise InputError(
                "windows", got=f"size {size}, shift {shift}", expected="0 <= shift < size"
            )
        return Windows(self, self.grid, size, shift)

    @cached_property
    def where(self) -> Tensor:
        """The place of each token in its sentence: (tokens,)."""
        if self.even:
            return torch.arange(self.longest, device=self.device).repeat(self.batch)
        lengths = torch.tensor(self.lengths)
        starts = (lengths.cumsum(0) - lengths).repeat_interleave(lengths)
        return (torch.arange(starts.numel()) - starts).to(self.device)

    @cached_property
    def firsts(self) -> Tensor:
        """The place of each sentence's first token: (batch,)."""
        lengths = torch.tensor(self.lengths)
        return (lengths.cumsum(0) - lengths).to(self.device)

    @cached_property
    def slots(self) -> Tensor:
        """The place of each token in the padded rows laid end to end: (tokens,)."""
        row = torch.arange(self.batch).repeat_interleave(torch.tensor(self.lengths))
        return row.to(self.device) * self.longest + self.where

    @cached_property
    def in_time(self) -> InTime:
        """The tokens in the order in which a recurrence reads them."""
        lengths = torch.tensor(self.lengths)
        rows = lengths.argsort(descending=True, stable=True)
        rank = rows.argsort().repeat_interleave(lengths)  # of each token's row
        where = self.where.cpu()
        tokens = (where * self.batch + rank).argsort()
        given = (tokens, tokens.argsort(), rows, rows.argsort())
        tokens, tokens_back, rows, rows_back = (each.to(self.device) for each in given)
        return InTime(tokens, tokens_back, torch.bincount(where), rows, rows_back)

    def pad(self, x: Tensor) -> Tensor:
        """Scatters (tokens, dim) into rows (batch, length, dim), zeros where there is no token."""
        if not self.even:
            x = _Scatter.apply(x, self.slots, self.batch * self.longest)  # type: ignore[no-untyped-call]
        return x.view(self.batch, self.longest, x.shape[-1])

    def unpad(self, rows: Tensor) -> Tensor:
        """Gathers rows (batch, length, dim) back into (tokens, dim)."""
        x = rows.reshape(self.batch * self.longest, rows.shape[-1])
        return x if self.even else _Gather.apply(x, self.slots)  # type: ignore[no-untyped-call]

    def rows(self, x: Tensor, heads: int) -> Tensor:
        """Cuts (tokens, heads * head_dim) into rows (batch, heads, length, head_dim).

        x may have its heads apart already: (tokens, heads, head_dim).
        """
        width = x.shape[1:].numel() // heads
        if self.longest == 1 and self.even:  # a step of decoding
            return x.view(self.batch, heads, 1, width)
        if not self.even:
            x = self.pad(x.flatten(1))  # (batch, length, heads * head_dim)
        return x.view(self.batch, self.longest, heads, width).transpose(1, 2)

    def tokens(self, rows: Tensor) -> Tensor:
        """Joins rows (batch, heads, length, head_dim) into (tokens, heads * head_dim)."""
        if self.longest == 1 and self.even:
            return rows.flatten(1)
        return self.unpad(rows.transpose(1, 2).flatten(2))


class Windows(Layout):
    """The tokens of pictures, laid out in squares: each square is a row.

    Moved squares reach over the border to the other side of the picture, as in Swin, so that there
    are no more of them; the mask keeps apart what is no neighbour. A square that the picture does
    not fill has empty places, which the mask hides too. A picture smaller than a square is one.

    Args:
        of: The layout of the pictures.
        grid: Their rows and columns.
        size: The side of a square.
        shift: By how many rows and columns they are moved.

    Example:
        >>> windows = Layout((8,), grid=(2, 4)).windows(2)
        >>> windows.rows(torch.arange(8.0).view(8, 1), heads=1)[:, 0, :, 0]
        tensor([[0., 1., 4., 5.],
                [2., 3., 6., 7.]])
        >>> windows.keys(6)                    # the tokens that token 6 may look at
        [2, 3, 6, 7]
    """

    def __init__(self, of: Layout, grid: tuple[int, int], size: int, shift: int) -> None:
        sides = [min(size, extent) for extent in grid]
        counts = [-(-extent // side) for extent, side in zip(grid, sides, strict=True)]
        self.sides = sides[0], sides[1]
        self.pictures, self.each = of.batch, counts[0] * counts[1]
        places, wrapped = [], []  # of the rows, and of the columns
        for extent, side, count in zip(grid, sides, counts, strict=True):
            offset = shift if count > 1 else 0
            place = torch.arange(extent)
            places.append((place - offset) % (count * side))
            wrapped.append((place < offset).long())
        (row, column), (height, width) = places, sides
        window = (row // height)[:, None] * counts[1] + column // width  # (rows, columns)
        inside = (row % height)[:, None] * width + column % width
        self.own_slots = (window * height * width + inside).flatten()  # of one picture's tokens
        self.own_segments = (2 * wrapped[0][:, None] + wrapped[1]).flatten()
        # Never even: even squares that are all filled hold the tokens in another order.
        self.lengths, self.device, self.grid, self.first = of.lengths, of.device, grid, 0
        self.batch, self.longest, self.even = of.batch * self.each, height * width, False

    @cached_property
    def slots(self) -> Tensor:
        """The place of each token in the windows laid end to end: (tokens,)."""
        pictures = torch.arange(self.pictures)[:, None] * self.each * self.longest
        return (pictures + self.own_slots).flatten().to(self.device)

    @cached_property
    def tokens_of(self) -> Tensor:
        """The token of a picture at each place of its windows, -1 for none: (windows, place)."""
        found = torch.full((self.each * self.longest,), -1)
        found[self.own_slots] = torch.arange(len(self.own_slots))
        return found.view(self.each, self.longest)

    def keys(self, query: int) -> list[int]:
        """The tokens that a record's columns stand for, where token `query` looks; -1: none."""
        return self.tokens_of[int(self.own_slots[query]) // self.longest].tolist()

    @cached_property
    def mask(self) -> Mask:
        """Who may look at whom: neighbours in the picture alone."""
        whole = len(self.own_slots) == self.each * self.longest
        if whole and not self.own_segments.any():
            return Mask()
        segments = torch.full((self.each * self.longest,), -1)
        segments[self.own_slots] = self.own_segments
        segments = segments.view(self.each, self.longest).repeat(self.pictures, 1).to(self.device)
        return Mask(segments=(segments, segments))


class _Scatter(torch.autograd.Function):
    """Rows of zeros, x put at some of them. Its gradient gathers, and needs no copy of x for it.

    PyTorch's `index_copy_` keeps what was copied until the backward pass, and the gradient of its
    `index_select` adds up where it could copy: no two tokens have one place.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, slots: Tensor, size: int) -> Tensor:
        ctx.save_for_backward(slots)
        return x.new_zeros(size, x.shape[-1]).index_copy_(0, slots, x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return _Gather.apply(grad, *ctx.saved_tensors), None, None  # type: ignore[no-untyped-call]


class _Gather(torch.autograd.Function):
    """Undoes `_Scatter`: each is the other's gradient."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, slots: Tensor) -> Tensor:
        ctx.save_for_backward(slots)
        ctx.size = rows.shape[0]
        return rows.index_select(0, slots)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return _Scatter.apply(grad, *ctx.saved_tensors, ctx.size), None  # type: ignore[no-untyped-call]
