"""A checkpoint is a folder people know, whole or not there, and nothing in it can run code.

In: a `Snapshot` of a training run. Out: `RUN/checkpoints/00001000/`, and the way back::

    config.json           the format ("regard": 1), the family and the sizes of the model
    model.safetensors     the weights; a tied weight is stored once, its other names in the header
    tokenizer.json        text <-> ids
    recipe.yaml           what was trained
    training.safetensors  optimizer, averaged weights, random states   } left out of a model
    training.json         step, place in the data, schedule, ...       } that is only to be used
    manifest.json         written last: size and SHA-256 of each file above, and of itself

A folder is written under a temporary name beside its place, synced, and renamed into place. So a
process killed at any moment, or a full disk, leaves every earlier checkpoint as it was; and since
safetensors has no checksum of its own, whatever is loaded is first compared with the manifest.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import logging
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TypeVar

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from regard.config import Config
from regard.errors import InputError, WriteError

FORMAT = 1
"""The number under "regard" in `config.json`; another number is another layout of the folder."""

CONFIG, MODEL = "config.json", "model.safetensors"
TOKENIZER, RECIPE = "tokenizer.json", "recipe.yaml"
TRAINING, TRAINING_TENSORS = "training.json", "training.safetensors"
MANIFEST = "manifest.json"
_FOR_USE = {CONFIG, MODEL, TOKENIZER, RECIPE}
_FOR_RESUMING = {TRAINING, TRAINING_TENSORS}
_UNFINISHED = re.compile(r"\..+\.(tmp|old)-\d+")

Result = TypeVar("Result")

_logger = logging.getLogger(__name__)


class Damaged(InputError):  # noqa: N818 (it is what the checkpoint is)
    """A checkpoint that is not what was written.

    Args:
        folder: The checkpoint.
        file: The first file found wrong.
        problem: What is wrong with it.
    """

    def __init__(self, folder: Path, file: str, problem: str) -> None:
        self.folder, self.file, self.problem = folder, file, problem
        super().__init__(
            f"checkpoint {folder} is damaged ({file}: {problem})",
            fix="use another checkpoint of the run, or a fresh copy of this one",
        )


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Everything a checkpoint holds, in memory.

    Attributes:
        step: Optimizer steps taken.
        weights: Parameters and buffers by name; names of one tensor (tied weights) stay one tensor.
        config: What rebuilds the model; values as JSON has them.
        tokenizer: The text of `tokenizer.json`.
        recipe: The text of `recipe.yaml`.
        training_tensors: What resuming needs as tensors; empty in a model that is only to be used.
        training: What resuming needs beside them; values as JSON has them (no tuples, no infinity).
    """

    step: int
    weights: dict[str, Tensor]
    config: dict[str, Any]
    tokenizer: str
    recipe: str
    training_tensors: dict[str, Tensor] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Best:
    """The step with the lowest validation loss so far."""

    step: int
    loss: float

    @property
    def checkpoint(self) -> str:
        """The name of its folder under `RUN/checkpoints`."""
        return _name(self.step)


def save(run: Path, snapshot: Snapshot, keep: int, best: Best | None) -> Path:
    """Write the checkpoint of one step and drop those no longer wanted.

    A sound checkpoint of the same step is left as it is, a damaged one is replaced.

    Args:
        run: The folder of the run.
        snapshot: What to write.
        keep: How many of the last sound checkpoints stay; the best one always does.
        best: Recorded in `best.json`, provided its checkpoint is there; None leaves the record.

    Returns:
        The folder of the checkpoint.
    """
    folder = run / "checkpoints" / _name(snapshot.step)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _sync(run)
        if folder.exists() and not _sound(folder):
            _discard(folder)
        if not folder.exists():
            _put(folder, snapshot)
        if best and (folder.parent / best.checkpoint).is_dir():
            record = {"step": best.step, "loss": best.loss, "checkpoint": best.checkpoint}
            write_file(run / "best.json", _json(record))
        # Only now: until `best.json` names the new best, the old one must stay.
        _prune(run, folder, keep)
    except OSError as error:
        whole = next((one.name for one in _checkpoints(run) if _sound(one)), None)
        state = f"checkpoint {whole} is whole" if whole else "there is no earlier checkpoint"
        raise _not_written(
            f"checkpoint {folder}", error, f"{state}; put this right, then go on with --resume"
        ) from error
    return folder


def write_folder(folder: Path, snapshot: Snapshot) -> None:
    """Write one checkpoint folder anywhere, whole or not at all.

    Args:
        folder: A new name, or an empty folder; its parents are made.
        snapshot: What to write.
    """
    folder = folder.absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} is taken", fix="choose a new name or an empty folder")
    with _reporting(f"checkpoint {folder}", "nothing was left behind"):
        folder.parent.mkdir(parents=True, exist_ok=True)
        _put(folder, snapshot)


