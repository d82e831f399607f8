"""Vectors and the vocabulary's matrix -> a loss, without ever holding all the logits.

    L = Σ_t  log Σ_v exp z_tv  -  (1 - ε) z_t,y(t)  -  ε/V Σ_v z_tv ,      z = x Wᵀ + b
    ∂L/∂z_tv = softmax(z_t)_v  -  (1 - ε) [v = y(t)]  -  ε/V

The logits of a batch are its largest tensor by far: tokens × vocabulary, and PyTorch's own way
needs four of that size, each read and written from main memory. Here a block of tokens at a time is
multiplied, turned into its gradient in place while the cache still holds it, and multiplied back.
On another device than the CPU it is PyTorch's own way.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

BLOCK = 512
"""Tokens at a time: enough rows for a fast matrix product, few enough to stay near the core."""


def cross_entropy(
    x: Tensor,
    weight: Tensor,
    targets: Tensor,
    smoothing: float = 0.0,
    bias: Tensor | None = None,
) -> Tensor:
    """The sum over tokens of the cross-entropy to smoothed targets: 1 - ε on the right one.

    Args:
        x: (tokens, dim) What the vocabulary's matrix is multiplied with.
        weight: (vocab, dim) The vocabulary's matrix.
        targets: (tokens,) The right entry for each token.
        smoothing: ε, spread evenly over the whole vocabulary.
        bias: (vocab,) Added to the logits.

    Example:
        >>> x, weight = torch.zeros(2, 4), torch.randn(3, 4)
        >>> round(float(cross_entropy(x, weight, torch.tensor([0, 2]))), 4)    # 2 ln 3
        2.1972
    """
    if not x.is_cpu:
        logits = F.linear(x, weight, bias)
        return F.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing)
    learning = (each.requires_grad for each in (x, weight, bias) if each is not None)
    wanted = torch.is_grad_enabled() and any(learning)
    loss: Tensor = _CrossEntropy.apply(x, weight, bias, targets, smoothing, wanted)  # type: ignore[no-untyped-call]
    return loss


class _CrossEntropy(torch.autograd.Function):
    """The loss; its gradients are found on the way, where the logits are at hand."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        smoothing: float,
        wanted: bool,
    ) -> Tensor:
        grad_x, grad_weight = torch.empty_like(x), torch.zeros_like(weight if wanted else x[:0])
        grad_bias = None if bias is None else torch.zeros_like(bias)
        even = smoothing / weight.shape[0]
        total = x.new_zeros(())
        block = x.new_empty(min(BLOCK, x.shape[0]), weight.shape[0])
        for start in range(0, x.shape[0], BLOCK):
            rows, right = x[start : start + BLOCK], targets[start : start + BLOCK, None]
            z = torch.mm(rows, weight.t(), out=block[: len(rows)])  # (rows, vocab)
            if bias is not None:
                z += bias
            z -= z.amax(1, keepdim=True)  # the loss stays the same, and exp is at most 1
            total -= (1 - smoothing) * z.gather(1, right).sum()
            if smoothing:
                total -= even * z.sum()
            sums = z.exp_().sum(1, keepdim=True)
            total += sums.log().sum()
            if wanted:
                z /= sums  # the softmax, from here on its gradient
                if smoothing:
                    z -= even
                z.scatter_add_(1, right, z.new_full(right.shape, smoothing - 1))
                torch.mm(z, weight, out=grad_x[start : start + BLOCK])
                grad_weight.addmm_(z.t(), rows)
                if grad_bias is not None:
                    grad_bias += z.sum(0)
        ctx.found = (grad_x, grad_weight, grad_bias) if wanted else None
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.found is None:
            raise RuntimeError("the gradient of this loss was taken before, and is not kept")
        grad_x, grad_weight, grad_bias = ctx.found
        ctx.found = None  # scaled in place: a large vocabulary's matrix is not held twice
        of_bias = None if grad_bias is None else grad_bias.mul_(grad)
        return grad_x.mul_(grad), grad_weight.mul_(grad), of_bias, None, None, None
