"""Folders of the cache: what can be made again from files and settings, such as encoded text.

The name of a folder is a hash of everything its content depends on. A folder is filled under a
temporary name, synced and renamed, so that it is whole or not there.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from regard.runtime.files import reporting, sync, temporary_beside

ABANDONED = 24 * 3600
"""Seconds without a write after which an unfinished folder is deleted: its process was killed."""


def key_of(depends_on: dict[str, Any]) -> str:
    """Return the name of a folder: a hash of all that its content depends on."""
    return hashlib.sha256(json.dumps(depends_on, sort_keys=True).encode()).hexdigest()[:32]


@contextlib.contextmanager
def new_folder(folder: Path, is_whole: Callable[[Path], bool], state: str) -> Iterator[Path]:
    """Yield a temporary folder to fill, which becomes `folder` after the body.

    Args:
        folder: A folder of the cache; its parents are created if missing.
        is_whole: Whether a folder is complete; if another process was faster, its folder stays.
        state: What state the files are in after a failed write, for the message.

    Raises:
        WriteError: If it cannot be written; no partial files are left.
    """
    with reporting(str(folder), state):
        folder.parent.mkdir(parents=True, exist_ok=True)
        _sweep(folder.parent)
        with temporary_beside(folder) as temporary:
            temporary.mkdir()
            yield temporary
            try:
                temporary.rename(folder)
            except OSError:  # there is one already: of a faster process, or damaged
                if is_whole(folder):
                    return
                shutil.rmtree(folder, ignore_errors=True)
                temporary.rename(folder)
            sync(folder.parent)


def finish(file: IO[bytes]) -> None:
    """Wait until what was written to a file is on the disk, and close it."""
    file.flush()
    os.fsync(file.fileno())
    file.close()


def write_array(path: Path, numbers: NDArray[Any]) -> None:
    """Write an array as `.npy`, and wait until it is on the disk."""
    file = path.open("wb")
    np.save(file, numbers, allow_pickle=False)
    finish(file)


def _sweep(cache: Path) -> None:
    """Remove unfinished folders of killed processes, if they are old enough."""
    for folder in cache.glob(".*.tmp-*"):
        with contextlib.suppress(OSError):
            latest = max(path.stat().st_mtime for path in (folder, *folder.iterdir()))
            if time.time() - latest > ABANDONED:
                shutil.rmtree(folder)
