"""Reads the arrays of an `.npz` file, whose sizes are checked before memory is allocated.

A file of a megabyte may hold a gigabyte of packed zeros, or a header that claims any number of
them. So the headers are read first: they give name, shape and type, and the bytes that an array
takes have to be there, in a proportion that packed numbers have. Pickled objects are never loaded.
"""

from __future__ import annotations

import math
import os
import sys
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError
from regard.runtime.device import check_memory

MOST_ARRAY, MOST_TEXT = 2**33, 2**30
"""The most bytes of an array of numbers, and of one of texts."""
MOST_PACKED, LARGE = 100, 2**26
"""Numbers of more than `LARGE` bytes may be packed to a hundredth, not further: photographs are
packed to a half, drawings on black to a tenth. (Texts are stored as wide as the longest of them.)
"""
MOST_MEMBERS = 2**12
"""The most arrays in a file."""


@dataclass(frozen=True)
class PackedArray:
    """An array of an `.npz` file, of which only the header was read."""

    what: str
    """File and name, for messages."""
    shape: tuple[int, ...]
    kind: np.dtype[Any]
    _archive: zipfile.ZipFile
    _info: zipfile.ZipInfo

    @property
    def size(self) -> int:
        """Its bytes in memory."""
        return math.prod(self.shape) * self.kind.itemsize

    @property
    def is_text(self) -> bool:
        """Whether it holds texts."""
        return self.kind.kind in "US"

    def read(self, limit: int = MOST_ARRAY) -> NDArray[Any]:
        """Read the array, if it takes at most `limit` bytes.

        Raises:
            InputError: It is larger, packed further than numbers are, or damaged.
        """
        self.check(limit)
        with _report_damage(self.what), self._archive.open(self._info) as file:
            _, fortran, _ = _read_header(file)
            data = file.read(self.size)
        if len(data) != self.size:
            got, expected = f"{len(data):,} bytes", f"{self.size:,}"
            fix = "the file is truncated; download it again"
            raise InputError(f"{self.what} is damaged", got=got, expected=expected, fix=fix)
        if self.kind.kind == "U":
            codes = np.frombuffer(data, np.dtype("u4").newbyteorder(self.kind.byteorder))
            if codes.max(initial=0) > sys.maxunicode:
                raise InputError(f"{self.what} is damaged", got="characters that do not exist")
        return np.frombuffer(data, self.kind).reshape(self.shape, order="F" if fortran else "C")

    def check(self, limit: int = MOST_ARRAY) -> None:
        """Check type and size against the part of the file that the array is in.

        Raises:
            InputError: As `read` does.
        """
        if self.kind.hasobject:
            got, expected = "Python objects, which could run code", "an array of texts or numbers"
            fix = "save texts as np.array(texts, dtype=str)"
            raise InputError(self.what, got=got, expected=expected, fix=fix)
        stored, unpacked = self._info.compress_size, self._info.file_size
        if min(self.shape, default=0) < 0 or not self.kind.itemsize or self.size > unpacked:
            got = f"an array of {self.shape}, {self.size:,} bytes"
            raise InputError(self.what, got=got, expected=f"at most {unpacked:,}")
        limit = min(limit, MOST_TEXT if self.is_text else MOST_ARRAY)
        expected = f"at most {limit:,}"
        if not self.is_text and self.size > max(LARGE, MOST_PACKED * stored):
            limit, expected = 0, f"at most {MOST_PACKED} times the {stored:,} that are stored"
        if self.size > limit:
            raise InputError(self.what, got=f"{self.size:,} bytes", expected=expected)
        check_memory(self.what, 3 * self.size)


@contextmanager
def open_npz(path: Path, file: BufferedReader) -> Iterator[Mapping[str, PackedArray]]:
    """Open an `.npz` file: its arrays by name, not yet read.

    Args:
        path: The file, for messages.
        file: The open file.

    Raises:
        InputError: The file is damaged, or holds other things than arrays.
    """
    with _report_damage(str(path)):
        archive = zipfile.ZipFile(file)
    with archive:
        size = os.fstat(file.fileno()).st_size
        members = archive.infolist()
        if len(members) > MOST_MEMBERS or sum(info.compress_size for info in members) > size:
            got, expected = "overlapping parts, or too many", f"at most {MOST_MEMBERS:,} arrays"
            raise InputError(str(path), got=got, expected=expected)
        names = [info.filename.removesuffix(".npy") for info in members]
        if len({name.casefold() for name in names}) < len(names):
            got = f"a name twice among {', '.join(names)}"
            raise InputError(str(path), got=got, expected="another name for each array")
        pairs = zip(names, members, strict=True)
        yield {name: _read_packed_array(f"{path}: {name}", archive, info) for name, info in pairs}


def _read_packed_array(what: str, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> PackedArray:
    """Read the header of an array, and check it against the size of its part of the file."""
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        got, expected = f"compression method {info.compress_type}", "none, or deflate (8)"
        raise InputError(what, got=got, expected=expected, fix="write it with np.savez_compressed")
    with _report_damage(what), archive.open(info) as file:
        try:
            shape, _, kind = _read_header(file)
        except zlib.error:
            raise
        except Exception as error:  # numpy's parser raises many types on bytes that are no header
            got = str(error).partition("\n")[0] or type(error).__name__
            raise InputError(what, got=got, expected="an array") from None
    return PackedArray(what, shape, kind, archive, info)


def _read_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read the header of a `.npy` file: shape, whether columns come first, and type of number."""
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(file)
    return np.lib.format.read_array_header_2_0(file)


@contextmanager
def _report_damage(what: str) -> Iterator[None]:
    """Turn errors of reading an archive into an `InputError`."""
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError,
            NotImplementedError, RuntimeError, IndexError, OverflowError) as error:  # fmt: skip
        got = str(error).partition("\n")[0] or type(error).__name__
        raise InputError(f"{what} is damaged", got=got, expected="an .npz file") from None
