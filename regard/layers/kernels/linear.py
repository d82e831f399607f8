"""x Wᵀ + b, the product that nearly all the work of a model is.

A step of decoding has few rows: one for each text or beam. A matrix library is made for many. For
one row it reads the matrix with one core, at half the speed of the memory: here each core has its
own part of the matrix, 1.5 × as fast. For a few rows it is quicker with the few on the other side:
W xᵀ, turned back, takes half the time of x Wᵀ for four rows, and of a large matrix still less for
a hundred. Numbers differ in the last bits, as they do between any two sizes of a batch; training
never goes this way. All this is about CPUs: on another device it is PyTorch's own product.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

FEW, SOME = 4, 128
"""The most rows for which turning is quicker: for any matrix, and for a large one."""
LARGE, SHARED = 2**20, 2**16
"""Numbers from which a matrix is large; from which cores share it for one row."""


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
    turned = torch.mm(weight, x.t()).t()  # (rows, out), column by column in memory
    if bias is None:
        return turned.contiguous()
    return torch.add(turned, bias, out=x.new_empty(turned.shape))


def _shared(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """One row (1, into) times a matrix of which each core has as many outputs: (1, out)."""
    (out, into), cores = weight.shape, torch.get_num_threads()
    each = out // cores
    result, even = x.new_empty(1, out), each * cores
    parts = weight[:even].view(cores, each, into)
    torch.bmm(parts, x.t().expand(cores, -1, 1), out=result[0, :even].view(cores, each, 1))
    if even < out:
        torch.mv(weight[even:], x[0], out=result[0, even:])
    return result if bias is None else result.add_(bias)


class Linear(nn.Linear):
    """A layer of `linear`, with PyTorch's names and initial numbers."""

    def forward(self, x: Tensor) -> Tensor:
        """(tokens, into) -> (tokens, out)."""
        return linear(x, self.weight, self.bias)
