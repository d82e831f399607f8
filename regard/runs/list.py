"""Lists shipped models, and the runs, checkpoints and Hugging Face folders below a folder.

In: a folder, or the name of a model. Out: a row for each model, and the table that `regard ls`
prints, or the card of the model. Only recipes, configs, cards and manifests are read; no tensor is
read, and torch is imported only for a Hugging Face folder whose config does not say its kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import as_file
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from regard.checkpoint import run as checkpoint
from regard.checkpoint.folder import CHECKPOINTS, CONFIG, RECIPE, read_tokenizer
from regard.errors import InputError, did_you_mean, nearest
from regard.inputs.readers import READERS
from regard.inputs.text import Processor
from regard.recipes import recipe as recipes
from regard.recipes.shelf import CARD, bytes_of, card_of, in_megabytes, is_model, shipped
from regard.runs.locate import find, is_cached, is_ours, shelf_of
from regard.runtime.files import read_json, read_regular
from regard.runtime.units import aligned
from regard.tasks.specs import verbs_of

SHIPPED, RUN = "shipped", "run"
"""The kinds of rows for models that ship with Regard, and for runs."""
LONGEST_CARD = 1_000_000
"""Largest size of a README.md that is shown, in bytes."""


def list_models(name: str | None) -> tuple[str, list[dict[str, Any]]]:
    """What `regard ls` prints, as text and as rows for JSON.

    Args:
        name: A folder, whose models are listed; a model or a run, whose card is shown; None for
            the shelf and the present folder.

    Raises:
        InputError: There is no such folder or model.
    """
    folder = Path(name or ".")
    if name is None:
        rows = [*shelf_rows(), *models_in(folder)]
    elif not folder.exists() and shelf_of(name):
        rows = [*shelf_rows(shelf_of(name))]
    elif not folder.exists() and is_ours(name):
        card = card_of(find(name))
        return card.describe(), [card.model_dump()]
    else:
        if not folder.exists() and is_cached(name):
            folder = Path(str(find(name, "config", download=False)))
        row = row_of(folder)
        if row is not None:
            facts = facts_of(folder, row)
            return format_facts(facts), [facts]
        rows = [*models_in(folder)]
    return listing(rows), rows


def listing(rows: Sequence[Mapping[str, Any]]) -> str:
    """Formats rows as text: tables of shipped models and scores, and one of a folder's models."""
    shelf = [["name", "kind", "size", "verbs"]]
    scores = [["name", "score", "measured on"]]
    runs = [["name", "kind", "last step", "best loss"]]
    for row in rows:
        kind = row["kind"] + (f" ({row['model']})" if "model" in row else "")
        if row["kind"] == SHIPPED:
            size, verbs = in_megabytes(row["bytes"]), ", ".join(row["verbs"])
            shelf.append([row["name"], kind, size, verbs])
            if score := row["score"]:
                scores.append([row["name"], "{name} {value:g}".format(**score), score["on"]])
        else:
            numbers = (row.get(key) for key in ("step", "best_loss"))
            cells = ("-" if number is None else str(number) for number in numbers)
            runs.append([row["name"], kind, *cells])
    tables = ["\n".join(aligned(table)) for table in (shelf, scores, runs) if len(table) > 1]
    return "\n\n".join(tables)


