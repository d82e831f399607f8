"""Where a model is -> the pipeline that uses it: a run, a checkpoint, somebody else's folder.

What is known of other people's models is imported where one of them is read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.errors import InputError
from regard.hub.config import ConfigFile
from regard.models import understood, vocabularies_in
from regard.models.config import ModelConfig
from regard.models.families import CONFIGS
from regard.models.fill import blank, fill
from regard.models.sketch import shapes
from regard.pipeline import PRECISIONS, Pipeline, no_tokenizer
from regard.recipes import recipe as recipes
from regard.recipes.recipe import Recipe
from regard.runs.places import Repository, opened
from regard.runtime.device import present
from regard.runtime.files import read_json
from regard.tokens import Processor, Vocabulary
from regard.train.checkpoint import run as checkpoint
from regard.train.checkpoint.folder import (
    CHECKPOINTS,
    CONFIG,
    MANIFEST,
    RECIPE,
    TOKENIZER,
    check_tensors,
)
from regard.train.checkpoint.run import Snapshot


def load(
    place: str | Path,
    *,
    precision: str = "fp32",
    device: str | torch.device = "auto",
    dtype: str = "fp32",
    download: bool = True,
) -> Pipeline:
    """Loads a run (its best checkpoint, else its last), one checkpoint, or a model by its name.

    Args:
        place: The folder; or a name: of the shelf (`tiny/translate`), in the Hugging Face cache or
            on the hub (`gpt2`, `org/name`, `org/name@revision`).
        precision: `fp32`, or `int8` for matrices in 8 bits, which decode faster, on the CPU alone.
        device: Where it computes: `auto` (cuda if there is one, else the CPU), `cpu`, `cuda`,
            `cuda:1`, `mps`.
        dtype: `fp32`; on cuda also `bf16` or `fp16`: mixed precision.
        download: Whether the hub may be asked, if `huggingface_hub` is installed.

    Example:
        >>> load("tiny/translate").translate("The animal was tired.")
        'Das Tier war müde.'
    """
    if precision not in PRECISIONS:
        raise InputError("precision", got=precision, expected=" or ".join(PRECISIONS))
    if precision == "int8" and device == "auto":
        device = "cpu"
    runtime = present(device, dtype)  # refused before anything is read
    with opened(place, download=download) as folder:
        config = ConfigFile.of(folder)
        if config.theirs is not None:
            pipeline = from_hub(folder, str(place), config.theirs)
        else:
            pipeline = _from_snapshot(checkpoint.chosen(folder, config.data), str(place))
    runtime.place(pipeline.model)
    return pipeline.quantised() if precision == "int8" else pipeline


def vocabulary(place: str | Path, *, download: bool = True) -> Vocabulary:
    """The tokenizers of a model; no model is built and no weights are read.

    Args:
        place: As `load` takes it, or a `tokenizer.json`.
        download: As for `load`; weights are not downloaded.

    Example:
        >>> vocabulary("tiny/translate").tokens("The dog.")[1].token
        'dog'
    """
    path = Path(place)
    if path.is_file() and not (path.name == TOKENIZER and (path.parent / MANIFEST).is_file()):
        from regard.tokens.published.hub import read_file

        return read_file(path)
    with opened(path.parent if path.is_file() else place, "tokenizer", download=download) as folder:
        found = _vocabulary_in(folder)
    if found is None:
        raise no_tokenizer(str(place))
    return found


def _vocabulary_in(folder: Path) -> Vocabulary | None:
    """The tokenizers of a folder; one of Hugging Face may have nothing else, not even a config."""
    from regard.tokens.published.hub import read_folder

    config = ConfigFile.of(folder)
    ours = any((folder / name).exists() for name in (MANIFEST, CHECKPOINTS))
    if config.theirs is not None:
        return read_folder(folder, config.theirs)
    if folder.is_dir() and not ours and not config.data and (found := read_folder(folder)):
        return found
    found = _stored_processor(checkpoint.chosen_tokenizer(folder, config.data))
    if found is not None and not found.vocabularies:
        raise InputError(str(folder), got="a model of images", expected="one that reads text")
    return found


def _stored_processor(text: str) -> Any:
    """What a checkpoint keeps of its tokenizers or image reader; None if it came without."""
    if text.startswith('{"words": ['):
        raise InputError("word vectors", got="no tokenizer", expected="a model that reads text",
                         fix="regard vectors PLACE nearest WORD")  # fmt: skip
    return None if text.strip() == "{}" else Processor.from_json(text)


def from_hub(
    folder: Path, name: str, their: dict[str, Any] | None = None, *, pickled: bool = False
) -> Pipeline:
    """The pipeline of a Hugging Face folder.

    Args:
        folder: With `config.json`, weights, and perhaps a tokenizer.
        name: What to call it.
        their: What `config.json` says, if it was read already.
        pickled: Whether weights may be in `.bin` files, which are read without running anything.
    """
    from regard.hub.exchange import check_vocabulary, recipe_of
    from regard.hub.folder import kind_of, read_model
    from regard.tokens.published.hub import read_folder

    their = read_json(folder / CONFIG) if their is None else their
    if CONFIGS[kind_of(their, folder).family].reads == "images":
        from regard.hub.images import read_reader

        model = read_model(folder, their, pickled=pickled)
        recipe = recipe_of(model.config, (), folder, their)
        return Pipeline(model, read_reader(folder, model.config), recipe, name)
    vocabulary = read_folder(folder, their)  # first: what it takes for a while is free again then
    model = read_model(folder, their, pickled=pickled)
    if vocabulary is not None:
        check_vocabulary(model, vocabulary, folder)
    sizes = tuple(model.vocabularies().values())
    return Pipeline(model, vocabulary, recipe_of(model.config, sizes, folder, their), name)


def outline(place: str) -> tuple[Recipe, tuple[int, ...]]:
    """The recipe of a model and the sizes of its vocabularies; nothing is built or downloaded.

    Args:
        place: As `load` takes it.
    """
    with opened(place, "config", download=False) as path:
        said = ConfigFile.of(path)
        if said.theirs is not None:
            from regard.hub.exchange import recipe_of
            from regard.hub.folder import read_outline

            config, sizes = read_outline(path, said.theirs)
            return recipe_of(config, sizes, path, said.theirs), sizes
        folder = checkpoint.newest(path)  # all checkpoints of a run are of one model
        recipe = recipes.load(folder / RECIPE)
        description = said.values or read_json(folder / CONFIG)
    understood(description)
    return recipe, vocabularies_in(description)


def bring(source: str | Path, tokenizer: Path | None = None) -> Pipeline:
    """Somebody's model from wherever `regard import` can read it, `.bin` files included.

    Args:
        source: A Hugging Face folder, its name in the cache or on the hub, or a file of llama2.c.
        tokenizer: The tokenizer's file, for llama2.c; by default the one beside it.
    """
    from regard.hub.exchange import recipe_of
    from regard.hub.llama2c import read_llama2c

    path = Path(source)
    if not path.exists() and isinstance(source, str) and Repository.of(source) is not None:
        with opened(source) as folder:
            return from_hub(folder, source, pickled=True)
    if path.is_dir():
        return from_hub(path, path.name, pickled=True)
    if path.exists():
        _check_file(path)
    model, vocabulary = read_llama2c(path, tokenizer)
    recipe = recipe_of(model.config, (model.vocab,), path)
    return Pipeline(model, vocabulary, recipe, path.stem)


def _check_file(source: Path) -> None:
    """Refuses a single file of another kind than llama2.c's, and says where its like belongs."""
    zipped = False
    if source.is_file():
        with source.open("rb") as file:
            zipped = file.read(2) == b"PK"  # as torch saves
    if source.suffix.lower() == ".bin" and not zipped:
        return
    got, fix = f"a {source.suffix or 'nameless'} file", "save it with save_pretrained(FOLDER)"
    if zipped or source.suffix.lower() in (".pth", ".pt", ".ckpt", ".pkl", ".safetensors"):
        got += ": weights alone, which do not say what model they belong to"
        fix = "name the folder that has config.json beside them; without one, build the model in " \
              "transformers, load them there and save_pretrained(FOLDER)"  # fmt: skip
    expected = "a Hugging Face folder, or a .bin of llama2.c"
    raise InputError(f"import {source}", got=got, expected=expected, fix=fix)


