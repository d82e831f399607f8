"""Import and export of Hugging Face folders beside the weights: recipe, tokenizer, decoding.

In: a model read by `folder.py`. Out: a recipe for it; or a complete Hugging Face folder.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.data.config import NoData
from regard.decode.config import DecodeConfig
from regard.errors import InputError
from regard.hub.choice import choose
from regard.hub.config import CONFIG
from regard.hub.folder import write_model
from regard.hub.generation import GENERATION, read_decoding, roles_in, write_decoding
from regard.hub.images import FILE, timm_settings, write_reader
from regard.inputs.text import Vocabulary
from regard.inputs.text.config import TokensConfig
from regard.inputs.text.published.hub import OWN
from regard.models import FAMILIES, Model
from regard.recipes.recipe import Recipe
from regard.runtime.files import read_json, reporting, temporary_beside, write_file
from regard.tasks.specs import TASKS
from regard.train.config import TrainConfig


def recipe_of(
    config: Any, vocabularies: Sequence[int], folder: Path, their: dict[str, Any] | None = None
) -> Recipe:
    """Makes a recipe for an imported model.

    Args:
        config: The model's config.
        vocabularies: The sizes of its vocabularies.
        folder: The folder it was read from, or a single file.
        their: The contents of Hugging Face's `config.json`, if it was read already.
    """
    length, paired = config.max_length, config.sides == 2
    return Recipe(
        version=1,
        task=_task_of(config),
        data=NoData(),
        tokens=TokensConfig(shared=len(set(vocabularies)) == 1),
        model=config,
        train=TrainConfig(),
        decode=read_decoding(folder, vocabularies[-1], length, paired=paired, their=their)
        if vocabularies
        else DecodeConfig(),
    )


def _task_of(config: Any) -> Any:
    """The task of an imported model: that of its family.

    For a family whose models have heads, it is the task of the head that the model has, or `embed`
    if it has none. The family's own task comes last.
    """
    usual = FAMILIES[config.family].task
    headed = [task for task, spec in TASKS.items() if spec.head and spec.fits(config)]
    if usual not in headed:
        return usual
    order = [*(task for task in headed if task != usual), usual]
    return next((task for task in order if getattr(config, TASKS[task].head)), "embed")


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


def export(
    model: Model, vocabulary: Any, decode: DecodeConfig, folder: Path, kind: str | None = None
) -> Path:
    """Writes a Hugging Face folder that transformers, or timm, loads with the same outputs.

    Args:
        model: The model to write.
        vocabulary: Its tokenizers or image reader; None if it has none.
        decode: The settings of decoding.
        folder: A new or an empty folder.
        kind: The kind of model to write, such as `timm`; None: what transformers has.

    Raises:
        InputError: No kind of Hugging Face model computes the same, or the folder is not empty.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(
            f"{folder} exists and is not empty", fix="choose a new name or an empty folder"
        )
    with reporting(f"export {folder}", "nothing was left behind"):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with temporary_beside(folder.absolute()) as temporary:
            temporary.mkdir()
            _write(model, vocabulary, decode, temporary, kind)
            if folder.exists():
                folder.rmdir()
            temporary.rename(folder)
    return folder


AUTO = {"ForConditionalGeneration": "ForSeq2SeqLM", "MTModel": "ForSeq2SeqLM",
        "LMHeadModel": "ForCausalLM", "Model": ""}  # fmt: skip
"""The end of their class's name -> that of the `AutoModel` which loads it; others are alike."""


