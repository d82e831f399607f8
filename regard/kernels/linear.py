"""The linear layer x Wᵀ + b, which takes most of a model's time, faster for few rows on a CPU.

A decoding step has few rows: one for each text or beam. Matrix libraries are optimized for many.
With Numba, up to `COMPILED` rows are multiplied by the kernels of `small_batches.py`, at the speed
at which the memory is read. On a processor with AVX-512, more rows go to oneDNN, unless the matrix
is small: 1.1 × as fast as the library that PyTorch takes for 2,000 rows, up to 1.6 × for 33.

Without Numba or AVX-512: for one row the library reads the matrix with one core, at half the speed
of the memory, and for a few it splits it badly. Here each core computes its part of the outputs:
1.2 to 2 × as fast for up to 128 rows, measured with two cores. With one core, (W xᵀ)ᵀ is faster
than x Wᵀ for a few rows, and for a large matrix even for a hundred. Results differ in the last
bits, as they do between batch sizes in general; training never uses these forms. On other devices
than the CPU it is PyTorch's own product.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.kernels.mixed import can_be_mixed, mixed_linear, product_dtype
from regard.kernels.small_batches import LOADER, SMALLEST

COMPILED = 32
"""The maximum number of rows for which the compiled kernels are used."""
FEW, SOME = 4, 128
"""The maximum number of rows for which (W xᵀ)ᵀ is used: for any matrix, and for a large one."""
ONE_DNN = 2**18
"""Minimum number of elements of a matrix for which oneDNN multiplies more than `COMPILED` rows."""
LARGE, SHARED = 2**20, 2**16
"""Minimum number of elements of a large matrix, and of a matrix that is split among cores."""

gelu_tanh = partial(F.gelu, approximate="tanh")
"""0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³))): the approximation of GELU in GPT-2 and T5 1.1."""
ONE_PASS: dict[Callable[[Tensor], Tensor], tuple[str, str]] = {
    F.relu: ("relu", ""),
    F.gelu: ("gelu", "none"),
    gelu_tanh: ("gelu", "tanh"),
    F.silu: ("swish", ""),
}
"""The names of functions that oneDNN computes together with a product, and their forms."""


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x (rows, into) times a matrix (out, into), plus a bias (out,): (rows, out)."""
    rows, numbers = x.shape[0], weight.numel()
    if not torch.is_inference_mode_enabled() or not x.is_cpu:
        if (dtype := product_dtype()) is not None and can_be_mixed(x, weight):
            return mixed_linear(x, weight, bias, dtype)
        return F.linear(x, weight, bias)
    if _plain(x, weight):
        if rows > COMPILED and numbers >= ONE_DNN and one_dnn():
            return _by_one_dnn(x, weight, bias)
        if LOADER.kernels is not None and 0 < rows <= COMPILED and numbers >= SMALLEST:
            return LOADER.kernels.linear(x, weight, bias)
    if rows > SOME:
        return F.linear(x, weight, bias)
    cores = torch.get_num_threads()
    if cores > 1 and rows and numbers >= SHARED and weight.is_contiguous():
        return _shared(x, weight, bias, cores)
    if rows == 1 or (rows > FEW and numbers < LARGE):
        return F.linear(x, weight, bias)
    turned = torch.mm(weight, x.t()).t()  # (rows, out), column-major in memory
    if bias is None:
        return turned.contiguous()
    return torch.add(turned, bias, out=x.new_empty(turned.shape))


def activated(layer: nn.Module, x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    """function(layer(x)): where oneDNN multiplies, in the same pass over the memory.

    Args:
        layer: A linear layer, or one that took its place.
        x: (rows, into)
        function: An activation function; those of `ONE_PASS` take no pass of their own.

    Returns:
        (rows, out)
    """
    if x.shape[0] > COMPILED and function in ONE_PASS and isinstance(layer, Linear):
        weight = layer.weight
        large = weight.numel() >= ONE_DNN and torch.is_inference_mode_enabled() and x.is_cpu
        if large and _plain(x, weight) and one_dnn():
            return _by_one_dnn(x, weight, layer.bias, *ONE_PASS[function])
    return function(layer(x))


@cache
def one_dnn() -> bool:
    """Whether oneDNN is there and the faster library: measured so with AVX-512, not with AVX2."""
    there = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return there and torch.backends.cpu.get_cpu_capability() == "AVX512"


def _plain(x: Tensor, weight: Tensor) -> bool:
    """Whether both are 32-bit numbers, row after row in memory: others are left to PyTorch."""
    same = x.dtype == weight.dtype == torch.float32
    return same and weight.is_contiguous() and x.is_contiguous()


def _by_one_dnn(
    x: Tensor, weight: Tensor, bias: Tensor | None, function: str = "none", form: str = ""
) -> Tensor:
    """function(x Wᵀ + b) by oneDNN, on the matrix as it lies in memory."""
    return torch.ops.mkldnn._linear_pointwise.default(x, weight, bias, function, [], form)


def _shared(x: Tensor, weight: Tensor, bias: Tensor | None, cores: int) -> Tensor:
    """x (rows, into) times a matrix whose outputs are split evenly among cores: (rows, out)."""
    rows, (out, into) = x.shape[0], weight.shape
    share = out // cores
    even = share * cores
    parts = weight[:even].view(cores, share, into).transpose(1, 2)  # (cores, into, share)
    y = torch.bmm(x.expand(cores, rows, into), parts)  # (cores, rows, share)
    y = y.transpose(0, 1).reshape(rows, even)
    if even < out:
        y = torch.cat((y, F.linear(x, weight[even:])), 1)
    return y if bias is None else y.add_(bias)


class Linear(nn.Linear):
    """`nn.Linear`, with its parameter names and initialization, computed by `linear`."""

    def forward(self, x: Tensor) -> Tensor:
        """(tokens, into) -> (tokens, out)."""
        return linear(x, self.weight, self.bias)
