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
from regard.hub.choice import choose_kind
from regard.hub.config import CONFIG, config_path
from regard.hub.equal import state_for
from regard.hub.identify import ModelDescription, describe, log_notes, parse
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
PICKLE_ERRORS = (AttributeError, KeyError, IndexError, TypeError, AssertionError, BadZipFile)
"""Further errors that reading a damaged `.bin` file may raise."""
SYMBOLS = ("bos_token_id", "eos_token_id", "pad_token_id")
"""The ids of symbols that a section of a config has, too."""
MAX_LAYERS = 1000
"""Most layers of a model whose weights are not there, only its config."""


def has_weights(folder: Path) -> bool:
    """Whether all files of a folder's weights exist, in safetensors or `.bin` files."""
    try:
        return all(file.is_file() for file in _weight_files(folder))
    except InputError:
        return False


def pickled_weights(folder: Path) -> str | None:
    """The name of the `.bin` file or its index, if a folder has its weights there alone."""
    first = _weights_file_name(folder)
    return first if first in (PICKLED, PICKLED_INDEX) else None


def _weights_file_name(folder: Path) -> str | None:
    """The file, or the index of files, that weights are read from; None without weights."""
    names = (WEIGHTS, INDEX, PICKLED, PICKLED_INDEX)
    return next((name for name in names if (folder / name).is_file()), None)


def describe_folder(
    folder: Path, hub_config: dict[str, Any] | None = None, kind_name: str | None = None
) -> ModelDescription:
    """Determines what kind of model a folder holds.

    Args:
        folder: Contains `config.json` and weights.
        hub_config: The contents of `config.json`, if it was read already.
        kind_name: The kind to insist on, as for `describe`.

    Raises:
        InputError: As for `describe`.
    """
    hub_config = read_json(config_path(folder)) if hub_config is None else hub_config
    return describe(folder, hub_config, partial(_map_tensors, folder), kind_name)


def read_model(folder: Path, description: ModelDescription | None = None) -> Model:
    """Reads the model of a folder, with its weights in 32 bits.

    Args:
        folder: Contains `config.json` and weights.
        description: What kind of model it is, if that was determined already.

    Raises:
        InputError: The kind of model is unknown, or a file or tensor is damaged, left over or
            missing.
    """
    description = describe_folder(folder) if description is None else description
    # No name here for the tensors: each is freed as soon as it is converted.
    return model_of(description, read_tensors(folder), config_path(folder))


def model_of(description: ModelDescription, tensors: dict[str, Tensor], file: Path) -> Model:
    """Builds a model from the tensors of a published one; logs what was assumed.

    Args:
        description: What kind of model it is.
        tensors: Its tensors by their names.
        file: The file of the config, for messages.
    """
    kind = description.kind
    tensors = kind.standard_names(tensors)
    parsed = parse(file, kind, description.hub_config, tensors, len(tensors))
    our_tensors = kind.names(parsed.config).import_tensors(tensors, parsed.shapes)
    model: Model = blank(parsed.config, *parsed.vocabularies)
    _check_tied(model, our_tensors)
    load_weights(model, our_tensors)
    log_notes(file, (*description.notes, *parsed.notes))
    return model.eval()


def read_outline(
    folder: Path, hub_config: dict[str, Any]
) -> tuple[ModelConfig, tuple[int, ...], dict[str, Any]]:
    """The config of a folder's model and the sizes of its vocabularies; weights stay on disk.

    Args:
        folder: The model's folder.
        hub_config: The contents of `config.json`.

    Returns:
        Our config, the sizes, and their config of the side that writes texts.

    Raises:
        InputError: As `read_model`, as far as config and tensor names show it.
    """
    mapped = {} if _weights_file_name(folder) is None else _map_tensors(folder)
    description = describe(folder, hub_config, lambda: mapped)
    tensors = description.kind.standard_names(mapped)
    count, file = len(tensors) or MAX_LAYERS, config_path(folder)
    parsed = parse(file, description.kind, description.hub_config, tensors, count)
    text_config = description.kind.text_config(description.hub_config)
    return parsed.config, parsed.vocabularies, text_config


def _map_tensors(folder: Path) -> dict[str, Tensor]:
    """Maps the tensors of all files of a folder; their values are read only when they are used."""
    mapped: dict[str, Tensor] = {}
    for file in _weight_files(folder):
        mapped |= _map_file(file)
    return mapped