def how_to_load(folder: Path) -> str:
    """What an exported folder contains, and the call with which another library loads it.

    Args:
        folder: A folder that `export` has written.

    Returns:
        Such as `as a Pegasus with its tokenizer:` and the call of `from_pretrained`.
    """
    their = read_json(folder / CONFIG)
    if "model_type" not in their:
        call = f"timm.create_model({json.dumps(f'local-dir:{folder}')}, pretrained=True)"
        return f"as a {their['architecture']}: {call}"
    [name, *_] = their.get("architectures") or [f"{their['model_type']}Model"]
    kind, ending = re.findall(r"^(.*?)(For\w+|LMHeadModel|MTModel|Model)$", name)[0]
    loader = f"AutoModel{AUTO.get(ending, ending.removesuffix('WithTeacher'))}"
    files = {"tokenizer_config.json": "tokenizer", FILE: "image processor"}
    beside = "".join(
        f" with its {word}" for file, word in files.items() if (folder / file).exists()
    )
    call = f"transformers.{loader}.from_pretrained({json.dumps(str(folder))})"
    return f"as a {kind}{beside}: {call}"


def _write(
    model: Model, vocabulary: Any, decode: DecodeConfig, folder: Path, kind: str | None
) -> None:
    if model.config.reads == "images":
        their = write_model(model, folder, kind)
        if vocabulary is not None and kind == "timm":
            their["pretrained_cfg"] |= timm_settings(vocabulary.source)
            write_file(folder / CONFIG, (json.dumps(their, indent=2) + "\n").encode())
        elif vocabulary is not None:
            write_reader(vocabulary.source, folder)
        return
    if kind is not None:
        raise InputError(f"export to {kind}", got="a model of text", expected="one of images")
    _check_sides(model, vocabulary)
    ids = {} if vocabulary is None else roles_of(vocabulary)
    if model.config.shape == "encoder":
        write_model(model, folder, **ids)
    else:
        roles = (ids or _ids_without_tokenizer(model, decode)) | roles_in(decode)
        write_model(model, folder, **roles)
        settings = write_decoding(decode, roles, model.config.max_length)
        write_file(folder / GENERATION, (json.dumps(settings, indent=2) + "\n").encode())
    if vocabulary is not None:
        _write_tokenizer(vocabulary, ids, model.config, folder)


def _check_sides(model: Model, vocabulary: Vocabulary | None) -> None:
    """Refuses a tokenizer for each side, unless its files were published."""
    if vocabulary is None or vocabulary.shared or vocabulary.files:
        return
    choose(model.config, separate=vocabulary.source.learned_from_pairs)
    raise InputError(
        "export",
        got="a tokenizer for each side, its files not kept",
        expected="one tokenizer for both sides, or the files of a Marian model",
        fix="import its folder again: its files are kept",
    )


def _write_tokenizer(
    vocabulary: Vocabulary, ids: Mapping[str, Any], config: Any, folder: Path
) -> None:
    """Writes the files of a tokenizer; those of a published one for each side as they were."""
    if vocabulary.files:
        for name, data in vocabulary.files.items():
            write_file(folder / name, data)
        return
    tokenizer = vocabulary.source
    write_file(folder / "tokenizer.json", tokenizer.library_json().encode())
    symbols = {name.removesuffix("_id"): tokenizer.symbol(token) for name, token in ids.items()}
    symbols.pop("decoder_start_token", None)  # only the model's config has it
    types = ["token_type_ids"] if getattr(config, "token_types", 0) > 1 else []
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": config.max_length,
        "model_input_names": ["input_ids", *types, "attention_mask"],
        "clean_up_tokenization_spaces": tokenizer.cleans or tokenizer.joins_words,
        **symbols,
    }
    if tokenizer.joins_words:
        settings[OWN] = {"sentences": True}
    write_file(folder / "tokenizer_config.json", json.dumps(settings, indent=2).encode())


def _ids_without_tokenizer(model: Model, decode: DecodeConfig) -> dict[str, Any]:
    """The special ids for the config of a model without a tokenizer.

    They are None, since the defaults of transformers may lie beyond the vocabulary. Only an
    encoder-decoder must have a padding id; it is the id that decoding starts from.
    """
    pad = decode.begin or 0 if model.config.sides == 2 else None
    return {"bos_token_id": None, "eos_token_id": None, "pad_token_id": pad}


def roles_of(vocabulary: Vocabulary) -> dict[str, Any]:
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
