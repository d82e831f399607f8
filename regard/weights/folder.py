"""A Hugging Face folder <-> a model of ours. Nothing in the folder can run code.

In: `config.json` and `model.safetensors` (or its parts and an index). Out: a model in 32 bits, and
the folder again. Tensors that are left over, missing, or of another shape are errors.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import safetensors.torch
import torch
from pydantic import ValidationError
from safetensors import SafetensorError
from torch import Tensor

from regard.config import refused
from regard.errors import InputError
from regard.files import open_regular, read_regular, write_file
from regard.models.config import BlocksConfig
from regard.models.cost import shapes
from regard.models.families import Model, build
from regard.runtime import check_memory
from regard.weights.bert import BERT, DISTILBERT, ROBERTA
from regard.weights.gpt import GPT2, LLAMA
from regard.weights.kind import Kind, Names
from regard.weights.pickled import read_pickled
from regard.weights.translators import BART, MARIAN, T5

KINDS: dict[str, Kind] = {
    "gpt2": GPT2,
    "llama": LLAMA,
    "mistral": LLAMA,
    "qwen2": LLAMA,
    "qwen3": LLAMA,
    "bert": BERT,
    "roberta": ROBERTA,
    "distilbert": DISTILBERT,
    "t5": T5,
    "bart": BART,
    "marian": MARIAN,
}
"""Their `model_type` -> what we know of it."""
CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
PICKLED, PICKLED_INDEX = "pytorch_model.bin", "pytorch_model.bin.index.json"
ODD = (AttributeError, KeyError, IndexError, TypeError, AssertionError, BadZipFile)
"""What readers of pickles end in, beside their own errors, where bytes were changed."""
MOST_LAYERS = 1000
"""Of a model that is sketched from its config alone."""
LARGEST = 2**24
"""Bytes of JSON that are read; a larger file is no config and no index."""


def is_foreign(folder: Path) -> bool:
    """Whether a folder holds a Hugging Face model and not one of ours."""
    config = folder / CONFIG
    return config.is_file() and "regard" not in read_json(config)


def read_model(folder: Path, *, pickled: bool = False) -> Model:
    """The model of a folder, with its weights in 32 bits.

    Args:
        folder: With `config.json` and weights.
        pickled: Whether `.bin` files may be read too, by torch's reader of plain tensors.

    Raises:
        InputError: A kind that is not known, or anything damaged, left over or missing.
    """
    their = read_json(folder / CONFIG)
    kind = kind_of(their, folder)
    tensors = kind.whole_names(read_tensors(folder, pickled=pickled))
    config, vocabularies, shapes = _understood(folder, their, tensors, len(tensors))
    ours = kind.names(config).bring(tensors, shapes)
    model: Model = build(config, *vocabularies)
    model.load_state_dict(ours)
    _check_tied(model, ours)
    return model.eval()


def read_outline(folder: Path) -> tuple[BlocksConfig, tuple[int, ...]]:
    """The config of a folder's model, and the sizes of its vocabularies; its weights stay on disk.

    Raises:
        InputError: As `read_model`, as far as names tell.
    """
    their = read_json(folder / CONFIG)
    mapped: dict[str, Tensor] = {}
    if not (folder / WEIGHTS).is_file() and not (folder / INDEX).is_file():
        return _understood(folder, their, {}, MOST_LAYERS)[:2]  # the config alone
    for file in _files(folder, pickled=False):
        mapped |= _load(file)  # into memory comes only what is looked at
    tensors = kind_of(their, folder).whole_names(mapped)
    return _understood(folder, their, tensors, len(tensors))[:2]


def _understood(
    folder: Path, their: dict[str, Any], tensors: dict[str, Tensor], count: int
) -> tuple[BlocksConfig, tuple[int, ...], dict[str, torch.Size]]:
    """What a config of theirs means: ours, the sizes of vocabularies, and every tensor's shape."""
    kind = kind_of(their, folder)
    try:
        config: BlocksConfig = kind.read(their, Names(their, tensors))
        vocabularies = _vocabularies(their, kind)
        wanted = shapes(config, vocabularies, count, str(folder / CONFIG))
        return config, vocabularies, wanted
    except KeyError as error:
        raise InputError(f"{folder / CONFIG}", got=f"no {error.args[0]}", expected="one") from error
    except ValidationError as error:
        raise refused(error, f"{folder / CONFIG}") from error
    except (ValueError, TypeError, AttributeError, OverflowError, RuntimeError) as error:
        raise InputError(f"{folder / CONFIG}", got=str(error).partition("\n")[0]) from error


def _check_tied(model: Model, ours: dict[str, Tensor]) -> None:
    """Refuses two matrices where the model has one for both roles."""
    first: dict[int, str] = {}  # the name that each place in memory was met under
    for name, tensor in model.state_dict().items():
        other = first.setdefault(tensor.data_ptr(), name)
        if other != name and not torch.equal(ours[name], ours[other]):
            raise InputError("the weights", got=f"another {name}", expected=f"that of {other}")


