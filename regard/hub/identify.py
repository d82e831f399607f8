"""Finds out what kind of model a folder holds, also if its `config.json` does not say so.

In: the contents of `config.json`, the folder's tensors, and the kind that the user insists on, if
any. Out: a `ModelDescription`, with notes on what was assumed. Kinds are tried by converting the
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

_MODEL_CLASS = re.compile(r"(?P<kind>[a-z0-9]+?)(for[a-z]+|model|lmheadmodel|mtmodel)", re.I)
"""A model class of transformers: `BertForMaskedLM`, `GPT2LMHeadModel`, `MarianMTModel`."""

MAX_NAME = 100
"""Most characters of the name of a class."""
INSIST_HINT = "--as KIND insists on another"

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class ModelDescription:
    """The kind of a folder's model and its config, completed by what was assumed."""

    kind: HubFormat
    hub_config: dict[str, Any]
    """The contents of `config.json`, with a `model_type`."""
    notes: tuple[str, ...] = ()
    """What was assumed, in words."""


@dataclass(frozen=True, eq=False)
class ParsedConfig:
    """A Hugging Face config converted to ours."""

    config: ModelConfig
    vocabularies: tuple[int, ...]
    """The sizes of the vocabularies."""
    shapes: dict[str, torch.Size]
    """The shapes of our tensors by our names."""
    notes: tuple[str, ...]
    """What was assumed, in words."""


def describe(
    folder: Path,
    hub_config: dict[str, Any],
    tensors: Callable[[], Mapping[str, Tensor]],
    kind_name: str | None = None,
) -> ModelDescription:
    """Determines the kind of a folder's model.

    It is the kind that is asked for, else what `model_type` says, else what `architectures` says,
    else the only kind that has tensors of these names and sizes.

    Args:
        folder: The model's folder.
        hub_config: The contents of its config.
        tensors: Maps the folder's tensors; called only if they are needed.
        kind_name: A kind such as `bert`, or a class such as `BertForTokenClassification`.

    Raises:
        InputError: The kind is unknown, does not fit the tensors, or is ambiguous.
    """
    if kind_name is not None:
        return _describe_as(folder, hub_config, tensors(), kind_name)
    name = hub_config.get("model_type") or ("timm" if "architecture" in hub_config else None)
    if name is not None:
        if not isinstance(name, str) or name not in KINDS:
            raise _unknown_kind_error(folder, hub_config, tensors, name)
        return ModelDescription(KINDS[name], hub_config)
    class_kind = kind_of_class(architecture_in(hub_config))
    if class_kind is not None:
        note = f"no model_type: read as {class_kind.name}, by its architectures ({INSIST_HINT})"
        return ModelDescription(class_kind, _with_model_type(hub_config, class_kind), (note,))
    return _infer_kind(folder, hub_config, tensors())


def kind_of_class(name: object) -> HubFormat | None:
    """The kind of a model class of transformers; None if it is another.

    Example:
        >>> kind_of_class("DistilBertForMaskedLM").name, kind_of_class("Qwen2MoeForCausalLM")
        ('distilbert', None)
    """
    parts = _MODEL_CLASS.fullmatch(name) if isinstance(name, str) and len(name) < MAX_NAME else None
    by_class = {name.replace("-", ""): kind for name, kind in KINDS.items()}
    return None if parts is None else by_class.get(parts["kind"].lower())


def parse(
    file: Path, kind: HubFormat, values: dict[str, Any], tensors: Mapping[str, Tensor], count: int
) -> ParsedConfig:
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
        vocabularies = _vocabularies(kind.text_config(values), kind)
        our_shapes = shapes(config, vocabularies, count, str(file))
        return ParsedConfig(config, vocabularies, our_shapes, tuple(names.notes))
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


def _vocabularies(hub_config: dict[str, Any], kind: HubFormat) -> tuple[int, ...]:
    names = CONFIGS[kind.family].VOCABULARIES
    if not names:
        return ()
    source = int(hub_config["vocab_size"])
    if len(names) == 1:
        return (source,)
    return source, int(hub_config.get("decoder_vocab_size") or source)


def _with_model_type(
    hub_config: dict[str, Any], kind: HubFormat, architecture: str | None = None
) -> dict[str, Any]:
    """A copy of a config with the `model_type` of a kind, and perhaps an architecture."""
    entries: dict[str, Any] = {"model_type": kind.name} if kind.has_model_type else {}
    entries |= {} if architecture is None else {"architectures": [architecture]}
    return {**hub_config, **entries}


