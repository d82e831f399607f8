"""Cross-entropy from vectors and the vocabulary matrix, without storing all logits.

    L = Σ_t  log Σ_v exp z_tv  -  (1 - ε) z_t,y(t)  -  ε/V Σ_v z_tv ,      z = x Wᵀ + b
    ∂L/∂z_tv = softmax(z_t)_v  -  (1 - ε) [v = y(t)]  -  ε/V

The logits of a batch, tokens × vocabulary, are by far its largest tensor, and PyTorch's own
implementation needs four of that size, each read from and written to main memory. Here the logits
of one block of tokens at a time are computed, overwritten by their gradient while they are still in
the CPU's cache, and multiplied back to the gradients of x and W. On other devices than the CPU it
is PyTorch's own implementation.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.kernels.mixed import product_dtype, supports_mixed

BLOCK = 512
"""Tokens per block: enough for a fast matrix product, few enough for the CPU's cache."""


def cross_entropy(
    x: Tensor, weight: Tensor, targets: Tensor, smoothing: float = 0.0, bias: Tensor | None = None
) -> Tensor:
    """The sum over tokens of the cross-entropy with label smoothing.

    Args:
        x: (tokens, dim) The vectors from which logits x Wᵀ + b are computed.
        weight: (vocab, dim) The vocabulary matrix W.
        targets: (tokens,) The id of the right token at each position.
        smoothing: ε, spread evenly over the whole vocabulary.
        bias: (vocab,) The bias b of the logits.

    Example:
        >>> x, weight = torch.zeros(2, 4), torch.randn(3, 4)
        >>> round(float(cross_entropy(x, weight, torch.tensor([0, 2]))), 4)    # 2 ln 3
        2.1972
    """
    if not x.is_cpu:
        logits = F.linear(x, weight, bias)
        return F.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing)
    learning = (tensor.requires_grad for tensor in (x, weight, bias) if tensor is not None)
    needs_gradient = torch.is_grad_enabled() and any(learning)
    return _CrossEntropy.apply(x, weight, bias, targets, smoothing, needs_gradient)  # type: ignore[no-untyped-call]


class _CrossEntropy(torch.autograd.Function):
    """The loss; `forward` computes its gradients as well, while it has the logits."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        smoothing: float,
        needs_gradient: bool,
    ) -> Tensor:
        grad_x = torch.empty_like(x)
        grad_weight = torch.zeros_like(weight if needs_gradient else x[:0])
        grad_bias = None if bias is None else torch.zeros_like(bias)
        smoothing_per_token = smoothing / weight.shape[0]
        total = x.new_zeros(())
        dtype = product_dtype() if needs_gradient and supports_mixed(x, weight) else None
        block = x.new_empty(min(BLOCK, x.shape[0]), weight.shape[0])
        if dtype is not None:
            x, weight = x.to(dtype), weight.to(dtype)
        for start in range(0, x.shape[0], BLOCK):
            rows, labels = x[start : start + BLOCK], targets[start : start + BLOCK, None]
            z = _product(rows, weight.t(), block[: len(rows)])  # (rows, vocab)
            if bias is not None:
                z += bias
            z -= z.amax(1, keepdim=True)  # the loss stays the same, and exp is at most 1
            total -= (1 - smoothing) * z.gather(1, labels).sum()
            if smoothing:
                total -= smoothing_per_token * z.sum()
            sums = z.exp_().sum(1, keepdim=True)
            total += sums.log().sum()
            if needs_gradient:
                z /= sums  # the softmax; the next lines make it the gradient ∂L/∂z
                if smoothing:
                    z -= smoothing_per_token
                z.scatter_add_(1, labels, z.new_full(labels.shape, smoothing - 1))
                gradient = z if dtype is None else z.to(dtype)
                _product(gradient, weight, grad_x[start : start + BLOCK])
                if dtype is None:
                    grad_weight.addmm_(z.t(), rows)
                else:
                    grad_weight += torch.mm(gradient.t(), rows)
                if grad_bias is not None:
                    grad_bias += z.sum(0)
        ctx.gradients = (grad_x, grad_weight, grad_bias) if needs_gradient else None
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.gradients is None:
            raise RuntimeError("the gradient of this loss was taken before, and is not kept")
        grad_x, grad_weight, grad_bias = ctx.gradients
        ctx.gradients = None  # scaled in place, so that a large gradient is not stored twice
        of_bias = None if grad_bias is None else grad_bias.mul_(grad)
        return grad_x.mul_(grad), grad_weight.mul_(grad), of_bias, None, None, None


def _product(left: Tensor, right: Tensor, out: Tensor) -> Tensor:
    """left @ right, written to `out` in 32 bits; the factors may be in 16."""
    if left.dtype == out.dtype:
        return torch.mm(left, right, out=out)
    return out.copy_(torch.mm(left, right))
