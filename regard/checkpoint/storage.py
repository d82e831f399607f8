"""Stores a model's weights in 16 or 8 bits on disk, and reads them back into 32 bits.

In: tensors in 32 bits. Out: the tensors of `model.safetensors`. `config.json` says how they are
stored::

    "stored": "fp16"    every number in 16 bits
    "stored": "int8"    W ≈ s · q: 8-bit integers q = -127 … 127 and one scale s for each row, the
                        scales in 32 bits under NAME.scales; vectors and small matrices stay in
                        32 bits

Without "stored" the weights are in 32 bits. Reading always gives 32 bits, so code that uses a model
need not know how it was stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from regard.errors import InputError
from regard.kernels.int8 import quantise_rows
from regard.runtime.device import check_memory
from regard.runtime.tensors import find_not_finite

STORES = ("fp32", "fp16", "int8")
IN_16_BITS = {torch.float16}
"""The types that are converted to 32 bits while they are read."""
STEPS = 127
"""The integer that the largest absolute value of a row is stored as."""
SMALLEST = 2048
"""Least number of elements of a matrix that is stored in 8 bits."""
NOT_FINITE = "numbers that are not finite"
SCALES = ".scales"
"""Suffix of the name under which a matrix's scales are stored."""
ELEMENTS_AT_ONCE = 2**14
"""Elements that are scaled at a time; a buffer that small can be reused by malloc."""


def check_store(store: Any, what: str) -> str:
    """Checks a storage format and returns it.

    Args:
        store: Should be one of `STORES`.
        what: Where the value comes from, for the error message.

    Raises:
        InputError: It is not one of `STORES`.
    """
    if not isinstance(store, str) or store not in STORES:
        raise InputError(what, got=store, expected=" or ".join(STORES))
    return store


def to_stored(tensors: Mapping[str, Tensor], store: str) -> dict[str, Tensor]:
    """Converts tensors to the storage format.

    Args:
        tensors: By name. Only those in 32-bit floats are converted.
        store: One of `STORES`.

    Returns:
        The tensors to write, by name; for int8 also the scales.

    Raises:
        InputError: A number is not finite, or too large for 16 bits.
    """
    stored: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if store == "fp32" or tensor.dtype != torch.float32:
            stored[name] = tensor
        elif not tensor.isfinite().all():
            raise InputError(name, got=NOT_FINITE, expected="finite weights")
        elif store == "fp16":
            stored[name] = _to_16_bits(name, tensor)
        elif tensor.dim() == 2 and tensor.numel() >= SMALLEST:
            stored[name], stored[name + SCALES] = quantise_rows(tensor, STEPS)
        else:
            stored[name] = tensor
    return stored


def _to_16_bits(name: str, tensor: Tensor) -> Tensor:
    """The tensor in 16 bits; raises InputError if a number is too large for them."""
    small = tensor.half()
    if not small.isfinite().all():
        got = f"{tensor.abs().max():g}"
        expected = f"at most {torch.finfo(torch.float16).max:g}"
        what, fix = f"{name}: too large for 16 bits", "store it as int8 or fp32"
        raise InputError(what, got=got, expected=expected, fix=fix)
    return small


def from_stored(tensors: dict[str, Tensor], store: str, file: str) -> dict[str, Tensor]:
    """Converts the tensors of a file back to 32 bits.

    Args:
        tensors: As read from the file; those in 16 bits may have been converted already. The dict
            is emptied, the largest tensor first, so that little is in memory twice.
        store: One of `STORES`.
        file: Name of the file, for error messages.

    Raises:
        InputError: The tensors are not as `to_stored` writes them, or too large for the memory.
    """
    if store == "fp32":
        return tensors
    needed = sum(4 * tensor.numel() for tensor in tensors.values())
    check_memory(f"{file}: its weights in 32 bits", needed)
    scales = {name: tensors.pop(name) for name in list(tensors) if _is_scales(name, tensors)}
    wide_tensors: dict[str, Tensor] = {}
    for name in sorted(tensors, key=lambda name: -tensors[name].numel()):
        tensor = tensors.pop(name)
        if tensor.dtype == torch.int8 and store == "int8":
            tensor = _dequantise(tensor, _scales_of(name, tensor, scales, file))
        elif tensor.dtype == torch.float16:
            tensor = tensor.float()
        if find_not_finite({name: tensor}) is not None:
            raise InputError(f"{file}: {name}", got=NOT_FINITE, expected="weights")
        wide_tensors[name] = tensor
    return wide_tensors


def _is_scales(name: str, tensors: Mapping[str, Tensor]) -> bool:
    """Whether a tensor holds the scales of an int8 matrix."""
    matrix = tensors.get(name.removesuffix(SCALES)) if name.endswith(SCALES) else None
    return matrix is not None and matrix.dtype == torch.int8


def _scales_of(name: str, matrix: Tensor, tensors: Mapping[str, Tensor], file: str) -> Tensor:
    """Returns the scales of a matrix, (rows,), after checking that all are finite and above 0."""
    scales, rows = tensors.get(name + SCALES), tuple(matrix.shape[:1])
    if matrix.dim() != 2 or scales is None:
        got = "no scales" if scales is None else f"{matrix.dim()} dimensions"
        raise InputError(f"{file}: {name} in 8 bits", got=got, expected="a matrix and its scales")
    if tuple(scales.shape) != rows or scales.dtype != torch.float32:
        kind = str(scales.dtype).removeprefix("torch.")
        got = f"{tuple(scales.shape)} {kind}"
        raise InputError(f"{file}: {name}{SCALES}", got=got, expected=f"{rows} float32")
    if not ((scales > 0) & scales.isfinite()).all():
        got = "a scale that is none"
        raise InputError(f"{file}: {name}{SCALES}", got=got, expected="numbers above 0")
    return scales


def _dequantise(matrix: Tensor, scales: Tensor) -> Tensor:
    """Computes s · q, a few rows at a time, because PyTorch first converts q to 32 bits."""
    result = torch.empty(matrix.shape)
    rows = max(1, ELEMENTS_AT_ONCE // max(1, matrix.shape[1]))
    parts = (torch.split(tensor, rows) for tensor in (matrix, scales, result))
    for q, s, out in zip(*parts, strict=True):
        torch.mul(q, s[:, None], out=out)
    return result
