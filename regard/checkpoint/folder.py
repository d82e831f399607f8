"""Writes and reads one checkpoint folder.

In: a `Snapshot` of a training run. Out: `RUN/checkpoints/00001000/`, and the snapshot read back::

    config.json           the format ("regard": 2), the family and the sizes of the model; "stored"
                          if the weights take fewer bits than 32 (`storage.py`)
    model.safetensors     the weights; a tied weight is stored once, its other names in the header
    tokenizer.json        text <-> ids
    recipe.yaml           the recipe of the training
    seen.bin              hashes of the training examples; not in models of older versions, nor in
                          those that were trained elsewhere
    training.safetensors  optimizer state, raw weights if the model is an  } left out of a model
                          average, random state                            } that is only for use
    training.json         step, position in the data, best loss, ...       }
    manifest.json         written last: size and SHA-256 of each file above, and of itself

A folder is written under a temporary name beside its final one, synced, and renamed. So a process
killed at any moment, or a full disk, leaves all earlier checkpoints unchanged and never an
incomplete one. safetensors has no checksums, so each file that is loaded is compared with the
manifest. No file can run code when it is loaded (no pickles).
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
from typing import TYPE_CHECKING, Any, TypeVar

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

T = TypeVar("T")
FORMATS = (1, 2)
"""Versions of a model's config that can be read, under the key "regard" in `config.json`."""
STORED = "stored"
"""The key of `config.json` that says how the weights are stored, if not in 32 bits."""

CONFIG, MODEL = "config.json", "model.safetensors"
TOKENIZER, RECIPE = "tokenizer.json", "recipe.yaml"
TRAINING, TRAINING_TENSORS = "training.json", "training.safetensors"
SEEN = "seen.bin"
MANIFEST = "manifest.json"
FOR_USE = {CONFIG, MODEL, TOKENIZER, RECIPE}
FOR_RESUMING = {TRAINING, TRAINING_TENSORS}
RAW_WEIGHTS = "weights."
"""Before the names of tensors in `training.safetensors` that are the weights of the training."""
CHECKPOINTS = "checkpoints"
"""The folder of a run that holds its checkpoints."""
LARGEST = {MANIFEST: 2**20, CONFIG: 2**24, TOKENIZER: 2**28, RECIPE: 2**24, TRAINING: 2**24,
           SEEN: 2**20}  # fmt: skip
"""Largest size of each file in bytes, whatever a manifest says. Files of tensors may be as large as
the machine's memory."""

