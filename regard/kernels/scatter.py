"""Copies rows to given slots and back: packed tokens to padded rows, and padded rows to tokens.

In: rows (tokens, dim) and their slots, which are distinct. Out: (size, dim) with zeros elsewhere.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def scatter(x: Tensor, slots: Tensor, size: int) -> Tensor:
    """Copies the rows of x (tokens, dim) into zeros (size, dim) at `slots`."""
    return _Scatter.apply(x, slots, size)  # type: ignore[no-untyped-call]


def gather(rows: Tensor, slots: Tensor) -> Tensor:
    """Selects rows[slots]: (size, dim) -> (tokens, dim)."""
    return _Gather.apply(rows, slots)  # type: ignore[no-untyped-call]


class _Scatter(torch.autograd.Function):
    """`scatter`; its gradient gathers.

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
    """`gather`; its gradient scatters."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, slots: Tensor) -> Tensor:
        ctx.save_for_backward(slots)
        ctx.size = rows.shape[0]
        return rows.index_select(0, slots)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return _Scatter.apply(grad, *ctx.saved_tensors, ctx.size), None  # type: ignore[no-untyped-call]
