"""Reads a Hugging Face folder into a model of Regard, and writes one.

In: `config.json` and `model.safetensors` (or its parts and an index; or the older `.bin` files,
which are read as plain tensors). Out: a model in 32 bits; and back. Tensors that are left over,
missing, or of another shape are errors. No code in the folder is run.
"""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from regard.errors import InputError
from regard.hub.choice import choose
from regard.hub.config import CONFIG, config_path
from regard.hub.equal import state_for
from regard.hub.identify import Described, describe, log_notes, parse
from regard.hub.pickled import read_pickled
from regard.models.config import ModelConfig
from regard.models.load_weights import blank, load_weights
from regard.models.model import Model
from regard.runtime.device import check_memory
from regard.runtime.files import open_regular, read_json, write_file
from regard.runtime.tensors import FLOAT_TYPES, TensorFile

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLED, PICKLED_INDEX = "pytorch_model.bin", "pytorch_model.bin.index.json"
OTHER_WEIGHTS = (".bin", ".safetensors", ".h5", ".msgpack", ".ckpt", ".pt", ".pth", ".onnx")
"""Endings of files that may hold weights under another name or in another format."""
ODD = (AttributeError, KeyError, IndexError, TypeError, AssertionError, BadZipFile)
"""Further errors that reading a damaged pickle may raise."""
MOST_LAYERS = 1000
"""Most layers of a model whose weights are not there, only its config."""


def has_weights(folder: Path) -> bool:
    """Whether all files of a folder's weights exist, in safetensors or `.bin` files."""
    try:
        return all(file.is_file() for file in _files(folder))
    except InputError:
        return False


def pickled_weights(folder: Path) -> str | None:
    """The name of the `.bin` file or its index, if a folder has its weights there alone."""
    first = _weights_in(folder)
    return first if first in (PICKLED, PICKLED_INDEX) else None


def _weights_in(folder: Path) -> str | None:
    """The file, or the index of files, that weights are read from; None without weights."""
    names = (WEIGHTS, INDEX, PICKLED, PICKLED_INDEX)
    return next((name for name in names if (folder / name).is_file()), None)


def describe_folder(
    folder: Path, their: dict[str, Any] | None = None, asked: str | None = None
) -> Described:
    """Determines what kind of model a folder holds.

    Args:
        folder: Contains `config.json` and weights.
        their: The contents of `config.json`, if it was read already.
        asked: The kind to insist on, as for `describe`.

    Raises:
        InputError: As for `describe`.
    """
    their = read_json(config_path(folder)) if their is None else their
    return describe(folder, their, partial(_map_tensors, folder), asked)


def read_model(folder: Path, described: Described | None = None) -> Model:
    """Reads the model of a folder, with its weights in 32 bits.

    Args:
        folder: Contains `config.json` and weights.
        described: What kind of model it is, if that was determined already.

    Raises:
        InputError: The kind of model is unknown, or a file or tensor is damaged, left over or
            missing.
    """
    described = describe_folder(folder) if described is None else described
    # No name here for the tensors: each is freed as soon as it is converted.
    return model_of(described, read_tensors(folder), config_path(folder))


def model_of(described: Described, tensors: dict[str, Tensor], file: Path) -> Model:
    """Builds a model from the tensors of a published one; logs what was assumed.

    Args:
        described: What kind of model it is.
        tensors: Its tensors by their names.
        file: The file of the config, for messages.
    """
    kind = described.kind
    tensors = kind.standard_names(tensors)
    parsed = parse(file, kind, described.their, tensors, len(tensors))
    ours = kind.names(parsed.config).import_tensors(tensors, parsed.shapes)
    model: Model = blank(parsed.config, *parsed.vocabularies)
    _check_tied(model, ours)
    load_weights(model, ours)
    log_notes(file, (*described.notes, *parsed.notes))
    return model.eval()


def read_outline(folder: Path, their: dict[str, Any]) -> tuple[ModelConfig, tuple[int, ...]]:
    """The config of a folder's model and the sizes of its vocabularies; weights stay on disk.

    Args:
        folder: The model's folder.
        their: The contents of `config.json`.

    Raises:
        InputError: As `read_model`, as far as config and tensor names show it.
    """
    mapped = {} if _weights_in(folder) is None else _map_tensors(folder)
    described = describe(folder, their, lambda: mapped)
    tensors = described.kind.standard_names(mapped)
    most = len(tensors) or MOST_LAYERS
    parsed = parse(config_path(folder), described.kind, described.their, tensors, most)
    return parsed.config, parsed.vocabularies


def _map_tensors(folder: Path) -> dict[str, Tensor]:
    """Maps the tensors of all files of a folder; their values are read only when they are used."""
    mapped: dict[str, Tensor] = {}
    for file in _files(folder):
        mapped |= _load(file)
    return mapped