_PARSE_ERRORS = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""Errors that parsing raises if a file matches its checksum but has invalid contents."""


class Damaged(InputError):
    """The error for a checkpoint whose files are missing, cut short or changed.

    Args:
        folder: The checkpoint.
        file: The first file found wrong.
        problem: What is wrong with it.
    """

    def __init__(self, folder: Path, file: str, problem: str) -> None:
        self.folder, self.file, self.problem = folder, file, problem
        fix = "use another checkpoint of the run, or a fresh copy of this one"
        super().__init__(f"checkpoint {folder} is damaged ({file}: {problem})", fix=fix)


class Misnamed(InputError):
    """The error for a checkpoint in a run whose folder has the name of another step."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The contents of a checkpoint in memory.

    Attributes:
        step: Optimizer steps taken.
        weights: Parameters and buffers by name; tied weights are one tensor under several names.
        config: The contents of `config.json`, from which the model is built.
        tokenizer: The text of `tokenizer.json`.
        recipe: The text of `recipe.yaml`.
        training_tensors: Tensors that resuming needs; empty in a model that is only for use.
        training: Other values that resuming needs, as JSON has them (no tuples, no infinity).
        seen: The bytes of `seen.bin`; empty if it is not known what the model was trained on.
    """

    step: int
    weights: dict[str, Tensor]
    config: dict[str, Any]
    tokenizer: str
    recipe: str
    training_tensors: dict[str, Tensor] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)
    seen: bytes = b""

    def split_tensors(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """The weights of the training itself, if the model is an average, and all other tensors."""
        weights, others = {}, dict(self.training_tensors)
        for name in self.training_tensors:
            if name.startswith(RAW_WEIGHTS):
                weights[name.removeprefix(RAW_WEIGHTS)] = others.pop(name)
        return weights, others


def write_folder(folder: Path, snapshot: Snapshot) -> None:
    """Write one checkpoint folder anywhere, completely or not at all.

    Args:
        folder: A new or an empty folder; its parents are created.
        snapshot: What to write.
    """
    folder = folder.absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        fix = "choose a new name or an empty folder"
        raise InputError(f"{folder} exists and is not empty", fix=fix)
    with reporting(f"checkpoint {folder}", "nothing was left behind"):
        folder.parent.mkdir(parents=True, exist_ok=True)
        write_checkpoint(folder, snapshot)


def read(
    folder: Path, manifest: Manifest | None = None, *, training: bool = False, config: bytes = b""
) -> Snapshot:
    """Read a checkpoint; each file is read once and compared with the manifest meanwhile.

    Args:
        folder: One checkpoint folder.
        manifest: Its manifest, if that was read already.
        training: Also read the state for resuming. Otherwise `training` and `training_tensors` are
            empty, and only the sizes of their files are compared.
        config: The bytes of its `config.json`, if they were read already.

    Raises:
        Damaged: A file is missing, cut short or changed.
    """
    manifest = manifest or read_manifest(folder)
    if training and TRAINING not in manifest.files:
        fix = "it can be used, but training cannot be resumed from it"
        raise InputError(f"checkpoint {folder} holds no training state", fix=fix)
    for name in () if training else manifest.files.keys() & FOR_RESUMING:
        with _report_damage(folder, name):
            _check_size(folder, manifest, name, (folder / name).stat().st_size)
    folder_config = _read_config(folder, manifest, config)
    store = folder_config.get(STORED, "fp32")
    return Snapshot(
        step=manifest.step,
        config=folder_config,
        weights=_read_tensors(folder, manifest, MODEL, store),
        tokenizer=_read_parsed(folder, manifest, TOKENIZER, bytes.decode),
        recipe=_read_parsed(folder, manifest, RECIPE, bytes.decode),
        training_tensors=_read_tensors(folder, manifest, TRAINING_TENSORS) if training else {},
        training=_read_parsed(folder, manifest, TRAINING, parse_json) if training else {},
        seen=verify_file(folder, manifest, SEEN) if SEEN in manifest.files else b"",
    )


def read_tokenizer(folder: Path, manifest: Manifest | None = None, config: bytes = b"") -> str:
    """The text of a checkpoint's `tokenizer.json`, compared with the manifest; no weights are read.

    Raises:
        Damaged: The file is missing, cut short or changed.
    """
    manifest = manifest or read_manifest(folder)
    _read_config(folder, manifest, config)
    return _read_parsed(folder, manifest, TOKENIZER, bytes.decode)


def _read_config(folder: Path, manifest: Manifest, data: bytes = b"") -> dict[str, Any]:
    """The contents of `config.json`; refuses a folder of another layout version."""
    config: dict[str, Any] = _read_parsed(folder, manifest, CONFIG, parse_json, data)
    if config.get("regard") not in FORMATS:
        got, what = config.get("regard", "nothing"), f'{folder / CONFIG}: "regard"'
        fix = "it was written by another version of regard; use that one"
        raise InputError(what, got=got, expected=" or ".join(map(str, FORMATS)), fix=fix)
    return config


def _read_parsed(
    folder: Path, manifest: Manifest, name: str, parse: Callable[[bytes], Any], data: bytes = b""
) -> Any:
    """The parsed contents of a file, after its bytes were compared with the manifest."""
    data = verify_file(folder, manifest, name, data)
    try:
        return parse(data)
    except _PARSE_ERRORS as error:
        raise _invalid_contents(folder, name) from error


def _read_tensors(
    folder: Path, manifest: Manifest, name: str, store: object = "fp32"
) -> dict[str, Tensor]:
    """The tensors of a file by name, converted to 32 bits if it stores them in fewer."""
    from regard.checkpoint.storage import IN_16_BITS, check_store, from_stored
    from regard.runtime.tensors import TensorFile

    store = check_store(store, f'{folder / CONFIG}: "{STORED}"')
    file, is_narrow = str(folder / name), store != "fp32"
    with _open_compared(folder, manifest, name) as stream:
        tensor_file = TensorFile(stream, manifest.files[name].size)
        if is_narrow:
            check_memory(f"{file}: its weights in 32 bits", 4 * tensor_file.numbers)
        stored = tensor_file.read(wide=IN_16_BITS if is_narrow else ())
    try:
        tensors = from_stored(stored, store, file)
        aliases = json.loads(tensor_file.metadata.get("aliases", "{}"))
        tensors |= {alias: tensors[first] for alias, first in aliases.items()}
    except _PARSE_ERRORS as error:
        raise _invalid_contents(folder, name) from error
    return {key: tensors[key] for key in sorted(tensors)}


def _invalid_contents(folder: Path, name: str) -> Damaged:
    """The error for a file whose checksum is right, but whose contents make no sense."""
    return Damaged(folder, name, "has invalid contents")


class _FileEntry(Config):
    """The manifest's entry for one file."""

    size: int = Field(ge=0)
    sha256: str

    @classmethod
    def of(cls, data: bytes) -> _FileEntry:
        return cls(size=len(data), sha256=hashlib.sha256(data).hexdigest())


