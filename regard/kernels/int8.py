"""Products with matrices in 8 bits: a quarter of the weights' memory, and faster decoding.

    x ≈ s_x · q_x    s_x = max|x| / 127, one for each row        q_x = -127 … 127
    W ≈ s_w · q_w    s_w = max|w| / 127, one for each output     q_w = -127 … 127
    x Wᵀ ≈ s_x s_w · Σ q_x q_w                                   whole numbers, summed exactly

Each row has its own scale, so the result of a sequence does not depend on the others in its batch.
With Numba, up to `COMPILED_ROWS` rows are multiplied by the kernels of `small_batches.py`, and
more rows by PyTorch's product; both give the same result to the last bit.

Where 16 bits for a row cost no time, it has them (q_x = -32767 … 32767), with the kernels of
`small_batches.py` for any number of rows: in small matrices, and in models that read text and write
none, such as BERT. What a matrix takes never depends on the number of rows, unless the model reads
images, whose rows are many in any case.

AVX2 adds pairs of products in 16 bits: (127 + 128) · 64 · 2 is below 2¹⁵, so nothing saturates with
weights of ±64, which they are without Numba. With weights of ±127, rows use only ±63 there.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any, NoReturn

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import InputError
from regard.kernels.small_batches import LOADER, MIN_ELEMENTS, Int8Matrix
from regard.runtime.cores import temporarily

ROW_STEPS = 127
"""Steps from 0 to the largest absolute value of a row."""
WEIGHT_STEPS = 64
"""Steps from 0 to the largest absolute weight of an output."""
COMPILED_WEIGHT_STEPS, FEWER_STEPS = 127, 63
"""Steps of the weights for the compiled kernels, and steps of a row beside such weights on a
processor that adds pairs of products in 16 bits."""
MIN_8_BIT_ELEMENTS = 2**18
"""Minimum number of elements of a matrix for which rows have 8 bits, if Numba is there: below that,
they save no time."""
COMPILED_ROWS = 8
"""The maximum number of rows in 8 bits for which the compiled kernels are used."""
MAX_INPUTS = 2**17
"""The most inputs whose products' sum has 32 bits."""
ENGINE = "fbgemm"
"""The PyTorch kernels that are used; they need an x86 processor with AVX2 or later."""


class Int8Linear(nn.Module):
    """x Wᵀ + b with weights and rows of x quantized to 8 bits.

    Args:
        weight: (out, into) The matrix in 32 bits.
        bias: (out,) The bias, which stays in 32 bits.
        exact: Whether rows stay in 16 or 32 bits, whatever the size of the matrix; only with Numba.
        many: Whether there are many rows in any case, as for images. Else the result of a row does
            not depend on their number.

    Example:
        >>> layer = Int8Linear(torch.tensor([[1.0, -2.0], [0.5, 0.25]]))
        >>> layer(torch.tensor([[4.0, 1.0]]))                          # exactly 2 and 2.25
        tensor([[1.9843, 2.2520]])
    """

    def __init__(
        self, weight: Tensor, bias: Tensor | None = None, *, exact: bool = False, many: bool = False
    ) -> None:
        super().__init__()
        self.elements, self.exact, self.many = weight.numel(), exact, many
        self.bias = None if bias is None else bias.detach()
        for_kernels = LOADER.possible()
        steps = COMPILED_WEIGHT_STEPS if for_kernels else WEIGHT_STEPS
        integers, scales = quantise_rows(weight.detach().float(), steps)
        # The form of the matrix for compiled kernels. PyTorch's form is made when it is needed.
        self.matrix = Int8Matrix(integers, scales, self.bias) if for_kernels else None
        self.packed: Any = None if for_kernels else _pack(integers, scales)
        self.row_steps = FEWER_STEPS if for_kernels and not has_wide_sums() else ROW_STEPS

    @property
    def weight(self) -> Tensor:
        """(out, into) The quantized weights, converted back to 32 bits."""
        if self.matrix is not None:
            return self.matrix.integers * self.matrix.scales[:, None]
        return torch.ops.quantized.linear_unpack(self.packed)[0].dequantize()

    def forward(self, x: Tensor) -> Tensor:
        """(rows, into) -> (rows, out)."""
        matrix, exact = self.matrix, self.exact or self.elements < MIN_8_BIT_ELEMENTS
        if matrix is not None:
            if LOADER.kernels is not None and self._uses_compiled_kernels(x.shape[0], exact=exact):
                levels = 0 if exact else self.row_steps
                return LOADER.kernels.linear_int8(x.float().contiguous(), matrix, levels)
            if exact:
                return F.linear(x, self.weight, self.bias)
            if self.packed is None:
                self.packed = _pack(matrix.integers, matrix.scales)
        largest = x.abs().amax(dim=1, keepdim=True)  # (rows, 1)
        # A row of zeros gives 0/0 here, which becomes arbitrary integers and is multiplied by 0.
        product = _product(x / largest, 1 / self.row_steps, 128, self.packed)
        if self.bias is None:
            return product.mul_(largest)
        return torch.addcmul(self.bias, product, largest)

    def _uses_compiled_kernels(self, rows: int, *, exact: bool) -> bool:
        """Whether the compiled kernels multiply so many rows, in 16 bits if `exact`, or in 8."""
        sum_fits = exact or (self.matrix is not None and self.matrix.into <= MAX_INPUTS)
        few = rows <= COMPILED_ROWS or (exact and not self.many)
        return rows > 0 and few and sum_fits and self.elements >= MIN_ELEMENTS

    def train(self, mode: bool = True) -> Int8Linear:
        """Raises InputError in training mode: quantized weights have no gradient."""
        return raise_unsupported("trained") if mode else super().train(mode)

    def _save_to_state_dict(self, *_: Any) -> NoReturn:
        raise_unsupported("saved")