def _from_snapshot(snapshot: Snapshot, name: str) -> Pipeline:
    config, vocabularies = understood(snapshot.config)
    check_weights(config, vocabularies, snapshot.weights, name)
    model = blank(config, *vocabularies)
    check_tensors(f"{name}: the weights", snapshot.weights, model.state_dict())
    fill(model, snapshot.weights)
    stored = _stored_processor(snapshot.tokenizer)
    return Pipeline(model, stored, recipes.from_text(snapshot.recipe, f"{name}/recipe.yaml"), name)


def check_weights(
    config: ModelConfig, vocabularies: tuple[int, ...], weights: dict[str, Tensor], name: str
) -> None:
    """Refuses weights of another model, before that model takes any memory.

    Args:
        config: As `config.json` has it.
        vocabularies: As `config.json` has them.
        weights: By name.
        name: Of the checkpoint, for the error.
    """
    what = f"{name}: the weights do not fit config.json"
    wanted = shapes(config, vocabularies, len(weights), what)
    found = {key: tensor.shape for key, tensor in weights.items()}
    for key in sorted(wanted.keys() | found.keys()):
        got, expected = (
            f"{key} of {tuple(some[key])}" if key in some else f"no {key}"
            for some in (found, wanted)
        )
        if got != expected:
            raise InputError(what, got=got, expected=expected)