class Manifest(Config):
    """The contents of `manifest.json`: the step, and size and checksum of each file."""

    step: int = Field(ge=0)
    files: dict[str, _FileEntry]

    def render(self) -> bytes:
        """The bytes of `manifest.json`, including the manifest's own checksum under "self".

        Equal manifests give equal bytes.
        """
        content = self.model_dump()
        checksum = hashlib.sha256(to_json_bytes(content)).hexdigest()
        return to_json_bytes({**content, "self": checksum})


def write_checkpoint(folder: Path, snapshot: Snapshot) -> None:
    """Write a checkpoint under a temporary name, then rename it."""
    with temporary_beside(folder) as temporary:
        temporary.mkdir()
        entries = {}
        for name, data in _pack_snapshot(snapshot):
            write_synced(temporary / name, data)
            entries[name] = _FileEntry.of(data)
        manifest = Manifest(step=snapshot.step, files=entries)
        write_synced(temporary / MANIFEST, manifest.render())
        sync(temporary)
        temporary.rename(folder)
        sync(folder.parent)


def _pack_snapshot(snapshot: Snapshot) -> Iterator[tuple[str, bytes]]:
    """Yield names and bytes of a checkpoint's files one by one, so that only one is in memory."""
    yield CONFIG, to_json_bytes({"regard": FORMATS[0], **snapshot.config})
    yield MODEL, _pack_tensors(snapshot.weights, snapshot.config.get(STORED, "fp32"))
    yield TOKENIZER, snapshot.tokenizer.encode()
    yield RECIPE, snapshot.recipe.encode()
    if snapshot.seen:
        yield SEEN, snapshot.seen
    if snapshot.training or snapshot.training_tensors:
        yield TRAINING_TENSORS, _pack_tensors(snapshot.training_tensors)
        yield TRAINING, to_json_bytes(snapshot.training)


