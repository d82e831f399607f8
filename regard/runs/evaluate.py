"""What `regard eval` prints and writes."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

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
    beam: int | None = None,
    suggest: bool = False,
    **scoring: Any,
) -> Report:
    """Scores a model by the measures of its task; writes what is kept of it into a folder.

    Args:
        pipeline: What is scored.
        sets: Examples by name, as the task has them; None: those that are asked for.
        out: The folder, if there is one.
        split: Of the run's data; by default its tests, else what was held out.
        files: Other examples instead.
        beam: How many hypotheses to follow, if the task takes that.
        suggest: Whether to ask a model for next words, too.
        **scoring: More of `Scoring`.

    Raises:
        InputError: Nothing says how good such a model is, or it suggests no words.
    """
    kind, recipe = TASKS[pipeline.recipe.task].kind, pipeline.recipe
    if suggest and "suggest" not in kind.scoring:
        raise InputError("--suggest", got=f"{pipeline}", expected="a model that writes on")
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
        how.tell(0.0, "reading the text")
        asked = Selection(split, files, model=pipeline.name)
        sets = pipeline.task.examples(recipe, asked)
    report: Report = pipeline.task.report(pipeline.model, sets, how)
    if out is not None:
        _write(report, pipeline.name, out)
    return report


def _keep(out: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        write_file(out / name, text.encode())


def _write(report: Report, model: str, out: Path) -> None:
    """What is kept of a report, and a picture of BLEU against sentence length, 1280 by 720."""
    _keep(out, report.files())
    if curves := report.curves():
        from regard.explain.charts import length_chart
        from regard.explain.sheet import render

        picture = render(length_chart(curves, model), ".png")
        write_file(out / "bleu-by-length.png", picture)


def first_try(pipeline: Pipeline, run: str) -> str:
    """Commands that work on a new run as they stand."""
    place = shlex.quote(run)
    return f"regard {pipeline.task.trial(pipeline.recipe, place)}   regard eval {place}"
