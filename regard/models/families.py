"""The families, by name: a config and how to build a model of it."""

from __future__ import annotations

from typing import Any

from regard.errors import InputError
from regard.models.config import TransformerConfig
from regard.models.shapes import EncoderDecoder

FAMILIES = {"transformer": (TransformerConfig, EncoderDecoder)}


def build(config: TransformerConfig, source_vocab: int, target_vocab: int) -> EncoderDecoder:
    """A model of this config, with fresh weights from torch's present random state."""
    return FAMILIES[config.family][1](config, source_vocab, target_vocab)


def describe(model: EncoderDecoder) -> dict[str, Any]:
    """What `config.json` says of a model: enough to build it again."""
    return {
        "regard": 1,
        "family": model.config.family,
        "model": model.config.model_dump(),
        "source_vocab": model.source_vocab,
        "target_vocab": model.target_vocab,
    }


def rebuild(description: dict[str, Any]) -> EncoderDecoder:
    """The model that `describe` described, with fresh weights."""
    family = description.get("family")
    if description.get("regard") != 1 or family not in FAMILIES:
        raise InputError(
            "config.json",
            got=f"regard {description.get('regard')!r}, family {family!r}",
            expected=f"regard 1 and a family of {', '.join(FAMILIES)}",
        )
    config, model = FAMILIES[family]
    try:
        return model(
            config.model_validate(description["model"]),
            int(description["source_vocab"]),
            int(description["target_vocab"]),
        )
    except (KeyError, ValueError, TypeError) as error:
        raise InputError("config.json", got=str(error).splitlines()[0]) from error
