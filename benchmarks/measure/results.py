"""Statistics of measurements: medians, spreads, ratios, and whether bars are met.

Two contenders are compared round by round, since a temporary slowdown of the machine affects both.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Quantity = Literal["rate", "time", "work"]
"""The quantity that a table shows: work per second, milliseconds, or the work itself (a score)."""

Compared = Literal["speed", "time", "memory", "all memory", "points", "peak"]
"""The quantity that a bar compares. `memory` is the peak minus the memory held before the first
turn, `all memory` that of the whole process; `points` is a difference; `peak` the share of the
experiment's limit: the rate of matrix products, or of reading memory."""


@dataclass(frozen=True)
class Turn:
    """The measurement of one turn."""

    seconds: float
    work: float
    peak: int = 0
    """The peak memory of the process in bytes."""
    answer: list[int] | None = None
    """The ids that the contender wrote or chose, if it shows them."""

    @property
    def speed(self) -> float:
        """Work per second."""
        return self.work / max(self.seconds, 1e-12)


@dataclass(frozen=True)
class Summary:
    """A median with the smallest and the largest value."""

    median: float
    low: float
    high: float

    @staticmethod
    def of(values: Sequence[float]) -> Summary:
        """The median, minimum and maximum of values."""
        return Summary(statistics.median(values), min(values), max(values))


@dataclass
class Measured:
    """The measurements of one entry of an experiment."""

    label: str
    turns: list[Turn] = field(default_factory=list)
    resident: int = 0
    """The memory in bytes when the contender was ready, before its first turn."""
    missing: str = ""
    """How to install a missing package; empty if nothing is missing."""
    failed: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    flops: float | None = None
    """Useful FLOPs per unit of work."""
    reads: float | None = None
    """Bytes of weights that must be read from memory per unit of work."""

    @property
    def ok(self) -> bool:
        """Whether the entry was measured without problems."""
        return bool(self.turns) and not self.missing and not self.failed

    @property
    def note(self) -> str:
        """Why the entry was not measured; empty if it was."""
        if self.missing:
            return f"not installed: {self.missing}"
        return f"failed: {self.failed}" if self.failed else ""

    def shown(self, quantity: Quantity) -> Summary:
        """The statistics of the quantity that a table shows."""
        if quantity == "rate":
            return Summary.of([turn.speed for turn in self.turns])
        if quantity == "time":
            return Summary.of([1000 * turn.seconds for turn in self.turns])
        return Summary.of([turn.work for turn in self.turns])

    @property
    def peak(self) -> float:
        """The peak memory of the whole process in bytes, the median of the rounds."""
        return statistics.median(turn.peak for turn in self.turns)

    @property
    def memory(self) -> float:
        """The peak memory in bytes minus the memory held before the first turn."""
        return max(self.peak - self.resident, 0)

    def quantity(self, compared: Compared) -> list[float]:
        """The compared quantity, one value per round."""
        if compared == "memory":
            return [float(max(turn.peak - self.resident, 1)) for turn in self.turns]
        if compared == "all memory":
            return [float(max(turn.peak, 1)) for turn in self.turns]
        if compared == "points":
            return [turn.work for turn in self.turns]
        if compared == "peak":
            return [(self.flops or self.reads or 1.0) * turn.speed for turn in self.turns]
        return [turn.speed if compared == "speed" else 1 / turn.speed for turn in self.turns]


@dataclass(frozen=True)
class Bar:
    """A bar for a contender relative to others: a requirement, or only an aim."""

    label: str
    against: tuple[str, ...]
    """Labels of the others; the best of them counts."""
    compared: Compared
    limit: float
    aim: bool = False

    @property
    def at_least(self) -> bool:
        """Whether larger is better; for time, memory and lost points smaller is better."""
        return self.compared in ("speed", "peak")


