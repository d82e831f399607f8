"""Trains several translators on the same data with the same budget, and measures each of them.

In: recipes, or a recipe with `task: compare` that lists them, and a folder. Out: a run for each
model in that folder, and `compare.json` with the results. Stopped at any moment, the same command
continues: finished models are not trained or measured again.
"""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from regard.config import Config, input_error
from regard.data.config import DataConfig
from regard.data.sources import load_splits
from regard.data.text.pairs import Pair
from regard.draw.colours import LINE_STYLES
from regard.errors import InputError
from regard.pipeline import Pipeline
from regard.recipes import recipe as recipes
from regard.recipes.keys import Keys
from regard.recipes.recipe import Recipe, RecipeFormat
from regard.runs.load import load
from regard.runs.train import train
from regard.runtime.files import read_json, write_file
from regard.tasks.measures.bleu import score_translations
from regard.tasks.measures.translators import BIN, Result
from regard.train.log import read_metrics

FILE = "compare.json"
EQUAL = ("task", "data", "train.steps", "train.batch_tokens", "seed")
"""What the recipes must have in common, apart from the model: the data and the budget."""


class ComparisonRecipe(Config):
    """A recipe with `task: compare`: names of models, each with a recipe and overrides."""

    version: Literal[2]
    task: Literal["compare"]
    compare: dict[str, str] | tuple[str, ...] = Field(min_length=1)
    """The recipes, each followed by overrides, such as `tiny/recurrent model.cell=lstm`; with a
    name for each model, or as a list."""
    overrides: tuple[str, ...] = ()
    """Overrides for all of them."""


FORMAT = RecipeFormat(
    ComparisonRecipe, Keys(top=dict(ComparisonRecipe.model_fields), sections={}, tags={})
)


class Model(Config):
    """One model of a comparison: its name, recipe and folder."""

    name: str
    recipe: str
    """The recipe and its overrides, as they were typed."""
    folder: str


class Contents(Config):
    """The contents of `compare.json`."""

    regard_compare: Literal[1] = 1
    models: tuple[Model, ...] = Field(max_length=len(LINE_STYLES))
    results: dict[str, Result] = Field(default_factory=dict)
    """Model name -> its measurements."""


@dataclass(frozen=True)
class Compared:
    """A comparison in a folder."""

    folder: Path
    models: tuple[Model, ...]
    results: Mapping[str, Result] = field(default_factory=dict)

    @cached_property
    def pipelines(self) -> dict[str, Pipeline]:
        """All models by name, loaded once."""
        return {model.name: load(self.folder / model.folder) for model in self.models}

    def translations(self, texts: Sequence[str]) -> dict[str, list[str]]:
        """The translations of the same texts by every model, by its name.

        Words that a model does not know are translated as unknown ones.
        """
        return {
            name: pipeline.translate(list(texts), allow_unknown=True)
            for name, pipeline in self.pipelines.items()
        }


