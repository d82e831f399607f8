"""Writes files atomically, and reads regular files of limited size.

A file is written under a temporary name beside its final one, synced to disk, and renamed. So a
process killed at any moment, or a full disk, leaves the former file unchanged. Only regular files
are read, and their size is checked before memory is allocated.
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
from regard.runtime.stopping import cleanups

PIECE = 2**20
"""Bytes of a large file that are read at a time; so few stay in the processor's cache."""
MOST_JSON = 2**24
"""Largest JSON file in bytes; configs and indices are smaller."""
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def cache_folder() -> Path:
    """The folder for files that can be made again: REGARD_CACHE, else one in the user's cache."""
    folder = os.environ.get("REGARD_CACHE")
    if folder:
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "regard"


def open_regular(path: str | os.PathLike[str]) -> BufferedReader:
    """Open a regular file for reading; pipes and devices are refused, since they may never end.

    Raises:
        InputError: If it is not a regular file, nor a link to one.
        OSError: As `open` does.
    """
    path = Path(path)
    _require_regular(path, path.stat())  # before opening, which would start some devices
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _require_regular(path, os.fstat(descriptor))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: str | os.PathLike[str], most: int) -> bytes:
    """Read a whole file of at most `most` bytes; its size is checked before it is read.

    Raises:
        InputError: If it is not a regular file, nor a link to one, or larger.
        OSError: As `open` does.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        data = file.read(size + 1) if size <= most else b""
        if len(data) > size:  # the file has grown, or is in /proc, where sizes are 0
            data += file.read(most + 1 - len(data))
            size = len(data)
    if size > most:
        raise InputError(str(path), got=f"{size:,} bytes", expected=f"at most {most:,}")
    return data


def read_private(path: Path, most: int) -> bytes:
    """Read a file that nobody else can have written, such as one with machine code.

    The open file itself is checked, not its name, which may mean another file a moment later: it
    has to be regular, no link, of this user, and not writable for others; and so has its folder.

    Raises:
        InputError: It is not such a file, or larger than `most` bytes.
        OSError: As `open` does; also for a symbolic link.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    folder = os.open(path.parent, flags | os.O_DIRECTORY)
    try:
        _require_private(path.parent, os.fstat(folder))
        descriptor = os.open(path.name, flags | os.O_NONBLOCK, dir_fd=folder)
    finally:
        os.close(folder)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        _require_regular(path, status)
        _require_private(path, status)
        data = file.read(most + 1) if status.st_size <= most else b""
    if not len(data) == status.st_size <= most:
        raise InputError(str(path), got=f"{status.st_size:,} bytes", expected=f"at most {most:,}")
    return data