def write_model(model: Model, folder: Path, **roles: Any) -> dict[str, Any]:
    """Writes `config.json` and `model.safetensors` that transformers reads; gives the config.

    Args:
        model: Of any family.
        folder: Exists.
        **roles: What the config is to say beside, such as `eos_token_id`.

    Raises:
        InputError: No kind of theirs computes what this model does.
    """
    kind = _kind_for(model)
    vocabularies = model.vocabularies().values()
    their = kind.write(model.config, *vocabularies) | {"dtype": "float32", **roles}
    tensors = kind.names(model.config).send(dict(model.state_dict()))
    write_file(folder / WEIGHTS, safetensors.torch.save(tensors, {"format": "pt"}))
    write_file(folder / CONFIG, (json.dumps(their, indent=2) + "\n").encode())
    return their


def _kind_for(model: Model) -> Kind:
    family = model.config.family
    for kind in KINDS.values():
        if kind.family == family and kind.fits(model.config):
            return kind
    names = ", ".join(name for name, kind in KINDS.items() if kind.family == family)
    raise InputError(
        "export to Hugging Face",
        got=f"a {family} with settings that none of its models has",
        expected=f"what one of {names} computes",
    )


def kind_of(their: dict[str, Any], folder: Path) -> Kind:
    """What we know of a config's kind."""
    name = their.get("model_type")
    if not isinstance(name, str) or name not in KINDS:
        raise InputError(
            f"{folder / CONFIG}: model_type",
            got=name or "none",
            expected=f"one of {', '.join(KINDS)}",
        )
    return KINDS[name]


def _vocabularies(their: dict[str, Any], kind: Kind) -> tuple[int, ...]:
    source = int(their["vocab_size"])
    if kind.family not in ("transformer", "t5"):
        return (source,)
    return source, int(their.get("decoder_vocab_size") or source)


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file.

    Raises:
        InputError: There is none.
    """
    try:
        value = json.loads(read_regular(path, most=LARGEST))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(str(path), got=f"no JSON ({error})", expected="a JSON object") from None
    if not isinstance(value, dict):
        raise InputError(str(path), got=f"a JSON {type(value).__name__}", expected="an object")
    return value


def read_tensors(folder: Path, *, pickled: bool = False) -> dict[str, Tensor]:
    """All tensors of a folder, by their names, in 32 bits where they are real numbers."""
    tensors: dict[str, Tensor] = {}
    needed = 0
    for file in _files(folder, pickled=pickled):
        found = _load(file)  # in the file still: a copy in 32 bits is what takes memory
        needed += sum(4 * tensor.numel() for tensor in found.values())
        check_memory(f"{file}: its weights in 32 bits", needed)
        for name, tensor in found.items():
            if name in tensors:
                raise InputError(f"{file}", got=f"{name} again", expected="each tensor in one file")
            tensors[name] = tensor.float() if tensor.is_floating_point() else tensor
    return tensors


def _files(folder: Path, *, pickled: bool) -> Iterator[Path]:
    if (folder / WEIGHTS).is_file():
        yield folder / WEIGHTS
    elif (folder / INDEX).is_file():
        yield from _parts(folder, INDEX, ".safetensors")
    elif not (folder / PICKLED).is_file() and not (folder / PICKLED_INDEX).is_file():
        raise InputError(f"{folder}: no weights", expected=f"{WEIGHTS}, or {INDEX} and its parts")
    elif not pickled:
        raise InputError(
            f"{folder}: weights",
            got=PICKLED,
            expected=WEIGHTS,
            fix=f"`regard import {folder} -o NEW` reads it, without running what is in it",
        )
    elif (folder / PICKLED).is_file():
        yield folder / PICKLED
    else:
        yield from _parts(folder, PICKLED_INDEX, ".bin")


def _parts(folder: Path, index: str, ending: str) -> Iterator[Path]:
    """The files that an index names, all inside the folder and of one kind."""
    places = read_json(folder / index).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise InputError(f"{folder / index}", got="no weight_map", expected="tensors and files")
    for name in dict.fromkeys(map(str, places.values())):
        if Path(name).name != name or not name.endswith(ending):
            raise InputError(f"{folder / index}", got=name, expected=f"a file beside it, {ending}")
        yield folder / name


def _load(file: Path) -> dict[str, Tensor]:
    try:
        open_regular(file).close()  # a pipe among the parts would never end
        if file.suffix == ".safetensors":
            return safetensors.torch.load_file(file)
        return read_pickled(file)
    except FileNotFoundError:
        raise InputError(f"{file}: no such file") from None
    except pickle.UnpicklingError:
        raise InputError(
            f"{file}",
            got="more than plain tensors",
            expected="weights alone",
            fix="do not trust it",
        ) from None
    except (SafetensorError, OSError, RuntimeError, ValueError, EOFError, *ODD) as error:
        got = str(error).partition("\n")[0] or type(error).__name__
        raise InputError(f"{file} is damaged", got=got) from None
