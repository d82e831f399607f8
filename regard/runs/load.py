"""Loads a model from a run, a checkpoint, a Hugging Face folder or a name into a `Pipeline`.

In: a folder or a name. Out: a `Pipeline`, or only the tokenizers, or only the config. The code for
Hugging Face models is imported only when one of them is read.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError

from regard.checkpoint import run as checkpoint
from regard.checkpoint.folder import (
    CHECKPOINTS,
    CONFIG,
    MANIFEST,
    RECIPE,
    SEEN,
    TOKENIZER,
    Snapshot,
)
from regard.config import input_error
from regard.data.config import FileData, MixtureData, PartData, TextData
from regard.data.seen import Seen
from regard.errors import InputError
from regard.hub.config import ConfigFile
from regard.inputs.text import Processor, Vocabulary
from regard.models import parse_description, vocabularies_in
from regard.models.families import CONFIGS
from regard.models.load_weights import with_weights
from regard.pipeline import PRECISIONS, Pipeline, no_tokenizer
from regard.recipes import recipe as recipes
from regard.recipes.recipe import Recipe
from regard.runs.locate import Repository, open_model
from regard.runtime.device import runtime_on
from regard.runtime.files import read_json

_logger = logging.getLogger(__name__)


def load(
    model_name: str | Path,
    *,
    precision: str = "fp32",
    device: str | torch.device = "auto",
    dtype: str = "fp32",
    download: bool = True,
    kind: str | None = None,
) -> Pipeline:
    """Loads a run (its best checkpoint, else its last), one checkpoint, or a model by its name.

    Args:
        model_name: A folder, or a name: of a shipped model (`tiny/translate`), or of one in the
            Hugging Face cache or on the hub (`gpt2`, `org/name`, `org/name@revision`).
        precision: `fp32`, or `int8` for 8-bit matrices, which decode faster, on the CPU only.
        device: The device to compute on: `auto` (cuda if there is one, else the CPU), `cpu`,
            `cuda`, `cuda:1`, `mps`.
        dtype: `fp32`; on cuda also `bf16` or `fp16` for mixed precision.
        download: Whether to download from the hub, if `huggingface_hub` is installed.
        kind: What a Hugging Face folder is read as, whatever its config says: a kind such as
            `bert`, or a class such as `BertForTokenClassification`.

    Example:
        >>> load("tiny/translate").translate("The animal was tired.")
        'Das Tier war müde.'
    """
    if precision not in PRECISIONS:
        raise InputError("precision", got=precision, expected=" or ".join(PRECISIONS))
    if precision == "int8" and device == "auto":
        device = "cpu"
    runtime = runtime_on(device, dtype)  # an invalid device is refused before anything is read
    with open_model(model_name, download=download) as folder:
        config = ConfigFile.of(folder)
        if config.hub_config is not None:
            pipeline = from_hub(folder, str(model_name), config.hub_config, kind=kind)
            _recommend_import(folder, model_name)
        elif kind is not None:
            expected = "a Hugging Face folder, which can be read as another kind"
            raise InputError(f"{model_name} as {kind}", got="a model of Regard", expected=expected)
        else:
            pipeline = _from_snapshot(checkpoint.read_chosen(folder, config.data), str(model_name))
    runtime.move(pipeline.model)
    return pipeline.quantised() if precision == "int8" else pipeline


def vocabulary(model_name: str | Path, *, download: bool = True) -> Vocabulary:
    """Loads the tokenizers of a model; no model is built and no weights are read.

    Args:
        model_name: As for `load`, or a `tokenizer.json`.
        download: As for `load`; weights are not downloaded.

    Example:
        >>> vocabulary("tiny/translate").tokens("The dog.")[1].token
        'dog'
    """
    path = Path(model_name)
    if path.is_file() and not (path.name == TOKENIZER and (path.parent / MANIFEST).is_file()):
        from regard.inputs.text.published.hub import read_file

        return read_file(path)
    folder_or_name = path.parent if path.is_file() else model_name
    with open_model(folder_or_name, "tokenizer", download=download) as folder:
        tokenizers = _vocabulary_in(folder)
    if tokenizers is None:
        raise no_tokenizer(str(model_name))
    return tokenizers


def _vocabulary_in(folder: Path) -> Vocabulary | None:
    """The tokenizers of a folder; a Hugging Face folder may have a tokenizer and no config."""
    from regard.inputs.text.published.hub import read_folder

    config = ConfigFile.of(folder)
    is_own = any((folder / name).exists() for name in (MANIFEST, CHECKPOINTS))
    if config.hub_config is not None:
        return read_folder(folder, config.hub_config)
    if folder.is_dir() and not is_own and not config.data and (tokenizers := read_folder(folder)):
        return tokenizers
    tokenizers = _stored_processor(checkpoint.read_chosen_tokenizer(folder, config.data))
    if tokenizers is not None and not tokenizers.vocabulary_sizes:
        raise InputError(str(folder), got="a model of images", expected="one that reads text")
    return tokenizers


def _stored_processor(text: str) -> Any:
    """The tokenizers or image reader in a checkpoint's `tokenizer.json`; None if it has none."""
    if text.startswith('{"words": ['):
        raise InputError("word vectors", got="no tokenizer", expected="a model that reads text",
                         fix="regard vectors MODEL nearest WORD")  # fmt: skip
    return None if text.strip() == "{}" else Processor.from_json(text)


