"""Matrix products of training in 16 bits on a CPU; everything around them stays in 32.

    y = x Wᵀ + b        x, W rounded to bf16, their products added up in 32 bits, y in 32 bits
    ∂x = ∂y W,  ∂W = ∂yᵀ x,  ∂b = Σ ∂y        the same

A processor that multiplies pairs of bf16 numbers (AVX-512 BF16, AMX) takes a quarter of the time
for such a product. PyTorch's autocast would also put attention into bf16, where its many small
products are slower than in fp32, and would keep activations in bf16 between the layers. Here only
the linear layers and the vocabulary's products are in bf16, so that sums, norms and softmax lose
nothing.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.runtime.cores import temporarily

LEAST_NUMBERS = 2**14
"""Minimum number of elements of a matrix: for a smaller one, rounding takes as long as it saves."""

_products = threading.local()


def products_in(dtype: torch.dtype) -> AbstractContextManager[None]:
    """Computes the products of training in this thread in a 16-bit type."""
    return temporarily(_products, "dtype", dtype)


def product_dtype() -> torch.dtype | None:
    """The type of products in this thread; None means 32 bits."""
    return getattr(_products, "dtype", None)


def mixed_linear(x: Tensor, weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> Tensor:
    """x (rows, into) times a matrix (out, into), plus a bias (out,): (rows, out) in 32 bits."""
    return _MixedLinear.apply(x, weight, bias, dtype)  # type: ignore[no-untyped-call]


def supports_mixed(x: Tensor, weight: Tensor) -> bool:
    """Whether a product is one of two matrices of 32-bit numbers, and large enough to gain."""
    float_matrices = x.dtype == weight.dtype == torch.float32 and x.dim() == 2 and x.is_cpu
    return float_matrices and weight.numel() >= LEAST_NUMBERS


class _MixedLinear(torch.autograd.Function):
    """A linear layer whose three products, one forward and two backward, are in 16 bits."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, dtype: torch.dtype
    ) -> Tensor:
        short_x, short_weight = x.to(dtype), weight.to(dtype)
        ctx.save_for_backward(short_x, short_weight)
        y = F.linear(short_x, short_weight).float()
        return y if bias is None else y.add_(bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        short_grad = grad.to(x.dtype)
        of_x, of_weight, of_bias, _ = ctx.needs_input_grad
        grad_x = torch.mm(short_grad, weight).float() if of_x else None
        grad_weight = torch.mm(short_grad.t(), x).float() if of_weight else None
        return grad_x, grad_weight, grad.sum(0) if of_bias else None, None
