"""Draw benchmark results: bar charts with the bars to reach, and growth curves of sweeps."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.measure.harness import Outcome
from benchmarks.measure.results import Quantity, Summary
from benchmarks.measure.table import by_sweep, ceilings, curve, growths, marks, number, point_of
from regard.runtime.files import write_file

OURS, OTHERS, REACH = "#0072b2", "#999999", "#d55e00"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")


def draw_bars(outcomes: Sequence[Outcome], path: Path) -> Path | None:
    """Draw one bar chart per experiment outside sweeps; returns None if there is none."""
    from matplotlib.figure import Figure

    shown = [
        outcome
        for outcome in outcomes
        if outcome.experiment.point is None
        and outcome.experiment.name != "limits"  # its entries have different units
        and any(line.ok for line in outcome.measured.values())
    ]
    if not shown:
        return None
    heights = [1.2 + 0.42 * len(outcome.experiment.entries) for outcome in shown]
    figure = Figure(figsize=(12.8, sum(heights)), dpi=100, layout="constrained")
    axes = figure.subplots(len(shown), 1, squeeze=False, height_ratios=heights)[:, 0]
    for chart, outcome in zip(axes, shown, strict=True):
        _bars(chart, outcome)
    return _save(figure, path)


def _bars(axes: Any, outcome: Outcome) -> None:
    experiment = outcome.experiment
    lines = [outcome.measured[entry.label] for entry in experiment.entries]
    limits = ceilings(outcome)
    for index, line in enumerate(lines):
        if not line.ok:
            axes.text(0, index, f"  {line.note}", va="center", fontsize=11, color="#555555")
            continue
        figure = line.shown(experiment.shows)
        colour = OURS if line.label.startswith("Regard") else OTHERS
        spread = [[figure.median - figure.low], [figure.high - figure.median]]
        axes.barh(index, figure.median, color=colour, height=0.7)
        axes.errorbar(figure.median, index, xerr=spread, color="black", capsize=3, linewidth=1)
        _write_value(axes, index, figure, experiment.shows, inside=bool(limits))
        reach = marks(outcome).get(line.label)
        if reach is not None:
            axes.plot([reach, reach], [index - 0.45, index + 0.45], color=REACH, linewidth=3)
    _draw_ceilings(axes, limits, [line.label for line in lines])
    axes.set_yticks(range(len(lines)), [line.label for line in lines], fontsize=11)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set_xlim(left=0)
    axes.set_title(f"{experiment.title}: {experiment.unit}", fontsize=14, loc="left")
    axes.spines[["top", "right"]].set_visible(False)


def _write_value(axes: Any, index: int, figure: Summary, shows: Quantity, *, inside: bool) -> None:
    """The median behind the bar, or in its end, where a limit's line is close behind it."""
    text = number(figure.median, shows)
    if inside:
        axes.text(figure.low, index, f"{text} ", va="center", ha="right", fontsize=11, color="w")
    else:
        axes.text(figure.high, index, f"  {text}", va="center", fontsize=11)


def _draw_ceilings(axes: Any, most: dict[str, float], labels: Sequence[str]) -> None:
    """A dashed line beside each bar where the memory sets the limit, with its value once."""
    if not most:
        return
    for index, label in enumerate(labels):
        limit = most.get(label)
        if limit is None:
            continue
        axes.plot([limit, limit], [index - 0.5, index + 0.5], color="black", linestyle="--")
        if index == 0 or most.get(labels[index - 1]) != limit:
            axes.text(limit, index, f" at most {number(limit)}", va="center", fontsize=11)
    label = "the memory's limit: bandwidth / bytes of weights"
    axes.plot([], [], color="black", linestyle="--", label=label)
    axes.plot([], [], color=REACH, linewidth=3, label="to reach")
    axes.legend(loc="upper right", fontsize=11, frameon=False)  # few bars of 32 bits end there


def draw_growth(outcomes: Sequence[Outcome], path: Path) -> Path | None:
    """Draw time and memory of each sweep on logarithmic axes; returns None if there is none."""
    from matplotlib.figure import Figure

    sweeps = by_sweep(outcomes)
    if not sweeps:
        return None
    figure = Figure(figsize=(12.8, 4.4 * len(sweeps)), dpi=100, layout="constrained")
    rows = figure.subplots(len(sweeps), 2, squeeze=False)
    for (name, points), (left, right) in zip(sweeps.items(), rows, strict=True):
        _growth(left, right, points)
        left.set_title(name, fontsize=14, loc="left")
    return _save(figure, path)


def _growth(left: Any, right: Any, points: Sequence[Outcome]) -> None:
    grows = growths(points)
    labels = dict.fromkeys(label for outcome in points for label in outcome.measured)
    for index, label in enumerate(labels):
        rows = curve(points, label)
        if not rows:
            continue
        growth = grows.get(label)
        seconds, memory = (growth.time, growth.memory) if growth else (math.nan, math.nan)
        xs, times, sizes = zip(*rows, strict=True)
        colour = COLOURS[index % len(COLOURS)]
        left.plot(xs, times, marker="o", color=colour, label=f"{label}: exponent {seconds:.2f}")
        right.plot(
            xs,
            [size / 2**20 for size in sizes],
            marker="o",
            color=colour,
            label=f"{label}: exponent {memory:.2f}",
        )
    for axes, what in ((left, "milliseconds"), (right, "MiB on top of the model")):
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xlabel(point_of(points[0]).axis, fontsize=12)
        axes.set_ylabel(what, fontsize=12)
        axes.xaxis.set_major_formatter(_plain)
        axes.yaxis.set_major_formatter(_plain)
        axes.yaxis.set_minor_formatter(_plain if _narrow(axes) else lambda *_: "")
        axes.grid(visible=True, which="major", color="#dddddd")
        axes.legend(fontsize=11, frameon=False)
        axes.spines[["top", "right"]].set_visible(False)


def _plain(value: float, _: object = None) -> str:
    """The tick label of a number, without powers of ten."""
    return f"{value:,.0f}" if value >= 10 else f"{value:g}"


def _narrow(axes: Any) -> bool:
    """Whether the y range is so small that ticks at powers of ten are not enough."""
    low, high = axes.get_ylim()
    return bool(high < 20 * low)


def _save(figure: Any, path: Path) -> Path:
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=100)
    return write_file(path, picture.getvalue())