def write_private(path: Path, data: bytes) -> Path:
    """Write a file as `write_file` does, which only this user can read and write, nor its folder.

    Raises:
        WriteError: If that fails; the old file is unchanged.
    """
    with reporting(str(path), "the old file is unchanged"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.parent.chmod(0o700)
        return write_file(path, data, mode=0o600)


def read_json(path: Path, most: int = MOST_JSON) -> dict[str, Any]:
    """Read the JSON object in a file.

    Raises:
        InputError: The file cannot be read, or is not a JSON object.
    """
    return parse_json(path, read_small(path, most))


def read_small(path: Path, most: int = MOST_JSON) -> bytes:
    """Reads as `read_regular` does; if the file cannot be read, that is an `InputError` as well.

    Raises:
        InputError: The file is missing, cannot be read, is not regular, or is too large.
    """
    try:
        return read_regular(path, most)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None


def parse_json(path: Path, data: bytes) -> dict[str, Any]:
    """Parse the bytes of a file as a JSON object.

    Args:
        path: The file, for error messages.
        data: Its bytes.

    Raises:
        InputError: They are not a JSON object.
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        got = f"invalid JSON ({error})"
        raise InputError(str(path), got=got, expected="a JSON object") from None
    if not isinstance(value, dict):
        raise InputError(str(path), got=f"a JSON {type(value).__name__}", expected="an object")
    return value


def _require_regular(path: Path, status: os.stat_result) -> None:
    """Raises InputError if the status is that of a folder, pipe or device."""
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
        raise InputError(str(path), got=kind, expected="a regular file")


def _require_private(path: Path, status: os.stat_result) -> None:
    """Raises InputError if another user owns the file or can write it."""
    owner = os.geteuid() if hasattr(os, "geteuid") else status.st_uid
    if status.st_uid != owner or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        got = f"owner {status.st_uid}, mode {stat.S_IMODE(status.st_mode):o}"
        expected = f"owner {owner}, and that no other can write it"
        raise InputError(str(path), got=got, expected=expected)


def write_file(path: str | os.PathLike[str], data: bytes, mode: int = 0o666) -> Path:
    """Write one file atomically, replacing a former one; parent folders are created.

    Args:
        path: The file.
        data: Its bytes.
        mode: Its permissions, before the process's mask takes some away.

    Raises:
        WriteError: If that fails; the old file is unchanged.
    """
    path = Path(path)
    exists = os.path.lexists(path)
    with reporting(str(path), "the old file is unchanged" if exists else "nothing was written"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary_beside(path) as temporary:
            write_synced(temporary, data, mode)
            temporary.replace(path)
            sync(path.parent)
    return path


@contextlib.contextmanager
def call_afterwards(clean_up: Callable[[], object]) -> Iterator[None]:
    """Calls a function after the body, also if the body fails or a signal ends the command."""
    cleanups.append(clean_up)
    try:
        yield
    finally:
        clean_up()
        cleanups.remove(clean_up)


@contextlib.contextmanager
def temporary_beside(path: Path) -> Iterator[Path]:
    """A temporary name beside a path, for a file or folder that the body renames to that path.

    If it was not renamed, it is removed after the body, also if the body fails or a signal ends
    the command.
    """
    temporary = hidden_sibling(path, "tmp")
    remove(temporary)  # a killed process with the same number may have left it
    with call_afterwards(lambda: remove(temporary)):
        yield temporary


def remove(path: Path) -> None:
    """Remove a file or a folder, ignoring errors; of a link, only the link itself."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
        return
    with contextlib.suppress(OSError):
        path.unlink()


@contextlib.contextmanager
def reporting(what: str, state: str) -> Iterator[None]:
    """Turn an `OSError` of the body (full disk, no permission) into a `WriteError`."""
    try:
        yield
    except OSError as error:
        raise write_error(what, error, state) from error


def write_error(what: str, error: OSError, state: str) -> WriteError:
    """The error for a failed write.

    Args:
        what: What could not be written.
        error: The system's error.
        state: What state the files are in now, for the message.
    """
    return WriteError(f"could not write {what}: {error.strerror or error}", fix=state)


def write_synced(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Write a file and wait until it is on the disk."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, mode), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def open_own(path: Path, flags: int) -> int:
    """Open a regular file for writing; symbolic links are refused."""
    refuse_link(path)
    return os.open(path, flags | os.O_NOFOLLOW, 0o644)


def refuse_link(path: Path, *, folder: bool = False) -> None:
    """Refuse an existing path that is a link, or not of the kind that is to be written.

    Writing through a link would change files elsewhere.

    Raises:
        InputError: It is not a regular file or, with `folder`, not a folder.
    """
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not (stat.S_ISDIR(mode) if folder else stat.S_ISREG(mode)):
        got = "a symbolic link" if stat.S_ISLNK(mode) else "something else"
        expected = "a folder" if folder else "a regular file"
        fix = "remove it, or choose another folder"
        raise InputError(str(path), got=got, expected=expected, fix=fix)


def sync(folder: Path) -> None:
    """Sync a folder to disk, so that its names survive a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def hidden_sibling(path: Path, kind: Literal["tmp", "old"]) -> Path:
    """A hidden name next to a path that contains this process's number."""
    return path.with_name(f".{path.name}.{kind}-{os.getpid()}")
