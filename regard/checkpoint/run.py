"""The checkpoints of a run: saves them, removes old ones, finds the best or the newest sound one.

In: a `Snapshot` of a training run. Out: `RUN/checkpoints/00001000/` (one folder, see `folder.py`),
and the snapshot read back. Earlier checkpoints stay intact whatever happens while a new one is
written. "Sound" means that all files match the checksums of the manifest; a damaged checkpoint is
skipped with a message.

Each checkpoint's `training.json` records which checkpoint is the best so far, so the newest one
has the present record, and one rename puts a checkpoint and its record in place together.
`RUN/best.json` is a copy for people and other programs; Regard does not read it.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter

from regard.checkpoint.folder import (
    CHECKPOINTS,
    CONFIG,
    LARGEST,
    MANIFEST,
    RECIPE,
    TRAINING,
    Damaged,
    Manifest,
    Misnamed,
    Snapshot,
    folder_name,
    is_sound,
    parse_json,
    read,
    read_manifest,
    read_tokenizer,
    to_json_bytes,
    verify,
    verify_file,
    write_checkpoint,
)
from regard.checkpoint.folder import write_folder as write_folder
from regard.config import checked
from regard.errors import InputError
from regard.runtime import files

if TYPE_CHECKING:
    from torch import Tensor

_MAX_TRIES = 20
"""Most attempts to read a run whose checkpoints change while they are read."""

_UNFINISHED = re.compile(r"\..+\.(tmp|old)-\d+")

Result = TypeVar("Result")
Attempt = Callable[[Path, Manifest | None], Result]
"""Reads or verifies a checkpoint; gets its folder and its manifest, if that was read already."""
ManifestOrDamage = Manifest | Damaged | None
"""What reading a checkpoint's manifest gave; None if it was not read yet."""

_logger = logging.getLogger(__name__)


Loss = Annotated[float, Field(ge=-1e45, le=1e45)]
"""A sum of finite 32-bit losses; rounding can make it slightly negative."""


@dataclass(frozen=True)
class Best:
    """The step with the lowest validation loss so far."""

    step: Annotated[int, Field(ge=1, le=2**53)]
    loss: Loss

    @property
    def checkpoint(self) -> str:
        """The name of its folder under `RUN/checkpoints`."""
        return folder_name(self.step)


_BEST: TypeAdapter[Best | None] = TypeAdapter(Best | None, config=ConfigDict(extra="forbid"))


@dataclass(frozen=True)
class AveragedSteps:
    """Which checkpoints are averaged: the last `count` whose step is a multiple of `every`.

    A run also has checkpoints at other steps, from signals and from evaluations with a better
    loss. They are not averaged, so that a resumed run averages the same as an uninterrupted one.
    """

    count: int
    every: int

    def holds(self, folder: Path) -> bool:
        """Whether the step of a checkpoint folder is a multiple of `every`."""
        return int(folder.name) % self.every == 0


def save(
    run: Path,
    snapshot: Snapshot,
    keep: int,
    best: Best | None,
    averaged_steps: AveragedSteps | None = None,
) -> Path:
    """Write the checkpoint of one step and remove old checkpoints that are no longer needed.

    A sound checkpoint of the same step is left unchanged, a damaged one is replaced.

    Args:
        run: The folder of the run.
        snapshot: What to write.
        keep: Number of last sound checkpoints to keep.
        best: The best checkpoint so far, as the snapshot records it; it is kept, and `best.json`
            names it.
        averaged_steps: The checkpoints to be averaged, which are kept, too.

    Returns:
        The folder of the checkpoint.
    """
    folder = run / CHECKPOINTS / folder_name(snapshot.step)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        files.sync(run)
        if folder.exists() and not is_sound(folder):
            _discard(folder)
        if not folder.exists():
            write_checkpoint(folder, snapshot)
        _write_best(run, best)
        # Last: the old best must stay until a checkpoint that records the new best is in place.
        _prune(run, folder, keep, best, averaged_steps)
    except OSError as error:
        intact = next((path.name for path in _checkpoints(run) if is_sound(path)), None)
        state = f"checkpoint {intact} is whole" if intact else "there is no earlier checkpoint"
        state = f"{state}; fix the cause, then continue with --resume"
        raise files.write_error(f"checkpoint {folder}", error, state) from error
    return folder


