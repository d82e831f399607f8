"""The model families by name. Each has a file here, which does not import torch at module level."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from regard.config import input_error
from regard.errors import InputError
from regard.models import version_1
from regard.models.config import ModelConfig
from regard.models.families import (
    bert,
    captioner,
    cnn,
    convs2s,
    gpt,
    mlp,
    resnet,
    rnn,
    seq2seq,
    swin,
    t5,
    transformer,
    vit,
)
from regard.models.families.family import Family as Family
from regard.models.families.family import PublishedModel as PublishedModel

FAMILIES: dict[str, Family] = {
    "transformer": transformer.FAMILY,
    "t5": t5.FAMILY,
    "gpt": gpt.FAMILY,
    "bert": bert.FAMILY,
    "seq2seq": seq2seq.FAMILY,
    "rnn": rnn.FAMILY,
    "convs2s": convs2s.FAMILY,
    "vit": vit.FAMILY,
    "cnn": cnn.FAMILY,
    "resnet": resnet.FAMILY,
    "swin": swin.FAMILY,
    "mlp": mlp.FAMILY,
    "captioner": captioner.FAMILY,
}


class _Configs(Mapping[str, type[ModelConfig]]):
    """Family name -> config class, a live view of `FAMILIES`."""

    def __getitem__(self, name: str) -> type[ModelConfig]:
        return FAMILIES[name].config

    def __iter__(self) -> Iterator[str]:
        return iter(FAMILIES)

    def __len__(self) -> int:
        return len(FAMILIES)


CONFIGS = _Configs()
VERSION = 2
"""Version of the model configs that are written; those of version 1 are read, too."""


def build(config: ModelConfig, *vocabularies: int) -> Any:
    """Builds a model with initial weights drawn from torch's current random state.

    Args:
        config: The config of a model.
        vocabularies: Sizes of the source and target vocabulary, or of the only one.
    """
    return FAMILIES[config.family].build(config, *vocabularies)


def describe(model: Any) -> dict[str, Any]:
    """The content of a model's `config.json`, from which `rebuild` builds the model."""
    return {
        "regard": VERSION,
        "family": model.config.family,
        "model": model.config.model_dump(),
        **model.vocabularies(),
    }


def vocabularies_in(description: dict[str, Any]) -> tuple[int, ...]:
    """The vocabulary sizes in a description made by `describe`, the source's first."""
    names = ("vocab", "source_vocab", "target_vocab")
    return tuple(int(description[name]) for name in names if name in description)


def rebuild(description: dict[str, Any]) -> Any:
    """Builds a model from a description made by `describe`, with initial weights."""
    config, vocabularies = parse_description(description)
    return build(config, *vocabularies)


def parse_description(description: dict[str, Any]) -> tuple[ModelConfig, tuple[int, ...]]:
    """Parses a description made by `describe`: the config and the vocabulary sizes.

    Raises:
        InputError: If it is no such description, or its config is invalid.
    """
    family = description.get("family")
    if family == "vectors":
        raise InputError(
            "word vectors",
            got="a command for models that read text",
            expected="regard vectors MODEL nearest WORD",
            fix="in Python: regard.vectors(MODEL)",
        )
    version = description.get("regard")
    if version not in (1, VERSION) or not isinstance(family, str) or family not in FAMILIES:
        raise InputError(
            "config.json",
            got=f"regard {version!r}, family {family!r}",
            expected=f"regard 1 or {VERSION} and a family of {', '.join(FAMILIES)}",
        )
    config = CONFIGS[family]
    try:
        vocabularies = tuple(int(description[name]) for name in config.VOCABULARIES)
        values = description["model"]
        if version == 1:
            values = version_1.upgraded(config, values)
        return config.model_validate(values), vocabularies
    except ValidationError as error:
        raise input_error(error, "config.json") from error
    except (KeyError, ValueError, TypeError, OverflowError) as error:
        raise InputError("config.json", got=str(error).splitlines()[0]) from error
