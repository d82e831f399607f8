"""Writing that is whole or not there: beside, synced, then put in place by rename.

A process killed at any moment, or a full disk, leaves what was there before as it was. Reading
takes regular files only, of a size that is known before any memory is taken.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any, Literal

from regard.errors import InputError, WriteError
from regard.runtime.stopping import unfinished

PIECE = 2**20
"""Bytes of a large file that are read at a time: they are still in the processor's cache then."""
MOST_JSON = 2**24
"""Bytes of JSON that are read; a larger file is no config and no index."""
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def cache_folder() -> Path:
    """Where what can be made again is kept: REGARD_CACHE, else the user's own cache folder."""
    given = os.environ.get("REGARD_CACHE")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "regard"


def open_regular(place: str | os.PathLike[str]) -> BufferedReader:
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


def read_json(path: Path, most: int = MOST_JSON) -> dict[str, Any]:
    """The JSON object in a file.

    Raises:
        InputError: There is none.
    """
    return parse_json(path, read_small(path, most))


def read_small(path: Path, most: int = MOST_JSON) -> bytes:
    """`read_regular`, for a file that ought to be there.

    Raises:
        InputError: It is not, or is no such file.
    """
    try:
        return read_regular(path, most)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None


def parse_json(path: Path, data: bytes) -> dict[str, Any]:
    """The JSON object that the bytes of a file are.

    Raises:
        InputError: They are none.
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InputError(str(path), got=f"no JSON ({error})", expected="a JSON object") from None
    if not isinstance(value, dict):
        raise InputError(str(path), got=f"a JSON {type(value).__name__}", expected="an object")
    return value


def _refuse_others(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "something else")
        raise InputError(str(path), got=kind, expected="a regular file")


def write_file(place: str | os.PathLike[str], data: bytes) -> Path:
    """Put one file in its place, replacing what was there, whole or not at all.

    Raises:
        WriteError: If that fails; the old file is unchanged.
    """
    path = Path(place)
    there = os.path.lexists(path)
    with reporting(str(path), "the old file is unchanged" if there else "nothing was written"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary_beside(path) as temporary:
            write_synced(temporary, data)
            temporary.replace(path)
            sync(path.parent)
    return path


@contextlib.contextmanager
def cleaned_up(clean_up: Callable[[], object]) -> Iterator[None]:
    """Calls a function after the body, whether it ends, or fails, or a signal ends the command."""
    unfinished.append(clean_up)
    try:
        yield
    finally:
        clean_up()
        unfinished.remove(clean_up)


@contextlib.contextmanager
def temporary_beside(path: Path) -> Iterator[Path]:
    """A name for a file or a folder until it is renamed to its place; if it is not, it is removed.

    So it is where the body fails, and where a signal ends the command.
    """
    temporary = beside(path, "tmp")
    remove(temporary)  # of a killed process of this number
    with cleaned_up(lambda: remove(temporary)):
        yield temporary


def remove(place: Path) -> None:
    """Remove a file or a folder as far as it can be; of a link, the link alone."""
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place, ignore_errors=True)
        return
    with contextlib.suppress(OSError):
        place.unlink()


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
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, 0o666), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def open_own(path: Path, flags: int) -> int:
    """Open a file for writing that is a regular one; a link to another place is not followed."""
    refuse_link(path)
    return os.open(path, flags | os.O_NOFOLLOW, 0o644)


def refuse_link(path: Path, *, folder: bool = False) -> None:
    """Refuse a name that is there, but is a link or of another kind than the one to be written.

    Writing through a link would change what stands somewhere else.

    Raises:
        InputError: It is not a regular file or, if one is wanted, a folder.
    """
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not (stat.S_ISDIR(mode) if folder else stat.S_ISREG(mode)):
        raise InputError(
            str(path),
            got="a symbolic link" if stat.S_ISLNK(mode) else "something else",
            expected="a folder" if folder else "a regular file",
            fix="remove it, or choose another folder",
        )


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
