"""A checkpoint is a folder people know, whole or not there, and nothing in it can run code.

In: a `Snapshot` of a training run. Out: `RUN/checkpoints/00001000/`, and the way back::

    config.json           the format ("regard": 1), the family and the sizes of the model; "stored"
                          if the weights take fewer bits than 32 (`storage.py`)
    model.safetensors     the weights; a tied weight is stored once, its other names in the header
    tokenizer.json        text <-> ids
    recipe.yaml           what was trained
    training.safetensors  optimizer, averaged weights, random states   } left out of a model
    training.json         step, place in the data, schedule, ...       } that is only to be used
    manifest.json         written last: size and SHA-256 of each file above, and of itself

A folder is written under a temporary name beside its place, synced, and renamed into place. So a
process killed at any moment, or a full disk, leaves every earlier checkpoint as it was; and since
safetensors has no checksum of its own, whatever is loaded is compared with the manifest.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from regard.config import Config
from regard.errors import InputError
from regard.runtime.device import check_memory, memory
from regard.runtime.files import (
    PIECE,
    open_regular,
    read_regular,
    reporting,
    sync,
    temporary_beside,
    write_synced,
)

if TYPE_CHECKING:
    from torch import Tensor  # torch is imported where tensors are read: listings need none

FORMAT = 1
"""The number under "regard" in `config.json`; another number is another layout of the folder."""
STORED = "stored"
"""The key of `config.json` that says how the weights are stored, if not in 32 bits."""

CONFIG, MODEL = "config.json", "model.safetensors"
TOKENIZER, RECIPE = "tokenizer.json", "recipe.yaml"
TRAINING, TRAINING_TENSORS = "training.json", "training.safetensors"
MANIFEST = "manifest.json"
FOR_USE = {CONFIG, MODEL, TOKENIZER, RECIPE}
FOR_RESUMING = {TRAINING, TRAINING_TENSORS}
CHECKPOINTS = "checkpoints"
"""The folder of a run that its checkpoints stand in."""
LARGEST = {MANIFEST: 2**20, CONFIG: 2**24, TOKENIZER: 2**28, RECIPE: 2**24, TRAINING: 2**24}
"""Bytes that are read, whatever a manifest says; of tensors, as many as the machine's memory."""

