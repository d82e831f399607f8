"""Reads the tensors of a `.bin` file (a pickle) safely.

`torch.load(weights_only=True)` runs no code, but allocates whatever memory a pickle asks for: a
`bytearray` of 3 GB takes twelve bytes in the file, and so do 3 GB of compressed zeros. So before
loading, everything that the pickle calls must be in a short list, and the parts of the zip file
must be uncompressed and not larger than the file.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import re
import zipfile
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.errors import InputError
from regard.runtime.files import open_regular

MAX_PICKLE_BYTES, MAX_PICKLE_STEPS = 2**26, 2**22
"""Largest pickle in bytes, without the tensors' values, and its most steps; it needs some hundred
bytes and some forty steps for each tensor."""
MAX_REPEATS = 8
"""How often the same values may occur under different names; T5 ties four matrices."""
ALLOWED_GLOBALS = re.compile(
    r"collections OrderedDict"
    r"|torch\._utils _rebuild_(tensor|tensor_v2|parameter)"
    r"|torch\.nn\.parameter Parameter"
    r"|torch (Size|device|[A-Z][A-Za-z0-9]+Storage|(b?float|u?int|bool|complex)[0-9]*)"
)
"""The globals in a pickle of plain tensors; none of them allocates more than the file's size."""
PICKLE_ENDING = ".pkl"
"""How the names of pickles in a zip file end."""
ZIP_END_BYTES = 42
"""The bytes of the two records at the end of a zip file."""
FORBIDDEN_OPCODES = {"STACK_GLOBAL", "INST", "OBJ", "EXT1", "EXT2", "EXT4",
                     "NEWOBJ_EX", "BYTEARRAY8"}  # fmt: skip
"""Opcodes that call something named elsewhere, or allocate memory; torch writes none of them."""


def read_pickled(file: Path) -> dict[str, Tensor]:
    """Reads the tensors of a file by name.

    Raises:
        InputError: The file is not regular, or would take much more memory than it has bytes.
        UnpicklingError: It holds more than plain tensors.
        Exception: Any other error of `torch.load` for a damaged file.
    """
    with open_regular(file) as stream:
        is_zip = stream.read(4) == b"PK\3\4"
        stream.seek(0)
        for data in _pickles_in_zip(stream, file) if is_zip else [stream.read(MAX_PICKLE_BYTES)]:
            _check_pickle(data, is_old_format=not is_zip)
        # Mapped, so that a tensor cannot claim more values than the file has.
        tensors = torch.load(file, map_location="cpu", weights_only=True, mmap=is_zip)
    if not isinstance(tensors, dict) or not all(map(_is_plain_tensor, tensors, tensors.values())):
        raise InputError(str(file), got="something else", expected="plain tensors by name")
    _check_repeats(tensors, file)
    return tensors


def _pickles_in_zip(stream: BufferedReader, file: Path) -> Iterator[bytes]:
    """Yields the pickles in a zip file; refuses compressed or overlapping parts."""
    size = stream.seek(0, io.SEEK_END)
    with zipfile.ZipFile(stream) as archive:
        parts = archive.infolist()
        if sum(part.file_size for part in parts) > size or any(p.compress_type for p in parts):
            raise InputError(
                f"{file}: its parts",
                got="compressed or overlapping parts",
                expected=f"parts as torch stores them, together at most {size:,} bytes",
            )
        _check_names(file, [part.filename for part in parts])
        _check_table(file, stream, archive.start_dir)
        for part in parts:
            if part.filename.casefold().endswith(PICKLE_ENDING):
                if part.file_size > MAX_PICKLE_BYTES:
                    got, expected = f"{part.file_size:,} bytes", f"at most {MAX_PICKLE_BYTES:,}"
                    raise InputError(f"{file}: {part.filename}", got=got, expected=expected)
                yield archive.read(part)


def _check_names(file: Path, names: list[str]) -> None:
    """Refuses names that torch, which ignores case, could take for those of other parts."""
    pickles = [name for name in names if name.casefold().endswith(f"/data{PICKLE_ENDING}")]
    if len({name.casefold() for name in names}) < len(names) or len(pickles) != 1:
        raise InputError(
            f"{file}: its parts",
            got=f"{len(names)} names, {len(pickles)} of them data{PICKLE_ENDING}",
            expected=f"another name for each, and one data{PICKLE_ENDING}",
        )


def _check_table(file: Path, stream: BufferedReader, start: int) -> None:
    """Refuses a zip file whose table of parts is not where torch looks for it.

    Python looks just before the end of the file, torch at the offset that is written there: a file
    could have two tables.

    Args:
        file: The file, for messages.
        stream: The open file.
        start: Where Python found the table.
    """
    size = stream.seek(0, io.SEEK_END)
    stream.seek(max(0, size - ZIP_END_BYTES))
    tail = stream.read(ZIP_END_BYTES)
    offsets = {int.from_bytes(tail[-6:-2], "little")} if tail[-22:-18] == b"PK\5\6" else {-1}
    if tail[-42:-38] == b"PK\6\7":  # a table for large files: its end says where it begins
        stream.seek(int.from_bytes(tail[-34:-26], "little"))
        end = stream.read(56)
        offsets |= {int.from_bytes(end[48:], "little") if end[:4] == b"PK\6\6" else -1}
        offsets.discard(2**32 - 1)
    if offsets != {start}:
        got, expected = "a table of parts in another place", "the end of the file"
        raise InputError(f"{file} is damaged", got=got, expected=expected)


def _check_pickle(data: bytes, *, is_old_format: bool) -> None:
    """Refuses a pickle that names anything else than the globals of plain tensors.

    Args:
        data: The pickle.
        is_old_format: Whether there are five pickles, as in files of torch before 1.6.
    """
    stream, steps = io.BytesIO(data), 0
    for _ in range(5 if is_old_format else 1):
        for opcode, argument, _ in pickletools.genops(stream):
            steps += 1
            if steps > MAX_PICKLE_STEPS:
                raise pickle.UnpicklingError(f"more than {MAX_PICKLE_STEPS:,} steps")
            is_unknown = opcode.name == "GLOBAL" and not ALLOWED_GLOBALS.fullmatch(str(argument))
            if is_unknown or opcode.name in FORBIDDEN_OPCODES:
                raise pickle.UnpicklingError(f"{opcode.name} {argument}")


def _is_plain_tensor(name: Any, tensor: Any) -> bool:
    """Whether it is a named, dense CPU tensor with a stored value for each element.

    An expanded view of one value can have any size, and would fill the memory when it is copied.
    """
    return (
        isinstance(name, str)
        and isinstance(tensor, Tensor)
        and (tensor.layout, tensor.device.type) == (torch.strided, "cpu")
        and not tensor.is_quantized
        and tensor.numel() * tensor.element_size() <= tensor.untyped_storage().nbytes()
    )


def _check_repeats(tensors: dict[str, Tensor], file: Path) -> None:
    """Refuses many names for the same values, since each would be copied."""
    storages = [tensor.untyped_storage() for tensor in tensors.values()]
    storage_bytes = {storage.data_ptr(): storage.nbytes() for storage in storages}
    tensor_bytes = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
    max_bytes = MAX_REPEATS * sum(storage_bytes.values())
    if tensor_bytes > max_bytes:
        raise InputError(
            str(file), got=f"tensors of {tensor_bytes:,} bytes", expected=f"at most {max_bytes:,}"
        )