def latest(run: Path) -> tuple[Path, Snapshot, list[str]] | None:
    """Find and read the newest sound checkpoint of a run, training state included.

    Returns:
        Its folder, its contents, and one message for each newer checkpoint that is damaged. None if
        the run has no checkpoint yet.

    Raises:
        InputError: All checkpoints are damaged, or one has the folder name of another step.
    """
    folders, manifests = _checkpoints(run), dict[Path, Manifest]()
    # All manifests are read, to refuse a folder whose name is another step: older checkpoints are
    # removed and averaged by the step in their folder's name.
    for folder in folders:
        with suppress(Damaged):
            manifests[folder] = _manifest_in_run(folder)
    if not folders:
        return None
    with_manifests = ((folder, manifests.get(folder)) for folder in folders)
    return _first_sound(run, with_manifests, partial(read, training=True))


def to_resume(run: Path, changed_keys: Callable[[str, str], list[str]]) -> Snapshot | None:
    """Finds the checkpoint that a run resumes from, and warns of damaged ones or of none.

    Args:
        run: The folder of the run.
        changed_keys: From the text and the file of the run's recipe, the keys that have changed
            since and may not.

    Returns:
        The contents of the checkpoint; None if the run has none yet.

    Raises:
        InputError: As `latest`; or the recipe has changed.
    """
    newest_sound = latest(run)
    if newest_sound is None:
        _logger.warning("no checkpoint was found in %s: training starts from step 0", run)
        return None
    folder, snapshot, messages = newest_sound
    for message in messages:
        _logger.warning(message)
    if changed := changed_keys(snapshot.recipe, str(folder / RECIPE)):
        more_keys = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
        what = f"--resume with another recipe: {', '.join(changed[:3])}{more_keys} changed"
        fix = "resume with the recipe of the run (its recipe.yaml), or choose another folder"
        raise InputError(what, fix=fix)
    return snapshot


def read_chosen(path: Path, config: bytes = b"") -> Snapshot:
    """Read the checkpoint that `find` gives, without the state for resuming.

    Args:
        path: As for `find`.
        config: The bytes of `config.json` in `path` itself, if they were read already.
    """

    def attempt(folder: Path, manifest: Manifest | None) -> Snapshot:
        return read(folder, manifest, config=config if folder == path else b"")

    return _find_and_read(path, attempt)[1]


def read_chosen_tokenizer(path: Path, config: bytes = b"") -> str:
    """The text of `tokenizer.json` in the checkpoint that `find` gives; no weights are read."""

    def attempt(folder: Path, manifest: Manifest | None) -> str:
        return read_tokenizer(folder, manifest, config if folder == path else b"")

    return _find_and_read(path, attempt)[1]


def find(path: Path) -> Path:
    """Give the checkpoint to use for a folder.

    Args:
        path: A checkpoint folder, or a run. For a run it is the best checkpoint, or the newest
            sound one if no best is recorded or the best is damaged (then a warning is logged).
    """
    return _find_and_read(path, lambda folder, _: verify(folder))[0]


def _find_and_read(path: Path, attempt: Attempt[Result]) -> tuple[Path, Result]:
    """The folder of the checkpoint to use, and the result of `attempt` on it.

    A training that is still running may delete a checkpoint while it is being read here. So if one
    cannot be read and the list of checkpoints has changed, the search is repeated.
    """
    try:
        if (path / MANIFEST).is_file():
            return path, attempt(path, None)
        for tries_left in reversed(range(_MAX_TRIES)):
            folders = _checkpoints(path)
            try:
                if not folders:
                    raise _no_checkpoint_error(path)
                folder, result, messages = _first_sound(path, _by_preference(folders), attempt)
            except InputError:
                if not tries_left or _checkpoints(path) == folders:
                    raise
                continue
            if not messages or not tries_left or _checkpoints(path) == folders:
                break
    except PermissionError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    for message in messages:
        _logger.warning(message)
    return folder, result