def shelf_rows(names: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    """Yields a row for each shipped entry: its size, first score, and commands (verbs).

    Args:
        names: Only these entries; None: all.
    """
    for name, entry in shipped().items():
        if names is not None and name not in names:
            continue
        model, verbs = "vectors", ["vectors"]
        if is_model(entry):
            model, verbs = _family_and_verbs(entry)
        row = {"name": name, "kind": SHIPPED, "model": model, "bytes": bytes_of(entry)}
        yield {**row, "score": _first_score(entry), "verbs": verbs}


def _family_and_verbs(entry: Traversable) -> tuple[str, list[str]]:
    """The family of a model in a checkpoint folder, and the commands that work with it."""
    with as_file(entry) as folder:
        recipe = _stored_recipe(folder / RECIPE)
        processor = Processor.from_json(read_tokenizer(folder))
    verbs = (verb for verb, _ in verbs_of(recipe.task, recipe.model, processor))
    return recipe.model.family, [*verbs, *READERS[recipe.model.reads].commands]


def _stored_recipe(path: Path) -> recipes.Recipe:
    """The recipe that a model was trained with; its version is of no interest in a list."""
    _, text = recipes.find_text(str(path))
    return recipes.from_text(text, str(path))


def _first_score(entry: Traversable) -> dict[str, Any] | None:
    """The first score on an entry's card; None if it has no readable card."""
    try:
        return card_of(entry).scores[0].model_dump(include={"name", "value", "on"})
    except InputError:
        return None


def models_in(folder: Path) -> Iterator[dict[str, Any]]:
    """Yields rows for the runs, checkpoints and Hugging Face folders in a folder.

    Args:
        folder: This folder and two levels below it are searched.
    """
    if not folder.is_dir():
        names = [name for model in shipped() for name in (model, model.partition("/")[0])]
        expected = "a folder with runs in it"
        fix = did_you_mean(nearest(str(folder), names), "regard ls")
        raise InputError(f"ls {folder}", got="no such folder", expected=expected, fix=fix)
    runs: set[Path] = set()
    for path in sorted([folder, *folder.glob("*"), *folder.glob("*/*")]):
        if runs & set(path.parents):  # inside a run: its checkpoints have no rows of their own
            continue
        row = row_of(path)
        if row is not None:
            runs |= {path} if row["kind"] == RUN else set()
            yield row


def row_of(folder: Path) -> dict[str, Any] | None:
    """The row of a folder that is a run, a checkpoint or a Hugging Face folder; else None."""
    name = str(folder)
    if (folder / CHECKPOINTS).is_dir():
        return {"name": name, "kind": RUN, **checkpoint.summary(folder)}
    if not (folder / CONFIG).is_file():
        return None
    try:
        config = read_json(folder / CONFIG)
    except InputError:
        return None
    if "regard" in config:
        return {"name": name, "kind": "checkpoint", "model": config.get("family")}
    if isinstance(config.get("model_type"), str):
        return {"name": name, "kind": "Hugging Face", "model": config["model_type"]}
    from regard.hub.folder import has_weights  # here, because it imports torch

    if has_weights(folder):
        return {"name": name, "kind": "Hugging Face", "model": "no model_type"}
    return None


def facts_of(folder: Path, row: Mapping[str, Any]) -> dict[str, Any]:
    """What a model's folder says about itself: its row, its recipe, its size and its card.

    Args:
        folder: The folder of a run, a checkpoint or a Hugging Face model.
        row: As `row_of` returns it.
    """
    newest = sorted((folder / CHECKPOINTS).glob("[0-9]*"))[-1:] or [folder]
    files = [file for file in newest[0].iterdir() if not file.name.startswith("training.")]
    facts = {**row, "bytes": sum(file.stat().st_size for file in files if file.is_file())}
    try:
        recipe = _stored_recipe(newest[0] / RECIPE)
        facts |= {"task": recipe.task, "model": recipe.model.family}
        layers = [f"{count} {stack} layers" for stack, count in recipe.model.stacks.items()]
        facts["sizes"] = ", ".join([*layers, recipe.model.summary])
        facts["verbs"] = _family_and_verbs(newest[0])[1]
    except InputError:  # word vectors, another library's model, or a damaged one
        pass
    card = folder / CARD
    if card.is_file():
        facts["card"] = read_regular(card, LONGEST_CARD).decode("utf-8", "replace").strip()
    return facts


def format_facts(facts: Mapping[str, Any]) -> str:
    """The facts of a model's folder as text: one line for each, then its card."""
    values = dict(facts) | {"bytes": in_megabytes(facts["bytes"])}
    values["verbs"] = ", ".join(facts.get("verbs", ()))
    names = {"step": "last step", "best_loss": "best loss", "bytes": "size"}
    rows = [
        (names.get(key, key), str(value))
        for key, value in values.items()
        if key not in ("name", "card") and value not in (None, "")
    ]
    return "\n".join([facts["name"], "", *aligned(rows), "", facts.get("card", "")]).rstrip()
