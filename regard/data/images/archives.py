"""The files in a `.tar` or `.zip` archive, read one by one into memory, never to the disk.

What an archive claims is checked against its size before memory is allocated: a few kilobytes can
claim, or even contain, gigabytes of packed zeros.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from regard.errors import InputError
from regard.inputs.images.opening import MOST_BYTES
from regard.runtime.files import open_regular
from regard.runtime.npz import LARGE, MOST_PACKED

ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2", ".zip")
PACKED_ERRORS = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError,
                 OSError, RuntimeError, NotImplementedError, ValueError, IndexError, OverflowError,
                 MemoryError)  # fmt: skip
"""What reading a damaged archive, or one with a password, can raise."""
UNPACKERS = {b"\x1f\x8b": gzip.open, b"\xfd7": lzma.open, b"BZ": bz2.open}
"""First bytes of a packed `.tar` -> how it is unpacked."""
MOST_FILES = 2**20
"""The most files in an archive."""


class Member(NamedTuple):
    """A file in an archive."""

    name: str
    size: int
    content: Callable[[], bytes]
    """Reads it."""


def members(path: Path) -> Iterator[Member]:
    """Yield the regular files of an archive, without their contents; links are left out.

    Raises:
        InputError: The archive is damaged, has too many files, or is packed too far.
    """
    read = _zip_members if path.name.lower().endswith(".zip") else _tar_members
    total, stored = 0, path.stat().st_size
    with _archive_errors(path):
        for number, member in enumerate(read(path)):
            total += member.size
            if number >= MOST_FILES or total > max(LARGE, MOST_PACKED * stored):
                got = f"more than {number:,} files, {total:,} bytes packed in {stored:,}"
                expected = f"{MOST_FILES:,} files, packed to a hundredth at most"
                raise InputError(str(path), got=got, expected=expected)
            yield member._replace(content=_archive_errors(path)(member.content))


@contextmanager
def _archive_errors(path: Path) -> Iterator[None]:
    """Turn errors of reading an archive, in a block or in a function, into an `InputError`."""
    try:
        yield
    except PACKED_ERRORS as error:
        got = str(error).partition("\n")[0] or type(error).__name__
        raise InputError(f"{path} is damaged", got=got, expected="a whole archive") from None


class _Bounded:
    """A file that is read in pieces of at most `MOST_BYTES`: headers may claim any length."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.seek, self.tell = file.seek, file.tell

    def read(self, size: int) -> bytes:
        """Read `size` bytes; raise an error if that is more than `MOST_BYTES`."""
        if not 0 <= size <= MOST_BYTES:
            raise tarfile.ReadError(f"a part of {size:,} bytes")
        return self._file.read(size)


def _tar_members(path: Path) -> Iterator[Member]:
    """Yield the regular files of a `.tar` archive, which may be packed."""
    with ExitStack() as stack:
        file: Any = stack.enter_context(open_regular(path))
        unpack: Any = UNPACKERS.get(file.peek(2)[:2])
        if unpack is not None:
            file = stack.enter_context(unpack(file))
        archive = stack.enter_context(tarfile.open(fileobj=_Bounded(file), mode="r:"))  # type: ignore[call-overload]
        for member in archive:
            if member.isreg():  # links and devices are left out

                def content(member: tarfile.TarInfo = member) -> bytes:
                    data: IO[bytes] | None = archive.extractfile(member)
                    return b"" if data is None else data.read(member.size)

                yield Member(member.name, member.size, content)
            archive.members = []  # else tarfile remembers all of them


def _zip_members(path: Path) -> Iterator[Member]:
    """Yield the files of a `.zip` archive."""
    with open_regular(path) as file, zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            if not member.is_dir():

                def content(member: zipfile.ZipInfo = member) -> bytes:
                    with archive.open(member) as data:
                        return data.read(member.file_size)  # no more than the header says

                yield Member(member.filename, member.file_size, content)