def _by_preference(folders: list[Path]) -> Iterator[tuple[Path, ManifestOrDamage]]:
    """Yields checkpoints in the order in which they are tried, each with its manifest if known.

    First comes the best, as the newest checkpoint with an intact `training.json` records it, then
    all others, newest first. A checkpoint that records itself as the best may turn out to be
    damaged when it is read; so the records of older ones follow until one names another as best.
    """
    manifests: dict[Path, Manifest] = {}
    for folder in folders:
        try:
            manifest = _manifest_in_run(folder)
            best = _recorded_best(folder, manifest)
        except Damaged as problem:
            yield folder, problem
            continue
        manifests[folder] = manifest
        if best is not None:
            best_folder = folder.with_name(best.checkpoint)
            yield best_folder, manifests.get(best_folder)
        if best is None or best.checkpoint != folder.name:
            break
    yield from ((folder, manifests.get(folder)) for folder in folders)


def _recorded_best(folder: Path, manifest: Manifest) -> Best | None:
    """The best checkpoint so far, as a checkpoint's `training.json` records it."""
    data = verify_file(folder, manifest, TRAINING)
    try:
        state = parse_json(data).get("place")
    except ValueError as error:
        raise Damaged(folder, TRAINING, "has invalid contents") from error
    if not isinstance(state, dict) or "best" not in state:
        raise InputError(f"{folder / TRAINING}", got="no place.best", expected="one, or null")
    best = checked(_BEST, state["best"], f"{folder / TRAINING}: place.best")
    if best is not None and best.step > int(folder.name):
        what = f"{folder / TRAINING}: place.best.step"
        raise InputError(what, got=best.step, expected="no later step")
    return best


def _manifest_in_run(folder: Path) -> Manifest:
    """The manifest of a run's checkpoint; refuses a model without training state."""
    manifest = read_manifest(folder)
    if TRAINING not in manifest.files:
        fix = "it is not a checkpoint of this run; put it somewhere else"
        raise InputError(f"{folder} holds no training state", fix=fix)
    return manifest


def newest(path: Path) -> Path:
    """The newest checkpoint of a run, or the folder itself if it is one; no file is verified."""
    if (path / MANIFEST).is_file():
        return path
    if not (folders := _checkpoints(path)):
        raise _no_checkpoint_error(path)
    return folders[0]


def read_best(run: Path) -> Best | None:
    """The best checkpoint, as the newest readable one records it; None if there is none."""
    for folder in _checkpoints(run):
        with suppress(InputError):
            return _recorded_best(folder, _manifest_in_run(folder))
    return None


def refresh_best(run: Path, best: Best | None) -> Best | None:
    """Rewrite `best.json` when a run is resumed, and drop a best checkpoint that is not sound.

    `best.json` is outdated if a process died after writing a checkpoint and before `best.json`.

    Returns:
        `best`, or None if its checkpoint is missing or damaged.
    """
    if best is not None and not is_sound(run / CHECKPOINTS / best.checkpoint):
        _logger.warning(
            "the best checkpoint, %s, is missing or damaged; the next evaluated one counts as best",
            best.checkpoint,
        )
        best = None
    _write_best(run, best)
    return best


def _write_best(run: Path, best: Best | None) -> None:
    """Write `best.json`, or remove it if there is no best checkpoint."""
    if best is not None and (run / CHECKPOINTS / best.checkpoint).is_dir():
        record = {"step": best.step, "loss": best.loss, "checkpoint": best.checkpoint}
        files.write_file(run / "best.json", to_json_bytes(record))
    else:
        with files.reporting(str(run / "best.json"), "the checkpoints are whole"):
            (run / "best.json").unlink(missing_ok=True)