_ODD = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""What reading ends in where a manifest vouches for nonsense."""


class Damaged(InputError):
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


class Misnamed(InputError):
    """A checkpoint that stands in a run under the name of another step."""


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


def write_folder(folder: Path, snapshot: Snapshot) -> None:
    """Write one checkpoint folder anywhere, whole or not at all.

    Args:
        folder: A new name, or an empty folder; its parents are made.
        snapshot: What to write.
    """
    folder = folder.absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} is taken", fix="choose a new name or an empty folder")
    with reporting(f"checkpoint {folder}", "nothing was left behind"):
        folder.parent.mkdir(parents=True, exist_ok=True)
        put(folder, snapshot)


def read(
    folder: Path, known: Manifest | None = None, *, training: bool = False, config: bytes = b""
) -> Snapshot:
    """Read a checkpoint, each file once, compared with the manifest as it is read.

    Args:
        folder: One checkpoint folder.
        known: Its manifest, if that was read already.
        training: Read what resuming needs, too; without it those two parts are empty, and of
            their files only the sizes are compared.
        config: The bytes of its `config.json`, if they were read already.

    Raises:
        Damaged: A file is missing, cut short or changed.
    """
    manifest = known or read_manifest(folder)
    if training and TRAINING not in manifest.files:
        raise InputError(
            f"checkpoint {folder} holds no training state",
            fix="it can be used, but training cannot be resumed from it",
        )
    for name in () if training else manifest.files.keys() & FOR_RESUMING:
        with _reading(folder, name):
            _check_size(folder, manifest, name, (folder / name).stat().st_size)
    described = _described(folder, manifest, config)
    store = described.get(STORED, "fp32")
    return Snapshot(
        step=manifest.step,
        config=described,
        weights=_tensors(folder, manifest, MODEL, store),
        tokenizer=_part(folder, manifest, TOKENIZER, bytes.decode),
        recipe=_part(folder, manifest, RECIPE, bytes.decode),
        training_tensors=_tensors(folder, manifest, TRAINING_TENSORS) if training else {},
        training=_part(folder, manifest, TRAINING, parse_json) if training else {},
    )


def read_tokenizer(folder: Path, known: Manifest | None = None, config: bytes = b"") -> str:
    """The text of a checkpoint's `tokenizer.json`, compared with the manifest; no weights are read.

    Raises:
        Damaged: It is missing, cut short or changed.
    """
    manifest = known or read_manifest(folder)
    _described(folder, manifest, config)
    text: str = _part(folder, manifest, TOKENIZER, bytes.decode)
    return text


def _described(folder: Path, manifest: Manifest, data: bytes = b"") -> dict[str, Any]:
    """What `config.json` says, if it is of this layout of the folder."""
    config: dict[str, Any] = _part(folder, manifest, CONFIG, parse_json, data)
    if config.get("regard") != FORMAT:
        raise InputError(
            f'{folder / CONFIG}: "regard"',
            got=config.get("regard", "nothing"),
            expected=FORMAT,
            fix="it was written by another version of regard; use that one",
        )
    return config


def _part(
    folder: Path, manifest: Manifest, name: str, parse: Callable[[bytes], Any], data: bytes = b""
) -> Any:
    """What a file holds, compared with the manifest first."""
    data = verify_file(folder, manifest, name, data)
    try:
        return parse(data)
    except _ODD as error:
        raise _unlike(folder, name) from error


def _tensors(
    folder: Path, manifest: Manifest, name: str, store: object = "fp32"
) -> dict[str, Tensor]:
    """The tensors of a file, in 32 bits if it stores them in fewer."""
    from regard.runtime.tensors import TensorFile
    from regard.train.checkpoint.storage import IN_16_BITS, check_store, restored

    store = check_store(store, f'{folder / CONFIG}: "{STORED}"')
    file, narrow = str(folder / name), store != "fp32"
    with _compared(folder, manifest, name) as stream:
        held = TensorFile(stream, manifest.files[name].size)
        if narrow:
            check_memory(f"{file}: its weights in 32 bits", 4 * held.numbers)
        stored = held.read(wide=IN_16_BITS if narrow else ())
    try:
        tensors = restored(stored, store, file)
        aliases = json.loads(held.remarks.get("aliases", "{}"))
        tensors |= {alias: tensors[first] for alias, first in aliases.items()}
    except _ODD as error:
        raise _unlike(folder, name) from error
    return {each: tensors[each] for each in sorted(tensors)}


def _unlike(folder: Path, name: str) -> Damaged:
    return Damaged(folder, name, "cannot be read as what its name says")


class _Stored(Config):
    """One file in the manifest."""

    size: int = Field(ge=0)
    sha256: str

    @classmethod
    def of(cls, data: bytes) -> _Stored:
        return cls(size=len(data), sha256=hashlib.sha256(data).hexdigest())


class Manifest(Config):
    """What a checkpoint is made of."""

    step: int = Field(ge=0)
    files: dict[str, _Stored]

    def render(self) -> bytes:
        """The one way to write it: its own checksum comes along, and every byte is determined."""
        content = self.model_dump()
        own = hashlib.sha256(to_json_bytes(content)).hexdigest()
        return to_json_bytes({**content, "self": own})


def put(folder: Path, snapshot: Snapshot) -> None:
    """Write a checkpoint beside its place, then rename it into place."""
    with temporary_beside(folder) as temporary:
        temporary.mkdir()
        files = {}
        for name, data in _pack_snapshot(snapshot):
            write_synced(temporary / name, data)
            files[name] = _Stored.of(data)
        write_synced(temporary / MANIFEST, Manifest(step=snapshot.step, files=files).render())
        sync(temporary)
        temporary.rename(folder)
        sync(folder.parent)


def _pack_snapshot(snapshot: Snapshot) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a checkpoint one by one, so that only one is in memory."""
    yield CONFIG, to_json_bytes({"regard": FORMAT, **snapshot.config})
    yield MODEL, _pack(snapshot.weights, snapshot.config.get(STORED, "fp32"))
    yield TOKENIZER, snapshot.tokenizer.encode()
    yield RECIPE, snapshot.recipe.encode()
    if snapshot.training or snapshot.training_tensors:
        yield TRAINING_TENSORS, _pack(snapshot.training_tensors)
        yield TRAINING, to_json_bytes(snapshot.training)