def read(folder: Path, *, training: bool = False) -> Snapshot:
    """Read a checkpoint, after every file of it was found to be what was written.

    Args:
        folder: One checkpoint folder.
        training: Read what resuming needs, too; without it those two parts are empty.

    Raises:
        Damaged: A file is missing, cut short or changed.
    """
    wanted = _FOR_USE | _FOR_RESUMING if training else _FOR_USE
    step, contents = _verify(folder, wanted)
    if training and TRAINING not in contents:
        raise InputError(
            f"checkpoint {folder} holds no training state",
            fix="it can be used, but training cannot be resumed from it",
        )
    return _unpack_snapshot(folder, step, contents)


def latest(run: Path) -> tuple[Path, Snapshot, list[str]] | None:
    """Find and read the newest sound checkpoint of a run, training state included.

    Returns:
        Its folder, what it holds, and one message for each newer, damaged one that was passed
        over. None if the run has no checkpoint yet.

    Raises:
        InputError: There are checkpoints, and all of them are damaged.
    """

    def load(folder: Path) -> Snapshot:
        return _unpack_snapshot(folder, *_verify(folder, _FOR_USE | _FOR_RESUMING))

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
    folder, _, messages = _first_sound(place, folders, _verify)
    for message in messages:
        _logger.warning(message)
    return folder


def read_best(run: Path) -> Best | None:
    """Read `best.json`; None if there is none, or none that can be read."""
    try:
        record = json.loads((run / "best.json").read_bytes())
        return Best(int(record["step"]), float(record["loss"]))
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        return None


def write_file(path: Path, data: bytes) -> None:
    """Put one file in its place, replacing what was there, whole or not at all."""
    temporary = _beside(path, "tmp")
    with _reporting(str(path), "what was there before is whole"):
        try:
            _write_synced(temporary, data)
            temporary.replace(path)
            _sync(path.parent)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise


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
        with _reporting(str(self.run / ".lock"), "nothing was changed"):
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


class _Stored(Config):
    """One file in the manifest."""

    size: int
    sha256: str

    @classmethod
    def of(cls, data: bytes) -> _Stored:
        return cls(size=len(data), sha256=hashlib.sha256(data).hexdigest())


class _Manifest(Config):
    """What a checkpoint is made of."""

    step: int
    files: dict[str, _Stored]

    def render(self) -> bytes:
        """The one way to write it: its own checksum comes along, and every byte is determined."""
        content = self.model_dump()
        return _json({**content, "self": hashlib.sha256(_json(content)).hexdigest()})