def _check_tied(model: Model, ours: dict[str, Tensor]) -> None:
    """Refuses two different matrices for one tied parameter of the model."""
    first: dict[int, str] = {}  # id of a parameter -> its first name
    for name, parameter in model.named_parameters(remove_duplicate=False):
        other = first.setdefault(id(parameter), name)
        if other != name and not torch.equal(ours[name], ours[other]):
            raise InputError(
                "the weights", got=f"other values for {name}", expected=f"those of {other}"
            )


def write_model(
    model: Model, folder: Path, asked: str | None = None, **roles: Any
) -> dict[str, Any]:
    """Writes `config.json` and `model.safetensors` for transformers or timm; returns the config.

    Args:
        model: A model of any family.
        folder: An existing folder.
        asked: The name of a kind, such as `timm`; None: the first of transformers that fits.
        **roles: Further values for the config, such as `eos_token_id`.

    Raises:
        InputError: No kind of Hugging Face model computes what this model does.
    """
    kind = choose(model.config, asked)
    written = kind.write(model.config, *model.vocabularies().values())
    typed = {"model_type": kind.name, "dtype": "float32"} if kind.typed else {}
    their = {**typed, **written, **roles}
    tensors = kind.names(model.config).export_tensors(state_for(kind, model))
    write_file(folder / WEIGHTS, safetensors.torch.save(tensors, {"format": "pt"}))
    write_file(folder / CONFIG, (json.dumps(their, indent=2) + "\n").encode())
    return their


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """Reads all tensors of a folder by their names; floating-point tensors become 32 bits."""
    tensors: dict[str, Tensor] = {}
    for file in _files(folder):
        file_tensors = read_file(file, sum(tensor.nbytes for tensor in tensors.values()))
        if again := file_tensors.keys() & tensors.keys():
            got, expected = f"{min(again)} again", "each tensor in one file"
            raise InputError(f"{file}", got=got, expected=expected)
        tensors |= file_tensors
    return tensors


def read_file(file: Path, held_bytes: int = 0) -> dict[str, Tensor]:
    """Reads the tensors of a file into memory.

    Args:
        file: A `.safetensors` or `.bin` file.
        held_bytes: Bytes that the tensors of earlier files take, for the check of memory.
    """

    def check(numbers: int) -> None:
        check_memory(f"{file}: its weights in 32 bits", held_bytes + 4 * numbers)

    if file.suffix == ".safetensors":
        with _naming(file), open_regular(file) as stream:
            stored = TensorFile(stream, os.fstat(stream.fileno()).st_size)
            check(stored.numbers)
            return stored.read(wide=FLOAT_TYPES)
    mapped = _load(file)
    check(sum(tensor.numel() for tensor in mapped.values()))
    return {
        name: tensor.to(torch.float32 if tensor.is_floating_point() else tensor.dtype, copy=True)
        for name, tensor in mapped.items()
    }


def _files(folder: Path) -> Iterator[Path]:
    first = _weights_in(folder)
    if first is None:
        others = sorted(file.name for file in folder.glob("*") if file.suffix in OTHER_WEIGHTS)
        expected = f"{WEIGHTS}, or {INDEX} and its parts, or {PICKLED}"
        got = ", ".join(others) or None
        raise InputError(f"{folder}: no weights", got=got, expected=expected)
    if first in (WEIGHTS, PICKLED):
        yield folder / first
    else:
        yield from _parts(folder, first, ".safetensors" if first == INDEX else ".bin")


def _parts(folder: Path, index: str, ending: str) -> Iterator[Path]:
    """The files that an index names; refuses names outside the folder or with another ending."""
    weight_map = read_json(folder / index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise InputError(f"{folder / index}", got="no weight_map", expected="tensors and files")
    for name in dict.fromkeys(map(str, weight_map.values())):
        if Path(name).name != name or not name.endswith(ending):
            raise InputError(f"{folder / index}", got=name, expected=f"a file beside it, {ending}")
        yield folder / name


def _load(file: Path) -> dict[str, Tensor]:
    """Maps the tensors of a file; their values are read only when they are used."""
    with _naming(file):
        open_regular(file).close()  # refuses pipes, which would block
        if file.suffix == ".safetensors":
            return safetensors.torch.load_file(file)
        return read_pickled(file)


@contextmanager
def _naming(file: Path) -> Iterator[None]:
    """Turns errors of reading into an `InputError` that names the file."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"{file}: no such file") from None
    except pickle.UnpicklingError:
        raise InputError(
            f"{file}",
            got="more than plain tensors",
            expected="only tensors",
            fix="do not trust this file",
        ) from None
    except (SafetensorError, OSError, RuntimeError, ValueError, EOFError, *ODD) as error:
        got = str(error).partition("\n")[0] or type(error).__name__
        raise InputError(f"{file} is damaged", got=got) from None
