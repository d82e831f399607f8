"""Helpers of figures for drawing on axes: line styles, labels, legends, logarithmic axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter

from regard.explain.cells import Scale
from regard.explain.colours import INK, diverging, sequential
from regard.explain.sheet import SMALLEST, TEXT, points

# Okabe and Ito's colours, each with a dash, to be told apart in print and by colour-blind people.
BLUE, ORANGE, GREEN, PURPLE, SKY = "#0072B2", "#D55E00", "#009E73", "#AA4488", "#56B4E9"
STROKES = [(BLUE, "-"), (ORANGE, "--"), (GREEN, "-."), (PURPLE, ":"), (SKY, (0, (7, 1.5, 1, 1.5)))]

MARKERS = ("o", "s", "^", "D", "v")
"""A marker for each of `STROKES`, for curves with points."""

SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def label(axes: Axes, place: tuple[float, float], text: str, **how: Any) -> None:
    """Write a text at a point of the axes, in the font size of tick labels."""
    axes.text(*place, text, **{"fontsize": points(SMALLEST), "color": INK, **how})


def beside(axes: Axes, place: tuple[float, float], text: str, **how: Any) -> None:
    """Write a text next to a point of the axes; `xytext` is the offset in points."""
    axes.annotate(
        text, place, textcoords="offset points",
        **{"fontsize": points(SMALLEST), "color": INK, "xytext": (0, 4), "ha": "center", **how},
    )  # fmt: skip


def weights_scale(high: float = 1.0, name: str = "weight") -> Scale:
    """A colour scale for weights and other non-negative values, from 0 (white) to `high`."""
    return Scale(sequential(), 0.0, high, name)


def signed_scale(reach: float, name: str = "") -> Scale:
    """A colour scale for signed values from -reach to reach; 0 is white."""
    return Scale(diverging(), -reach, reach, name)


def key(axes: Axes, where: str = "best", columns: int = 1) -> None:
    """Draw a legend of the curves, without a border."""
    legend: Any = axes.legend
    legend(
        loc=where, fontsize=points(TEXT), ncols=columns, frameon=True, framealpha=0.85,
        edgecolor="none", handlelength=1.5, handletextpad=0.4, labelspacing=0.15,
        borderpad=0.1, borderaxespad=0.2, columnspacing=1.0,
    )  # fmt: skip


def powers(axes: Axes, side: str, ticks: Sequence[float]) -> None:
    """Make the x or y axis logarithmic, with the given ticks, written by `power`."""
    axis = axes.xaxis if side == "x" else axes.yaxis
    (axes.set_xscale if side == "x" else axes.set_yscale)("log")
    axis.set_major_locator(FixedLocator(list(ticks)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: power(value)))
    axis.set_minor_formatter(NullFormatter())


def power(value: float) -> str:
    """The tick label of a number: plain for moderate values, else with a power of ten.

    Example:
        >>> power(1e-3), power(0.1), power(64), power(3e18)
        ('10⁻³', '0.1', '64', '3·10¹⁸')
    """
    if value == 0 or 0.01 <= abs(value) <= 2000:
        return f"{value:g}"
    exponent = math.floor(math.log10(abs(value)) + 1e-9)
    lead = value / 10**exponent
    front = "" if abs(lead - 1) < 0.05 else f"{lead:.2g}·"
    return f"{front}10{str(exponent).translate(SUPERSCRIPT)}"


def smooth(line: Sequence[float], window: int = 9) -> list[float]:
    """The running median of each value and those before it, to smooth a training curve."""
    return [float(np.median(line[max(0, end - window) : end])) for end in range(1, len(line) + 1)]


def floats(values: Any) -> list[Any]:
    """A tensor or array as (nested) lists, for `numbers`."""
    plain: list[Any] = values.tolist()
    return plain
