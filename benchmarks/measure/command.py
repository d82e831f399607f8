"""One benchmark run: create the experiments, measure them, report and save the results."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure import pictures, table
from benchmarks.measure.harness import Experiment, Outcome, run
from benchmarks.measure.suite import OURS, Makers, select, settings
from regard.data.config import Files
from regard.errors import InputError
from regard.runtime.device import setup
from regard.runtime.files import write_file
from regard.runtime.progress import Progress

ROUNDS, QUICK_ROUNDS = 5, 2


@dataclass(frozen=True)
class Request:
    """The options of the command line."""

    quick: bool = False
    rounds: int | None = None
    threads: int | None = None
    only: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    """Parts of the labels of the other packages that are measured; empty: all of them."""
    data: Files | None = None
    output: Path | None = None
    """The folder for results.json, results.md and the pictures; None writes nothing."""
    strict: bool = False
    quiet: bool = False


@dataclass(frozen=True)
class BenchResult:
    """The results of a run: report, JSON, and missed bars."""

    report: str
    json: dict[str, Any]
    missed: tuple[str, ...]
    strict: bool

    @property
    def exit_code(self) -> int:
        """1 if `strict` and a bar was missed, else 0."""
        return 1 if self.strict and self.missed else 0


def bench(makers: Makers, request: Request) -> BenchResult:
    """Run the requested experiments; results are saved after each one.

    Raises:
        InputError: For an unknown name or an invalid number.
    """
    if request.rounds is not None and request.rounds < 1:
        raise InputError("--rounds", got=request.rounds, expected="1 or more")
    chosen = select(makers, request.only)
    runtime = setup(request.threads, 0)
    rounds = request.rounds or (QUICK_ROUNDS if request.quick else ROUNDS)
    head: dict[str, Any] = {"rounds": rounds, "threads": runtime.threads, "quick": request.quick}
    outcomes: list[Outcome] = []
    with settings(quick=request.quick, data=request.data) as shared:
        experiments = with_peers([make(shared) for make in chosen], request.beside)
        total = sum(experiment.weight for experiment in experiments) * (rounds + 1)
        with Progress(total, quiet=request.quiet) as progress:
            for outcome in run(experiments, rounds, runtime.threads, progress):
                outcomes.append(outcome)
                if request.output is not None:
                    save(request.output, outcomes, head)
    return BenchResult(
        table.report(outcomes, **head),
        table.as_json(outcomes, **head),
        missed(outcomes),
        request.strict,
    )


def with_peers(experiments: list[Experiment], names: Sequence[str]) -> list[Experiment]:
    """Leave out the other packages that are not named; our own contenders stay.

    Raises:
        InputError: If a name is part of no label.
    """
    if not names:
        return experiments
    labels = {entry.label for experiment in experiments for entry in experiment.entries}
    for name in names:
        if not any(name.lower() in label.lower() for label in labels):
            expected = ", ".join(sorted(label for label in labels if not label.startswith(OURS)))
            raise InputError("--beside", got=name, expected=f"part of one of: {expected}")

    def is_kept(label: str) -> bool:
        chosen = any(name.lower() in label.lower() for name in names)
        return chosen or label.startswith(OURS)

    def narrowed(experiment: Experiment) -> Experiment:
        has_chosen = any(is_kept(entry.label) for entry in experiment.entries)
        return experiment.narrowed(is_kept) if has_chosen else experiment  # the machine's limits

    return [narrowed(experiment) for experiment in experiments]


def save(folder: Path, outcomes: list[Outcome], head: dict[str, Any]) -> None:
    """Write results.json, results.md, results.png and growth.png, each atomically."""
    results = table.as_json(outcomes, **head)
    written = json.dumps(results, ensure_ascii=False, indent=1, allow_nan=False)
    write_file(folder / "results.json", f"{written}\n".encode())
    text = f"# Results\n\n```text\n{table.report(outcomes, **head)}\n```\n"
    write_file(folder / "results.md", text.encode())
    pictures.draw_bars(outcomes, folder / "results.png")
    pictures.draw_growth(outcomes, folder / "growth.png")


def missed(outcomes: list[Outcome]) -> tuple[str, ...]:
    """Descriptions of the bars that were measured and missed; aims do not count."""
    bars = [
        verdict.describe()
        for outcome in outcomes
        for verdict in outcome.verdicts()
        if verdict.met is False and not verdict.bar.aim
    ]
    growing = [
        f"{sweep}, {label}: {growth.describe()}"
        for sweep, points in table.by_sweep(outcomes).items()
        for label, growth in table.growths(points).items()
        if growth.met is False
    ]
    other = [
        f"{outcome.experiment.name}: {agreement.describe()}"
        for outcome in outcomes
        if (agreement := table.agreement(outcome)) is not None and not agreement.met
    ]
    return (*bars, *growing, *other)
