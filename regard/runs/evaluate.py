"""Evaluates a model for `regard eval`: a pipeline in, a `Report` and its files out."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from regard.data.config import ALL_FOUND, Columns
from regard.data.text.arrow import split_to_score
from regard.errors import InputError
from regard.pipeline import Pipeline
from regard.runtime.files import write_file
from regard.tasks.measures.report import ExampleSet, Notes, Report, Scoring, Selection
from regard.tasks.specs import TASKS


def evaluate(
    pipeline: Pipeline,
    sets: Mapping[str, Any] | None = None,
    out: Path | None = None,
    *,
    split: str | None = None,
    files: str | None = None,
    columns: Columns = ALL_FOUND,
    beam: int | None = None,
    limit: int | None = None,
    **scoring: Any,
) -> Report:
    """Scores a model by the metrics of its task, and writes the results into a folder.

    Args:
        pipeline: The model to score.
        sets: Test sets by name, with examples as the task has them; None selects them by `split`
            and `files`.
        out: The folder for results; None writes nothing.
        split: A split of the run's data; by default the test sets, else the held-out data.
        files: Files with other examples to use instead; of a dataset folder, its test split.
        columns: Which columns of these files are read, if they differ from those of training.
        beam: The beam size, for tasks that decode by beam search.
        limit: Score at most this many examples of each set, evenly spread over it.
        **scoring: Further fields of `Scoring`, such as `suggest`.

    Raises:
        InputError: There is no metric for such a model, or it cannot suggest words; or `limit` is
            not at least 1.
    """
    recipe = pipeline.recipe
    task_class = TASKS[recipe.task].class_for(recipe.model)
    if scoring.get("suggest") and "suggest" not in task_class.scoring:
        raise InputError("--suggest", got=f"{pipeline}", expected="a model that generates text")
    if not hasattr(task_class, "report"):
        got = f"a {pipeline.model.config.family} model for {recipe.task}"
        fix = f"it can {', '.join(pipeline.verbs)}"
        raise InputError(f"{pipeline.name} cannot be scored", got=got, fix=fix)
    changes = {"beam": beam} if beam is not None and "beam" in task_class.scoring else {}
    if out is not None:
        scoring["keep"] = partial(_write_files, out)
    options = Scoring(pipeline.decoding(**changes), **scoring)
    if sets is None:
        options.on_progress(0.0, "reading the text")
        files = None if files is None else split_to_score(files)
        selection = Selection(split, files, model=pipeline.name, columns=columns)
        all_sets = pipeline.task.example_sets(recipe, selection)
    else:
        all_sets = {name: ExampleSet(examples) for name, examples in sets.items()}
    own_split = sets is None and files is None
    scored = {name: _subset(pipeline, examples, limit) for name, examples in all_sets.items()}
    examples = {name: subset.examples for name, subset in scored.items()}
    report: Report = pipeline.task.report(pipeline.model, examples, options)
    notes = {name: _notes(pipeline, subset, own_split=own_split) for name, subset in scored.items()}
    report = replace(report, notes=notes)
    if out is not None:
        _write_report(report, pipeline.name, out)
    return report


def _subset(pipeline: Pipeline, examples: ExampleSet, limit: int | None) -> ExampleSet:
    """The examples to score: those that the model can read, and at most `limit` of them."""
    task, readable = pipeline.task, pipeline.task.scorable(pipeline.model, examples)
    count = task.count(readable.examples)
    if limit is None or count <= limit:
        return readable
    reason = f"beyond --limit {limit} (those scored are evenly spread)"
    return readable.without(task.limited(readable.examples, limit), reason, count - limit)


def _notes(pipeline: Pipeline, scored: ExampleSet, *, own_split: bool) -> Notes:
    """What one has to know about the scores of a set.

    Args:
        pipeline: The model.
        scored: The examples that were scored.
        own_split: Whether they are a split of the model's own data.
    """
    task, examples = pipeline.task, scored.examples
    count, truncated = task.count(examples), task.truncated(pipeline.model, examples)
    overlap = pipeline.overlap(examples)
    return Notes(task.scored, count, scored.left_out, truncated, overlap, own_split=own_split)


def _write_files(out: Path, files: Mapping[str, str]) -> None:
    """Writes files, given as name and text, into a folder."""
    for name, text in files.items():
        write_file(out / name, text.encode())


def _write_report(report: Report, model: str, out: Path) -> None:
    """Writes a report's files and its charts: BLEU by sentence length, and confusion matrices."""
    _write_files(out, report.files())
    if matrices := report.confusions():
        from regard.draw.charts import confusion_chart
        from regard.draw.sheet import render

        for name, matrix in matrices.items():
            end = "" if len(matrices) == 1 else f"-{Path(name).stem}"
            picture = render(confusion_chart(matrix.classes, matrix.counts, model), ".png")
            write_file(out / f"confusion{end}.png", picture)
    if curves := report.curves():
        from regard.draw.charts import length_chart
        from regard.draw.sheet import render

        picture = render(length_chart(curves, model), ".png")
        write_file(out / "bleu-by-length.png", picture)


def first_try(pipeline: Pipeline, run: str) -> str:
    """Example commands to try a new run with, ready to be copied."""
    command = pipeline.task.suggested_command(pipeline.recipe, shlex.quote(run))
    return f"regard {command}   regard eval {shlex.quote(run)}"
