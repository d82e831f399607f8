"""Writing that is whole or not there: beside, synced, then put in place by rename.

A process killed at any moment, or a full disk, leaves what was there before as it was.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from regard.errors import WriteError


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