def _recommend_import(folder: Path, model_name: str | Path) -> None:
    """Says that weights were read from a `.bin` file, and how to convert it."""
    from regard.hub.folder import pickled_weights

    name = pickled_weights(folder)
    if name is not None:
        _logger.warning(
            "%s: read as plain tensors, no code in it was run; "
            "`regard import %s -o NEW` converts it", folder / name, model_name,
        )  # fmt: skip


def from_hub(
    folder: Path,
    name: str,
    hub_config: dict[str, Any] | None = None,
    *,
    kind: str | None = None,
    normalisation: dict[str, tuple[float, ...]] | None = None,
) -> Pipeline:
    """Loads a Hugging Face folder into a pipeline.

    Args:
        folder: Contains `config.json`, weights, and perhaps a tokenizer.
        name: The pipeline's name.
        hub_config: The contents of `config.json`, if it was read already.
        kind: As for `load`.
        normalisation: The `mean` or `std` of images, if not what the folder says.
    """
    from regard.hub.exchange import module_of, recipe_of
    from regard.hub.folder import describe_folder

    model_description = describe_folder(folder, hub_config, kind)
    reads = CONFIGS[model_description.kind.family].reads
    model, processor = module_of(reads).read(folder, model_description, normalisation)
    sizes = tuple(model.vocabularies().values())
    text_config = model_description.kind.text_config(model_description.hub_config)
    recipe = recipe_of(model.config, sizes, folder, text_config)
    return Pipeline(model, processor, recipe, name)


def outline(model_name: str) -> tuple[Recipe, tuple[int, ...]]:
    """The recipe of a model and the sizes of its vocabularies; nothing is built or downloaded.

    Args:
        model_name: As for `load`.
    """
    with open_model(model_name, "config", download=False) as path:
        file = ConfigFile.of(path)
        if file.hub_config is not None:
            from regard.hub.exchange import recipe_of
            from regard.hub.folder import read_outline

            config, sizes, text_config = read_outline(path, file.hub_config)
            return recipe_of(config, sizes, path, text_config), sizes
        folder = checkpoint.newest(path)  # all checkpoints of a run have the same config
        recipe = recipes.load(folder / RECIPE)
        description = file.values or read_json(folder / CONFIG)
    parse_description(description)
    return recipe, vocabularies_in(description)


