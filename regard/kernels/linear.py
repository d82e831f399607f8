"""The linear layer x Wᵀ + b, which takes most of a model's time, faster for few rows on a CPU.

A decoding step has few rows: one for each text or beam. Matrix libraries are optimized for many.
With Numba, up to `COMPILED_ROWS` rows are multiplied by the kernels of `small_batches.py`, at
the speed at which the memory is read. On a processor with AVX-512, more rows go to oneDNN, unless
the matrix is small: 1.1 × as fast as the library that PyTorch takes for 2,000 rows, up to 1.6 × for
33.

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

from regard.kernels.mixed import mixed_linear, product_dtype, supports_mixed
from regard.kernels.small_batches import LOADER, MIN_ELEMENTS

COMPILED_ROWS = 32
"""The maximum number of rows for which the compiled kernels are used."""
MAX_TURNED_ROWS, MAX_TURNED_ROWS_LARGE = 4, 128
"""The maximum number of rows for which (W xᵀ)ᵀ is used: for any matrix, and for a large one."""
ONE_DNN_ELEMENTS = 2**18
"""Minimum number of elements of a matrix for which oneDNN multiplies many rows."""
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
    rows, elements = x.shape[0], weight.numel()
    if not torch.is_inference_mode_enabled() or not x.is_cpu:
        if (dtype := product_dtype()) is not None and supports_mixed(x, weight):
            return mixed_linear(x, weight, bias, dtype)
        return F.linear(x, weight, bias)
    if _are_contiguous_floats(x, weight):
        if rows > COMPILED_ROWS and elements >= ONE_DNN_ELEMENTS and one_dnn():
            return _one_dnn_linear(x, weight, bias)
        if LOADER.kernels is not None and 0 < rows <= COMPILED_ROWS and elements >= MIN_ELEMENTS:
            return LOADER.kernels.linear(x, weight, bias)
    if rows > MAX_TURNED_ROWS_LARGE:
        return F.linear(x, weight, bias)
    cores = torch.get_num_threads()
    if cores > 1 and rows and elements >= SHARED and weight.is_contiguous():
        return _linear_on_cores(x, weight, bias, cores)
    if rows == 1 or (rows > MAX_TURNED_ROWS and elements < LARGE):
        return F.linear(x, weight, bias)
    turned = torch.mm(weight, x.t()).t()  # (rows, out), column-major in memory
    if bias is None:
        return turned.contiguous()
    return torch.add(turned, bias, out=x.new_empty(turned.shape))


def linear_activation(layer: nn.Module, x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    """function(layer(x)): where oneDNN multiplies, in the same pass over the memory.

    Args:
        layer: A linear layer, or one that took its place.
        x: (rows, into)
        function: An activation function; those of `ONE_PASS` take no pass of their own.

    Returns:
        (rows, out)
    """
    if x.shape[0] > COMPILED_ROWS and function in ONE_PASS and isinstance(layer, Linear):
        weight = layer.weight
        inference = torch.is_inference_mode_enabled() and x.is_cpu
        large = inference and weight.numel() >= ONE_DNN_ELEMENTS
        if large and _are_contiguous_floats(x, weight) and one_dnn():
            return _one_dnn_linear(x, weight, layer.bias, *ONE_PASS[function])
    return function(layer(x))


@cache
def one_dnn() -> bool:
    """Whether oneDNN is there and the faster library: measured so with AVX-512, not with AVX2."""
    there = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return there and torch.backends.cpu.get_cpu_capability() == "AVX512"


def _are_contiguous_floats(x: Tensor, weight: Tensor) -> bool:
    """Whether both are 32-bit numbers, row after row in memory: others are left to PyTorch."""
    are_floats = x.dtype == weight.dtype == torch.float32
    return are_floats and weight.is_contiguous() and x.is_contiguous()


def _one_dnn_linear(
    x: Tensor, weight: Tensor, bias: Tensor | None, function: str = "none", form: str = ""
) -> Tensor:
    """function(x Wᵀ + b) by oneDNN, on the matrix as it lies in memory."""
    return torch.ops.mkldnn._linear_pointwise.default(x, weight, bias, function, [], form)


def _linear_on_cores(x: Tensor, weight: Tensor, bias: Tensor | None, cores: int) -> Tensor:
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