class RunLock:
    """A lock that lets one process at a time write into a run's folder.

    Taking the lock also removes files that a killed process left half-written. If the body is
    refused with an `InputError` before anything is logged, a new folder is removed again.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as run, RunLock(Path(run)):
        ...     pass
    """

    def __init__(self, run: Path) -> None:
        self.run, self.file = run, run / ".lock"
        self.created = False
        """Whether this lock created the folder."""
        self._descriptor: int | None = None

    def __enter__(self) -> RunLock:
        with files.reporting(str(self.file), "nothing was changed"):
            while self._descriptor is None:
                self.created = self._make_folder()
                self._descriptor = self._take_lock()
            try:
                for name in ("checkpoints", "tensorboard"):
                    files.refuse_link(self.run / name, folder=True)
                files.refuse_link(self.run / "metrics.jsonl")
                _remove_unfinished(self.run)
            except BaseException:
                self._release()
                raise
        return self

    def _make_folder(self) -> bool:
        """Makes the run's folder; returns whether it was created, not there before."""
        try:
            self.run.mkdir(parents=True)
        except FileExistsError:
            try:
                # One call, since another process may remove the folder at any moment.
                folder = stat.S_ISDIR(self.run.stat().st_mode)
            except FileNotFoundError:
                if self.run.is_symlink():
                    raise
                return False
            if not folder:
                expected = "a folder or a new name"
                raise InputError(str(self.run), got="a file", expected=expected) from None
            return False
        return True

    def _take_lock(self) -> int | None:
        """Lock the file and return its descriptor.

        Returns:
            None if the process that held the lock before has removed the folder meanwhile.

        Raises:
            InputError: Another process holds the lock.
        """
        try:
            descriptor = files.open_own(self.file, os.O_RDWR | os.O_CREAT)
        except FileNotFoundError:
            return None
        try:
            # The kernel releases the lock when the process ends, however it ends.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not _is_same_file(self.file, descriptor):
                os.close(descriptor)
                return None
            os.ftruncate(descriptor, 0)
            os.write(descriptor, str(os.getpid()).encode())
        except BlockingIOError as error:
            owner = os.read(descriptor, 20).decode("ascii", "replace")
            os.close(descriptor)
            what = f"another process{owner and f' ({owner})'} is training in {self.run}"
            fix = "wait until it ends, or choose another folder"
            raise InputError(what, fix=fix) from error
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def remove(self) -> None:
        """Remove the run's folder while the lock is held.

        The lock file is removed last, so that until then no other process can start to write here.
        """
        for path in self.run.iterdir():
            if path != self.file:
                files.remove(path)
        self.file.unlink(missing_ok=True)
        with suppress(OSError):  # another process may already use the folder again
            self.run.rmdir()

    def _release(self) -> None:
        """Releases the lock, by closing its file."""
        assert self._descriptor is not None
        os.close(self._descriptor)
        self._descriptor = None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        refused = isinstance(error, InputError) and self.created
        if refused and not (self.run / "metrics.jsonl").exists():
            self.remove()
        self._release()


def _is_same_file(path: Path, descriptor: int) -> bool:
    """Whether a path still refers to the file that was opened."""
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _discard(folder: Path) -> None:
    """Remove a checkpoint. It is renamed first, so that its name never has an incomplete folder."""
    renamed = files.hidden_sibling(folder, "old")
    files.remove(renamed)
    folder.rename(renamed)
    files.remove(renamed)


def _first_sound(
    run: Path, folders: Iterable[tuple[Path, ManifestOrDamage]], attempt: Attempt[Result]
) -> tuple[Path, Result, list[str]]:
    """Tries checkpoints in order until one is not damaged.

    Returns:
        Its folder, the result of `attempt`, and a message for each damaged one before it.

    Raises:
        InputError: All are damaged.
    """
    damaged: dict[Path, str] = {}
    for folder, manifest in folders:
        if folder in damaged:
            continue
        try:
            if isinstance(manifest, Damaged):
                raise manifest
            result = attempt(folder, manifest)
        except Damaged as problem:
            reason = f"{problem.file}: {problem.problem}"
            damaged[folder] = f"checkpoint {folder.name} is damaged ({reason})"
            continue
        return folder, result, [f"{message}; using {folder.name}" for message in damaged.values()]
    more = f", and {len(damaged) - 1} more" if len(damaged) > 1 else ""
    what = f"{run} has no intact checkpoint: {next(iter(damaged.values()))}{more}"
    fix = "restore one from a copy, or train again into another folder"
    raise InputError(what, fix=fix)


