"""The linear layer x Wᵀ + b, which takes most of a model's time, faster for few rows on a CPU.

A decoding step has few rows: one for each text or beam. Matrix libraries are optimized for many.
For one row they read the matrix with one core, at half the speed of the memory; here each core
computes a part of the outputs, 1.5 × as fast. For a few rows (W xᵀ)ᵀ is faster than x Wᵀ: it takes
half the time for four rows, and for a large matrix less time even for a hundred. Results differ in
the last bits, as they do between batch sizes in general; training never uses these forms. On
other devices than the CPU it is PyTorch's own product.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

FEW, SOME = 4, 128
"""The maximum number of rows for which (W xᵀ)ᵀ is used: for any matrix, and for a large one."""
LARGE, SHARED = 2**20, 2**16
"""Minimum number of elements of a large matrix, and of a matrix split among cores for one row."""


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x (rows, into) times a matrix (out, into), plus a bias (out,): (rows, out)."""
    rows, numbers = x.shape[0], weight.numel()
    if rows > SOME or not torch.is_inference_mode_enabled() or not x.is_cpu:
        return F.linear(x, weight, bias)
    if rows == 1:
        shared = numbers >= SHARED and weight.is_contiguous()
        return _shared(x, weight, bias) if shared else F.linear(x, weight, bias)
    if rows > FEW and numbers < LARGE:
        return F.linear(x, weight, bias)
    turned = torch.mm(weight, x.t()).t()  # (rows, out), column-major in memory
    if bias is None:
        return turned.contiguous()
    return torch.add(turned, bias, out=x.new_empty(turned.shape))


def _shared(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """One row (1, into) times a matrix whose outputs are split evenly among cores: (1, out)."""
    (out, into), cores = weight.shape, torch.get_num_threads()
    each = out // cores
    result, even = x.new_empty(1, out), each * cores
    parts = weight[:even].view(cores, each, into)
    torch.bmm(parts, x.t().expand(cores, -1, 1), out=result[0, :even].view(cores, each, 1))
    if even < out:
        torch.mv(weight[even:], x[0], out=result[0, even:])
    return result if bias is None else result.add_(bias)


class Linear(nn.Linear):
    """`nn.Linear`, with its parameter names and initialization, computed by `linear`."""

    def forward(self, x: Tensor) -> Tensor:
        """(tokens, into) -> (tokens, out)."""
        return linear(x, self.weight, self.bias)
