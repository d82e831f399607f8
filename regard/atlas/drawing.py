"""A computed figure as something to keep: a picture, its caption, and the numbers in it.

A figure's function fills a `Board`, a sheet with a title, panels side by side and a caption, and
returns its `Drawing`, which is written as PNG, SVG or HTML, or shows itself in a notebook.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import (
    AutoLocator,
    FixedLocator,
    FuncFormatter,
    NullFormatter,
    ScalarFormatter,
)

from regard.explain.colours import INK, MUTED, RULE, diverging, sequential
from regard.explain.look import picture_ending
from regard.explain.page import Picture, Section, Table, page
from regard.explain.plot import Scale
from regard.explain.sheet import HEIGHT, WIDTH, Sheet, points, render, style, text_width, wrap
from regard.runtime.files import write_file

Numbers = dict[str, Any]
"""What a drawing shows: numbers, and lists of them, as JSON can hold."""

# Okabe and Ito's colours, and a dash for each: told apart in print and by the colour-blind.
BLUE, ORANGE, GREEN, PURPLE, SKY = "#0072B2", "#D55E00", "#009E73", "#AA4488", "#56B4E9"
STROKES = [(BLUE, "-"), (ORANGE, "--"), (GREEN, "-."), (PURPLE, ":"), (SKY, (0, (7, 1.5, 1, 1.5)))]

EDGE, TITLE, TEXT = 24, 22, 15  # the free border, and the sizes of title and caption, in pixels
HEAD, GAP = 30, 26  # room for a panel's heading; between panels
SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class Drawing:
    """A figure of the atlas, computed.

    Attributes:
        name: Of the figure.
        title: Of the figure, with what was set.
        figure: The matplotlib figure.
        caption: What was computed, and how.
        numbers: The values shown, by name.
    """

    def __init__(self, title: str, figure: Figure, caption: str, numbers: Numbers) -> None:
        self.name = ""
        self.title, self.figure, self.caption, self.numbers = title, figure, caption, numbers

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes a picture (.png, .svg) or a page (.html) with the numbers beside the picture.

        Raises:
            InputError: For another ending.
            WriteError: If the file cannot be written; the old file is unchanged.
        """
        ending = picture_ending(path)
        if ending == ".html":
            return write_file(path, self._page().encode())
        return write_file(path, render(self.figure, ending))

    def _page(self) -> str:
        rows = [(name.replace("_", " "), _written(value)) for name, value in self.numbers.items()]
        sections: list[Section] = [
            Picture(render(self.figure, ".png"), self.caption),
            Table(("what", "value"), rows, "The numbers in the picture."),
        ]
        return page(self.title, sections)

    def _repr_png_(self) -> bytes:
        return render(self.figure, ".png")

    def _repr_html_(self) -> str:
        from regard.explain.page import framed

        return framed(self._page())


def _written(value: Any) -> str:
    if isinstance(value, list):
        if value and isinstance(value[0], list):
            return "; ".join(_written(row) for row in value)
        shown = value if len(value) <= 12 else [*value[:5], "…", *value[-5:]]
        return ", ".join(_written(item) for item in shown)
    return f"{value:.4g}" if isinstance(value, float) else str(value)


