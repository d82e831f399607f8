"""Where a model is -> the pipeline that uses it: a run, a checkpoint, somebody else's folder."""

from __future__ import annotations

from importlib.resources import as_file, files
from importlib.resources.abc import Traversable
from pathlib import Path

from torch import Tensor

from regard import recipe as recipes
from regard.errors import InputError
from regard.exchange import check_vocabulary, recipe_of
from regard.models import BlocksConfig, build, understood, vocabularies_in
from regard.models.cost import shapes
from regard.pipeline import PRECISIONS, Pipeline, no_tokenizer
from regard.recipe import Recipe
from regard.tokens import Vocabulary
from regard.tokens.hub import read_file, read_folder
from regard.train import checkpoint
from regard.train.checkpoint import Snapshot
from regard.train.folder import (
    CHECKPOINTS,
    CONFIG,
    MANIFEST,
    RECIPE,
    TOKENIZER,
    check_tensors,
)
from regard.weights.folder import is_foreign, read_json, read_model, read_outline
from regard.weights.llama2c import read_llama2c


def load(place: str | Path, *, precision: str = "fp32") -> Pipeline:
    """Loads a run (its best checkpoint, else its last), one checkpoint, or a shipped model.

    Args:
        place: The folder, or the shipped model's name.
        precision: `fp32`, or `int8` for matrices in 8 bits, which decode faster.

    Example:
        >>> load("tiny/translate").translate("The animal was tired.")
        'Das Tier war müde.'
    """
    if precision not in PRECISIONS:
        raise InputError("precision", got=precision, expected=" or ".join(PRECISIONS))
    pipeline = _load(place)
    return pipeline.quantised() if precision == "int8" else pipeline


def _load(place: str | Path) -> Pipeline:
    path = Path(place)
    if path.is_dir() and is_foreign(path):
        return from_hub(path, str(place))
    return _from_snapshot(_snapshot(place), str(place))


def _snapshot(place: str | Path) -> Snapshot:
    """The checkpoint of Regard's own that somebody means."""
    if Path(place).exists():
        return checkpoint.chosen(Path(place))
    with as_file(_shipped_folder(place)) as folder:
        return checkpoint.read(folder)


def _shipped_folder(place: str | Path) -> Traversable:
    """The shipped model of a name."""
    model = shipped().get(str(place))
    if model is None and str(place) in recipes.shipped():
        run = f"runs/{Path(place).name}"
        needs = recipes.shipped()[str(place)].partition(": add ")[2]
        needs = needs or ("data.train=FILE" if str(place).startswith("own/") else "")
        command = " ".join(["regard train", str(place), *([needs] if needs else []), "-o", run])
        raise InputError(
            f"{place} is a recipe, not a model", fix=f"train it ({command}), then name {run}"
        )
    if model is None:
        known = ", ".join(shipped()) or "none"
        raise InputError(
            f"no folder {place}", fix=f"name a run, a checkpoint, or a shipped model ({known})"
        )
    return model


def vocabulary(place: str | Path) -> Vocabulary:
    """The tokenizers of a model; no model is built and no weights are read.

    Args:
        place: As `load` takes it, or a `tokenizer.json`.

    Example:
        >>> vocabulary("tiny/translate").tokens("The dog.")[1].token
        'dog'
    """
    path = Path(place)
    if path.is_file() and not (path.name == TOKENIZER and (path.parent / MANIFEST).is_file()):
        return read_file(path)
    folder = path.parent if path.is_file() else path
    if folder.is_dir() and _is_theirs(folder):
        found = read_folder(folder)
    elif folder.exists():
        found = _stored_vocabulary(checkpoint.chosen_tokenizer(folder))
    else:
        with as_file(_shipped_folder(place)) as model:
            found = _stored_vocabulary(checkpoint.read_tokenizer(model))
    if found is None:
        raise no_tokenizer(str(place))
    return found


def _is_theirs(folder: Path) -> bool:
    """Whether a folder is of Hugging Face; one with a tokenizer alone has no `config.json`."""
    if (folder / CONFIG).is_file():
        return is_foreign(folder)
    ours = (folder / MANIFEST).exists() or (folder / CHECKPOINTS).exists()
    return not ours and read_folder(folder) is not None


def _stored_vocabulary(text: str) -> Vocabulary | None:
    """What a checkpoint keeps of its tokenizers; None if it came without."""
    return None if text.strip() == "{}" else Vocabulary.from_json(text)


def from_hub(folder: Path, name: str, *, pickled: bool = False) -> Pipeline:
    """The pipeline of a Hugging Face folder.

    Args:
        folder: With `config.json`, weights, and perhaps a tokenizer.
        name: What to call it.
        pickled: Whether weights may be in `.bin` files, which are read without running anything.
    """
    model = read_model(folder, pickled=pickled)
    vocabulary = read_folder(folder)
    if vocabulary is not None:
        check_vocabulary(model, vocabulary, folder)
    sizes = tuple(model.vocabularies().values())
    return Pipeline(model, vocabulary, recipe_of(model.config, sizes, folder), name)


def outline(place: str) -> tuple[Recipe, tuple[int, ...]]:
    """The recipe of a model and the sizes of its vocabularies; nothing is built.

    Args:
        place: As `load` takes it.
    """
    path = Path(place)
    if path.is_dir() and is_foreign(path):
        config, sizes = read_outline(path)
        return recipe_of(config, sizes, path), sizes
    if not path.exists():
        snapshot = _snapshot(place)  # a shipped model
        return recipes.from_text(snapshot.recipe, place), vocabularies_in(snapshot.config)
    folder = checkpoint.newest(path)  # all checkpoints of a run are of one model
    recipe = recipes.load(folder / RECIPE)
    description = read_json(folder / CONFIG)
    understood(description)
    return recipe, vocabularies_in(description)


def bring(source: Path, tokenizer: Path | None = None) -> Pipeline:
    """Somebody's model from wherever `regard import` can read it, `.bin` files included.

    Args:
        source: A Hugging Face folder, or a file of llama2.c.
        tokenizer: The tokenizer's file, for llama2.c; by default the one beside it.
    """
    if source.is_dir():
        return from_hub(source, source.name, pickled=True)
    if source.exists():
        _check_file(source)
    model, vocabulary = read_llama2c(source, tokenizer)
    recipe = recipe_of(model.config, (model.vocab,), source)
    return Pipeline(model, vocabulary, recipe, source.stem)


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


def shipped() -> dict[str, Traversable]:
    """The models in the package, by name."""
    root = files("regard").joinpath("shipped")
    if not root.is_dir():
        return {}
    return {
        f"{size.name}/{model.name}": model
        for size in sorted(root.iterdir(), key=lambda entry: entry.name)
        if size.is_dir()
        for model in sorted(size.iterdir(), key=lambda entry: entry.name)
    }


def _from_snapshot(snapshot: Snapshot, name: str) -> Pipeline:
    config, vocabularies = understood(snapshot.config)
    check_weights(config, vocabularies, snapshot.weights, name)
    model = build(config, *vocabularies)
    check_tensors(f"{name}: the weights", snapshot.weights, model.state_dict())
    model.load_state_dict(snapshot.weights)
    stored = _stored_vocabulary(snapshot.tokenizer)
    return Pipeline(model, stored, recipes.from_text(snapshot.recipe, f"{name}/recipe.yaml"), name)


def check_weights(
    config: BlocksConfig, vocabularies: tuple[int, ...], weights: dict[str, Tensor], name: str
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