def _describe_as(
    folder: Path, hub_config: dict[str, Any], tensors: Mapping[str, Tensor], kind_name: str
) -> ModelDescription:
    """The kind that the user insists on, if it fits the tensors."""
    by_class = kind_of_class(kind_name)
    kind = KINDS.get(kind_name) or by_class
    if kind is None:
        raise InputError(
            f"{folder}: the kind of model",
            got=kind_name,
            expected=f"one of {', '.join(KINDS)}, or a class such as BertForMaskedLM",
            fix=did_you_mean(nearest(kind_name, KINDS)),
        )
    architecture = kind_name if by_class else None
    description = ModelDescription(kind, _with_model_type(hub_config, kind, architecture))
    misfit = _misfit(folder, description, tensors)
    if misfit is not None:
        fitting = _fitting_kinds(folder, hub_config, tensors)
        other_kinds = [name for name in fitting if name != kind.name]
        fix = f"its tensors are named as those of {' or '.join(other_kinds)}"
        raise InputError(
            f"{folder} as {kind_name}",
            got=misfit,
            expected=f"what a {kind.name} has",
            fix=fix if other_kinds else None,
        )
    return description


def _infer_kind(
    folder: Path, hub_config: dict[str, Any], tensors: Mapping[str, Tensor]
) -> ModelDescription:
    """The only kind whose tensors have these names and sizes."""
    fitting = _fitting_kinds(folder, hub_config, tensors)
    if not fitting:
        raise InputError(
            f"{config_path(folder)}: model_type",
            got="none, and tensors that no kind has together with this config",
            expected=f"one of {', '.join(KINDS)}",
            fix="--as KIND (kind= in Python) insists on one, and says what does not fit",
        )

    def is_recognised(kind: HubFormat) -> bool:
        return kind.recognised(hub_config, TensorNames(hub_config, kind.standard_names(tensors)))

    names = [name for name in fitting if is_recognised(KINDS[name])] or list(fitting)
    if any(fitting[name].config != fitting[names[0]].config for name in names):
        raise InputError(
            f"{config_path(folder)}: model_type",
            got=f"none, and tensors as both {' and '.join(names)} have them",
            expected="one of these",
            fix=f"say which: --as {' or --as '.join(names)} (kind= in Python); "
            f"`regard import {folder} -o NEW --as {names[0]}` makes a folder that says it",
        )
    other_kinds = [name for name in fitting if fitting[name].config != fitting[names[0]].config]
    note = f"no model_type: read as {names[0]}, by its tensors"
    note += f"; {' and '.join(other_kinds)} would fit their names" if other_kinds else ""
    note += f" ({INSIST_HINT})"
    kind = KINDS[names[0]]
    return ModelDescription(kind, _with_model_type(hub_config, kind), (note,))


def _unknown_kind_error(
    folder: Path,
    hub_config: dict[str, Any],
    tensors: Callable[[], Mapping[str, Tensor]],
    name: object,
) -> InputError:
    """The error for a `model_type` that Regard does not know, with a kind of the same tensors."""
    try:
        fitting = list(_fitting_kinds(folder, hub_config, tensors()))
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


def _fitting_kinds(
    folder: Path, hub_config: dict[str, Any], tensors: Mapping[str, Tensor]
) -> dict[str, ParsedConfig]:
    """The kinds that fit the config and the tensors, with the converted config of each."""
    fitting: dict[str, ParsedConfig] = {}
    for name, kind in KINDS.items():
        description = ModelDescription(kind, _with_model_type(hub_config, kind))
        try:
            standard_tensors = kind.standard_names(tensors)
            parsed = _parse_description(folder, description, standard_tensors)
        except InputError:
            continue
        if kind.names(parsed.config).misfit(standard_tensors, parsed.shapes) is None:
            fitting[name] = parsed
    return fitting


def _parse_description(
    folder: Path, description: ModelDescription, tensors: Mapping[str, Tensor]
) -> ParsedConfig:
    file = config_path(folder)
    return parse(file, description.kind, description.hub_config, tensors, len(tensors))


def _misfit(
    folder: Path, description: ModelDescription, tensors: Mapping[str, Tensor]
) -> str | None:
    """What of a folder does not fit a kind; None if all does."""
    kind = description.kind
    standard_tensors = kind.standard_names(tensors)
    try:
        parsed = _parse_description(folder, description, standard_tensors)
    except InputError as error:
        what = error.what.replace(str(config_path(folder)), "config.json")
        return f"{error.got} in {what}" if error.got is not None else what
    return kind.names(parsed.config).misfit(standard_tensors, parsed.shapes)