class Int8Head(Int8Linear):
    """The output head over the vocabulary, or its loss, with a matrix in 8 bits."""

    def loss(self, x: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
        """Summed cross-entropy of x (tokens, dim) to targets (tokens,)."""
        return F.cross_entropy(self(x), targets, reduction="sum", label_smoothing=smoothing)


def raise_unsupported(what: str) -> NoReturn:
    """Raises InputError: a model in 8 bits cannot be trained or saved."""
    got, fix = f"a model to be {what}", "load it without int8"
    raise InputError("precision int8", got=got, expected="fp32", fix=fix)


@cache
def has_wide_sums() -> bool:
    """Whether this processor adds products of 8-bit numbers in 32 bits."""
    return bool(torch.cpu._is_vnni_supported())


_product = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32.op
"""The kernel itself, without the Python checks that PyTorch makes at every call."""
_TINY = torch.finfo(torch.float32).tiny
"""The smallest scale, that of a row of zeros."""


def quantise_rows(matrix: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    """Quantizes a matrix to int8 with a scale for each row; the error is at most half a scale.

    Args:
        matrix: (rows, columns) A float32 matrix of finite numbers.
        steps: The integer for the largest absolute value of a row; at most 127.

    Returns:
        (rows, columns) int8, and (rows,) positive float32 scales: their product approximates the
        matrix.

    Example:
        >>> integers, scales = quantise_rows(torch.tensor([[1.0, -2.0, 0.3]]), 100)
        >>> integers, scales
        (tensor([[  50, -100,   15]], dtype=torch.int8), tensor([0.0200]))
    """
    if matrix.shape[1] == 0:
        return matrix.to(torch.int8), matrix.new_ones(len(matrix))
    scales = (matrix.abs().amax(dim=1) / steps).clamp(min=_TINY)
    integers = (matrix.double() / scales.double()[:, None]).round()
    return integers.to(torch.int8), scales


def _pack(integers: Tensor, scales: Tensor) -> Any:
    """Packs a quantized matrix in the memory order of PyTorch's kernel."""
    zeros = torch.zeros(len(scales), dtype=torch.int64)
    engine = temporarily(torch.backends.quantized, "engine", ENGINE)
    with engine, warnings.catch_warnings():
        # PyTorch deprecates quantized tensors, but nothing else makes the kernel's input.
        warnings.filterwarnings("ignore", "torch.quantize_per_tensor", UserWarning)
        quantized = torch._make_per_channel_quantized_tensor(integers, scales.double(), zeros, 0)
        return torch.ops.quantized.linear_prepack(quantized, None)
