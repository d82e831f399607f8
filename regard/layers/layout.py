"""Converts packed tokens to padded rows and back: the only file that handles padding.

Between layers, x is packed, (tokens, dim): the sequences of a batch are concatenated without
padding, so that norms, projections and feed-forward never compute on padding. Only attention needs
rows of equal length; it scatters its queries, keys and values into padded rows, and gathers the
result back.

    lengths 2, 3      tokens (5, dim)              rows (2, heads, 3, head_dim)
                      a0 a1 b0 b1 b2    <->        a0 a1 --
                                                   b0 b1 b2

The tokens of an image form a grid, stored row by row. `windows` arranges the same tokens in square
windows, one padded row for each window, so that attention stays within a window (Swin). Between
layers the tokens keep their order.

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
    """The order of a `PackedSequence`: all first tokens, then all second ones, and so on.

    Sequences are sorted by length, the longest first.
    """

    tokens: Tensor  # (tokens,) index of the packed token at each position of this order
    tokens_back: Tensor  # (tokens,) the inverse permutation
    counts: Tensor  # (longest,) number of sequences that have a token at each time, on the CPU
    rows: Tensor  # (batch,) sequences sorted by length, the longest first
    rows_back: Tensor  # (batch,) the inverse permutation


class Layout:
    """The lengths of the sequences of a batch, and the position of each token in padded rows.

    Args:
        lengths: Number of tokens of each sequence.
        device: Device of the index tensors.
        grid: Rows and columns of patches, if each sequence is an image.
        prefix: Number of tokens before the grid, such as 1 for [CLS].

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
        prefix: int = 0,
    ) -> None:
        self.lengths = tuple(lengths)
        self.device, self.grid, self.prefix = device, grid, prefix
        self.window_shape = grid  # rows and columns of the tokens that attend to each other
        self.batch = len(self.lengths)
        self.longest = max(self.lengths, default=0)
        self.even = self.lengths.count(self.longest) == self.batch
        self.count = sum(self.lengths)  # tokens of all sequences
        if grid is not None and set(self.lengths) - {prefix + grid[0] * grid[1]}:
            raise InputError(
                "a grid of tokens",
                got=f"lengths {', '.join(map(str, sorted(set(self.lengths))))}",
                expected=f"{prefix} + {grid[0]} x {grid[1]} each",
            )

    def take(self, rows: Sequence[int]) -> Layout:
        """The layout of the given sequences alone, in the given order."""
        return Layout([self.lengths[row] for row in rows], self.device, self.grid, self.prefix)

    def keys(self, query: int) -> list[int]:
        """For one query, the token of each key column of recorded weights: here, all tokens."""
        del query
        return list(range(self.longest))

    def windows(self, size: int, shift: int = 0) -> Windows:
        """The same tokens in windows of size x size, shifted by `shift` rows and columns (Swin)."""
        if self.grid is None or self.prefix:
            raise InputError(
                "windows",
                got=f"{self.prefix} tokens before a grid" if self.grid else "tokens in no grid",
                expected="a grid and nothing before it",
            )
        if not 0 <= shift < size:
            raise InputError(
                "windows", got=f"size {size}, shift {shift}", expected="0 <= shift < size"
            )
        return Windows(self, self.grid, size, shift)

    @cached_property
    def positions(self) -> Tensor:
        """The position of each token in its sequence: (tokens,)."""
        if self.even:
            return torch.arange(self.longest, device=self.device).repeat(self.batch)
        lengths = torch.tensor(self.lengths)
        starts = (lengths.cumsum(0) - lengths).repeat_interleave(lengths)
        return (torch.arange(starts.numel()) - starts).to(self.device)

    @cached_property
    def first_tokens(self) -> Tensor:
        """The index of each sequence's first token among the packed tokens: (batch,)."""
        lengths = torch.tensor(self.lengths)
        return (lengths.cumsum(0) - lengths).to(self.device)

    @cached_property
    def sequence_of(self) -> Tensor:
        """The sequence of each token: (tokens,)."""
        row = torch.arange(self.batch).repeat_interleave(torch.tensor(self.lengths))
        return row.to(self.device)

    @cached_property
    def slots(self) -> Tensor:
        """The index of each token in the flattened padded rows (batch * longest): (tokens,)."""
        return self.sequence_of * self.longest + self.positions

    @cached_property
    def in_time(self) -> InTime:
        """The order in which a recurrent layer reads the tokens."""
        return self._order_by_time(self.positions.cpu())

    @cached_property
    def backward_in_time(self) -> InTime:
        """The same for a layer that reads each sequence from its last token to its first."""
        lengths = torch.tensor(self.lengths)
        return self._order_by_time(lengths.repeat_interleave(lengths) - 1 - self.positions.cpu())

    def _order_by_time(self, times: Tensor) -> InTime:
        """The order of the tokens by the time at which each is read: times (tokens,)."""
        lengths = torch.tensor(self.lengths)
        rows = lengths.argsort(descending=True, stable=True)
        rank = rows.argsort().repeat_interleave(lengths)  # rank of each token's sequence
        tokens = (times * self.batch + rank).argsort()
        orders = (tokens, tokens.argsort(), rows, rows.argsort())
        tokens, tokens_back, rows, rows_back = (order.to(self.device) for order in orders)
        return InTime(tokens, tokens_back, torch.bincount(times), rows, rows_back)

    def reversed(self, rows: Tensor) -> Tensor:
        """Padded rows (batch, length, dim) with the tokens of each row in reversed order.

        Padding stays at the end.
        """
        time, length = torch.arange(self.longest), torch.tensor(self.lengths)[:, None]
        order = torch.where(time < length, length - 1 - time, time).to(rows.device)
        return rows.gather(1, order[..., None].expand_as(rows))

    def pad(self, x: Tensor) -> Tensor:
        """Scatters (tokens, dim) into padded rows (batch, length, dim), with zeros as padding."""
        if not self.even:
            x = _Scatter.apply(x, self.slots, self.batch * self.longest)  # type: ignore[no-untyped-call]
        return x.view(self.batch, self.longest, x.shape[-1])

    def unpad(self, rows: Tensor) -> Tensor:
        """Gathers padded rows (batch, length, dim) back into (tokens, dim)."""
        x = rows.reshape(self.batch * self.longest, rows.shape[-1])
        return x if self.even else _Gather.apply(x, self.slots)  # type: ignore[no-untyped-call]

    def rows(self, x: Tensor, heads: int) -> Tensor:
        """Splits (tokens, heads * head_dim) into padded rows (batch, heads, length, head_dim).

        x may also be (tokens, heads, head_dim).
        """
        if self.longest == 1 and self.even:  # a decoding step: no transpose needed
            return x.view(self.batch, heads, 1, -1)
        width = x.shape[1:].numel() // heads
        if not self.even:
            x = self.pad(x.flatten(1))  # (batch, length, heads * head_dim)
        return x.view(self.batch, self.longest, heads, width).transpose(1, 2)

    def tokens(self, rows: Tensor) -> Tensor:
        """Joins rows (batch, heads, length, head_dim) into (tokens, heads * head_dim)."""
        if self.longest == 1 and self.even:
            return rows.flatten(1)
        return self.unpad(rows.transpose(1, 2).flatten(2))