def _no_checkpoint_error(path: Path) -> InputError:
    """The error for a path without checkpoints; it says what is there instead."""
    fix = "name the folder given to `regard train -o`, or one of its checkpoints"
    if not path.exists():
        got = "nothing there"
    elif not path.is_dir():
        got = "a file"
    elif path.name == CHECKPOINTS and _checkpoints(path.parent):
        got, fix = "the checkpoints of a run", f"name the run: {path.parent}"
    elif (config := path / CONFIG).is_file():
        is_own = b'"regard"' in files.read_regular(config, LARGEST[CONFIG])
        got = "a checkpoint without its manifest" if is_own else "a Hugging Face folder, it seems"
    elif (path / CHECKPOINTS).is_dir() or (path / RECIPE).is_file():
        got = "a run without a checkpoint yet"
        fix = "wait for its first one, or continue with `regard train ... --resume`"
    elif any(path.glob("*.safetensors")):
        got = f"weights without their {CONFIG}"
        fix = "take the file from another copy of the model"
    else:
        got = "no checkpoint in it" if any(path.iterdir()) else "an empty folder"
    return InputError(str(path), got=got, expected="a run or a checkpoint", fix=fix)


def _checkpoints(run: Path) -> list[Path]:
    """The checkpoint folders of a run, newest first."""
    folder = run / CHECKPOINTS
    entries = folder.iterdir() if folder.is_dir() else iter(())
    named = (path for path in entries if re.fullmatch("[0-9]{8,}", path.name) and path.is_dir())
    return sorted(named, key=lambda path: int(path.name), reverse=True)


def _prune(
    run: Path, saved: Path, keep: int, best: Best | None, averaged_steps: AveragedSteps | None
) -> None:
    """Remove all but the last `keep` sound checkpoints, the best one, and those to be averaged.

    A folder with a later step than the saved one was damaged when the run was resumed. It is left
    until the run reaches that step again and replaces it.
    """
    kept_count, to_average = 0, 0 if averaged_steps is None else averaged_steps.count
    for folder in _checkpoints(run):
        if int(folder.name) > int(saved.name):
            continue
        sound = folder == saved or (kept_count < keep and is_sound(folder))
        keeps = sound or kept_count < keep or (best is not None and folder.name == best.checkpoint)
        kept_count += sound
        if averaged_steps is not None and averaged_steps.holds(folder) and to_average > 0:
            to_average -= 1
        elif not keeps:
            _discard(folder)


def _remove_unfinished(run: Path) -> None:
    """Remove half-written files of dead processes; the caller must hold the run's lock."""
    for folder in (run, run / CHECKPOINTS):
        for path in folder.iterdir() if folder.is_dir() else ():
            if _UNFINISHED.fullmatch(path.name):
                files.remove(path)


def last_weights(run: Path, averaged_steps: AveragedSteps, before: int) -> list[dict[str, Tensor]]:
    """The weights of the last sound checkpoints to be averaged before a step, newest first.

    They are those of the training itself. If a run was finished and later extended, its former last
    checkpoint may hold an average, with the training's weights beside it, as `weights.NAME`.
    """
    folders = _checkpoints(run)
    earlier = (f for f in folders if int(f.name) < before and averaged_steps.holds(f))
    weights: list[dict[str, Tensor]] = []
    for folder in earlier:
        if len(weights) >= averaged_steps.count:
            break
        with suppress(Damaged, Misnamed):
            snapshot = read(folder, training=True)
            raw_weights, _ = snapshot.split_tensors()
            weights.append(raw_weights or snapshot.weights)
    return weights


def summary(run: Path) -> dict[str, int | float | None]:
    """A run's last step and best validation loss, for a listing."""
    folders, best = _checkpoints(run), read_best(run)
    step = int(folders[0].name) if folders else None
    return {"step": step, "best_loss": None if best is None else round(best.loss, 4)}
