"""Import and export of Hugging Face folders beside the weights: recipe, tokenizer, decoding.

In: a model read by `folder.py`. Out: a recipe for it; or a complete Hugging Face folder.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from regard.data.config import NoData
from regard.decode.config import DecodeConfig
from regard.errors import InputError
from regard.hub.config import CONFIG
from regard.hub.generation import read_decoding
from regard.hub.images import FILE
from regard.inputs.readers import READERS
from regard.inputs.text.config import TokensConfig
from regard.models import FAMILIES, Model
from regard.recipes.recipe import VERSION, Recipe
from regard.runtime.files import read_json, reporting, temporary_beside
from regard.tasks.specs import TASKS
from regard.train.config import TrainConfig


def module_of(reads: str) -> Any:
    """The module that reads and writes a modality: `read` a model with its reader, and `write` it.

    Args:
        reads: The name of the modality in `READERS`.
    """
    return import_module(READERS[reads].hub)


def recipe_of(
    config: Any, vocabularies: Sequence[int], folder: Path, hub_config: dict[str, Any] | None = None
) -> Recipe:
    """Makes a recipe for an imported model.

    Args:
        config: The model's config.
        vocabularies: The sizes of its vocabularies.
        folder: The folder it was read from, or a single file.
        hub_config: The contents of Hugging Face's `config.json`, if it was read already.
    """
    length, paired = config.output_length, config.has_target
    return Recipe(
        version=VERSION,
        task=_task_of(config),
        data=NoData(),
        tokens=TokensConfig(shared=len(set(vocabularies)) == 1),
        model=config,
        train=TrainConfig(),
        decode=read_decoding(folder, vocabularies[-1], length, paired=paired, hub_config=hub_config)
        if vocabularies
        else DecodeConfig(),
    )


def _task_of(config: Any) -> Any:
    """The task of an imported model: that of its family.

    For a family whose models have heads, it is the task of the head that the model has, or `embed`
    if it has none. The family's own task comes last.
    """
    family_task = FAMILIES[config.family].task
    tasks_with_head = [task for task, spec in TASKS.items() if spec.head and spec.fits(config)]
    if family_task not in tasks_with_head:
        return family_task
    order = [*(task for task in tasks_with_head if task != family_task), family_task]
    return next((task for task in order if getattr(config, TASKS[task].head)), "embed")


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
            module_of(model.config.reads).write(model, vocabulary, decode, temporary, kind)
            if folder.exists():
                folder.rmdir()
            temporary.rename(folder)
    return folder


AUTO_CLASS_ENDINGS = {"ForConditionalGeneration": "ForSeq2SeqLM", "MTModel": "ForSeq2SeqLM",
        "LMHeadModel": "ForCausalLM", "Model": ""}  # fmt: skip
"""How the name of a Hugging Face class ends -> how that of its `AutoModel` ends, if not alike."""


TWO_SIDES = "VisionEncoderDecoderModel"
"""A class that is loaded by its own name in every version of transformers."""


def how_to_load(folder: Path) -> str:
    """What an exported folder contains, and the call with which another library loads it.

    Args:
        folder: A folder that `export` has written.

    Returns:
        Such as `as a Pegasus with its tokenizer:` and the call of `from_pretrained`.
    """
    config = read_json(folder / CONFIG)
    if "model_type" not in config:
        call = f"timm.create_model({json.dumps(f'local-dir:{folder}')}, pretrained=True)"
        return f"as a {config['architecture']}: {call}"
    [name, *_] = config.get("architectures") or [f"{config['model_type']}Model"]
    kind, ending = re.findall(r"^(.*?)(For\w+|LMHeadModel|MTModel|Model)$", name)[0]
    loader = f"AutoModel{AUTO_CLASS_ENDINGS.get(ending, ending.removesuffix('WithTeacher'))}"
    loader = name if name == TWO_SIDES else loader
    files = {FILE: "image processor", "tokenizer_config.json": "tokenizer"}
    words = [word for file, word in files.items() if (folder / file).exists()]
    extras = f" with its {' and '.join(words)}" if words else ""
    call = f"transformers.{loader}.from_pretrained({json.dumps(str(folder))})"
    return f"as a {kind}{extras}: {call}"