class Windows(Layout):
    """The tokens of images arranged in square windows: each window is one padded row.

    Shifted windows wrap around the border of the image (Swin's cyclic shift), so that their number
    stays the same; the mask separates tokens that are no neighbours in the image. If the image does
    not fill a window, its remaining cells are padding, which is masked as well. An image that is
    smaller than a window is one window.

    Args:
        of: The layout of the images.
        grid: Rows and columns of each image.
        size: The side of a window, in tokens.
        shift: By how many rows and columns the windows are shifted.

    Example:
        >>> windows = Layout((8,), grid=(2, 4)).windows(2)
        >>> windows.rows(torch.arange(8.0).view(8, 1), heads=1)[:, 0, :, 0]
        tensor([[0., 1., 4., 5.],
                [2., 3., 6., 7.]])
        >>> windows.keys(6)                    # the tokens that token 6 may attend to
        [2, 3, 6, 7]
    """

    def __init__(self, of: Layout, grid: tuple[int, int], size: int, shift: int) -> None:
        sides = [min(size, extent) for extent in grid]
        counts = [-(-extent // side) for extent, side in zip(grid, sides, strict=True)]
        self.window_shape = sides[0], sides[1]
        self.images, self.windows_per_image = of.batch, counts[0] * counts[1]
        shifted, wrapped = [], []  # one entry for the rows, one for the columns
        for extent, side, count in zip(grid, sides, counts, strict=True):
            offset = shift if count > 1 else 0
            index = torch.arange(extent)
            shifted.append((index - offset) % (count * side))
            wrapped.append((index < offset).long())
        (row, column), (height, width) = shifted, sides
        window = (row // height)[:, None] * counts[1] + column // width  # (rows, columns)
        inside = (row % height)[:, None] * width + column % width
        self.own_slots = (window * height * width + inside).flatten()  # for one image's tokens
        self.own_segments = (2 * wrapped[0][:, None] + wrapped[1]).flatten()
        # Not `even`: even if every window is full, the tokens are in a different order.
        self.lengths, self.device, self.grid, self.prefix = of.lengths, of.device, grid, 0
        self.batch, self.longest = of.batch * self.windows_per_image, height * width
        self.count, self.even = of.count, False

    @cached_property
    def slots(self) -> Tensor:
        """The index of each token in the flattened windows of all images: (tokens,)."""
        first_slots = torch.arange(self.images)[:, None] * self.windows_per_image * self.longest
        return (first_slots + self.own_slots).flatten().to(self.device)

    @cached_property
    def tokens_of(self) -> Tensor:
        """The token of an image at each cell of its windows, -1 for padding: (windows, cell)."""
        tokens = torch.full((self.windows_per_image * self.longest,), -1)
        tokens[self.own_slots] = torch.arange(len(self.own_slots))
        return tokens.view(self.windows_per_image, self.longest)

    def keys(self, query: int) -> list[int]:
        """For one query, the token of each key column: those of its window; -1 is padding."""
        return self.tokens_of[int(self.own_slots[query]) // self.longest].tolist()

    def spread(self, weights: Tensor) -> Tensor:
        """Recorded weights with a column for each token of an image: 0 outside the query's window.

        weights (…, query, cell of the query's window) -> (…, query, token).

        Example:
            >>> windows = Layout((8,), grid=(2, 4)).windows(2)
            >>> windows.spread(torch.full((8, 4), 0.25))[0]
            tensor([0.2500, 0.2500, 0.0000, 0.0000, 0.2500, 0.2500, 0.0000, 0.0000])
        """
        queries = len(self.own_slots)
        tokens = self.tokens_of[self.own_slots // self.longest].to(weights.device)  # (query, cell)
        tokens = torch.where(tokens < 0, queries, tokens)  # padding gets a column that is cut off
        out = weights.new_zeros(*weights.shape[:-1], queries + 1)
        return out.scatter_(-1, tokens.expand(weights.shape), weights)[..., :-1]

    @cached_property
    def mask(self) -> Mask:
        """Allows attention only within a window and between neighbours in the image."""
        no_padding = len(self.own_slots) == self.windows_per_image * self.longest
        if no_padding and not self.own_segments.any():
            return Mask()
        segments = torch.full((self.windows_per_image * self.longest,), -1)
        segments[self.own_slots] = self.own_segments
        segments = segments.view(-1, self.longest).repeat(self.images, 1).to(self.device)
        return Mask(segments=(segments, segments))


class _Scatter(torch.autograd.Function):
    """Copies the rows of x (tokens, dim) into zeros (size, dim) at `slots`; the gradient gathers.

    PyTorch's `index_copy_` would keep x until the backward pass, and the gradient of its
    `index_select` accumulates with additions, although a copy is enough: slots are distinct.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, slots: Tensor, size: int) -> Tensor:
        ctx.save_for_backward(slots)
        return x.new_zeros(size, x.shape[-1]).index_copy_(0, slots, x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return _Gather.apply(grad, *ctx.saved_tensors), None, None  # type: ignore[no-untyped-call]


class _Gather(torch.autograd.Function):
    """Selects rows[slots], the inverse of `_Scatter`; each is the other's gradient."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, slots: Tensor) -> Tensor:
        ctx.save_for_backward(slots)
        ctx.size = rows.shape[0]
        return rows.index_select(0, slots)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return _Scatter.apply(grad, *ctx.saved_tensors, ctx.size), None  # type: ignore[no-untyped-call]
