"""Finds out what kind of model a folder holds, also if its `config.json` does not say so.

In: the contents of `config.json`, the folder's tensors, and the kind that the user insists on, if
any. Out: a `Described` model, with notes on what was assumed. Kinds are tried by converting the
config and comparing the names and sizes of tensors; if several kinds fit and would compute
different things, it is an error.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor

from regard.config import input_error
from regard.errors import InputError, did_you_mean, nearest
from regard.hub.config import config_path
from regard.hub.kind import HubFormat, TensorNames, architecture_in
from regard.hub.tables import KINDS
from regard.models.config import ModelConfig
from regard.models.families import CONFIGS
from regard.models.meta_model import shapes

_CLASS = re.compile(r"(?P<kind>[a-z0-9]+?)(for[a-z]+|model|lmheadmodel|mtmodel)", re.I)
"""A model class of transformers: `BertForMaskedLM`, `GPT2LMHeadModel`, `MarianMTModel`."""

LONGEST = 100
"""Most characters of the name of a class."""
INSIST = "--as KIND insists on another"

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Described:
    """The kind of a folder's model and its config, completed by what was assumed."""

    kind: HubFormat
    their: dict[str, Any]
    """The contents of `config.json`, with a `model_type`."""
    notes: tuple[str, ...] = ()
    """What was assumed, in words."""


@dataclass(frozen=True, eq=False)
class Parsed:
    """Their config converted."""

    config: ModelConfig
    vocabularies: tuple[int, ...]
    """The sizes of the vocabularies."""
    shapes: dict[str, torch.Size]
    """The shapes of our tensors by our names."""
    notes: tuple[str, ...]
    """What was assumed, in words."""


def describe(
    folder: Path,
    their: dict[str, Any],
    tensors: Callable[[], Mapping[str, Tensor]],
    asked: str | None = None,
) -> Described:
    """Determines the kind of a folder's model.

    It is the kind that is asked for, else what `model_type` says, else what `architectures` says,
    else the only kind that has tensors of these names and sizes.

    Args:
        folder: The model's folder.
        their: The contents of its config.
        tensors: Maps the folder's tensors; called only if they are needed.
        asked: A kind such as `bert`, or a class such as `BertForTokenClassification`.

    Raises:
        InputError: The kind is unknown, does not fit the tensors, or is ambiguous.
    """
    if asked is not None:
        return _insisted(folder, their, tensors(), asked)
    name = their.get("model_type") or ("timm" if "architecture" in their else None)
    if name is not None:
        if not isinstance(name, str) or name not in KINDS:
            raise _unknown(folder, their, tensors, name)
        return Described(KINDS[name], their)
    named = kind_of_class(architecture_in(their))
    if named is not None:
        note = f"no model_type: read as {named.name}, by its architectures ({INSIST})"
        return Described(named, _typed(their, named), (note,))
    return _inferred(folder, their, tensors())


def kind_of_class(name: object) -> HubFormat | None:
    """The kind of a model class of transformers; None if it is another.

    Example:
        >>> kind_of_class("DistilBertForMaskedLM").name, kind_of_class("Qwen2MoeForCausalLM")
        ('distilbert', None)
    """
    parts = _CLASS.fullmatch(name) if isinstance(name, str) and len(name) < LONGEST else None
    return None if parts is None else KINDS.get(parts["kind"].lower())


def parse(
    file: Path, kind: HubFormat, values: dict[str, Any], tensors: Mapping[str, Tensor], count: int
) -> Parsed:
    """Converts the config of another library to ours, with the shapes of our tensors.

    Args:
        file: The file of the config, for error messages.
        kind: What kind of model it is.
        values: The contents of that file.
        tensors: The folder's tensors by name; the names show which heads there are.
        count: Number of tensors, as a limit for the number of layers.
    """
    names = TensorNames(values, tensors)
    try:
        config: ModelConfig = kind.read(values, names)
        vocabularies = _vocabularies(values, kind)
        our_shapes = shapes(config, vocabularies, count, str(file))
        return Parsed(config, vocabularies, our_shapes, tuple(names.notes))
    except KeyError as error:
        raise InputError(f"{file}", got=f"no {error.args[0]}", expected="a value") from error
    except ValidationError as error:
        raise input_error(error, f"{file}") from error
    except (ValueError, TypeError, AttributeError, OverflowError, RuntimeError) as error:
        raise InputError(f"{file}", got=str(error).partition("\n")[0]) from error


def log_notes(file: Path, notes: Sequence[str]) -> None:
    """Logs all that was assumed of a model in one line."""
    if notes:
        _logger.warning("%s: %s", file, "; ".join(notes))


