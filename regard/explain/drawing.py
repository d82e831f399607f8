"""The layout and output of a figure: `Board` to draw on, `Drawing` with picture and numbers.

The function of a figure fills a `Board`, a sheet with a title, panels side by side and a caption,
and returns its `Drawing`, which can be written as PNG, SVG, PDF or HTML and is displayed by
notebooks. Font sizes are chosen for a lecture hall: `sheet.TEXT` and `sheet.SMALLEST`.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from matplotlib.colors import Normalize
from matplotlib.lines import Line2D

from regard.draw.cells import Scale, hatch_negative, label
from regard.draw.colours import INK, MUTED, LineStyle
from regard.draw.labels import ordinal
from regard.draw.sheet import (
    HEIGHT,
    LEADING,
    SMALLEST,
    TEXT,
    TITLE,
    WIDTH,
    Chart,
    Medium,
    Sheet,
    lines_height,
    points,
    render,
    shorten,
    style,
    text_width,
    wrap,
)
from regard.explain.look import picture_ending
from regard.explain.page import Picture, Prose, Section, Table, framed, page
from regard.runtime.files import write_file


@dataclass(frozen=True)
class Words:
    """What a figure says: sentences that are computed from its numbers.

    Attributes:
        title: The title, with the verdict if there is one.
        caption: One or two sentences about what the figure shows.
    """

    title: str
    caption: str


Numbers = dict[str, Any]
"""The values shown in a drawing, by name: numbers and nested lists of numbers, as in JSON."""

EDGE, GAP = 24, 26  # pixels: the margin, and the gap between panels
HEAD = LEADING * TEXT + 2  # pixels: the height of a line of a panel's heading
TICKS = 70  # pixels: the width of the tick labels of a vertical axis
MOST_OF_LABELS = 0.45  # how much of a panel the labels beside a matrix may take
TURN = math.radians(50)  # the angle of rotated column labels
RASTERIZED = 10_000  # matrices with more cells than this are rasterized: an SVG would be slow

_setting: ContextVar[tuple[str, Medium]] = ContextVar("setting", default=("", Medium()))


@contextmanager
def drawn_for(title: str, medium: Medium) -> Iterator[None]:
    """Boards created within this context have this title and are drawn for this medium."""
    before = _setting.set((title, medium))
    try:
        yield
    finally:
        _setting.reset(before)


class Drawing:
    """A computed figure.

    Attributes:
        name: The name of the figure.
        title: The title of the figure.
        figure: The matplotlib figure.
        caption: One sentence about what the figure shows.
        details: What was computed, and how.
        limits: One line: which model, trained on what, for how long.
        numbers: The values shown, by name.
        tables: The complete versions of tables that the picture shows in part.
        paper: Whether it was drawn for print.
    """

    def __init__(self, board: Board, numbers: Numbers) -> None:
        self.name = ""
        self.title, self.figure = board.title, board.sheet.figure
        self.caption, self.details, self.limits = board.caption, board.details, board.limits
        self.numbers, self.tables, self.paper = numbers, board.tables, board.medium.paper

    @property
    def text(self) -> str:
        """Caption, details and limits."""
        return " ".join(filter(None, (self.caption, self.details, self.limits)))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a picture (.png, .svg, .pdf), or a page (.html) with details and numbers.

        Raises:
            InputError: For another ending.
            WriteError: If the file cannot be written; the old file is unchanged.
        """
        ending = picture_ending(path)
        if ending == ".html":
            return write_file(path, self._page().encode())
        return write_file(path, render(self.figure, ending, paper=self.paper))

    def _page(self) -> str:
        rows = [(name.replace("_", " "), _as_text(value)) for name, value in self.numbers.items()]
        sections: list[Section] = [
            Picture(render(self.figure, ".svg").decode(), alt=self.caption),
            *[Prose(text) for text in (self.limits, self.details) if text],
            *self.tables,
            Table(("what", "value"), rows, "The numbers in the picture."),
        ]
        return page(self.title, sections)

    def _repr_png_(self) -> bytes:
        return render(self.figure, ".png")

    def _repr_html_(self) -> str:
        return framed(self._page())


def key_of(name: str) -> str:
    """The key of a number, made of a name.

    Example:
        >>> key_of("loss_post-norm, warm-up")
        'loss_post_norm_warm_up'
    """
    return name.replace(", ", "_").replace("-", "_").replace(" ", "_")


