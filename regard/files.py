"""Writing that is whole or not there: beside, synced, then put in place by rename.

A process killed at any moment, or a full disk, leaves what was there before as it was. Reading
takes regular files only, of a size that is known before any memory is taken.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal

from regard.errors import InputError, WriteError

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_regular(place: str | os.PathLike[str]) -> BinaryIO:
    """Open a file for reading, at once: a pipe would wait for ever, a device never ends.

    Raises:
        InputError: If it is no regular file, nor a link to one.
        OSError: As `open` does.
    """
    path = Path(place)
    _refuse_others(path, path.stat())  # first without opening, which wakes some devices
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _refuse_others(path, os.fstat(descriptor))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(place: str | os.PathLike[str], most: int) -> bytes:
    """Read a whole file of at most so many bytes; its size is compared before it is read.

    Raises:
        InputError: If it is no regular file, nor a link to one, or larger.
        OSError: As `open` does.
    """
    with open_regular(place) as file:
        size = os.fstat(file.fileno()).st_size
        data = file.read(size + 1) if size <= most else b""
        if len(data) > size:  # it has grown since, or is one of /proc, which have no size
            data += file.read(most + 1 - len(data))
            size = len(data)
    if size > most:
        raise InputError(str(place), got=f"{size:,} bytes", expected=f"at most {most:,}")
    return data


def _refuse_others(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "something else")
        raise InputError(str(path), got=kind, expected="a regular file")


def write_file(place: str | os.PathLike[str], data: bytes) -> Path:
    """Put one file in its place, replacing what was there, whole or not at all.

    Raises:
        WriteError: If that fails; what was there before is whole.
    """
    path = Path(place)
    temporary = beside(path, "tmp")
    with reporting(str(path), "what was there before is whole"):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_synced(temporary, data)
            temporary.replace(path)
            sync(path.parent)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
    return path


@contextlib.contextmanager
def reporting(what: str, state: str) -> Iterator[None]:
    """Turn what the system refuses (full disk, no permission) into a `WriteError`."""
    try:
        yield
    except OSError as error:
        raise not_written(what, error, state) from error


def not_written(what: str, error: OSError, state: str) -> WriteError:
    """The error for what could not be written, and the state things are in."""
    return WriteError(f"could not write {what}: {error.strerror or error}", fix=state)


def write_synced(path: Path, data: bytes) -> None:
    """Write a file and wait until the disk has it."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync(folder: Path) -> None:
    """Make the names in a folder survive a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def beside(path: Path, kind: Literal["tmp", "old"]) -> Path:
    """A hidden name next to a path, of this process alone."""
    return path.with_name(f".{path.name}.{kind}-{os.getpid()}")
