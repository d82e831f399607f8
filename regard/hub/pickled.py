"""A `.bin` file of somebody's weights -> its tensors, looked through before anything is built.

torch's reader of plain tensors runs no code, but takes whatever memory a pickle asks for: a
`bytearray` of 3 GB is twelve bytes, and so are 3 GB of zeros when they are deflated. So what a
pickle calls is looked up in a short list first, and what is packed must be as long as it says.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.errors import InputError
from regard.runtime.files import open_regular

LARGEST = 2**26
"""Bytes of the pickle itself, without the tensors' numbers: some hundred for each tensor."""
REPEATED = 8
"""How often the same numbers may be there under other names; T5 ties four matrices."""
CALLED = re.compile(
    r"collections OrderedDict"
    r"|torch\._utils _rebuild_(tensor|tensor_v2|parameter)"
    r"|torch\.nn\.parameter Parameter"
    r"|torch (Size|device|[A-Z][A-Za-z0-9]+Storage|(b?float|u?int|bool|complex)[0-9]*)"
)
"""What a pickle of plain tensors names: none of these takes more memory than the file has."""
UNNAMED = {"STACK_GLOBAL", "INST", "OBJ", "EXT1", "EXT2", "EXT4", "NEWOBJ_EX", "BYTEARRAY8"}
"""Opcodes that call what is named elsewhere, or take memory at once; torch writes none of them."""


def read_pickled(file: Path) -> dict[str, Tensor]:
    """The tensors of a file by name.

    Raises:
        InputError: It is no regular file, or would take more memory than it has bytes.
        UnpicklingError: It holds more than plain tensors.
        Exception: It is damaged, in any of the ways of `torch.load`.
    """
    with open_regular(file) as stream:
        packed = stream.read(4) == b"PK\3\4"
        stream.seek(0)
        for data in _packed(stream, file) if packed else [stream.read(LARGEST)]:
            _look_through(data, several=not packed)
        # Mapped: a tensor's numbers are those of the file, and it cannot claim more of them.
        found = torch.load(file, map_location="cpu", weights_only=True, mmap=packed)
    if not isinstance(found, dict) or not all(map(_is_plain, found, found.values())):
        raise InputError(str(file), got="something else", expected="plain tensors by name")
    _refuse_repeated(found, file)
    return found


def _packed(stream: Any, file: Path) -> Iterator[bytes]:
    """The pickles in a zip file, if all that is in it is stored as it is, each part once."""
    size = stream.seek(0, io.SEEK_END)
    with zipfile.ZipFile(stream) as archive:
        parts = archive.infolist()
        if sum(part.file_size for part in parts) > size or any(p.compress_type for p in parts):
            raise InputError(
                f"{file}: its parts",
                got="compressed ones, or one in another",
                expected=f"parts as torch stores them, of at most {size:,} bytes, the file's own",
            )
        for part in parts:
            if part.filename.endswith(".pkl"):
                if part.file_size > LARGEST:
                    got, expected = f"{part.file_size:,} bytes", f"at most {LARGEST:,}"
                    raise InputError(f"{file}: {part.filename}", got=got, expected=expected)
                yield archive.read(part)


def _look_through(data: bytes, *, several: bool) -> None:
    """Refuses a pickle that names anything but what plain tensors are made of.

    Args:
        data: The pickle.
        several: Whether others follow it, as in files before torch 1.6: five, then numbers.
    """
    stream = io.BytesIO(data)
    for _ in range(5 if several else 1):
        for opcode, argument, _ in pickletools.genops(stream):
            named = opcode.name == "GLOBAL" and not CALLED.fullmatch(str(argument))
            if named or opcode.name in UNNAMED:
                raise pickle.UnpicklingError(f"{opcode.name} {argument}")


def _is_plain(name: Any, tensor: Any) -> bool:
    """Whether it is a tensor as weights are: named, and with a number in the file for each of its.

    A view of one number can be a tensor of any size, and fill the memory when it is copied.
    """
    return (
        isinstance(name, str)
        and isinstance(tensor, Tensor)
        and (tensor.layout, tensor.device.type) == (torch.strided, "cpu")
        and not tensor.is_quantized
        and tensor.numel() * tensor.element_size() <= tensor.untyped_storage().nbytes()
    )


def _refuse_repeated(tensors: dict[str, Tensor], file: Path) -> None:
    """Refuses many names for the same numbers, which would each be copied."""
    storages = [each.untyped_storage() for each in tensors.values()]
    stored = {storage.data_ptr(): storage.nbytes() for storage in storages}
    named = sum(each.numel() * each.element_size() for each in tensors.values())
    most = REPEATED * sum(stored.values())
    if named > most:
        raise InputError(str(file), got=f"{named:,} bytes by name", expected=f"at most {most:,}")