def _put(folder: Path, snapshot: Snapshot) -> None:
    """Write a checkpoint beside its place, then rename it into place."""
    temporary = _beside(folder, "tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir()
        files = {}
        for name, data in _pack_snapshot(snapshot):
            _write_synced(temporary / name, data)
            files[name] = _Stored.of(data)
        _write_synced(temporary / MANIFEST, _Manifest(step=snapshot.step, files=files).render())
        _sync(temporary)
        temporary.rename(folder)
        _sync(folder.parent)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _discard(folder: Path) -> None:
    """Remove a checkpoint; renamed first, so that nothing half there bears its name."""
    old = _beside(folder, "old")
    shutil.rmtree(old, ignore_errors=True)
    folder.rename(old)
    shutil.rmtree(old, ignore_errors=True)


def _pack_snapshot(snapshot: Snapshot) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a checkpoint one by one, so that only one is in memory."""
    yield CONFIG, _json({"regard": FORMAT, **snapshot.config})
    yield MODEL, _pack(snapshot.weights)
    yield TOKENIZER, snapshot.tokenizer.encode()
    yield RECIPE, snapshot.recipe.encode()
    if snapshot.training or snapshot.training_tensors:
        yield TRAINING_TENSORS, _pack(snapshot.training_tensors)
        yield TRAINING, _json(snapshot.training)


def _unpack_snapshot(folder: Path, step: int, contents: Mapping[str, bytes]) -> Snapshot:
    def part(name: str, parse: Callable[[bytes], Any]) -> Any:
        if name not in contents:
            return {}
        try:
            return parse(contents[name])
        except (ValueError, KeyError, TypeError, AttributeError, SafetensorError) as error:
            raise Damaged(folder, name, "cannot be read as what its name says") from error

    config = part(CONFIG, _parse)
    if config.get("regard") != FORMAT:
        raise InputError(
            f'{folder / CONFIG}: "regard"',
            got=config.get("regard", "nothing"),
            expected=FORMAT,
            fix="it was written by another version of regard; use that one",
        )
    return Snapshot(
        step=step,
        weights=part(MODEL, _unpack),
        config=config,
        tokenizer=part(TOKENIZER, bytes.decode),
        recipe=part(RECIPE, bytes.decode),
        training_tensors=part(TRAINING_TENSORS, _unpack),
        training=part(TRAINING, _parse),
    )


def _pack(tensors: Mapping[str, Tensor]) -> bytes:
    """Serialize tensors; one that has several names is stored under the first of them."""
    stored: dict[str, Tensor] = {}
    aliases: dict[str, str] = {}
    names: dict[object, str] = {}
    storages: set[int] = set()
    for name, tensor in tensors.items():
        tensor = tensor.detach()
        place = (tensor.device, tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
        if tensor.numel() and place in names:
            aliases[name] = names[place]
            continue
        names[place] = name
        # safetensors refuses tensors that overlap without being equal, so those get their own copy.
        storage = tensor.untyped_storage().data_ptr()
        stored[name] = (tensor.clone() if storage in storages else tensor).cpu().contiguous()
        storages.add(storage)
    # One key at most: safetensors writes several in random order, and equal content should
    # give equal bytes.
    return safetensors.torch.save(stored, {"aliases": json.dumps(aliases)} if aliases else None)


def _unpack(data: bytes) -> dict[str, Tensor]:
    stored = safetensors.torch.load(data)
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    aliases = json.loads(header.get("__metadata__", {}).get("aliases", "{}"))
    tensors = stored | {alias: stored[name] for alias, name in aliases.items()}
    return {name: tensors[name] for name in sorted(tensors)}  # safetensors gives a random order


def _verify(folder: Path, wanted: Collection[str] = ()) -> tuple[int, dict[str, bytes]]:
    """Compare every file with the manifest; give the step and the bytes of the wanted files."""
    written = _bytes(folder, MANIFEST)
    try:
        content = _parse(written)
        content.pop("self", None)
        manifest = _Manifest.model_validate(content)
    except ValueError as error:
        raise Damaged(folder, MANIFEST, "cannot be read") from error
    if manifest.render() != written:
        raise Damaged(folder, MANIFEST, "checksum differs")
    if set(manifest.files) not in (_FOR_USE, _FOR_USE | _FOR_RESUMING):
        raise Damaged(folder, MANIFEST, "does not list the files of a checkpoint")
    contents = {}
    for name, stored in manifest.files.items():
        # What is loaded later are these bytes, not the file again.
        data = _bytes(folder, name)
        if len(data) != stored.size:
            raise Damaged(folder, name, f"{len(data)} bytes instead of {stored.size}")
        if _Stored.of(data) != stored:
            raise Damaged(folder, name, "checksum differs")
        if name in wanted:
            contents[name] = data
    return manifest.step, contents


def _sound(folder: Path) -> bool:
    try:
        _verify(folder)
    except Damaged:
        return False
    return True


def _bytes(folder: Path, name: str) -> bytes:
    try:
        return (folder / name).read_bytes()
    except FileNotFoundError as error:
        raise Damaged(folder, name, "missing") from error
    except PermissionError as error:
        raise InputError(f"{folder / name} cannot be read: {error.strerror}") from error
    except OSError as error:
        raise Damaged(folder, name, error.strerror or str(error)) from error


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


def _prune(run: Path, saved: Path, keep: int) -> None:
    """Remove what is older than the last `keep` sound checkpoints, except the best.

    A folder of a later step was damaged when the run was resumed; it is left until the run gets
    there again and replaces it.
    """
    best = read_best(run)
    sound = 0
    for folder in _checkpoints(run):
        if int(folder.name) > int(saved.name):
            continue
        if sound < keep:
            sound += folder == saved or _sound(folder)
        elif best is None or folder.name != best.checkpoint:
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


@contextlib.contextmanager
def _reporting(what: str, state: str) -> Iterator[None]:
    """Turn what the system refuses (full disk, no permission) into a `WriteError`."""
    try:
        yield
    except OSError as error:
        raise _not_written(what, error, state) from error


def _not_written(what: str, error: OSError, state: str) -> WriteError:
    return WriteError(f"could not write {what}: {error.strerror or error}", fix=state)


def _write_synced(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    """Make the names in a folder survive a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _beside(path: Path, kind: Literal["tmp", "old"]) -> Path:
    return path.with_name(f".{path.name}.{kind}-{os.getpid()}")


def _name(step: int) -> str:
    return f"{step:08d}"


def _json(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _parse(data: bytes) -> dict[str, Any]:
    value = json.loads(data)
    if not isinstance(value, dict):
        raise ValueError("a JSON object was expected")  # noqa: TRY004 (callers catch ValueError)
    return value


def last_weights(run: Path, count: int, before: int) -> list[dict[str, Tensor]]:
    """The weights of the last `count` sound checkpoints of steps before one, newest first."""
    earlier = [folder for folder in _checkpoints(run) if int(folder.name) < before]
    sound = (folder for folder in earlier if _sound(folder))
    return [read(folder).weights for folder in islice(sound, count)]


def summary(run: Path) -> dict[str, int | float | None]:
    """What a listing says of a run: its last step, and its best validation loss."""
    folders, best = _checkpoints(run), read_best(run)
    return {
        "step": int(folders[0].name) if folders else None,
        "best_loss": None if best is None else best.loss,
    }
