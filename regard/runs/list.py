"""Lists shipped models, and the runs, checkpoints and Hugging Face folders below a folder.

In: a folder. Out: a row for each model, and the table that `regard ls` prints. Only recipes,
configs, cards and manifests are read; no tensor is read, and torch is not imported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import as_file
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.recipes import recipe as recipes
from regard.recipes.shelf import bytes_of, card_of, in_megabytes, is_model, shipped
from regard.runtime.files import read_json
from regard.runtime.units import aligned
from regard.tasks.entries import EVERY_TASK, verbs_of
from regard.tokens import Processor
from regard.train.checkpoint import run as checkpoint
from regard.train.checkpoint.folder import CONFIG, RECIPE, read_tokenizer

SHIPPED = "shipped"
"""The kind of rows for models that ship with Regard."""


def listing(found: Sequence[Mapping[str, Any]]) -> str:
    """Formats rows as text: a table of shipped models, and below it one of a folder's models."""
    shelf = [["name", "kind", "size", "score", "verbs"]]
    runs = [["name", "kind", "last step", "best loss"]]
    for each in found:
        kind = each["kind"] + (f" ({each['model']})" if "model" in each else "")
        if each["kind"] == SHIPPED:
            score = "{name} {value:g}".format(**each["score"]) if each["score"] else "-"
            size, verbs = in_megabytes(each["bytes"]), ", ".join(each["verbs"])
            shelf.append([each["name"], kind, size, score, verbs])
        else:
            numbers = (each.get(key) for key in ("step", "best_loss"))
            cells = ("-" if number is None else str(number) for number in numbers)
            runs.append([each["name"], kind, *cells])
    tables = ["\n".join(aligned(rows)) for rows in (shelf, runs) if len(rows) > 1]
    return "\n\n".join(tables)


def shelf_rows() -> Iterator[dict[str, Any]]:
    """Yields a row for each shipped entry: its size, first score, and commands (verbs)."""
    for name, entry in shipped().items():
        model, verbs = "vectors", ["vectors"]
        if is_model(entry):
            model, verbs = _described(entry)
        yield {
            "name": name,
            "kind": SHIPPED,
            "model": model,
            "bytes": bytes_of(entry),
            "score": _first_score(entry),
            "verbs": verbs,
        }


def _described(entry: Traversable) -> tuple[str, list[str]]:
    """The family of a shipped model, and the commands that work with it."""
    with as_file(entry) as folder:
        recipe = recipes.load(folder / RECIPE)
        known = Processor.from_json(read_tokenizer(folder))
    can = (verb for verb, _ in verbs_of(recipe.task, recipe.model, known))
    return recipe.model.family, [*can, *EVERY_TASK[recipe.model.reads]]


def _first_score(entry: Traversable) -> dict[str, Any] | None:
    """The first score on an entry's card; None if it has no readable card."""
    try:
        return card_of(entry).scores[0].model_dump(include={"name", "value"})
    except InputError:
        return None


def runs_in(folder: Path) -> Iterator[dict[str, Any]]:
    """Yields rows for shipped models, then for runs, checkpoints and Hugging Face folders.

    Args:
        folder: This folder and two levels below it are searched.
    """
    if not folder.is_dir():
        raise InputError(f"ls {folder}", got="no such folder", expected="a folder with runs in it")
    yield from shelf_rows()
    runs: set[Path] = set()
    for place in sorted([folder, *folder.glob("*"), *folder.glob("*/*")]):
        if runs & set(place.parents):  # inside a run: its checkpoints have no rows of their own
            continue
        if (place / "checkpoints").is_dir():
            runs.add(place)
            yield {"name": str(place), "kind": "run", **checkpoint.summary(place)}
        elif (place / CONFIG).is_file():
            yield from _model_in(place)


def _model_in(place: Path) -> Iterator[dict[str, Any]]:
    """Yields the row of a folder with a `config.json`, if that describes a model."""
    try:
        config = read_json(place / CONFIG)
    except InputError:
        return
    if "regard" in config:
        yield {"name": str(place), "kind": "checkpoint", "model": config.get("family")}
    elif isinstance(config.get("model_type"), str):
        yield {"name": str(place), "kind": "Hugging Face", "model": config["model_type"]}
    elif _has_weights(place):
        yield {"name": str(place), "kind": "Hugging Face", "model": "no model_type"}


def _has_weights(place: Path) -> bool:
    from regard.hub.folder import has_weights  # here, because it imports torch

    return has_weights(place)