def _as_text(value: Any) -> str:
    """A number, a list or a table as text; of a long list, the first and the last five."""
    if isinstance(value, list):
        if value and isinstance(value[0], list):
            return "; ".join(_as_text(row) for row in value)
        items = value if len(value) <= 12 else [*value[:5], "…", *value[-5:]]
        return ", ".join(_as_text(item) for item in items)
    return f"{value:.4g}" if isinstance(value, float) else str(value)


class Board:
    """A sheet of 1280×720 pixels with the title on top, panels side by side, and the caption.

    Draw inside `with Board(…) as board`, which uses our matplotlib settings instead of the user's;
    long computations should be done before.

    Args:
        words: Title and caption, computed from the numbers of the figure; or a caption alone, at
            most two lines long.
        widths: The relative widths of the panels.
        details: What was computed, and how. It is part of the HTML page, and of the picture only
            if the user asks for details.
        title: The title beside a caption; by default that of the figure in the catalogue.
        limits: One line below the caption: which model, trained on what, for how long.
    """

    def __init__(
        self,
        words: Words | str,
        widths: Sequence[float],
        details: str = "",
        title: str | None = None,
        limits: str = "",
    ) -> None:
        default_title, self.medium = _setting.get()
        if isinstance(words, str):
            words = Words(default_title if title is None else title, words)
        self.title, self.caption = words.title, words.caption
        self.details, self.limits, self.widths = details, limits, widths
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
            height = lines_height(self.limits, width, TEXT) if self.limits else 0.0
            start = HEIGHT - 12 - height
            self.sheet.paragraph((EDGE, start), self.limits, width, colour=MUTED)
            height = lines_height(self.caption, width, TEXT)
            self.sheet.paragraph((EDGE, start - 4 - height), self.caption, width)
            self.bottom = start - 4 - height - 12
        if details:
            self.sheet.paragraph((EDGE, HEIGHT), details, width, colour=MUTED)
        return self

    def __exit__(self, *error: object) -> None:
        self._style.close()

    def panel_box(self, panel: int) -> tuple[float, float, float, float]:
        """Left, top, width and height of a panel in pixels, including its heading and labels."""
        width = WIDTH - 2 * EDGE - GAP * (len(self.widths) - 1)
        share = width / sum(self.widths)
        left = EDGE + GAP * panel + share * sum(self.widths[:panel])
        return left, self.top, share * self.widths[panel], self.bottom - self.top

    def legend(self, styles: Mapping[str, LineStyle]) -> None:
        """Draw one legend for all panels, under the title, in as many rows as it needs."""
        x, y, sample = float(EDGE), self.top + HEAD / 2, 44.0
        figure, size = self.sheet.figure, (self.sheet.width, self.sheet.height)
        for name, line_style in styles.items():
            if x > EDGE and x + sample + 10 + text_width(name, TEXT) > WIDTH - EDGE:
                x, y, self.top = float(EDGE), y + HEAD, self.top + HEAD
            ends = [x, x + sample] if line_style.dash != "none" else [x + sample / 2]
            line = Line2D(
                [end / size[0] for end in ends], [1 - y / size[1]] * len(ends),
                color=line_style.colour, linestyle=line_style.dash, linewidth=2.6,
                marker=line_style.marker or None, markersize=8,
            )  # fmt: skip
            figure.add_artist(line)
            self.sheet.text((x + sample + 10, y), name, align="left center")
            x += sample + 10 + text_width(name, TEXT) + 34
        self.top += HEAD + 8

    def lines(self, texts: Sequence[str]) -> None:
        """Write lines across the sheet under the title; a longer one is cut."""
        for text in texts:
            line = shorten(text, WIDTH - 2 * EDGE, TEXT)
            self.sheet.text((EDGE, self.top), line)
            self.top += HEAD
        self.top += 8

    def heading(self, panel: int, heading: str, below: str = "", part: float = 0.0) -> float:
        """Write a panel's heading and, below it, what its axes are; returns the y where it ends.

        Args:
            panel: The panel's index, from 0.
            heading: The heading.
            below: A description of the axes.
            part: The start within the panel's height, as a share, if it holds several charts.
        """
        left, top, width, height = self.panel_box(panel)
        y = top + part * height
        for text, weight, colour in ((heading, "bold", INK), (below, "normal", MUTED)):
            for line in wrap(text, width, TEXT, weight):
                self.sheet.text((left, y), line, weight=weight, colour=colour)
                y += HEAD
        return y + 4

    def chart(
        self,
        panel: int,
        heading: str,
        x_label: str = "",
        y_label: str = "",
        part: tuple[float, float] = (0.0, 1.0),
        ticks: float = TICKS,
    ) -> Chart:
        """Add axes for curves or bars, with a light frame.

        Args:
            panel: The panel's index, from 0.
            heading: The heading of the panel.
            x_label: The label of the horizontal axis.
            y_label: The label of the vertical axis; written above the axis, not rotated.
            part: Start and end within the panel's height, as shares, if it holds several charts.
            ticks: The width in pixels for the tick labels of the vertical axis.
        """
        left, top, width, height = self.panel_box(panel)
        start = self.heading(panel, heading, y_label, part[0])
        end = top + part[1] * height - (64 if x_label else 32)
        axes = self.sheet.axes(left + ticks, start, width - ticks - 10, end - start)
        axes.draw_frame()
        if x_label:
            axes.set_xlabel(x_label, fontsize=points(TEXT), color=MUTED, labelpad=1)
        return axes

    def matrix(
        self,
        panel: int,
        heading: str,
        values: npt.ArrayLike,
        scale: Scale,
        labels: tuple[Sequence[str], Sequence[str]],
        sides: tuple[str, str] = ("", ""),
        number_format: str = "",
    ) -> Chart:
        """Draw a labelled matrix, with numbers in its cells if a format is given and they fit.

        Args:
            panel: The panel's index, from 0.
            heading: The heading of the panel.
            values: (row, column); NaN is drawn grey, minus infinity is written as −∞.
            scale: The colour scale.
            labels: Row labels and column labels; rotated or thinned out if they would overlap.
            sides: What the rows are and what the columns are.
            number_format: The format of the numbers, such as `.2f`.
        """
        left, top, width, height = self.panel_box(panel)
        table = np.asarray(values, dtype=float)
        widest_label = MOST_OF_LABELS * min(width, height)  # a cut label ends in an ellipsis
        rows, columns = (
            [shorten(name, widest_label, SMALLEST) for name in side] for side in labels
        )
        row_width, widest = (
            max((text_width(name, SMALLEST) for name in side), default=0)
            for side in (rows, columns)
        )
        full, left, width = width, left + row_width + 12, width - row_width - 12
        is_turned = widest > max(width / table.shape[1], 40)  # short labels are thinned out instead
        overhang = widest * math.cos(TURN) if is_turned else 0.0  # room for the last label
        pitch = (width - overhang * 0.8) / table.shape[1]
        has_column_names = any(name.strip() for name in columns)
        labels_height = (
            (widest + 6) * math.sin(TURN) + 20 if is_turned else 28 if has_column_names else 0
        )
        label_distance = 1.2 * SMALLEST / math.sin(TURN) if is_turned else widest + 4
        column_step = _label_step(columns, label_distance / pitch)
        row_step, wider, below = 0, 1, ""
        while wider > row_step:  # the line that says which rows are named takes room from them
            row_step = wider
            left_out = _left_out(row_step, column_step)
            below = ", ".join(filter(None, (_sides_phrase(*sides), left_out)))
            lines = len(wrap(heading, full, TEXT, "bold")) + len(wrap(below, full, TEXT))
            free_height = height - 8 - HEAD * lines - labels_height
            wider = _label_step(rows, 1.1 * SMALLEST * table.shape[0] / free_height)
        start = self.heading(panel, heading, below) + labels_height
        height = top + height - 4 - start
        axes = self.sheet.axes(left, start, pitch * table.shape[1], height)
        _draw_cells(axes, table, scale)
        angle = math.degrees(TURN) if is_turned else 0
        label(axes, rows, columns, (column_step, row_step), (angle, SMALLEST))
        if not (number_format and _write_cells(axes, table, scale, number_format, pitch)):
            hatch_negative(axes, table)
        return axes

    def table(
        self,
        panel: int,
        heading: str,
        columns: Sequence[tuple[str, float]],
        rows: Sequence[Sequence[str]],
        bold: Sequence[int] = (),
    ) -> None:
        """Draw a table in a panel: the first column left-aligned, the others right-aligned.

        Args:
            panel: The panel's index, from 0.
            heading: The heading of the panel.
            columns: The head of each column and its right end as a share of the width; 0 for the
                first column.
            rows: The cells of each row.
            bold: The indices of rows drawn in bold.
        """
        left, top, width, height = self.panel_box(panel)
        start = self.heading(panel, heading)
        for name, end in columns:
            lines = name.split("\n")
            for line, text in enumerate(lines):
                point = (left + end * width, start + line * HEAD)
                side = "right top" if end else "left top"
                self.sheet.text(point, text, colour=MUTED, align=side)
        start += HEAD * max(name.count("\n") + 1 for name, _ in columns) + 4
        axes = self.sheet.axes(left, start, width, top + height - start)
        axes.set(xlim=(0, 1), ylim=(len(rows), 0))
        axes.set_axis_off()
        for row, cells in enumerate(rows):
            for text, (_, end) in zip(cells, columns, strict=True):
                axes.text(
                    end, row + 0.5, text, ha="right" if end else "left", va="center",
                    fontsize=points(SMALLEST), weight="bold" if row in bold else "normal",
                )  # fmt: skip

    def drawing(self, **numbers: Any) -> Drawing:
        """The finished drawing with the numbers it shows, by name."""
        return Drawing(self, numbers)


