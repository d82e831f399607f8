"""Reads and writes what a captioner's folder has beside weights: tokenizer, images, decoding.

In: a Hugging Face folder with `preprocessor_config.json` and the files of a tokenizer. Out: a
`Processor` that reads images and writes text; and back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.decode.config import DecodeConfig
from regard.errors import InputError
from regard.hub.folder import write_model
from regard.hub.generation import GENERATION, roles_in, write_decoding
from regard.hub.identify import ModelDescription
from regard.hub.text import ids_without_tokenizer, roles_of, write_tokenizer
from regard.inputs.processor import Processor
from regard.inputs.text.published.hub import read_folder
from regard.models import Model
from regard.runtime.files import read_json, write_file

PREPROCESSOR = "preprocessor_config.json"
"""The file in which transformers says how images are scaled and normalised."""
START = "decoder_start_token_id"


def check_files(folder: Path, normalisation: Mapping[str, Any] | None) -> None:
    """Refuses a folder that does not say how its images are read.

    Args:
        folder: The model's folder.
        normalisation: The `mean` and `std` of images, if the user says them.
    """
    if not (folder / PREPROCESSOR).is_file() and len(normalisation or {}) < 2:
        raise InputError(
            f"{folder}: how images are scaled and normalised",
            got=f"no {PREPROCESSOR}",
            expected="that file of the model's publisher",
            fix="without it, `regard import FOLDER -o NEW --mean 0.5 --std 0.5` sets both",
        )


def with_tokenizer(
    processor: Processor, model: Model, folder: Path, description: ModelDescription
) -> Processor:
    """An image reader together with the tokenizer of captions in the same folder.

    Args:
        processor: Reads images.
        model: The captioner.
        folder: Its folder.
        description: What its config says.

    Raises:
        InputError: There is no tokenizer, or it does not belong to the weights.
    """
    config = description.kind.text_config(description.hub_config)
    if (folder / GENERATION).is_file():
        start = read_json(folder / GENERATION).get(START)
        config |= {} if start is None else {START: start}
    vocabulary = read_folder(folder, config)
    if vocabulary is None:
        raise InputError(
            f"{folder}: how captions are spelled",
            got="no tokenizer",
            expected="tokenizer.json, or vocab.json and merges.txt",
            fix=f"save it there: AutoTokenizer.from_pretrained(NAME).save_pretrained("
            f"{json.dumps(str(folder))})",
        )
    [size] = model.vocabularies().values()
    if vocabulary.target.vocab > size:
        what = f"{folder}: the tokenizer does not belong to the weights"
        got = f"{vocabulary.target.vocab} entries"
        raise InputError(what, got=got, expected=f"at most {size}")
    return Processor(processor.source, vocabulary.target)


def write(
    model: Model, processor: Processor | None, decode: DecodeConfig, folder: Path, kind: str | None
) -> None:
    """Writes weights, tokenizer and settings of decoding, not the image reader."""
    ids = {} if processor is None else roles_of(processor)
    roles = (ids or ids_without_tokenizer(model, decode)) | roles_in(decode)
    write_model(model, folder, kind, **roles)
    banned = () if processor is None else processor.target.specials.banned
    decode = decode.model_copy(update={"banned": tuple(dict.fromkeys((*decode.banned, *banned)))})
    longest = model.config.decoder.front.max_length
    settings = write_decoding(decode, roles, longest)
    write_file(folder / GENERATION, (json.dumps(settings, indent=2) + "\n").encode())
    if processor is not None:
        write_tokenizer(processor.target, ids, folder, max_length=longest)
