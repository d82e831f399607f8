"""Benchmark results as text tables and as JSON."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.measure.harness import AGREE, Outcome, Point
from benchmarks.measure.limits import MEMORY
from benchmarks.measure.results import (
    Measured,
    Quantity,
    Summary,
    Verdict,
    compare,
    same_tokens,
    slope,
    to_json,
)
from regard.runtime.device import describe

WIDTH = 24
"""The length of the longest bar in characters."""
_EIGHTHS = " ▏▎▍▌▋▊▉█"
LINEAR = 1.1
"""The largest exponent that counts as linear growth."""
QUICK = "Quick: toy sizes, to see that everything runs. The numbers mean nothing."


def report(outcomes: Sequence[Outcome], *, rounds: int, threads: int, quick: bool) -> str:
    """The text tables of a run, with a description of the machine above them."""
    machine = describe(kernels=True)
    head = [
        f"{machine['system']}, {threads} thread{'s' if threads > 1 else ''}, "
        f"{machine['CPU capability']}, {machine['memory']}; torch {machine['torch']}",
        f"medians of {rounds} interleaved rounds (lowest–highest); ┃ is the bar to reach",
    ]
    single = [outcome for outcome in outcomes if outcome.experiment.point is None]
    tables = [table(outcome, judged=not quick) for outcome in single]
    return "\n\n".join(
        [
            "\n".join([*head, *([QUICK] if quick else [])]),
            *tables,
            *sweeps(outcomes, judged=not quick),
        ]
    )


def table(outcome: Outcome, *, judged: bool = True) -> str:
    """The table of one experiment: a line and a bar per contender, then the verdicts."""
    experiment, shows = outcome.experiment, outcome.experiment.shows
    lines = [outcome.measured[entry.label] for entry in experiment.entries]
    limit = None if experiment.limit is None else outcome.measured[experiment.limit.label]
    figures = {line.label: line.shown(shows) for line in lines if line.ok}
    reach = marks(outcome)
    most = max([figure.median for figure in figures.values()] + list(reach.values()), default=1.0)
    width = max(len(line.label) for line in lines)
    numbers = {label: _spread(figure, shows) for label, figure in figures.items()}
    digits = max(map(len, numbers.values()), default=0)
    rows = []
    for line in lines:
        if not line.ok:
            rows.append(f"  {line.label:<{width}}  {line.note}")
            continue
        drawn = bar(figures[line.label].median / most, reach.get(line.label, 0.0) / most)
        more = "  ".join(_beside(line, lines[0], limit, shows) if experiment.comparable else ())
        rows.append(
            f"  {line.label:<{width}}  {numbers[line.label]:>{digits}}  {drawn}  {more}".rstrip()
        )
    if limit is not None and limit.ok:
        unit = "bytes a second" if limit.label == MEMORY else "FLOP/s"
        most_of = dict.fromkeys(number(value) for value in ceilings(outcome).values())
        at_most = f"; at most {', '.join(most_of)} {experiment.unit}" if most_of else ""
        rows.append(f"  {limit.label}: {_spread(limit.shown('rate'), 'rate')} {unit}{at_most}")
    verdicts = [f"  {verdict.describe(judged=judged)}" for verdict in outcome.verdicts()]
    written = agreement(outcome)
    tokens = [f"  {written.describe()}"] if written else []
    return "\n".join([f"{experiment.title}: {experiment.unit}", *rows, *tokens, *verdicts])


def ceilings(outcome: Outcome) -> dict[str, float]:
    """For each label, the most that the memory allows, in units of work a second.

    That is the bandwidth measured in the same rounds over the bytes of weights that a unit reads.
    """
    limit = outcome.experiment.limit
    if limit is None or not outcome.measured[limit.label].ok:
        return {}
    rate = outcome.measured[limit.label].shown("rate").median
    lines = outcome.measured.values()
    return {line.label: rate / line.reads for line in lines if line.reads}


@dataclass(frozen=True)
class Agreement:
    """Whether contenders with the same weights write the same tokens."""

    first: str
    """The label of the contender that the others are compared with."""
    length: int
    """The number of tokens that it wrote."""
    tokens: dict[str, int]
    """By label: the number of its tokens before the first one that differs."""
    exact: tuple[str, ...]
    """Those that must agree, since they compute in 32 bits too."""

    @property
    def met(self) -> bool:
        """Whether all of them have the same first `AGREE` tokens."""
        return all(self.tokens[label] >= min(AGREE, self.length) for label in self.exact)

    def describe(self) -> str:
        """One line of text."""
        counts = ", ".join(f"{label} {same}" for label, same in self.tokens.items())
        mark = "✓" if self.met else "✗"
        return f"{mark} first answers the same as {self.first}'s, of {self.length}: {counts}"


def agreement(outcome: Outcome) -> Agreement | None:
    """Compare what the contenders wrote; None if nobody must agree or nobody was measured."""
    if not outcome.experiment.exact:
        return None
    first, *others = (outcome.measured[entry.label] for entry in outcome.experiment.entries)
    same = {line.label: same_tokens(first, line) for line in others}
    compared = {label: tokens for label, tokens in same.items() if tokens is not None}
    exact = tuple(label for label in outcome.experiment.exact if label in compared)
    length = len(first.turns[-1].answer or ()) if first.ok else 0
    return Agreement(first.label, length, compared, exact) if exact else None


def bar(share: float, mark: float = 0.0) -> str:
    """A text bar of length share × `WIDTH`, with a mark at mark × `WIDTH`."""
    eighths = round(8 * WIDTH * min(max(share, 0.0), 1.0))
    cells = list(("█" * (eighths // 8) + _EIGHTHS[eighths % 8]).ljust(WIDTH + 1))
    if mark > 0:
        cells[min(WIDTH, round(WIDTH * mark))] = "┃"
    return "".join(cells)


def marks(outcome: Outcome) -> dict[str, float]:
    """For each label, the value it has to reach for all of its bars, in the unit of the table."""
    marks: dict[str, float] = {}
    for verdict in outcome.verdicts():
        bar, rival = verdict.bar, outcome.measured.get(verdict.against)
        if rival is None or bar.aim or bar.compared not in ("speed", "time"):
            continue
        value = rival.shown(outcome.experiment.shows).median
        times = bar.limit if bar.at_least == (outcome.experiment.shows == "rate") else 1 / bar.limit
        hardest = max if outcome.experiment.shows == "rate" else min
        marks[bar.label] = hardest(value * times, marks.get(bar.label, value * times))
    return marks


def _beside(line: Measured, first: Measured, limit: Measured | None, shows: Quantity) -> list[str]:
    """The texts to the right of a bar: ratio to the first line, share of the peak, memory."""
    more = []
    if shows != "work" and first.ok:
        compared = "speed" if shows == "rate" else "time"
        more.append(f"{compare(line, first, compared).median:5.2f}×")  # type: ignore[arg-type]
    if (line.flops or line.reads) and limit is not None and limit.ok:
        rate = "the memory's speed" if line.reads else "the matrix rate"
        more.append(f"{compare(line, limit, 'peak').median:4.0%} of {rate}")
    if line.peak and shows != "work":
        more.append(f"{bytes_of(line.peak)}, {bytes_of(line.memory)} of it for the run")
    return more


def _spread(figure: Summary, shows: Quantity) -> str:
    values = [number(value, shows) for value in (figure.median, figure.low, figure.high)]
    return f"{values[0]} ({values[1]}–{values[2]})"


def number(value: float, shows: Quantity = "rate") -> str:
    """A number with three or four digits, with the letter M, G or T if it is large."""
    if shows == "work":
        return f"{value:.2f}"
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if value >= size:
            return f"{value / size:.1f} {letter}"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def bytes_of(size: float) -> str:
    """A size in MiB, or in GiB if it is large."""
    return f"{size / 2**30:.2f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"


def sweeps(outcomes: Sequence[Outcome], *, judged: bool = True) -> list[str]:
    """One table per sweep: time and memory along its axis, and their growth exponents."""
    texts = []
    for name, points in by_sweep(outcomes).items():
        rows = [f"{name}: milliseconds, memory for the run"]
        for outcome in points:
            rows.append(f"  {point_of(outcome).x:,.0f} {point_of(outcome).axis}")
            for line in outcome.measured.values():
                what = line.note
                if line.ok:
                    what = f"{_spread(line.shown('time'), 'time'):>24}  {bytes_of(line.memory)}"
                rows.append(f"    {line.label:<24}  {what}")
        for label, growth in growths(points).items():
            rows.append(f"  {label}: {growth.describe(judged=judged)}")
        texts.append("\n".join(rows))
    return texts


@dataclass(frozen=True)
class Growth:
    """The growth exponents of one contender along an axis: 1 is linear, 2 quadratic."""

    time: float
    memory: float
    last: float
    """The exponent of memory between the last two points, where constant memory matters least."""
    must_be_linear: bool

    @property
    def met(self) -> bool | None:
        """Whether memory grows linearly; None if that is not required."""
        return self.last <= LINEAR if self.must_be_linear else None

    def describe(self, *, judged: bool = True) -> str:
        """One line of text; without `judged` it does not say whether memory is linear enough."""
        text = f"time grows with exponent {self.time:.2f}, memory with {self.memory:.2f}"
        if not self.must_be_linear:
            return text
        mark = ("✓" if self.met else "✗") if judged else "·"
        return f"{text}; {mark} {self.last:.2f} at the end, at most {LINEAR:g}"


def growths(points: Sequence[Outcome]) -> dict[str, Growth]:
    """The growth of each contender with at least two points."""
    growth = {}
    for label in dict.fromkeys(label for outcome in points for label in outcome.measured):
        rows = curve(points, label)
        if len(rows) > 1:
            sizes = [(x, memory) for x, _, memory in rows]
            growth[label] = Growth(
                slope([(x, time) for x, time, _ in rows]),
                slope(sizes),
                slope(sizes[-2:]),
                any(label in point_of(outcome).linear for outcome in points),
            )
    return growth


def point_of(outcome: Outcome) -> Point:
    """The position of an experiment in its sweep."""
    assert outcome.experiment.point is not None
    return outcome.experiment.point


def by_sweep(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    """The experiments that are points of a sweep, by its name, in the order of the axis."""
    points: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        if outcome.experiment.point is not None:
            points.setdefault(outcome.experiment.point.sweep, []).append(outcome)
    return points


def curve(points: Sequence[Outcome], label: str) -> list[tuple[float, float, float]]:
    """The measured points of one contender: (x, milliseconds, bytes)."""
    rows = []
    for outcome in points:
        line = outcome.measured.get(label)
        if line is not None and line.ok:
            rows.append((point_of(outcome).x, line.shown("time").median, line.memory))
    return rows


def as_json(
    outcomes: Sequence[Outcome], *, rounds: int, threads: int, quick: bool
) -> dict[str, Any]:
    """All measurements as JSON."""
    return {
        "regard_bench": 1,
        "when": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "quick": quick,
        "rounds": rounds,
        "threads": threads,
        "machine": describe(kernels=True),
        "experiments": [_experiment(outcome) for outcome in outcomes],
        "sweeps": {
            name: {
                label: {**_finite(asdict(growth)), "met": growth.met}
                for label, growth in growths(points).items()
            }
            for name, points in by_sweep(outcomes).items()
        },
    }


def _finite(values: dict[str, Any]) -> dict[str, Any]:
    """Replace NaN, which JSON does not have, by None."""
    return {key: None if value != value else value for key, value in values.items()}


def _experiment(outcome: Outcome) -> dict[str, Any]:
    experiment = outcome.experiment
    return {
        "name": experiment.name,
        "title": experiment.title,
        "shows": experiment.shows,
        "unit": experiment.unit,
        "point": None if experiment.point is None else asdict(experiment.point),
        "entries": [to_json(line) for line in outcome.measured.values()],
        "bars": [_verdict(verdict) for verdict in outcome.verdicts()],
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        **asdict(verdict.bar),
        "met": verdict.met,
        "best_of_them": verdict.against or None,
        "measured": None if verdict.ratio is None else asdict(verdict.ratio),
        "says": verdict.describe(),
    }