def _pack(tensors: Mapping[str, Tensor], store: object = "fp32") -> bytes:
    """Serialize tensors; one that has several names is stored under the first of them."""
    import safetensors.torch

    from regard.train.checkpoint.storage import check_store, shrunk

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
    header = {"aliases": json.dumps(aliases)} if aliases else None
    return safetensors.torch.save(shrunk(stored, check_store(store, STORED)), header)


def verify(folder: Path) -> None:
    """Compare every file with the manifest.

    Raises:
        Damaged: A file is not what was written.
        Misnamed: In a run, all is well but for the folder's name.
    """
    manifest = read_manifest(folder)
    for name in manifest.files:
        with _compared(folder, manifest, name, keep=False):
            pass  # what the body leaves is read, too


def read_manifest(folder: Path) -> Manifest:
    """What a checkpoint is made of, as it was written.

    Raises:
        Damaged: The manifest is not what was written.
        Misnamed: It is of another step than the name that the folder has in its run.
    """
    with _reading(folder, MANIFEST):
        written = read_regular(folder / MANIFEST, LARGEST[MANIFEST])
    try:
        content = parse_json(written)
        content.pop("self", None)
        manifest = Manifest.model_validate(content)
        same = manifest.render() == written
    except ValueError as error:
        raise Damaged(folder, MANIFEST, "cannot be read") from error
    if not same:
        raise Damaged(folder, MANIFEST, "checksum differs")
    if set(manifest.files) not in (FOR_USE, FOR_USE | FOR_RESUMING):
        raise Damaged(folder, MANIFEST, "does not list the files of a checkpoint")
    _check_name(folder, manifest)
    return manifest


def _check_name(folder: Path, manifest: Manifest) -> None:
    """Refuses a copy or a link under another step's name; a model elsewhere may be named freely."""
    place = Path(os.path.normpath(folder.absolute()))  # not resolved: the name of a link counts
    if place.parent.name != CHECKPOINTS or not re.fullmatch("[0-9]{8,}", place.name):
        return
    if TRAINING in manifest.files and place.name != folder_name(manifest.step):
        raise Misnamed(
            str(folder),
            got=f"the checkpoint of step {manifest.step}, by its {MANIFEST}",
            expected=f"that of step {int(place.name)}, by its name",
            fix="remove it: a copy or a link under another name would pass for that step",
        )


def verify_file(folder: Path, manifest: Manifest, name: str, data: bytes = b"") -> bytes:
    """Give the bytes of a file, compared with the manifest.

    Args:
        folder: The checkpoint.
        manifest: Of the checkpoint.
        name: Of the file.
        data: Its bytes, if they were read already.
    """
    if not data:
        with _compared(folder, manifest, name) as stream:
            data = stream.read(manifest.files[name].size)
    else:
        _check_size(folder, manifest, name, len(data))
        if _Stored.of(data) != manifest.files[name]:
            raise Damaged(folder, name, "checksum differs")
    return data


def _check_size(folder: Path, manifest: Manifest, name: str, size: int) -> None:
    if size != (expected := manifest.files[name].size):
        raise Damaged(folder, name, f"{size} bytes instead of {expected}")