@dataclass(frozen=True)
class Verdict:
    """A bar and whether it was met."""

    bar: Bar
    met: bool | None
    """None if it was not measured."""
    ratio: Summary | None = None
    against: str = ""

    def describe(self, *, judged: bool = True) -> str:
        """One line of text; without `judged` it does not say whether the bar is met."""
        bar = self.bar
        sign = "at least" if bar.at_least else "at most"
        limit = f"{sign} {bar.limit:g}" + (" (aim)" if bar.aim else "")
        others = " and ".join(bar.against)
        named = f"the better of {others}" if len(bar.against) > 1 else others
        if bar.compared == "points":
            requirement = f"{bar.label} within {bar.limit:g} points of {named}"
        elif bar.compared == "peak":
            requirement = f"{bar.label}, as a share of the limit ({named}): {limit}"
        else:
            requirement = f"{bar.label}, {bar.compared} beside {named}: {limit}"
        if self.ratio is None:
            return f"? {requirement}; not measured"
        mark = ("✓" if self.met else "✗") if judged else "·"
        beside = f", {self.against}" if len(bar.against) > 1 else ""
        spread = f"({self.ratio.low:.2f}–{self.ratio.high:.2f}{beside})"
        return f"{mark} {requirement}; measured {self.ratio.median:.2f} {spread}"


def judge(bar: Bar, measured: Mapping[str, Measured]) -> Verdict:
    """Check a bar against the median of the ratios over all rounds."""
    ours = measured.get(bar.label)
    rivals = [measured[name] for name in bar.against if name in measured and measured[name].ok]
    if ours is None or not ours.ok or not rivals:
        return Verdict(bar, None)
    best = max if bar.at_least else min
    rival = best(rivals, key=lambda line: statistics.median(line.quantity(bar.compared)))
    ratio = compare(ours, rival, bar.compared)
    met = ratio.median >= bar.limit if bar.at_least else ratio.median <= bar.limit
    return Verdict(bar, met, ratio, rival.label)


def compare(ours: Measured, theirs: Measured, compared: Compared) -> Summary:
    """The ratios ours / theirs round by round; for points the differences theirs - ours."""
    pairs = zip(ours.quantity(compared), theirs.quantity(compared), strict=False)
    if compared == "points":
        return Summary.of([their - our for our, their in pairs])
    return Summary.of([our / their for our, their in pairs])


def same_tokens(first: Measured, second: Measured) -> int | None:
    """How many tokens of two answers are the same before they differ; None without answers."""
    ours, theirs = (line.turns[-1].answer if line.ok else None for line in (first, second))
    if not ours or not theirs:
        return None
    pairs = zip(ours, theirs, strict=False)
    return next((index for index, (a, b) in enumerate(pairs) if a != b), len(ours))


def slope(points: Sequence[tuple[float, float]]) -> float:
    """The exponent b of the least-squares fit y = a·x^b: 1 is linear, 2 is quadratic."""
    logs = [(math.log(x), math.log(y)) for x, y in points if x > 0 and y > 0]
    if len(logs) < 2:
        return math.nan
    xs, ys = zip(*logs, strict=True)
    return statistics.linear_regression(xs, ys).slope


def to_json(measured: Measured) -> dict[str, Any]:
    """All measurements of an entry."""
    entry: dict[str, Any] = {"label": measured.label, "status": "measured"}
    if not measured.ok:
        entry["status"] = "not installed" if measured.missing else "failed"
        return {**entry, "message": measured.missing or measured.failed}
    speed = measured.shown("rate")
    return {
        **entry,
        "versions": measured.versions,
        "seconds": [turn.seconds for turn in measured.turns],
        "work": [turn.work for turn in measured.turns],
        "speed": asdict(speed),
        "flops_per_second": None if measured.flops is None else measured.flops * speed.median,
        "bytes_per_second": None if measured.reads is None else measured.reads * speed.median,
        "resident_bytes": measured.resident,
        "peak_bytes": [turn.peak for turn in measured.turns],
    }