def parse_entries(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Splits the arguments of `regard compare` into models and overrides for all of them.

    Args:
        words: Recipes (`tiny/recurrent`, or `"tiny/recurrent model.cell=lstm"` as one word),
            overrides (`train.steps=500`), or the name of a recipe with `task: compare`.

    Returns:
        The recipe of each model, by its name, and the overrides.
    """
    overrides = [word for word in words if "=" in _split_entry(word)[0]]
    entries = [word for word in words if word not in overrides]
    models: dict[str, str] = {}
    for entry in entries:
        name, *own_overrides = _split_entry(entry)
        if recipes.task_of(name) != "compare":
            models[entry] = entry
            continue
        recipe = recipes.load_form(FORMAT, name)
        texts = recipe.compare
        by_name = texts if isinstance(texts, dict) else dict(zip(texts, texts, strict=True))
        common = " ".join(map(shlex.quote, (*recipe.overrides, *own_overrides)))
        models |= {label: f"{text} {common}".strip() for label, text in by_name.items()}
    return models, overrides


def load_recipes(entries: Mapping[str, str], overrides: Sequence[str] = ()) -> dict[str, Recipe]:
    """Loads the recipes of a comparison, and checks that data and budget are the same.

    Raises:
        InputError: There are fewer than two, or more than a figure can show; one is not for
            translation; or two differ in `EQUAL`.
    """
    loaded = {}
    for label, entry in entries.items():
        name, *own_overrides = _split_entry(entry)
        loaded[label] = recipes.load(name, [*own_overrides, *overrides])
    if len(loaded) < 2:
        raise InputError("compare", got=f"{len(loaded)} recipe", expected="at least two")
    if len(loaded) > len(LINE_STYLES):
        expected = f"at most {len(LINE_STYLES)}, each with a line of its own in the figure"
        raise InputError("compare", got=f"{len(loaded)} recipes", expected=expected)
    (first, base), *other_recipes = loaded.items()
    for label, recipe in loaded.items():
        if recipe.task != "translate":
            raise InputError(label, got=f"task: {recipe.task}", expected="task: translate")
    for label, recipe in other_recipes:
        for key in recipes.changed(base, recipe):
            if any(key == same or key.startswith(f"{same}.") for same in EQUAL):
                expected = "the same data and budget for all"
                fix = f"set it for all of them: {key}=…"
                what = f"{label}: {key} differs from that of {first}"
                raise InputError(what, expected=expected, fix=fix)
    return loaded


def compare(
    words: Sequence[str],
    out: str | Path,
    *,
    threads: int | None = None,
    quiet: bool = False,
    on_status: Callable[[str], None] = lambda _: None,
) -> Compared:
    """Trains and measures every model that is not finished yet.

    Args:
        words: See `parse_entries`.
        out: The folder of the comparison.
        threads: How many threads to compute with.
        quiet: Show no progress bars.
        on_status: Gets a line before each training.

    Raises:
        InputError: The recipes do not fit together, or the folder holds another comparison.
    """
    folder = Path(out)
    entries, overrides = parse_entries(words)
    by_name = load_recipes(entries, overrides)
    common = " ".join(map(shlex.quote, overrides))
    models = tuple(
        Model(name=label, recipe=f"{entries[label]} {common}".strip(), folder=_folder_name(label))
        for label in by_name
    )
    if len({model.folder for model in models}) < len(models):
        raise InputError("compare", got="two models of one name", expected="a name for each")
    results: dict[str, Result] = {}
    if (folder / FILE).exists():
        before = read_comparison(folder)
        if before.models != models:
            fix = "choose a new folder with -o"
            raise InputError(str(folder), got="another comparison", fix=fix)
        results = dict(before.results)
    if len(results) < len(models):
        _check_tests(next(iter(by_name.values())).data)
    _write_comparison(folder, models, results)
    for number, model in enumerate(models, 1):
        if model.name in results:
            continue
        on_status(f"{number} of {len(models)}: {model.name} ({model.recipe})")
        run = folder / model.folder
        resume = (run / "checkpoints").is_dir()
        pipeline = train(by_name[model.name], run, resume=resume, quiet=quiet, threads=threads)
        results[model.name] = measure(pipeline, run)
        _write_comparison(folder, models, results)
    return Compared(folder, models, results)


def read_comparison(folder: str | Path) -> Compared:
    """Reads `compare.json`.

    Raises:
        InputError: The folder holds no comparison, or a damaged one.
    """
    path = Path(folder) / FILE
    if not path.is_file():
        expected = "the folder of a comparison"
        fix = "make one: regard compare tiny/compare -o FOLDER"
        raise InputError(str(folder), got=f"no {FILE}", expected=expected, fix=fix)
    try:
        contents = Contents.model_validate(read_json(path))
    except ValidationError as error:
        raise input_error(error, str(path)) from error
    return Compared(Path(folder), contents.models, contents.results)


def measure(pipeline: Pipeline, run: Path) -> Result:
    """Translates the test sentences of a model's data; reads its speeds and losses from the run."""
    tests = load_splits(pipeline.recipe.data).splits.tests
    pairs = [pair for pairs in tests.values() for pair in pairs]
    before = time.monotonic()
    hypotheses = pipeline.translate([pair.source for pair in pairs], allow_unknown=True)
    seconds = time.monotonic() - before
    metrics = read_metrics(run / "metrics.jsonl")
    speeds = sorted(line["targets_per_second"] for line in metrics if "targets_per_second" in line)
    return Result(
        parameters=pipeline.parameters,
        minutes=max(line["seconds"] for line in metrics if "seconds" in line) / 60,
        targets_per_second=speeds[len(speeds) // 2],
        sentences_per_second=len(pairs) / seconds,
        bleu=score_translations(hypotheses, [pair.references for pair in pairs]).bleu,
        by_length=bleu_by_length(pairs, hypotheses),
        curve=[
            (line["step"], line["validation_loss"]) for line in metrics if "validation_loss" in line
        ],
    )


def bleu_by_length(
    pairs: Sequence[Pair], hypotheses: Sequence[str]
) -> list[tuple[int, int, float]]:
    """BLEU by the length of the source, in groups of `BIN` words.

    Returns:
        For each group its most words, its number of sentences, and its BLEU.
    """
    groups: dict[int, list[int]] = {}
    for index, pair in enumerate(pairs):
        max_words = -(-len(pair.source.split()) // BIN) * BIN
        groups.setdefault(max_words, []).append(index)
    rows = []
    for max_words, indices in sorted(groups.items()):
        references = [pairs[index].references for index in indices]
        bleu = score_translations([hypotheses[index] for index in indices], references).bleu
        rows.append((max_words, len(indices), bleu))
    return rows


def _split_entry(entry: str) -> list[str]:
    """The words of an entry as a shell splits them: a recipe, and its overrides."""
    try:
        words = shlex.split(entry)
    except ValueError as error:
        raise InputError(f"compare: {entry}", got=str(error), fix="close the quotes") from None
    if not words:
        expected = "a recipe, such as tiny/translate"
        raise InputError("compare", got="an empty entry", expected=expected)
    return words


def _check_tests(data: DataConfig) -> None:
    """Refuses data without test sentences before anything is trained on it."""
    if not any(load_splits(data).splits.tests.values()):
        got, expected = "data without test sentences", "some to measure BLEU on"
        fix = "add data.test=FILE, or data.held_out_test=500 to hold some out"
        raise InputError("compare", got=got, expected=expected, fix=fix)


def _folder_name(label: str) -> str:
    """The name of a model's folder, from its name in the comparison."""
    return re.sub(r"[^\w.=-]+", "-", label).strip("-.") or "model"


def _write_comparison(folder: Path, models: Sequence[Model], results: Mapping[str, Result]) -> None:
    """Writes `compare.json`, which holds the models and the results so far."""
    contents = Contents(models=tuple(models), results=dict(results))
    folder.mkdir(parents=True, exist_ok=True)
    write_file(folder / FILE, json.dumps(contents.model_dump(), indent=1).encode())