def _vocabularies(their: dict[str, Any], kind: HubFormat) -> tuple[int, ...]:
    names = CONFIGS[kind.family].VOCABULARIES
    if not names:
        return ()
    source = int(their["vocab_size"])
    if len(names) == 1:
        return (source,)
    return source, int(their.get("decoder_vocab_size") or source)


def _typed(
    their: dict[str, Any], kind: HubFormat, architecture: str | None = None
) -> dict[str, Any]:
    typed = {**their, "model_type": kind.name} if kind.typed else {**their}
    return typed if architecture is None else {**typed, "architectures": [architecture]}


def _insisted(
    folder: Path, their: dict[str, Any], tensors: Mapping[str, Tensor], asked: str
) -> Described:
    """The kind that the user insists on, if it fits the tensors."""
    by_class = kind_of_class(asked)
    kind = KINDS.get(asked) or by_class
    if kind is None:
        raise InputError(
            f"{folder}: the kind of model",
            got=asked,
            expected=f"one of {', '.join(KINDS)}, or a class such as BertForMaskedLM",
            fix=did_you_mean(nearest(asked, KINDS)),
        )
    described = Described(kind, _typed(their, kind, asked if by_class else None))
    misfit = _misfit(folder, described, tensors)
    if misfit is not None:
        others = [name for name in _fitting(folder, their, tensors) if name != kind.name]
        raise InputError(
            f"{folder} as {asked}",
            got=misfit,
            expected=f"what a {kind.name} has",
            fix=f"its tensors are named as those of {' or '.join(others)}" if others else None,
        )
    return described


def _inferred(folder: Path, their: dict[str, Any], tensors: Mapping[str, Tensor]) -> Described:
    """The only kind whose tensors have these names and sizes."""
    fitting = _fitting(folder, their, tensors)
    if not fitting:
        raise InputError(
            f"{config_path(folder)}: model_type",
            got="none, and tensors that no kind has together with this config",
            expected=f"one of {', '.join(KINDS)}",
            fix="--as KIND (kind= in Python) insists on one, and says what does not fit",
        )
    likely = [
        name for name in fitting
        if KINDS[name].recognised(their, TensorNames(their, KINDS[name].standard_names(tensors)))
    ]  # fmt: skip
    names = likely or list(fitting)
    if any(fitting[name].config != fitting[names[0]].config for name in names):
        raise InputError(
            f"{config_path(folder)}: model_type",
            got=f"none, and tensors as both {' and '.join(names)} have them",
            expected="one of these",
            fix=f"say which: --as {' or --as '.join(names)} (kind= in Python); "
            f"`regard import {folder} -o NEW --as {names[0]}` makes a folder that says it",
        )
    others = [name for name in fitting if fitting[name].config != fitting[names[0]].config]
    note = f"no model_type: read as {names[0]}, by its tensors"
    note += f"; {' and '.join(others)} would fit their names" if others else ""
    note += f" ({INSIST})"
    kind = KINDS[names[0]]
    return Described(kind, _typed(their, kind), (note,))


def _unknown(
    folder: Path,
    their: dict[str, Any],
    tensors: Callable[[], Mapping[str, Tensor]],
    name: object,
) -> InputError:
    """The error for a `model_type` that Regard does not know, with a kind of the same tensors."""
    try:
        fitting = list(_fitting(folder, their, tensors()))
    except InputError:  # the weights cannot be read; that is not what is wrong first
        fitting = []
    return InputError(
        f"{config_path(folder)}: model_type",
        got=name,
        expected=f"one of {', '.join(KINDS)}",
        fix=f"its tensors are named as those of {fitting[0]}: --as {fitting[0]} (kind= in Python) "
        "reads it so"
        if fitting
        else None,
    )


def _fitting(
    folder: Path, their: dict[str, Any], tensors: Mapping[str, Tensor]
) -> dict[str, Parsed]:
    """The kinds that fit the config and the tensors, with the converted config of each."""
    fitting: dict[str, Parsed] = {}
    for name, kind in KINDS.items():
        described = Described(kind, _typed(their, kind))
        try:
            renamed = kind.standard_names(tensors)
            parsed = parse(config_path(folder), kind, described.their, renamed, len(renamed))
        except InputError:
            continue
        if kind.names(parsed.config).misfit(renamed, parsed.shapes) is None:
            fitting[name] = parsed
    return fitting


def _misfit(folder: Path, described: Described, tensors: Mapping[str, Tensor]) -> str | None:
    """What of a folder does not fit a kind; None if all does."""
    kind = described.kind
    renamed = kind.standard_names(tensors)
    try:
        parsed = parse(config_path(folder), kind, described.their, renamed, len(renamed))
    except InputError as error:
        what = error.what.replace(str(config_path(folder)), "config.json")
        return f"{error.got} in {what}" if error.got is not None else what
    return kind.names(parsed.config).misfit(renamed, parsed.shapes)
