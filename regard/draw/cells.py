"""Draw a matrix of weights as coloured cells on matplotlib axes, with non-overlapping labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, ListedColormap, Normalize
from matplotlib.patches import Rectangle

from regard.draw.colours import INK, RULE, Colours, diverging, sequential
from regard.draw.labels import Weights
from regard.draw.sheet import SMALLEST, points

ROW, COLUMN = 1.13 * SMALLEST, 1.3 * SMALLEST  # pixels: the smallest pitch of labels


@dataclass(frozen=True)
class Scale:
    """A colour scale: its colours (n, 3), the values at its two ends, and its name."""

    colours: Colours
    low: float
    high: float
    name: str

    def colormap(self) -> Colormap:
        """The scale as a matplotlib colormap; missing values (NaN) are grey."""
        return ListedColormap(self.colours, name="regard").with_extremes(bad=RULE)

    def ink(self, value: float) -> str:
        """A text colour that is readable on the colour of this value."""
        share = (value - self.low) / (self.high - self.low)
        red, green, blue = self.colours[int(np.clip(share, 0, 1) * (len(self.colours) - 1))]
        return INK if 0.3 * red + 0.59 * green + 0.11 * blue > 0.55 else "white"


def positive_scale(high: float = 1.0, name: str = "weight") -> Scale:
    """A colour scale for weights and other values from 0 (white) to `high`."""
    return Scale(sequential(), 0.0, high, name)


def signed_scale(reach: float, name: str = "") -> Scale:
    """A colour scale for values from -reach (orange) to reach (blue); 0 is white."""
    return Scale(diverging(), -reach, reach, name)


def scale_for(weights: Weights) -> Scale:
    """A colour scale from 0 to the largest of these attention weights, rounded up."""
    largest = float(np.nanmax(weights)) if np.isfinite(weights).any() else 0.0
    return positive_scale(round_up(largest) or 1.0, "attention weight")


def round_up(value: float) -> float:
    """Round up to a tenth, or to a hundredth if the value is at most 0.1: the end of a scale."""
    step = 0.1 if value > 0.1 else 0.01
    return math.ceil(round(value / step, 6)) * step


def hatch_negative(axes: Axes, values: Weights) -> None:
    """Hatch the cells below 0, since in black and white both ends of a diverging scale are dark."""
    rows, columns = np.nonzero(np.nan_to_num(values, neginf=0.0) < 0)
    for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
        axes.add_patch(
            Rectangle((column, row), 1, 1, fill=False, hatch="//", edgecolor="white", linewidth=0)
        )


def paint(
    axes: Axes, values: Weights, scale: Scale, cell: tuple[float, float] | None = None
) -> None:
    """Draw the cells of a matrix, with lines between them and numbers in them if there is room.

    Args:
        axes: The axes to draw on.
        values: (row, column)
        scale: The colour scale.
        cell: Width and height of a cell in pixels; None if unknown: no lines and no numbers.
    """
    rows, columns = values.shape
    masked = np.ma.masked_invalid(values)
    norm = Normalize(scale.low, scale.high)
    if cell is None or min(cell) < 12:
        extent = (0, columns, rows, 0)
        axes.imshow(
            masked, scale.colormap(), norm, aspect="auto", interpolation="nearest", extent=extent
        )
    else:
        axes.pcolormesh(masked, cmap=scale.colormap(), norm=norm, edgecolors="white", linewidth=0.6)
    axes.set(xlim=(0, columns), ylim=(rows, 0))
    if cell is None or cell[0] < 48 or cell[1] < 24:
        hatch_negative(axes, values)
        return
    size = SMALLEST + 4 if min(cell) >= 64 else SMALLEST
    for row, column in np.argwhere(np.isfinite(values)):
        value = float(values[row, column])
        text = f"{value:.2f}" if abs(value) >= 0.005 else "0"
        text = text.replace("-", "−")
        axes.text(
            column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=points(size),
            color=scale.ink(value),
        )  # fmt: skip


def label(
    axes: Axes,
    rows: Sequence[str],
    columns: Sequence[str],
    steps: tuple[int, int],
    turn: tuple[float, int],
) -> None:
    """Draw row labels on the left and column labels on top; every n-th if they would overlap.

    Args:
        axes: The axes with the cells.
        rows: The labels of the rows; empty to leave them out.
        columns: The labels of the columns.
        steps: The numbers n of columns and of rows, such that every n-th label is drawn.
        turn: The angle of the column labels in degrees, and the font size in pixels.
    """
    (across, down), (angle, size) = steps, turn
    axes.xaxis.tick_top()
    axes.set_xticks(
        np.arange(0, len(columns), across) + 0.5,
        list(columns[::across]),
        rotation=angle,
        rotation_mode="anchor",
        ha="left" if angle else "center",
        fontsize=points(size),
    )
    ticks = np.arange(0, len(rows), down) + 0.5
    axes.set_yticks(ticks, list(rows[::down]), fontsize=points(size))