class _Compared:
    """A file whose checksum is computed while it is read."""

    def __init__(self, file: BufferedReader) -> None:
        self._file, self.checksum = file, hashlib.sha256()

    def readinto(self, place: memoryview, /) -> int:
        """Fill a place as far as there are bytes; give how many."""
        count = self._file.readinto(place)
        self.checksum.update(place[:count])
        return count

    def read(self, size: int) -> bytes:
        """At most so many bytes."""
        data = self._file.read(size)
        self.checksum.update(data)
        return data


@contextmanager
def _compared(
    folder: Path, manifest: Manifest, name: str, *, keep: bool = True
) -> Iterator[_Compared]:
    """Open a file for a body that reads it, and compare its checksum after the body.

    What is wrong with a changed file is that it was changed, whatever the body made of it.

    Args:
        folder: The checkpoint.
        manifest: Of the checkpoint.
        name: Of the file, whose size is compared before the body.
        keep: Whether the body keeps what it reads: then the file may not be too large.
    """
    problem: Exception | None = None
    with _reading(folder, name), open_regular(folder / name) as file:
        _check_size(folder, manifest, name, size := os.fstat(file.fileno()).st_size)
        if keep and size > (most := LARGEST.get(name) or memory() or size):
            raise Damaged(folder, name, f"{size:,} bytes, of which at most {most:,} are read")
        stream = _Compared(file)
        try:
            yield stream
        except (*_ODD, InputError) as error:
            problem = error
        while stream.read(PIECE):
            pass
    if stream.checksum.hexdigest() != manifest.files[name].sha256:
        raise Damaged(folder, name, "checksum differs") from problem
    if isinstance(problem, InputError):
        raise problem
    if problem is not None:
        raise _unlike(folder, name) from problem


def sound(folder: Path) -> bool:
    """Whether a checkpoint is what was written."""
    try:
        verify(folder)
    except (Damaged, Misnamed):
        return False
    return True


@contextmanager
def _reading(folder: Path, name: str) -> Iterator[None]:
    """Turn what the system refuses, or what is no regular file, into `Damaged`."""
    try:
        yield
    except Damaged:
        raise
    except InputError as error:
        raise Damaged(folder, name, f"{error.got} instead of {error.expected}") from error
    except FileNotFoundError as error:
        raise Damaged(folder, name, "missing") from error
    except PermissionError as error:
        raise InputError(f"{folder / name} cannot be read: {error.strerror}") from error
    except OSError as error:
        raise Damaged(folder, name, error.strerror or str(error)) from error


def check_tensors(
    file: str, found: Mapping[str, Tensor], wanted: Mapping[str, Tensor], fix: str | None = None
) -> None:
    """Refuses tensors that are not those of a model, before anything is done with them.

    Args:
        file: Where they stand, for the error.
        found: By name.
        wanted: One of the right shape and type for each name; their numbers do not matter.
        fix: What to do.

    Raises:
        InputError: One is missing or too many, or its shape or type is another.
    """
    for name in sorted(found.keys() | wanted.keys()):
        got, expected = (_outline(name, tensors) for tensors in (found, wanted))
        if got != expected:
            raise InputError(file, got=got, expected=expected, fix=fix)


def _outline(name: str, tensors: Mapping[str, Tensor]) -> str:
    if name not in tensors:
        return f"no {name}"
    kind = str(tensors[name].dtype).removeprefix("torch.")
    return f"{name} of {tuple(tensors[name].shape)} {kind}"


def folder_name(step: int) -> str:
    """What the folder of a step is called in its run."""
    return f"{step:08d}"


def to_json_bytes(value: Mapping[str, Any]) -> bytes:
    """JSON as it stands in a checkpoint's files."""
    return (json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def parse_json(data: bytes) -> dict[str, Any]:
    """The JSON object in a file of a checkpoint.

    Raises:
        ValueError: There is none, or a number in it is not finite.
    """
    try:
        value = json.loads(data, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError("a JSON object was expected")  # noqa: TRY004 (callers catch ValueError)
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")
