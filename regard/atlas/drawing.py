"""A computed figure as something to keep: a picture, its caption, and the numbers in it.

A figure's function fills a `Board`, a sheet with a title, panels side by side and a caption, and
returns its `Drawing`, which is written as PNG, SVG, PDF or HTML, or shows itself in a notebook.
Text is large enough for the back row: `sheet.TEXT` and `sheet.SMALLEST` say how large.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.lines import Line2D
from matplotlib.ticker import AutoLocator, ScalarFormatter

from regard.atlas.marks import (
    BLUE,
    GREEN,
    MARKERS,
    ORANGE,
    PURPLE,
    SKY,
    STROKES,
    beside,
    floats,
    key,
    label,
    power,
    powers,
    signed_scale,
    smooth,
    weights_scale,
)
from regard.explain.cells import Scale, hatch_negative
from regard.explain.colours import INK, MUTED, RULE
from regard.explain.look import picture_ending
from regard.explain.page import Picture, Prose, Section, Table, page
from regard.explain.sheet import (
    HEIGHT,
    LEADING,
    SMALLEST,
    TEXT,
    TITLE,
    WIDTH,
    Medium,
    Sheet,
    lines_height,
    points,
    render,
    style,
    text_width,
    wrap,
)
from regard.runtime.files import write_file

__all__ = [
    "BLUE", "FINEST", "GREEN", "MARKERS", "ORANGE", "PURPLE", "SKY", "STROKES", "Board", "Drawing",
    "Numbers", "Stroke", "beside", "drawn_for", "floats", "key", "label", "power", "powers",
    "signed_scale", "smooth", "weights_scale",
]  # fmt: skip

Numbers = dict[str, Any]
"""What a drawing shows: numbers, and lists of them, as JSON can hold."""

EDGE, GAP = 24, 26  # pixels: the free border, and between panels
HEAD = LEADING * TEXT + 2  # a line of a panel's heading, or of what its axes are
BESIDE = 70  # the numbers of a vertical axis


_medium: ContextVar[Medium] = ContextVar("medium")


@contextmanager
def drawn_for(medium: Medium) -> Iterator[None]:
    """Every board that is made inside is for this medium."""
    before = _medium.set(medium)
    try:
        yield
    finally:
        _medium.reset(before)


class Drawing:
    """A figure of the atlas, computed.

    Attributes:
        name: Of the figure.
        title: Of the figure, with what was set.
        figure: The matplotlib figure.
        caption: What is to be seen, in one sentence.
        details: What was computed, and how.
        numbers: The values shown, by name.
        tables: Tables of which the picture has a part, whole.
        paper: Whether it was drawn for print.
    """

    def __init__(self, board: Board, numbers: Numbers) -> None:
        self.name = ""
        self.title, self.figure = board.title, board.sheet.figure
        self.caption, self.details = board.caption, board.details
        self.numbers, self.tables, self.paper = numbers, board.tables, board.medium.paper

    @property
    def text(self) -> str:
        """Caption and details."""
        return f"{self.caption} {self.details}".strip()

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes a picture (.png, .svg, .pdf), or a page (.html) with details and numbers.

        Raises:
            InputError: For another ending.
            WriteError: If the file cannot be written; the old file is unchanged.
        """
        ending = picture_ending(path)
        if ending == ".html":
            return write_file(path, self._page().encode())
        return write_file(path, render(self.figure, ending, paper=self.paper))

    def _page(self) -> str:
        rows = [(name.replace("_", " "), _written(value)) for name, value in self.numbers.items()]
        sections: list[Section] = [
            Picture(render(self.figure, ".svg").decode(), self.caption),
            *([Prose(self.details)] if self.details else []),
            *self.tables,
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


@dataclass(frozen=True)
class Stroke:
    """An entry of a board's key: what a curve is called, and how it is drawn."""

    label: str
    colour: str
    dash: Any = "-"
    mark: str = ""


class Board:
    """A sheet for a projector: the title on top, the caption below, panels between.

    Drawing is done inside `with Board(…) as board`, which keeps our settings of matplotlib and
    the user's apart; what takes long is computed before.

    Args:
        title: What the figure says.
        caption: What is to be seen, in one sentence of at most two lines.
        widths: How wide the panels are to each other.
        details: What was computed, and how. It stands on the page, and in the picture only where
            somebody asks for it.
    """

    def __init__(
        self, title: str, caption: str, widths: Sequence[float] = (1,), details: str = ""
    ) -> None:
        self.title, self.caption, self.details, self.widths = title, caption, details, widths
        self.medium = _medium.get(Medium())
        self.tables: list[Table] = []
        self._style = ExitStack()
        self.top, self.bottom = 10.0, HEIGHT - 10.0

    def __enter__(self) -> Self:
        self._style.enter_context(style())
        width = WIDTH - 2 * EDGE
        details = self.details if self.medium.details else ""
        below = lines_height(details, width, TEXT) + 16 if details else 0.0
        self.sheet = Sheet(WIDTH, HEIGHT + below)
        if not self.medium.paper:
            end = self.sheet.paragraph((EDGE, 14), self.title, width, TITLE, weight="bold")
            self.top = end + 10
            said = lines_height(self.caption, width, TEXT)
            self.sheet.paragraph((EDGE, HEIGHT - 12 - said), self.caption, width)
            self.bottom = HEIGHT - 12 - said - 12
        if details:
            self.sheet.paragraph((EDGE, HEIGHT), details, width, colour=MUTED)
        return self

    def __exit__(self, *error: object) -> None:
        self._style.close()

    def place(self, number: int) -> tuple[float, float, float, float]:
        """Left, top, width and height of a panel, its heading and labels included."""
        room = WIDTH - 2 * EDGE - GAP * (len(self.widths) - 1)
        share = room / sum(self.widths)
        left = EDGE + GAP * number + share * sum(self.widths[:number])
        return left, self.top, share * self.widths[number], self.bottom - self.top

    def key(self, strokes: Sequence[Stroke]) -> None:
        """One key for all panels, in a row under the title."""
        x, y, sample = float(EDGE), self.top + HEAD / 2, 44.0
        figure, size = self.sheet.figure, (self.sheet.width, self.sheet.height)
        for stroke in strokes:
            ends = [x, x + sample] if stroke.dash != "none" else [x + sample / 2]
            line = Line2D(
                [end / size[0] for end in ends], [1 - y / size[1]] * len(ends), color=stroke.colour,
                linestyle=stroke.dash, linewidth=2.6, marker=stroke.mark or None, markersize=8,
            )  # fmt: skip
            figure.add_artist(line)
            self.sheet.text((x + sample + 10, y), stroke.label, align="left center")
            x += sample + 10 + text_width(stroke.label, TEXT) + 34
        self.top += HEAD + 8

    def heading(self, number: int, heading: str, below: str = "", part: float = 0.0) -> float:
        """Writes what a panel is, and under it what its axes are; returns where that ends."""
        left, top, width, height = self.place(number)
        y = top + part * height
        if heading:
            for line in wrap(heading, width, TEXT, "bold"):
                self.sheet.text((left, y), line, weight="bold")
                y += HEAD
        if below:
            for line in wrap(below, width, TEXT):
                self.sheet.text((left, y), line, colour=MUTED)
                y += HEAD
        return y + 4

    def chart(
        self,
        number: int,
        heading: str,
        across: str,
        up: str,
        part: tuple[float, float] = (0.0, 1.0),
        beside: float = BESIDE,
    ) -> Axes:
        """Axes for curves or bars, with a light frame.

        Args:
            number: The panel's place, from 0.
            heading: Over the panel.
            across: What the horizontal axis is.
            up: What the vertical axis is; written over the axis, not turned.
            part: From where to where in the panel's height, if it holds several.
            beside: Pixels for the numbers of the vertical axis.
        """
        left, top, width, height = self.place(number)
        start = self.heading(number, heading, up, part[0])
        end = top + part[1] * height - (64 if across else 32)
        axes = self.sheet.axes(left + beside, start, width - beside - 10, end - start)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        for side in ("bottom", "left"):
            axes.spines[side].set_color(MUTED)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(AutoLocator())
            axis.set_major_formatter(ScalarFormatter())
        axes.tick_params(length=4, color=MUTED, labelcolor=INK, which="major")
        axes.tick_params(length=0, which="minor")
        axes.grid(color=RULE, linewidth=0.6)
        axes.set_axisbelow(True)
        if across:
            axes.set_xlabel(across, fontsize=points(TEXT), color=MUTED, labelpad=1)
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
        """A labelled matrix, numbers in its cells where a format is given and they fit.

        Args:
            number: The panel's place, from 0.
            heading: Over the panel.
            values: (row, column); not a number: grey, minus infinity: written as such.
            scale: Its colours.
            labels: Of the rows, and of the columns; turned or left out where they would touch.
            sides: What the rows are and what the columns are.
            written: The format of the numbers, such as `.2f`.
        """
        left, top, width, height = self.place(number)
        table = np.asarray(values, dtype=float)
        rows, columns = labels
        beside = max((text_width(label, SMALLEST) for label in rows), default=0) + 12
        widest = max((text_width(label, SMALLEST) for label in columns), default=0)
        pitch = (width - beside) / max(1, table.shape[1])
        turned = widest > max(pitch, 40)  # short ones are left out instead
        over = widest * math.cos(TURN) if turned else 0.0  # the last one hangs over
        pitch = (width - beside - over * 0.8) / max(1, table.shape[1])
        named = any(label.strip() for label in columns)
        above = (widest + 6) * math.sin(TURN) + 20 if turned else 28 if named else 0
        start = self.heading(number, heading, _sides(*sides)) + above
        end = top + height - 4
        axes = self.sheet.axes(left + beside, start, pitch * table.shape[1], end - start)
        drawn = np.ma.masked_invalid(table)
        fine = table.shape[0] > 40
        axes.pcolormesh(
            drawn,
            cmap=scale.colormap(),
            norm=Normalize(scale.low, scale.high),
            edgecolors="face" if fine else "white",
            linewidth=0 if fine else 0.8,
            rasterized=table.size > FINEST,  # an SVG of so many cells opens slowly
        )
        axes.set(xlim=(0, table.shape[1]), ylim=(table.shape[0], 0))
        axes.spines[:].set_visible(False)
        axes.xaxis.tick_top()
        apart = 1.2 * SMALLEST / math.sin(TURN) if turned else widest + 4
        step = _every(columns, apart / pitch)
        down = _every(rows, 1.1 * SMALLEST * table.shape[0] / (end - start))
        axes.set_xticks(
            np.arange(0, len(columns), step) + 0.5,
            list(columns[::step]),
            rotation=math.degrees(TURN) if turned else 0,
            rotation_mode="anchor",
            ha="left" if turned else "center",
        )
        axes.set_yticks(np.arange(0, len(rows), down) + 0.5, list(rows[::down]))
        if not (written and _write_cells(axes, table, scale, written, pitch)):
            hatch_negative(axes, table)
        return axes

    def table(
        self,
        number: int,
        heading: str,
        columns: Sequence[tuple[str, float]],
        rows: Sequence[Sequence[str]],
        bold: Sequence[int] = (),
    ) -> None:
        """A table in a panel: the first column to the left, the others to the right.

        Args:
            number: The panel's place, from 0.
            heading: Over the panel.
            columns: The head of each, and where it ends as a share of the width; the first, 0.
            rows: Their cells.
            bold: Which rows stand out.
        """
        left, top, width, height = self.place(number)
        start = self.heading(number, heading)
        for name, end in columns:
            lines = name.split("\n")
            for line, text in enumerate(lines):
                place = (left + end * width, start + line * HEAD)
                side = "right top" if end else "left top"
                self.sheet.text(place, text, colour=MUTED, align=side)
        start += HEAD * max(name.count("\n") + 1 for name, _ in columns) + 4
        axes = self.sheet.axes(left, start, width, top + height - start)
        axes.set(xlim=(0, 1), ylim=(len(rows), 0))
        axes.set_axis_off()
        for row, cells in enumerate(rows):
            for text, (_, end) in zip(cells, columns, strict=True):
                axes.text(
                    end, row + 0.5, text, ha="right" if end else "left", va="center",
                    fontsize=points(SMALLEST + 1), weight="bold" if row in bold else "normal",
                )  # fmt: skip

    def drawing(self, numbers: Numbers) -> Drawing:
        """What was drawn, with its numbers."""
        return Drawing(self, numbers)


TURN = math.radians(50)
"""The angle of column labels that have no room."""
FINEST = 10_000


def _sides(rows: str, columns: str) -> str:
    """What rows and columns are, in a few words.

    Example:
        >>> _sides("query", "key")
        '↓ query, → key'
    """
    return ", ".join(f"{arrow} {side}" for arrow, side in (("↓", rows), ("→", columns)) if side)


def _every(labels: Sequence[str], crowded: float) -> int:
    """1 if every label has room, 2 if every second one, and so on.

    Args:
        labels: Where some are empty, somebody else has made room.
        crowded: The room that a label needs, over the room that it has.
    """
    return math.ceil(round(crowded, 6)) if all(labels) and crowded > 0 else 1


def _write_cells(
    axes: Axes, table: npt.NDArray[Any], scale: Scale, written: str, room: float
) -> bool:
    """Numbers in the cells, if the widest has room; returns whether it has."""

    def text_of(value: float) -> str:
        return "−∞" if value == -np.inf else format(value, written).replace("-", "−")

    cells = {place: text_of(value) for place, value in np.ndenumerate(table) if value == value}
    if max((text_width(text, SMALLEST) for text in cells.values()), default=0) + 2 > room:
        return False
    for (row, column), text in cells.items():
        value = float(table[row, column])
        colour = MUTED if value == -np.inf else scale.ink(value)
        label(axes, (column + 0.5, row + 0.5), text, ha="center", va="center", color=colour)
    return True