def import_model(
    source: str | Path,
    tokenizer: Path | None = None,
    *,
    kind: str | None = None,
    heads: int | None = None,
    mean: tuple[float, ...] | None = None,
    std: tuple[float, ...] | None = None,
) -> Pipeline:
    """Reads a foreign model for `regard import`, weights in `.bin` files included.

    Args:
        source: A folder of Hugging Face or timm, its name in the cache or on the hub, a file of
            llama2.c, or a file of weights of a ViT of vit-pytorch or timm.
        tokenizer: The tokenizer file for llama2.c; by default the one beside the model.
        kind: As for `load`.
        heads: The number of heads of a ViT, if there is only a file of weights.
        mean: The mean of a model's images, by channel; by default what the folder says, or 0.5.
        std: The standard deviation of its images, as `mean`.
    """
    from regard.hub.exchange import recipe_of
    from regard.hub.llama2c import read_llama2c

    path = Path(source)
    stats = {key: value for key, value in (("mean", mean), ("std", std)) if value is not None}
    if not path.exists() and isinstance(source, str) and Repository.of(source) is not None:
        with open_model(source) as folder:
            return from_hub(folder, source, kind=kind, normalisation=stats)
    if path.is_dir():
        return from_hub(path, path.name, kind=kind, normalisation=stats)
    if kind is not None:
        raise InputError(f"{source} as {kind}", got="a file", expected="a Hugging Face folder")
    if path.is_file() and path.suffix.lower() in WEIGHT_FILES:
        return _read_vit(path, heads, stats)
    if path.exists():
        _check_file(path)
    model, vocabulary = read_llama2c(path, tokenizer)
    recipe = recipe_of(model.config, (model.vocab,), path)
    return Pipeline(model, vocabulary, recipe, path.stem)


WEIGHT_FILES = (".pth", ".pt", ".safetensors")
"""Endings of files that hold only weights, without a config."""


def _read_vit(file: Path, heads: int | None, stats: dict[str, tuple[float, ...]]) -> Pipeline:
    """A ViT from a file of weights without a config, with an image reader for its size."""
    from regard.hub.exchange import recipe_of
    from regard.hub.weights_alone import read_vit_file
    from regard.inputs.images.reader import ImageReader

    model = read_vit_file(file, heads)
    config: Any = model.config
    half = (0.5,) * config.channels
    try:
        reader = ImageReader(
            height=config.image[0],
            width=config.image[1],
            channels=config.channels,
            **{"mean": half, "std": half, **stats},
        )
    except ValidationError as error:
        raise input_error(error, "--mean and --std") from None
    return Pipeline(model, Processor(reader), recipe_of(config, (), file), file.stem)


def _check_file(source: Path) -> None:
    """Refuses a single file that is not llama2.c's, with advice on how to import its kind."""
    is_zip = False
    if source.is_file():
        with source.open("rb") as file:
            is_zip = file.read(2) == b"PK"  # as torch saves
    if source.suffix.lower() == ".bin" and not is_zip:
        return
    got, fix = f"a {source.suffix or 'nameless'} file", "save it with save_pretrained(FOLDER)"
    if is_zip or source.suffix.lower() in (".ckpt", ".pkl"):
        got += ": weights alone, which do not say what model they belong to"
        fix = "name the folder that has config.json beside them; without one, build the model in " \
              "transformers, load them there and save_pretrained(FOLDER)"  # fmt: skip
    expected = "a Hugging Face folder, or a .bin of llama2.c"
    raise InputError(f"import {source}", got=got, expected=expected, fix=fix)


def _from_snapshot(snapshot: Snapshot, name: str) -> Pipeline:
    """The pipeline of a checkpoint: builds the model, and copies its weights."""
    config, vocabularies = parse_description(snapshot.config)
    model = with_weights(config, vocabularies, snapshot.weights, name)
    recipe = recipe_of_run(snapshot.recipe, f"{name}/recipe.yaml")
    seen = Seen.from_bytes(snapshot.seen, f"{name}/{SEEN}") if snapshot.seen else None
    return Pipeline(model, _stored_processor(snapshot.tokenizer), recipe, name, seen)


def recipe_of_run(text: str, file: str) -> Recipe:
    """The recipe that a run has stored.

    A run that began before headers were found out has no key `header`. It learned from the first
    line of its files, too, and its splits depend on that: it is read as `header: false`.

    Args:
        text: The recipe's text.
        file: Its name, for errors.
    """
    recipe = recipes.from_text(text, file)
    return recipe.model_copy(update={"data": _without_header(recipe.data)})


def _without_header(data: Any) -> Any:
    """Data whose files have no header, if the recipe does not say whether they have."""
    if isinstance(data, MixtureData):
        parts = {name: _without_header(part) for name, part in data.parts.items()}
        return data.model_copy(update={"parts": parts})
    if isinstance(data, FileData | PartData | TextData) and "header" not in data.model_fields_set:
        return data.model_copy(update={"header": False})
    return data