def _sides_phrase(rows: str, columns: str) -> str:
    """A phrase that says what rows and columns are.

    Example:
        >>> _sides_phrase("query", "key")
        '↓ query, → key'
    """
    return ", ".join(f"{arrow} {side}" for arrow, side in (("↓", rows), ("→", columns)) if side)


def _left_out(row_step: int, column_step: int) -> str:
    """A phrase that says which labels of a matrix are left out.

    Example:
        >>> _left_out(1, 2), _left_out(3, 3)
        ('every 2nd column named', 'every 3rd named')
    """
    if row_step == column_step:
        return f"every {ordinal(row_step)} named" if row_step > 1 else ""
    steps = (("row", row_step), ("column", column_step))
    return ", ".join(f"every {ordinal(step)} {side} named" for side, step in steps if step > 1)


def _label_step(labels: Sequence[str], space_ratio: float) -> int:
    """The n such that every n-th label fits: 1 if all fit, 2 for every second one, and so on.

    Args:
        labels: The labels; if some are empty, they were thinned out already and the result is 1.
        space_ratio: The space a label needs divided by the space it has.
    """
    return math.ceil(round(space_ratio, 6)) if all(labels) and space_ratio > 0 else 1


def _draw_cells(axes: Chart, table: npt.NDArray[Any], scale: Scale) -> None:
    """Draw the cells of a matrix (row, column), the first row on top."""
    is_fine = table.shape[0] > 40
    axes.pcolormesh(
        np.ma.masked_invalid(table),
        cmap=scale.colormap(),
        norm=Normalize(scale.low, scale.high),
        edgecolors="face" if is_fine else "white",
        linewidth=0 if is_fine else 0.8,
        rasterized=table.size > RASTERIZED,
    )
    axes.set(xlim=(0, table.shape[1]), ylim=(table.shape[0], 0))
    axes.spines[:].set_visible(False)


def _write_cells(
    axes: Chart, table: npt.NDArray[Any], scale: Scale, number_format: str, width: float
) -> bool:
    """Write numbers into the cells if the widest one fits; returns whether it does.

    Where they do not fit, they are written without the zero before the point: .46 for 0.46.
    """

    def text_of(value: float) -> str:
        return "−∞" if value == -np.inf else format(value, number_format).replace("-", "−")

    def fits() -> bool:
        return max((text_width(text, SMALLEST) for text in cells.values()), default=0) <= width - 8

    cells = {index: text_of(value) for index, value in np.ndenumerate(table) if value == value}
    if not fits():
        cells = {index: re.sub(r"^(−?)0\.", r"\1.", text) for index, text in cells.items()}
    if not fits():
        return False
    for (row, column), text in cells.items():
        value = float(table[row, column])
        colour = MUTED if value == -np.inf else scale.ink(value)
        axes.write((column + 0.5, row + 0.5), text, ha="center", va="center", color=colour)
    return True
