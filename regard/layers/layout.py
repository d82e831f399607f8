"""Sentences end to end <-> padded rows: the one place that knows about padding.

Between layers, x is (tokens, dim): the sentences of a batch one after another, so that norms,
projections and feed-forward never work on padding. Only attention needs rows of equal length;
it scatters its queries, keys and values into rows, and gathers the result back.

    lengths 2, 3      tokens (5, dim)              rows (2, heads, 3, head_dim)
                      a0 a1 b0 b1 b2    <->        a0 a1 --
                                                   b0 b1 b2
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor


class Layout:
    """How many tokens each sentence of a batch has, and where they lie in padded rows.

    Example:
        >>> layout = Layout((2, 3))
        >>> x = torch.arange(5.0).view(5, 1)
        >>> layout.rows(x, heads=1)[:, 0, :, 0]
        tensor([[0., 1., 0.],
                [2., 3., 4.]])
        >>> layout.tokens(layout.rows(x, heads=1)).flatten()
        tensor([0., 1., 2., 3., 4.])
    """

    def __init__(self, lengths: Sequence[int], device: torch.device | str = "cpu") -> None:
        self.lengths = tuple(lengths)
        self.device = device
        self.batch = len(self.lengths)
        self.longest = max(self.lengths, default=0)
        self.even = self.lengths.count(self.longest) == self.batch

    @cached_property
    def where(self) -> Tensor:
        """The place of each token in its sentence: (tokens,)."""
        if self.even:
            return torch.arange(self.longest, device=self.device).repeat(self.batch)
        lengths = torch.tensor(self.lengths)
        starts = (lengths.cumsum(0) - lengths).repeat_interleave(lengths)
        return (torch.arange(starts.numel()) - starts).to(self.device)

    @cached_property
    def slots(self) -> Tensor:
        """The place of each token in the padded rows laid end to end: (tokens,)."""
        row = torch.arange(self.batch).repeat_interleave(torch.tensor(self.lengths))
        return row.to(self.device) * self.longest + self.where

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
