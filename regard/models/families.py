"""The families, by name: a config and the shape of model it is a config of."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from regard.config import refused
from regard.errors import InputError
from regard.models.config import (
    BertConfig,
    BlocksConfig,
    GPTConfig,
    T5Config,
    TransformerConfig,
)
from regard.models.decoder import Decoder
from regard.models.encoder import Encoder
from regard.models.encoder_decoder import EncoderDecoder

Model = EncoderDecoder | Decoder | Encoder
FAMILIES: dict[str, tuple[type[BlocksConfig], type[Model]]] = {
    "transformer": (TransformerConfig, EncoderDecoder),
    "t5": (T5Config, EncoderDecoder),
    "gpt": (GPTConfig, Decoder),
    "bert": (BertConfig, Encoder),
}


def build(config: BlocksConfig, *vocabularies: int) -> Any:
    """A model of this config, with fresh weights from torch's present random state.

    Args:
        config: Of a family.
        vocabularies: Entries of the source's and the target's vocabulary, or of the only one.
    """
    shape: Any = FAMILIES[config.family][1]
    return shape(config, *vocabularies)


def describe(model: Model) -> dict[str, Any]:
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


def understood(description: dict[str, Any]) -> tuple[BlocksConfig, tuple[int, ...]]:
    """The config and the sizes of the vocabularies that `describe` wrote down.

    Raises:
        InputError: It is not a description, or of no model that there can be.
    """
    family = description.get("family")
    if description.get("regard") != 1 or not isinstance(family, str) or family not in FAMILIES:
        raise InputError(
            "config.json",
            got=f"regard {description.get('regard')!r}, family {family!r}",
            expected=f"regard 1 and a family of {', '.join(FAMILIES)}",
        )
    config, shape = FAMILIES[family]
    names = ("vocab",) if shape is not EncoderDecoder else ("source_vocab", "target_vocab")
    try:
        vocabularies = tuple(int(description[name]) for name in names)
        return config.model_validate(description["model"]), vocabularies
    except ValidationError as error:
        raise refused(error, "config.json") from error
    except (KeyError, ValueError, TypeError, OverflowError) as error:
        raise InputError("config.json", got=str(error).splitlines()[0]) from error