def _check_tied(model: Model, our_tensors: dict[str, Tensor]) -> None:
    """Refuses two different matrices for one tied parameter of the model."""
    first: dict[int, str] = {}  # id of a parameter -> its first name
    for name, parameter in model.named_parameters(remove_duplicate=False):
        other = first.setdefault(id(parameter), name)
        if other != name and not torch.equal(our_tensors[name], our_tensors[other]):
            raise InputError(
                "the weights", got=f"other values for {name}", expected=f"those of {other}"
            )


def write_model(
    model: Model, folder: Path, kind_name: str | None = None, **roles: Any
) -> dict[str, Any]:
    """Writes `config.json` and `model.safetensors` for transformers or timm; returns the config.

    Args:
        model: A model of any family.
        folder: An existing folder.
        kind_name: Such as `timm`; None: the first kind of transformers that fits.
        **roles: Further values for the config, such as `eos_token_id`.

    Raises:
        InputError: No kind of Hugging Face model computes what this model does.
    """
    kind = choose_kind(model.config, kind_name)
    model_entries = kind.write(model.config, *model.vocabularies().values())
    type_entries = {"model_type": kind.name, "dtype": "float32"} if kind.has_model_type else {}
    hub_config = {**type_entries, **model_entries, **roles}
    if kind.writer:  # whose defaults may lie beyond the vocabulary
        hub_config[kind.writer] |= {name: roles.get(name) for name in SYMBOLS}
    tensors = kind.names(model.config).export_tensors(state_for(kind, model))
    write_file(folder / WEIGHTS, safetensors.torch.save(tensors, {"format": "pt"}))
    write_file(folder / CONFIG, (json.dumps(hub_config, indent=2) + "\n").encode())
    return hub_config


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """Reads all tensors of a folder by their names; floating-point tensors become 32 bits."""
    tensors: dict[str, Tensor] = {}
    for file in _weight_files(folder):
        file_tensors = read_file(file, sum(tensor.nbytes for tensor in tensors.values()))
        if repeated_names := file_tensors.keys() & tensors.keys():
            got, expected = f"{min(repeated_names)} again", "each tensor in one file"
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
        with _report_read_errors(file), open_regular(file) as stream:
            stored = TensorFile(stream, os.fstat(stream.fileno()).st_size)
            check(stored.numbers)
            return stored.read(wide=FLOAT_TYPES)
    mapped = _map_file(file)
    check(sum(tensor.numel() for tensor in mapped.values()))
    return {
        name: tensor.to(torch.float32 if tensor.is_floating_point() else tensor.dtype, copy=True)
        for name, tensor in mapped.items()
    }


def _weight_files(folder: Path) -> Iterator[Path]:
    """Yields the files with the weights of a folder; an error if there are none."""
    first = _weights_file_name(folder)
    if first is None:
        other_files = sorted(file.name for file in folder.glob("*") if file.suffix in OTHER_WEIGHTS)
        expected = f"{WEIGHTS}, or {INDEX} and its parts, or {PICKLED}"
        got = ", ".join(other_files) or None
        raise InputError(f"{folder}: no weights", got=got, expected=expected)
    if first in (WEIGHTS, PICKLED):
        yield folder / first
    else:
        yield from _files_in_index(folder, first, ".safetensors" if first == INDEX else ".bin")


def _files_in_index(folder: Path, index: str, ending: str) -> Iterator[Path]:
    """The files that an index names; refuses names outside the folder or with another ending."""
    weight_map = read_json(folder / index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise InputError(f"{folder / index}", got="no weight_map", expected="tensors and files")
    for name in dict.fromkeys(map(str, weight_map.values())):
        if Path(name).name != name or not name.endswith(ending):
            raise InputError(f"{folder / index}", got=name, expected=f"a file beside it, {ending}")
        yield folder / name


def _map_file(file: Path) -> dict[str, Tensor]:
    """Maps the tensors of a file; their values are read only when they are used."""
    with _report_read_errors(file):
        open_regular(file).close()  # refuses pipes, which would block
        if file.suffix == ".safetensors":
            return safetensors.torch.load_file(file)
        return read_pickled(file)


@contextmanager
def _report_read_errors(file: Path) -> Iterator[None]:
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
    except (SafetensorError, OSError, RuntimeError, ValueError, EOFError, *PICKLE_ERRORS) as error:
        got = str(error).partition("\n")[0] or type(error).__name__
        raise InputError(f"{file} is damaged", got=got) from None