class Board:
    """A sheet for a projector: the title on top, the caption below, panels between.

    Drawing is done inside `with Board(…) as board`, which keeps our settings of matplotlib and
    the user's apart; what takes long is computed before.

    Args:
        title: What the figure says.
        caption: What was computed, and how; wrapped, and never cut.
        widths: How wide the panels are to each other.
    """

    def __init__(self, title: str, caption: str, widths: Sequence[float] = (1,)) -> None:
        self.title, self.caption, self.widths = title, caption, widths
        self.sheet = Sheet(WIDTH, HEIGHT)
        self._style = ExitStack()
        self.top, self.bottom = 0.0, float(HEIGHT)

    def __enter__(self) -> Self:
        self._style.enter_context(style())
        width = WIDTH - 2 * EDGE
        self.top = self.sheet.paragraph((EDGE, 16), self.title, width, TITLE, weight="bold") + 14
        self.bottom = HEIGHT - 16 - 1.32 * TEXT * len(wrap(self.caption, width, TEXT))
        self.sheet.paragraph((EDGE, self.bottom), self.caption, width, TEXT, MUTED)
        return self

    def __exit__(self, *error: object) -> None:
        self._style.close()

    def place(self, number: int) -> tuple[float, float, float, float]:
        """Left, top, width and height of a panel, its heading and labels included."""
        room = WIDTH - 2 * EDGE - GAP * (len(self.widths) - 1)
        share = room / sum(self.widths)
        left = EDGE + GAP * number + share * sum(self.widths[:number])
        return left, self.top, share * self.widths[number], self.bottom - 14 - self.top

    def chart(
        self,
        number: int,
        heading: str,
        across: str,
        up: str,
        part: tuple[float, float] = (0.0, 1.0),
    ) -> Axes:
        """Axes for curves or bars, with a light frame.

        Args:
            number: The panel's place, from 0.
            heading: Over the panel.
            across: What the horizontal axis is.
            up: What the vertical axis is; written over the axis, not turned.
            part: From where to where in the panel's height, if it holds several.
        """
        left, top, width, height = self.place(number)
        top, height = top + part[0] * height, (part[1] - part[0]) * height
        self.sheet.text((left, top), heading, 16, weight="bold")
        self.sheet.text((left, top + HEAD - 5), up, colour=MUTED)
        above, below, beside = HEAD + (24 if up else 0), 52 if across else 30, 62
        axes = self.sheet.axes(
            left + beside, top + above, width - beside - 8, height - above - below
        )
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        for side in ("bottom", "left"):
            axes.spines[side].set_color(MUTED)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(AutoLocator())
            axis.set_major_formatter(ScalarFormatter())
        axes.tick_params(length=4, color=MUTED, labelsize=points(14), labelcolor=INK, which="major")
        axes.tick_params(length=0, which="minor")
        axes.grid(color=RULE, linewidth=0.6)
        axes.set_axisbelow(True)
        if across:
            axes.set_xlabel(across, fontsize=points(14), color=MUTED)
        return axes

    def matrix(
        self,
        number: int,
        heading: str,
        values: npt.ArrayLike,
        scale: Scale,
        labels: tuple[Sequence[str], Sequence[str]],
        sides: tuple[str, str] = ("", ""),
        written: str = "",
    ) -> Axes:
        """A labelled matrix, numbers in its cells where a format is given.

        Args:
            number: The panel's place, from 0.
            heading: Over the panel.
            values: (row, column); not a number: grey, minus infinity: written as such.
            scale: Its colours.
            labels: Of the rows, and of the columns; turned where they would touch.
            sides: What the rows are and what the columns are.
            written: The format of the numbers, such as `.2f`.
        """
        left, top, width, height = self.place(number)
        table = np.asarray(values, dtype=float)
        rows, columns = labels
        beside = max((text_width(label, 14) for label in rows), default=0) + 12
        pitch = (width - beside) / max(1, table.shape[1])
        widest = max((text_width(label, 14) for label in columns), default=0)
        turned = widest + 1 > pitch
        above = HEAD + 22 + (widest * math.sin(math.radians(50)) + 16 if turned else 26)
        self.sheet.text((left, top), heading, 16, weight="bold")
        said = ", ".join(
            f"{what}: {side}" for what, side in zip(("rows", "columns"), sides, strict=True) if side
        )
        self.sheet.text((left, top + HEAD - 5), said, colour=MUTED)
        axes = self.sheet.axes(left + beside, top + above, width - beside, height - above - 8)
        drawn = np.ma.masked_invalid(table)
        axes.pcolormesh(
            drawn,
            cmap=scale.colormap(),
            norm=Normalize(scale.low, scale.high),
            edgecolors="white" if table.shape[0] <= 40 else "face",
            linewidth=0.8 if table.shape[0] <= 40 else 0,
            rasterized=table.size > 2000,  # an SVG of thousands of cells opens slowly
        )
        axes.set(xlim=(0, table.shape[1]), ylim=(table.shape[0], 0))
        axes.spines[:].set_visible(False)
        axes.xaxis.tick_top()
        axes.set_xticks(
            np.arange(len(columns)) + 0.5,
            list(columns),
            rotation=50 if turned else 0,
            rotation_mode="anchor",
            ha="left" if turned else "center",
        )
        axes.set_yticks(np.arange(len(rows)) + 0.5, list(rows))
        if written:
            _write_cells(axes, table, scale, written)
        return axes

    def drawing(self, numbers: Numbers) -> Drawing:
        """What was drawn, with its numbers."""
        return Drawing(self.title, self.sheet.figure, self.caption, numbers)


def _write_cells(axes: Axes, table: npt.NDArray[Any], scale: Scale, written: str) -> None:
    for (row, column), value in np.ndenumerate(table):
        if np.isnan(value):
            continue
        text = "−∞" if value == -np.inf else format(value, written).replace("-", "−")
        colour = MUTED if value == -np.inf else scale.ink(float(value))
        place = (column + 0.5, row + 0.5)
        axes.text(*place, text, ha="center", va="center", fontsize=points(15), color=colour)


def weights_scale(high: float = 1.0, name: str = "weight") -> Scale:
    """For weights and other amounts: from nothing, white, up."""
    return Scale(sequential(), 0.0, high, name)


def signed_scale(reach: float, name: str = "") -> Scale:
    """For numbers of both signs: none is white."""
    return Scale(diverging(), -reach, reach, name)


def key(axes: Axes, where: str = "best") -> None:
    """A legend of the curves, without a frame."""
    legend: Any = axes.legend
    legend(loc=where, fontsize=points(14), frameon=True, framealpha=0.9, edgecolor="none")


def powers(axes: Axes, side: str, ticks: Sequence[float]) -> None:
    """A logarithmic axis with ticks at powers of ten, written as 10⁻³, or as they are."""
    axis = axes.xaxis if side == "x" else axes.yaxis
    (axes.set_xscale if side == "x" else axes.set_yscale)("log")
    axis.set_major_locator(FixedLocator(list(ticks)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: power(value)))
    axis.set_minor_formatter(NullFormatter())


def power(value: float) -> str:
    """A number of a logarithmic axis in words.

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
    """The median of each value and those before it: curves whose steps can be told apart."""
    return [float(np.median(line[max(0, end - window) : end])) for end in range(1, len(line) + 1)]


def floats(values: Any) -> list[Any]:
    """A tensor or array as (nested) lists, for `numbers`."""
    plain: list[Any] = values.tolist()
    return plain
