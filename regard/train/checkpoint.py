"""The checkpoints of a run: saving, keeping, finding the last that is sound.

In: a `Snapshot` of a training run. Out: `RUN/checkpoints/00001000/` (one folder as `folder.py` has
it), `RUN/best.json`, and the way back. Every earlier checkpoint stays whole whatever happens while
a new one is written; what is damaged is noticed, named and passed over.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from torch import Tensor

from regard.errors import InputError
from regard.files import beside, not_written, reporting, sync, write_file
from regard.train.folder import (
    CONFIG,
    FOR_RESUMING,
    FOR_USE,
    MANIFEST,
    RECIPE,
    Damaged,
    Snapshot,
    put,
    read,
    sound,
    to_json_bytes,
    unpack_snapshot,
    verify,
    write_folder,
)

__all__ = [
    "Best",
    "Damaged",
    "RunLock",
    "Snapshot",
    "Spaced",
    "find",
    "last_weights",
    "latest",
    "newest",
    "read",
    "read_best",
    "save",
    "summary",
    "write_folder",
]

_UNFINISHED = re.compile(r"\..+\.(tmp|old)-\d+")

Result = TypeVar("Result")

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Best:
    """The step with the lowest validation loss so far."""

    step: int
    loss: float

    @property
    def checkpoint(self) -> str:
        """The name of its folder under `RUN/checkpoints`."""
        return _name(self.step)


@dataclass(frozen=True)
class Spaced:
    """Which checkpoints are averaged: the last `count` of every `every` steps.

    A run that was stopped by a signal, or found a better model in between, has others beside them;
    those are not counted, so that a resumed run averages what an uninterrupted one does.
    """

    count: int
    every: int

    def holds(self, folder: Path) -> bool:
        """Whether a folder is of such a step."""
        return int(folder.name) % self.every == 0


def save(
    run: Path, snapshot: Snapshot, keep: int, best: Best | None, spaced: Spaced | None = None
) -> Path:
    """Write the checkpoint of one step and drop those no longer wanted.

    A sound checkpoint of the same step is left as it is, a damaged one is replaced.

    Args:
        run: The folder of the run.
        snapshot: What to write.
        keep: How many of the last sound checkpoints stay; the best one always does.
        best: Recorded in `best.json`, provided its checkpoint is there; None leaves the record.
        spaced: Those that are to be averaged stay, too.

    Returns:
        The folder of the checkpoint.
    """
    folder = run / "checkpoints" / _name(snapshot.step)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        sync(run)
        if folder.exists() and not sound(folder):
            _discard(folder)
        if not folder.exists():
            put(folder, snapshot)
        if best and (folder.parent / best.checkpoint).is_dir():
            record = {"step": best.step, "loss": best.loss, "checkpoint": best.checkpoint}
            write_file(run / "best.json", to_json_bytes(record))
        # Only now: until `best.json` names the new best, the old one must stay.
        _prune(run, folder, keep, spaced)
    except OSError as error:
        whole = next((one.name for one in _checkpoints(run) if sound(one)), None)
        state = f"checkpoint {whole} is whole" if whole else "there is no earlier checkpoint"
        raise not_written(
            f"checkpoint {folder}", error, f"{state}; put this right, then go on with --resume"
        ) from error
    return folder


def latest(run: Path) -> tuple[Path, Snapshot, list[str]] | None:
    """Find and read the newest sound checkpoint of a run, training state included.

    Returns:
        Its folder, what it holds, and one message for each newer, damaged one that was passed
        over. None if the run has no checkpoint yet.

    Raises:
        InputError: There are checkpoints, and all of them are damaged.
    """

    def load(folder: Path) -> Snapshot:
        return unpack_snapshot(folder, *verify(folder, FOR_USE | FOR_RESUMING))

    folders = _checkpoints(run)
    return _first_sound(run, folders, load) if folders else None


def find(place: Path) -> Path:
    """Give the checkpoint a user means by a folder.

    Args:
        place: A run, meaning its best checkpoint, or its last sound one if no best is recorded or
            the best is damaged (then a warning is logged); or one checkpoint folder.
    """
    try:
        if (place / MANIFEST).is_file():
            return place
        if not (folders := _checkpoints(place)):
            raise _nothing_to_load(place)
    except PermissionError as error:
        raise InputError(f"{place} cannot be read: {error.strerror}") from error
    best = read_best(place)
    if best and (chosen := place / "checkpoints" / best.checkpoint) in folders:
        folders.remove(chosen)
        folders.insert(0, chosen)
    folder, _, messages = _first_sound(place, folders, verify)
    for message in messages:
        _logger.warning(message)
    return folder


def newest(place: Path) -> Path:
    """The last checkpoint of a run, or the one that a folder is; its files are not compared."""
    if (place / MANIFEST).is_file():
        return place
    if not (folders := _checkpoints(place)):
        raise _nothing_to_load(place)
    return folders[0]


def read_best(run: Path) -> Best | None:
    """Read `best.json`; None if there is none, or none that can be read."""
    try:
        record = json.loads((run / "best.json").read_bytes())
        return Best(int(record["step"]), float(record["loss"]))
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        return None


class RunLock:
    """Lets one process at a time write into a run; what a killed one left half-written is removed.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as run, RunLock(Path(run)):
        ...     pass
    """

    def __init__(self, run: Path) -> None:
        self.run = run
        self._descriptor: int | None = None

    def __enter__(self) -> RunLock:
        if self.run.exists() and not self.run.is_dir():
            raise InputError(str(self.run), got="a file", expected="a folder or a new name")
        with reporting(str(self.run / ".lock"), "nothing was changed"):
            self.run.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.run / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
            try:
                # The kernel lets go of it when the process ends, however it ends.
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove_unfinished(self.run)
                os.ftruncate(descriptor, 0)
                os.write(descriptor, str(os.getpid()).encode())
            except BlockingIOError as error:
                owner = os.read(descriptor, 20).decode("ascii", "replace")
                os.close(descriptor)
                raise InputError(
                    f"{self.run} is being written by another process ({owner})",
                    fix="wait until it ends, or choose another folder",
                ) from error
            except BaseException:
                os.close(descriptor)
                raise
        self._descriptor = descriptor
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._descriptor is not None
        os.close(self._descriptor)
        self._descriptor = None


def _discard(folder: Path) -> None:
    """Remove a checkpoint; renamed first, so that nothing half there bears its name."""
    old = beside(folder, "old")
    shutil.rmtree(old, ignore_errors=True)
    folder.rename(old)
    shutil.rmtree(old, ignore_errors=True)


def _first_sound(
    run: Path, folders: list[Path], attempt: Callable[[Path], Result]
) -> tuple[Path, Result, list[str]]:
    """The first folder on which the attempt finds nothing damaged, and what was wrong before it."""
    damaged = []
    for folder in folders:
        try:
            result = attempt(folder)
        except Damaged as problem:
            damaged.append(
                f"checkpoint {folder.name} is damaged ({problem.file}: {problem.problem})"
            )
            continue
        return folder, result, [f"{message}; using {folder.name}" for message in damaged]
    raise InputError(
        f"{run} has no sound checkpoint: {damaged[0]}"
        + (f", and so are {len(damaged) - 1} more" if len(damaged) > 1 else ""),
        fix="restore one from a copy, or train anew into another folder",
    )


def _nothing_to_load(place: Path) -> InputError:
    """Say what was found where a run or a checkpoint should be."""
    fix = "name the folder given to `regard train -o`, or one of its checkpoints"
    if not place.exists():
        found = "nothing there"
    elif not place.is_dir():
        found = "a file"
    elif place.name == "checkpoints" and _checkpoints(place.parent):
        found, fix = "the checkpoints of a run", f"name the run: {place.parent}"
    elif (config := place / CONFIG).is_file():
        ours = b'"regard"' in config.read_bytes()
        found = "a checkpoint without its manifest" if ours else "a Hugging Face folder, it seems"
    elif (place / "checkpoints").is_dir() or (place / RECIPE).is_file():
        found = "a run without a checkpoint yet"
        fix = "wait for its first one, or go on with `regard train ... --resume`"
    else:
        found = "no checkpoint in it" if any(place.iterdir()) else "an empty folder"
    return InputError(str(place), got=found, expected="a run or a checkpoint", fix=fix)


def _checkpoints(run: Path) -> list[Path]:
    """The checkpoint folders of a run, newest first."""
    folder = run / "checkpoints"
    found = folder.iterdir() if folder.is_dir() else iter(())
    named = (one for one in found if re.fullmatch("[0-9]{8,}", one.name) and one.is_dir())
    return sorted(named, key=lambda one: int(one.name), reverse=True)


def _prune(run: Path, saved: Path, keep: int, spaced: Spaced | None) -> None:
    """Remove what is older than the last `keep` sound checkpoints, except best and spaced ones.

    A folder of a later step was damaged when the run was resumed; it is left until the run gets
    there again and replaces it.
    """
    best = read_best(run)
    kept, to_average = 0, 0 if spaced is None else spaced.count
    for folder in _checkpoints(run):
        if int(folder.name) > int(saved.name):
            continue
        whole = folder == saved or (kept < keep and sound(folder))
        wanted = whole or kept < keep or (best is not None and folder.name == best.checkpoint)
        kept += whole
        if spaced is not None and spaced.holds(folder) and to_average > 0:
            to_average -= 1
        elif not wanted:
            _discard(folder)


def _remove_unfinished(run: Path) -> None:
    """Remove what dead processes left half-written; only the owner of the run may call it."""
    for folder in (run, run / "checkpoints"):
        for one in folder.iterdir() if folder.is_dir() else ():
            if _UNFINISHED.fullmatch(one.name):
                if one.is_dir():
                    shutil.rmtree(one, ignore_errors=True)
                else:
                    one.unlink(missing_ok=True)


def _name(step: int) -> str:
    return f"{step:08d}"


def last_weights(run: Path, spaced: Spaced, before: int) -> list[dict[str, Tensor]]:
    """The raw weights of the last sound, evenly spaced checkpoints before a step, newest first."""
    earlier = (one for one in _checkpoints(run) if int(one.name) < before and spaced.holds(one))
    usable = (folder for folder in earlier if sound(folder))
    return [_raw_weights(folder) for folder in islice(usable, max(0, spaced.count))]


def _raw_weights(folder: Path) -> dict[str, Tensor]:
    """The weights that training had; an earlier end of the run may have stored their mean."""
    snapshot = read(folder, training=True)
    raw = {
        name.removeprefix("weights."): tensor
        for name, tensor in snapshot.training_tensors.items()
        if name.startswith("weights.")
    }
    return raw or snapshot.weights


def summary(run: Path) -> dict[str, int | float | None]:
    """What a listing says of a run: its last step, and its best validation loss."""
    folders, best = _checkpoints(run), read_best(run)
    return {
        "step": int(folders[0].name) if folders else None,
        "best_loss": None if best is None else round(best.loss, 4),
    }
