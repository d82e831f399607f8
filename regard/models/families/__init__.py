"""The families, by name: a file each, and a line each. None of them imports torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from regard.config import refused
from regard.errors import InputError
from regard.models.config import ModelConfig
from regard.models.families import bert, gpt, seq2seq, t5, transformer, vit
from regard.models.families.family import Family, Named

__all__ = [
    "CONFIGS",
    "FAMILIES",
    "Family",
    "Named",
    "build",
    "describe",
    "rebuild",
    "understood",
    "vocabularies_in",
]

FAMILIES: dict[str, Family] = {
    "transformer": transformer.FAMILY,
    "t5": t5.FAMILY,
    "gpt": gpt.FAMILY,
    "bert": bert.FAMILY,
    "seq2seq": seq2seq.FAMILY,
    "vit": vit.FAMILY,
}


class _Configs(Mapping[str, type[ModelConfig]]):
    """The families' configs, of those that there are when it is asked."""

    def __getitem__(self, name: str) -> type[ModelConfig]:
        return FAMILIES[name].config

    def __iter__(self) -> Iterator[str]:
        return iter(FAMILIES)

    def __len__(self) -> int:
        return len(FAMILIES)


CONFIGS = _Configs()


def build(config: ModelConfig, *vocabularies: int) -> Any:
    """A model of this config, with fresh weights from torch's present random state.

    Args:
        config: Of a family.
        vocabularies: Entries of the source's and the target's vocabulary, or of the only one.
    """
    return FAMILIES[config.family].build(config, *vocabularies)


def describe(model: Any) -> dict[str, Any]:
    """What `config.json` says of a model: enough to build it again."""
    return {
        "regard": 1,
        "family": model.config.family,
        "model": model.config.model_dump(),
        **model.vocabularies(),
    }


def vocabularies_in(description: dict[str, Any]) -> tuple[int, ...]:
    """The sizes of the vocabularies that `describe` wrote down, the source's first."""
    names = ("vocab", "source_vocab", "target_vocab")
    return tuple(int(description[name]) for name in names if name in description)


def rebuild(description: dict[str, Any]) -> Any:
    """The model that `describe` described, with fresh weights."""
    config, vocabularies = understood(description)
    return build(config, *vocabularies)


def understood(description: dict[str, Any]) -> tuple[ModelConfig, tuple[int, ...]]:
    """The config and the sizes of the vocabularies that `describe` wrote down.

    Raises:
        InputError: It is not a description, or of no model that there can be.
    """
    family = description.get("family")
    if family == "vectors":
        raise InputError(
            "word vectors",
            got="a command for models that read text",
            expected="regard vectors PLACE nearest WORD",
            fix="in Python: regard.vectors(PLACE)",
        )
    if description.get("regard") != 1 or not isinstance(family, str) or family not in FAMILIES:
        raise InputError(
            "config.json",
            got=f"regard {description.get('regard')!r}, family {family!r}",
            expected=f"regard 1 and a family of {', '.join(FAMILIES)}",
        )
    config = CONFIGS[family]
    try:
        vocabularies = tuple(int(description[name]) for name in config.VOCABULARIES)
        return config.model_validate(description["model"]), vocabularies
    except ValidationError as error:
        raise refused(error, "config.json") from error
    except (KeyError, ValueError, TypeError, OverflowError) as error:
        raise InputError("config.json", got=str(error).splitlines()[0]) from error
