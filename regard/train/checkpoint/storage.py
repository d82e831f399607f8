"""Weights in fewer bits on disk: how a model that is only to be used is stored, and the way back.

In: tensors in 32 bits. Out: those of `model.safetensors`; what they are, `config.json` says::

    "stored": "fp16"    every number in 16 bits
    "stored": "int8"    W ≈ s · q, whole numbers q = -127 … 127 of 8 bits, and s, one for each row,
                        under NAME.scales in 32 bits; vectors and small matrices stay in 32 bits

Without "stored" they are as they were computed. What is read is in 32 bits again, so that whatever
uses a model need not know how it was stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from regard.errors import InputError
from regard.layers.kernels.int8 import in_rows
from regard.runtime.device import check_memory

STORES = ("fp32", "fp16", "int8")
IN_16_BITS = {torch.float16}
"""The kind of such numbers, which are widened while they are read."""
STEPS = 127
"""Whole numbers from 0 to the largest number of a row."""
SMALLEST = 2048
"""Numbers of a matrix that 8 bits are worth the scales for."""
SCALES = ".scales"
"""What the name of a matrix's scales ends in."""
AT_ONCE = 2**14
"""Numbers of 8 bits that are scaled at once: what that takes, malloc can use again."""


def check_store(store: Any, what: str) -> str:
    """The way of storing that is meant.

    Args:
        store: One of `STORES`.
        what: Who asks for it, for the error.

    Raises:
        InputError: It is another.
    """
    if not isinstance(store, str) or store not in STORES:
        raise InputError(what, got=store, expected=" or ".join(STORES))
    return store


def shrunk(tensors: Mapping[str, Tensor], store: str) -> dict[str, Tensor]:
    """The tensors as they stand in the file.

    Args:
        tensors: By name.
        store: One of `STORES`.

    Raises:
        InputError: A number cannot be stored in so few bits.
    """
    stored: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if store == "fp32" or tensor.dtype != torch.float32:
            stored[name] = tensor
        elif not tensor.isfinite().all():
            raise InputError(f"{name}", got="numbers that are not finite", expected="weights")
        elif store == "fp16":
            stored[name] = _in_16_bits(name, tensor)
        elif tensor.dim() == 2 and tensor.numel() >= SMALLEST:
            stored[name], stored[name + SCALES] = in_rows(tensor, STEPS)
        else:
            stored[name] = tensor
    return stored


def _in_16_bits(name: str, tensor: Tensor) -> Tensor:
    small = tensor.half()
    if not small.isfinite().all():
        raise InputError(
            f"{name}: too large for 16 bits",
            got=f"{tensor.abs().max():g}",
            expected=f"at most {torch.finfo(torch.float16).max:g}",
            fix="store it as int8 or fp32",
        )
    return small


def restored(tensors: dict[str, Tensor], store: str, file: str) -> dict[str, Tensor]:
    """The tensors of a file in 32 bits.

    Args:
        tensors: As they stand in the file, those in 16 bits perhaps widened. They are taken out,
            the largest first: in 8 and in 32 bits together they would take more memory.
        store: One of `STORES`.
        file: Its name, for errors.

    Raises:
        InputError: They are not what `shrunk` gives, or too large for the machine's memory.
    """
    if store == "fp32":
        return tensors
    needed = sum(4 * tensor.numel() for tensor in tensors.values())
    check_memory(f"{file}: its weights in 32 bits", needed)
    scales = {name: tensors.pop(name) for name in list(tensors) if _belongs(name, tensors)}
    whole: dict[str, Tensor] = {}
    for name in sorted(tensors, key=lambda each: -tensors[each].numel()):
        tensor = tensors.pop(name)
        if tensor.dtype == torch.int8 and store == "int8":
            tensor = _scaled(tensor, _scales_of(name, tensor, scales, file))
        elif tensor.dtype == torch.float16:
            tensor = tensor.float()
        whole[name] = _finite(tensor, name, file)
    return whole


def _belongs(name: str, tensors: Mapping[str, Tensor]) -> bool:
    """Whether a tensor holds the scales of another."""
    matrix = tensors.get(name.removesuffix(SCALES)) if name.endswith(SCALES) else None
    return matrix is not None and matrix.dtype == torch.int8


def _scales_of(name: str, matrix: Tensor, tensors: Mapping[str, Tensor], file: str) -> Tensor:
    """(rows,) The scales of a matrix, every one of them a number above 0."""
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


def _scaled(matrix: Tensor, scales: Tensor) -> Tensor:
    """s · q, some rows at a time: torch makes q a matrix in 32 bits first."""
    whole = torch.empty(matrix.shape)
    rows = max(1, AT_ONCE // max(1, matrix.shape[1]))
    parts = (torch.split(each, rows) for each in (matrix, scales, whole))
    for q, s, out in zip(*parts, strict=True):
        torch.mul(q, s[:, None], out=out)
    return whole


def _finite(tensor: Tensor, name: str, file: str) -> Tensor:
    # The smallest and the largest number tell, and nothing is made for them; of NaN, both are.
    ends = tensor.aminmax() if tensor.is_floating_point() and tensor.numel() else ()
    if not all(end.isfinite() for end in ends):
        got = "numbers that are not finite"
        raise InputError(f"{file}: {name}", got=got, expected="weights")
    return tensor