def _pack_tensors(tensors: Mapping[str, Tensor], store: object = "fp32") -> bytes:
    """Serialize tensors; a tensor with several names is stored once, under the first of them."""
    import safetensors.torch

    from regard.checkpoint.storage import check_store, to_stored

    stored: dict[str, Tensor] = {}
    aliases: dict[str, str] = {}
    names: dict[object, str] = {}
    storages: set[int] = set()
    for name, tensor in tensors.items():
        tensor = tensor.detach()
        memory = (tensor.device, tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
        if tensor.numel() and memory in names:
            aliases[name] = names[memory]
            continue
        names[memory] = name
        # safetensors refuses tensors that share memory, so a second one is copied.
        storage = tensor.untyped_storage().data_ptr()
        stored[name] = (tensor.clone() if storage in storages else tensor).cpu().contiguous()
        storages.add(storage)
    # At most one key: safetensors writes several keys in random order, but equal contents should
    # give equal bytes.
    header = {"aliases": json.dumps(aliases)} if aliases else None
    return safetensors.torch.save(to_stored(stored, check_store(store, STORED)), header)


def verify(folder: Path) -> None:
    """Compare every file with the manifest.

    Raises:
        Damaged: A file is missing, cut short or changed.
        Misnamed: The folder is in a run and has the name of another step.
    """
    manifest = read_manifest(folder)
    for name in manifest.files:
        with _open_compared(folder, manifest, name, keep=False):
            pass  # `_open_compared` reads the rest of the file after the body


def read_manifest(folder: Path) -> Manifest:
    """Read and check a checkpoint's manifest.

    Raises:
        Damaged: The manifest is missing or changed, or does not list a checkpoint's files.
        Misnamed: The folder is in a run and has the name of another step.
    """
    with _report_damage(folder, MANIFEST):
        data = read_regular(folder / MANIFEST, LARGEST[MANIFEST])
    try:
        content = parse_json(data)
        content.pop("self", None)
        manifest = Manifest.model_validate(content)
        is_unchanged = manifest.render() == data
    except ValueError as error:
        raise Damaged(folder, MANIFEST, "cannot be read") from error
    if not is_unchanged:
        raise Damaged(folder, MANIFEST, "checksum differs")
    if manifest.files.keys() - {SEEN} not in (FOR_USE, FOR_USE | FOR_RESUMING):
        raise Damaged(folder, MANIFEST, "does not list the files of a checkpoint")
    _check_name(folder, manifest)
    return manifest


def _check_name(folder: Path, manifest: Manifest) -> None:
    """Refuses a run's checkpoint under another step's name; models elsewhere may have any name."""
    path = Path(os.path.normpath(folder.absolute()))  # not resolved: a link's own name counts
    if path.parent.name != CHECKPOINTS or not re.fullmatch("[0-9]{8,}", path.name):
        return
    if TRAINING in manifest.files and path.name != folder_name(manifest.step):
        got = f"the checkpoint of step {manifest.step}, by its {MANIFEST}"
        expected = f"that of step {int(path.name)}, by its name"
        fix = "remove it: a copy or a link under another name would pass for that step"
        raise Misnamed(str(folder), got=got, expected=expected, fix=fix)


def verify_file(folder: Path, manifest: Manifest, name: str, data: bytes = b"") -> bytes:
    """Return the bytes of a file after comparing them with the manifest.

    Args:
        folder: The checkpoint.
        manifest: The checkpoint's manifest.
        name: The file's name.
        data: The file's bytes, if they were read already.
    """
    if not data:
        with _open_compared(folder, manifest, name) as stream:
            data = stream.read(manifest.files[name].size)
    else:
        _check_size(folder, manifest, name, len(data))
        if _FileEntry.of(data) != manifest.files[name]:
            raise Damaged(folder, name, "checksum differs")
    return data


def _check_size(folder: Path, manifest: Manifest, name: str, size: int) -> None:
    """Raises `Damaged` if a file does not have the size that the manifest records."""
    if size != (expected := manifest.files[name].size):
        raise Damaged(folder, name, f"{size} bytes instead of {expected}")


class _HashingFile:
    """A file whose checksum is computed while it is read."""

    def __init__(self, file: BufferedReader) -> None:
        self._file, self.checksum = file, hashlib.sha256()

    def readinto(self, buffer: memoryview, /) -> int:
        """Read bytes into a buffer; return how many."""
        count = self._file.readinto(buffer)
        self.checksum.update(buffer[:count])
        return count

    def read(self, size: int) -> bytes:
        """Read at most `size` bytes."""
        data = self._file.read(size)
        self.checksum.update(data)
        return data


@contextmanager
def _open_compared(
    folder: Path, manifest: Manifest, name: str, *, keep: bool = True
) -> Iterator[_HashingFile]:
    """Open a file for the body of a `with` to read, and compare its checksum after the body.

    If the checksum differs, that is the error that is raised, even if the body failed as well: a
    changed file is then the cause.

    Args:
        folder: The checkpoint.
        manifest: The checkpoint's manifest.
        name: The file's name; its size is compared before the body.
        keep: Whether the body keeps what it reads in memory; then too large a file is refused.
    """
    problem: Exception | None = None
    with _report_damage(folder, name), open_regular(folder / name) as file:
        _check_size(folder, manifest, name, size := os.fstat(file.fileno()).st_size)
        if keep and size > (limit := LARGEST.get(name) or memory() or size):
            raise Damaged(folder, name, f"{size:,} bytes, of which at most {limit:,} are read")
        stream = _HashingFile(file)
        try:
            yield stream
        except (*_PARSE_ERRORS, InputError) as error:
            problem = error
        while stream.read(PIECE):
            pass
    if stream.checksum.hexdigest() != manifest.files[name].sha256:
        raise Damaged(folder, name, "checksum differs") from problem
    if isinstance(problem, InputError):
        raise problem
    if problem is not None:
        raise _invalid_contents(folder, name) from problem


def is_sound(folder: Path) -> bool:
    """Whether all files of a checkpoint match its manifest."""
    try:
        verify(folder)
    except (Damaged, Misnamed):
        return False
    return True


@contextmanager
def _report_damage(folder: Path, name: str) -> Iterator[None]:
    """Turn errors of the file system, and files that are not regular, into `Damaged`."""
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


def check_tensors(file: str, tensors: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    """Compares names, shapes and types of tensors with the expected ones.

    Args:
        file: Name of the file, for error messages.
        tensors: The tensors by name.
        expected: For each expected name a tensor of the right shape and type; values do not matter.

    Raises:
        InputError: A tensor is missing or unknown, or its shape or type differs.
    """

    def outline(tensor: Tensor) -> str:
        return f"{tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"

    check_outlines(file, tensors, expected, outline)


def check_outlines(
    what: str, tensors: Mapping[str, T], wanted: Mapping[str, T], outline: Callable[[T], object]
) -> None:
    """Compares the names of tensors, and the outline of each, with the expected ones.

    Raises:
        InputError: A tensor is missing or unknown, or its outline differs.
    """
    for name in sorted(tensors.keys() | wanted.keys()):
        got, expected = (
            f"{name} of {outline(group[name])}" if name in group else f"no {name}"
            for group in (tensors, wanted)
        )
        if got != expected:
            raise InputError(what, got=got, expected=expected)


def folder_name(step: int) -> str:
    """The name of a step's checkpoint folder."""
    return f"{step:08d}"


def to_json_bytes(value: Mapping[str, Any]) -> bytes:
    """A value as JSON, formatted as in a checkpoint's files."""
    return (json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def parse_json(data: bytes) -> dict[str, Any]:
    """Parses the bytes of a checkpoint's JSON file.

    Raises:
        ValueError: They are not a JSON object, or it contains NaN or infinity.
    """
    try:
        value = json.loads(data, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError("a JSON object was expected")  # noqa: TRY004 (callers catch ValueError)
    return value


def _refuse_constant(name: str) -> None:
    """Refuses NaN and Infinity, which Python's JSON parser would accept."""
    raise ValueError(f"{name} is not a JSON number")
