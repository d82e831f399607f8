"""Evaluates a model for `regard eval`: a pipeline in, a `Report` and its files out."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from regard.data.config import ALL_FOUND, Columns
from regard.data.text.arrow import split_to_score
from regard.errors import InputError
from regard.pipeline import Pipeline
from regard.runtime.files import write_file
from regard.tasks.entries import TASKS
from regard.tasks.measures.report import Report, Scoring, Selection


def evaluate(
    pipeline: Pipeline,
    sets: Mapping[str, Any] | None = None,
    out: Path | None = None,
    *,
    split: str | None = None,
    files: str | None = None,
    columns: Columns = ALL_FOUND,
    beam: int | None = None,
    suggest: bool = False,
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
        suggest: Whether to also score suggestions of next words.
        **scoring: Further fields of `Scoring`.

    Raises:
        InputError: There is no metric for such a model, or it cannot suggest words.
    """
    kind, recipe = TASKS[pipeline.recipe.task].task_class, pipeline.recipe
    if suggest and "suggest" not in kind.scoring:
        raise InputError("--suggest", got=f"{pipeline}", expected="a model that generates text")
    if not hasattr(kind, "report"):
        raise InputError(
            f"{pipeline.name} cannot be scored",
            got=f"a {pipeline.model.config.family} model for {recipe.task}",
            fix=f"it can {', '.join(pipeline.verbs)}",
        )
    changes = {"beam": beam} if beam is not None and "beam" in kind.scoring else {}
    if out is not None:
        scoring["keep"] = partial(_keep, out)
    how = Scoring(pipeline.decoding(**changes), suggest=suggest, **scoring)
    if sets is None:
        how.on_progress(0.0, "reading the text")
        files = None if files is None else split_to_score(files)
        selection = Selection(split, files, model=pipeline.name, columns=columns)
        sets = pipeline.task.examples(recipe, selection)
    report: Report = pipeline.task.report(pipeline.model, sets, how)
    if out is not None:
        _write(report, pipeline.name, out)
    return report


def _keep(out: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        write_file(out / name, text.encode())


def _write(report: Report, model: str, out: Path) -> None:
    """Writes a report's files and its charts: BLEU by sentence length, and confusion matrices."""
    _keep(out, report.files())
    if matrices := report.confusions():
        from regard.explain.charts import confusion_chart
        from regard.explain.sheet import render

        for name, matrix in matrices.items():
            end = "" if len(matrices) == 1 else f"-{Path(name).stem}"
            picture = render(confusion_chart(matrix.classes, matrix.counts, model), ".png")
            write_file(out / f"confusion{end}.png", picture)
    if curves := report.curves():
        from regard.explain.charts import length_chart
        from regard.explain.sheet import render

        picture = render(length_chart(curves, model), ".png")
        write_file(out / "bleu-by-length.png", picture)


def first_try(pipeline: Pipeline, run: str) -> str:
    """Example commands to try a new run with, ready to be copied."""
    place = shlex.quote(run)
    return f"regard {pipeline.task.suggested_command(pipeline.recipe, place)}   regard eval {place}"
