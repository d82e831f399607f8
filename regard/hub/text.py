"""Reads and writes Hugging Face folders of models of text: weights, tokenizer, decoding."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.decode.config import DecodeConfig
from regard.errors import InputError
from regard.hub.choice import choose_kind
from regard.hub.folder import read_model, write_model
from regard.hub.generation import GENERATION, roles_in, write_decoding
from regard.hub.identify import ModelDescription
from regard.inputs.text import Processor, Tokenizer, Vocabulary
from regard.inputs.text.published.hub import OWN_KEY, read_folder
from regard.models import Model
from regard.runtime.files import write_file


def read(
    folder: Path, description: ModelDescription, normalisation: Mapping[str, Any] | None = None
) -> tuple[Model, Vocabulary | None]:
    """Reads a model, and its tokenizers if the folder has some.

    Args:
        folder: The model's folder.
        description: What its config says.
        normalisation: Is for images, and must be empty.

    Raises:
        InputError: The tokenizer does not belong to the weights, or normalisation is given.
    """
    if normalisation:
        raise InputError("--mean and --std", got="a model of texts", expected="a model of images")
    vocabulary = read_folder(
        folder, description.hub_config
    )  # first: its temporary memory is free again
    model = read_model(folder, description)
    if vocabulary is not None:
        check_vocabulary(model, vocabulary, folder)
    return model, vocabulary


def check_vocabulary(model: Model, vocabulary: Vocabulary, folder: Path) -> None:
    """Refuses a tokenizer with more entries than the model has embeddings."""
    sides = (vocabulary.source, vocabulary.target)
    sizes = list(model.vocabularies().values())
    for tokenizer, size in zip(sides, (sizes[0], sizes[-1]), strict=True):
        if tokenizer.vocab > size:
            raise InputError(
                f"{folder}: the tokenizer does not belong to the weights",
                got=f"{tokenizer.vocab} entries",
                expected=f"at most {size}",
            )


def write(
    model: Model,
    vocabulary: Vocabulary | None,
    decode: DecodeConfig,
    folder: Path,
    kind: str | None,
) -> None:
    """Writes a model with its tokenizers and settings of decoding; see `exchange.export`."""
    if kind is not None:
        raise InputError(f"export to {kind}", got="a model of text", expected="one of images")
    _check_sides(model, vocabulary)
    ids = {} if vocabulary is None else roles_of(vocabulary)
    if "decoder" not in model.config.sides:
        write_model(model, folder, **ids)
    else:
        roles = (ids or ids_without_tokenizer(model, decode)) | roles_in(decode)
        write_model(model, folder, **roles)
        settings = write_decoding(decode, roles, model.config.max_length)
        write_file(folder / GENERATION, (json.dumps(settings, indent=2) + "\n").encode())
    if vocabulary is not None:
        _write_tokenizers(vocabulary, ids, model.config, folder)


def _check_sides(model: Model, vocabulary: Vocabulary | None) -> None:
    """Refuses a tokenizer for each side, unless its files were published."""
    if vocabulary is None or vocabulary.shared or vocabulary.files:
        return
    choose_kind(model.config, separate=vocabulary.source.learned_from_pairs)
    raise InputError(
        "export",
        got="a tokenizer for each side, its files not kept",
        expected="one tokenizer for both sides, or the files of a Marian model",
        fix="import its folder again: its files are kept",
    )


def _write_tokenizers(
    vocabulary: Vocabulary, ids: Mapping[str, Any], config: Any, folder: Path
) -> None:
    """Writes the files of tokenizers; those of a published one for each side as they were."""
    if vocabulary.files:
        for name, data in vocabulary.files.items():
            write_file(folder / name, data)
        return
    types = getattr(config, "token_types", 0) > 1
    write_tokenizer(vocabulary.source, ids, folder, max_length=config.max_length, types=types)


def write_tokenizer(
    tokenizer: Tokenizer,
    ids: Mapping[str, Any],
    folder: Path,
    *,
    max_length: int,
    types: bool = False,
) -> None:
    """Writes the files of a tokenizer.

    Args:
        tokenizer: The tokenizer.
        ids: The ids of special tokens, from `roles_of`.
        folder: The folder to write to.
        max_length: The most tokens that the model reads.
        types: Whether the model reads the segment of each token.
    """
    write_file(folder / "tokenizer.json", tokenizer.library_json().encode())
    symbols = {name.removesuffix("_id"): tokenizer.symbol(token) for name, token in ids.items()}
    symbols.pop("decoder_start_token", None)  # only the model's config has it
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": max_length,
        "model_input_names": ["input_ids", *["token_type_ids"] * types, "attention_mask"],
        "clean_up_tokenization_spaces": tokenizer.cleans or tokenizer.joins_words,
        **symbols,
    }
    if tokenizer.joins_words:
        settings[OWN_KEY] = {"sentences": True}
    write_file(folder / "tokenizer_config.json", json.dumps(settings, indent=2).encode())


def ids_without_tokenizer(model: Model, decode: DecodeConfig) -> dict[str, Any]:
    """The special ids for the config of a model without a tokenizer.

    They are None, since the defaults of transformers may lie beyond the vocabulary. Only an
    encoder-decoder must have a padding id; it is the id that decoding starts from.
    """
    pad = decode.begin or 0 if model.config.has_target else None
    return {"bos_token_id": None, "eos_token_id": None, "pad_token_id": pad}


def roles_of(vocabulary: Processor) -> dict[str, Any]:
    """The ids of special tokens by their names in a Hugging Face config."""
    roles = vocabulary.target.specials
    named = {
        "bos_token_id": roles.begin,
        "eos_token_id": roles.end,
        "pad_token_id": roles.pad,
        "unk_token_id": roles.unknown,
        "cls_token_id": roles.classifier,
        "sep_token_id": roles.separator,
        "mask_token_id": roles.mask,
        "decoder_start_token_id": roles.start,
    }
    return {name: token for name, token in named.items() if token is not None}
