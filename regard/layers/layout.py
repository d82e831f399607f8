"""Converts packed tokens to padded rows and back: the only file that handles padding.

Between layers, x is packed, (tokens, dim): the sequences of a batch are concatenated without
padding, so that norms, projections and feed-forward never compute on padding. Only attention needs
rows of equal length; it scatters its queries, keys and values into padded rows, and gathers the
result back.

    lengths 2, 3      tokens (5, dim)              rows (2, heads, 3, head_dim)
                      a0 a1 b0 b1 b2    <->        a0 a1 --
                                                   b0 b1 b2
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from regard.errors import InputError
from regard.kernels.scatter import gather, scatter
from regard.layers.time_order import InTime, order_by_time

if TYPE_CHECKING:
    from regard.layers.windows import Windows


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

    def windows(self, size: int, shift: int = 0, *, zeros: bool = False) -> Windows:
        """The same tokens in windows of size x size, shifted by `shift` rows and columns (Swin).

        With `zeros`, attention sees the cells beyond the image that fill the last windows.
        """
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
        from regard.layers.windows import Windows  # a Layout itself

        return Windows(self, self.grid, size, shift, zeros=zeros)

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
        return order_by_time(self.lengths, self.positions.cpu(), self.device)

    @cached_property
    def backward_in_time(self) -> InTime:
        """The same for a layer that reads each sequence from its last token to its first."""
        lengths = torch.tensor(self.lengths)
        times = lengths.repeat_interleave(lengths) - 1 - self.positions.cpu()
        return order_by_time(self.lengths, times, self.device)

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
            x = scatter(x, self.slots, self.batch * self.longest)
        return x.view(self.batch, self.longest, x.shape[-1])

    def unpad(self, rows: Tensor) -> Tensor:
        """Gathers padded rows (batch, length, dim) back into (tokens, dim)."""
        x = rows.reshape(self.batch * self.longest, rows.shape[-1])
        return x if self.even else gather(x, self.slots)

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
