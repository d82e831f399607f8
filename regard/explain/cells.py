"""A matrix of weights as coloured cells on matplotlib axes, with labels that do not touch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, ListedColormap, Normalize
from matplotlib.patches import Rectangle

from regard.explain.colours import INK, RULE, Colours, sequential
from regard.explain.maps import Weights
from regard.explain.sheet import SMALLEST, points

ROW, COLUMN = 20.4, 23.4  # the closest that labels of 18 pixels stand without touching


@dataclass(frozen=True)
class Scale:
    """A colour scale: its colours, what its two ends mean, and its name."""

    colours: Colours
    low: float
    high: float
    name: str

    def colormap(self) -> Colormap:
        """For matplotlib; a place without a value is grey."""
        return ListedColormap(self.colours, name="regard").with_extremes(bad=RULE)

    def ink(self, value: float) -> str:
        """A colour that can be read on that of the value."""
        place = (value - self.low) / (self.high - self.low)
        red, green, blue = self.colours[int(np.clip(place, 0, 1) * (len(self.colours) - 1))]
        return INK if 0.3 * red + 0.59 * green + 0.11 * blue > 0.55 else "white"


def weight_scale(weights: Weights) -> Scale:
    """From 0 to the largest weight, rounded up."""
    largest = float(np.nanmax(weights)) if np.isfinite(weights).any() else 0.0
    return Scale(sequential(), 0.0, round_up(largest) or 1.0, "attention weight")


def round_up(value: float) -> float:
    """To the next tenth, or hundredth if it is small: an end for a scale."""
    step = 0.1 if value > 0.1 else 0.01
    return math.ceil(round(value / step, 6)) * step


def hatch_negative(axes: Axes, values: Weights) -> None:
    """Strokes over the cells below 0: in black and white, both ends of a scale are dark."""
    rows, columns = np.nonzero(np.nan_to_num(values, neginf=0.0) < 0)
    for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
        axes.add_patch(
            Rectangle((column, row), 1, 1, fill=False, hatch="//", edgecolor="white", linewidth=0)
        )


def paint(
    axes: Axes, values: Weights, scale: Scale, cell: tuple[float, float] | None = None
) -> None:
    """The cells; with lines between them and numbers in them where there is room."""
    rows, columns = values.shape
    drawn = np.ma.masked_invalid(values)
    norm = Normalize(scale.low, scale.high)
    if cell is None or min(cell) < 12:
        extent = (0, columns, rows, 0)
        axes.imshow(
            drawn, scale.colormap(), norm, aspect="auto", interpolation="nearest", extent=extent
        )
    else:
        axes.pcolormesh(drawn, cmap=scale.colormap(), norm=norm, edgecolors="white", linewidth=0.6)
    axes.set(xlim=(0, columns), ylim=(rows, 0))
    if cell is None or cell[0] < 48 or cell[1] < 24:
        hatch_negative(axes, values)
        return
    size = SMALLEST + 4 if min(cell) >= 64 else SMALLEST
    for row, column in np.argwhere(np.isfinite(values)):
        value = float(values[row, column])
        text = f"{value:.2f}" if abs(value) >= 0.005 else "0"
        text = text.replace("-", "−")
        place = (column + 0.5, row + 0.5)
        axes.text(
            *place,
            text,
            ha="center",
            va="center",
            fontsize=points(size),
            color=scale.ink(value),
        )


def label(
    axes: Axes,
    rows: Sequence[str],
    columns: Sequence[str],
    pitch: tuple[float, float],
    turn: tuple[int, int],
) -> None:
    """Row labels on the left, column labels on top; every n-th where they would touch.

    Args:
        axes: Where the cells are.
        rows: The labels of the rows; none to leave them out.
        columns: The labels of the columns.
        pitch: How far columns and rows stand apart, in pixels.
        turn: The angle of the column labels, and the size of all, in pixels.
    """
    (column, row), (angle, size) = pitch, turn
    every = math.ceil(round(COLUMN / column, 6)), math.ceil(round(ROW / row, 6))
    axes.xaxis.tick_top()
    axes.set_xticks(
        np.arange(0, len(columns), every[0]) + 0.5,
        list(columns[:: every[0]]),
        rotation=angle,
        rotation_mode="anchor",
        ha="left" if angle else "center",
        fontsize=points(size),
    )
    axes.set_yticks(
        np.arange(0, len(rows), every[1]) + 0.5, list(rows[:: every[1]]), fontsize=points(size)
    )
