"""Draw scenes as pictures: a single one of 1280×720, all side by side, or one PDF page each."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.backends.backend_pdf import PdfPages
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from regard.draw import (
    ACCENT,
    DPI,
    HEIGHT,
    INK,
    MUTED,
    RULE,
    WIDTH,
    Sheet,
    points,
    shorten,
    style,
    text_width,
    wrap,
)
from regard_lectures.scenes import Scene, SceneRow, Vector, written
from regard_lectures.slides import CELLS, STRIP, colour, is_deep

COLUMNS = 4
"""The number of scenes per row of a strip."""
EDGE, TITLE, TEXT, CELL = 32, 34, 24, 18
"""The margin, and the font sizes of title, text and numbers in cells, in pixels."""
WASH, RAISED, BAR = "#fdf1ea", "#f6f8fa", "#4a7fb5"
LABEL, MOST_LABEL, NUMBER = 170, 300, 110  # the least and largest width of labels; of numbers
HIGHER = str.maketrans("−0123456789.", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹·")


def draw_strip(heading: str, scenes: Sequence[Scene]) -> Figure:
    """Draw all scenes in rows of four, each 1280×720 pixels."""
    down = -(-len(scenes) // COLUMNS)
    with style():
        sheet = Sheet(min(COLUMNS, len(scenes)) * WIDTH, down * HEIGHT)
        for number, scene in enumerate(scenes):
            row, column = divmod(number, COLUMNS)
            corner = column * WIDTH, row * HEIGHT
            Painter(sheet, corner).paint(scene, heading, f"{number + 1} / {len(scenes)}")
    return sheet.figure


def draw_scene(heading: str, scenes: Sequence[Scene], number: int) -> Figure:
    """Draw scene `number`, counted from 1, on a sheet of 1280×720 pixels."""
    with style():
        sheet = Sheet(WIDTH, HEIGHT)
        Painter(sheet).paint(scenes[number - 1], heading, f"{number} / {len(scenes)}")
    return sheet.figure


def pages(heading: str, scenes: Sequence[Scene]) -> bytes:
    """The bytes of a PDF with one page per scene."""
    buffer = io.BytesIO()
    figures = [draw_scene(heading, scenes, number) for number in range(1, len(scenes) + 1)]
    with style(), PdfPages(buffer, metadata={"CreationDate": None}) as pdf:
        for figure in figures:
            pdf.savefig(figure)
    return buffer.getvalue()


def render_strip(figure: Figure, ending: str) -> bytes:
    """Render a strip to the bytes of a file; a PNG at half size, so that it fits a screen."""
    buffer, form = io.BytesIO(), ending.removeprefix(".")
    with style():
        figure.savefig(
            buffer,
            format=form,
            dpi=DPI / 2 if form == "png" else DPI,
            metadata={"Date": None} if form == "svg" else None,
        )
    return buffer.getvalue()


class Painter:
    """Draws one scene at a position on a sheet.

    Args:
        sheet: The sheet to draw on.
        corner: Left and top of the scene, which takes 1280×720 pixels.
    """

    def __init__(self, sheet: Sheet, corner: tuple[float, float] = (0, 0)) -> None:
        self.axes: Axes = sheet.axes(*corner, WIDTH, HEIGHT)
        self.axes.set(xlim=(0, WIDTH), ylim=(HEIGHT, 0))
        self.axes.spines[:].set_color(RULE)
        self.boxes: list[Rectangle] = []
        self.colours: list[str] = []

    def paint(self, scene: Scene, heading: str, count: str) -> None:
        """Draw a whole scene: title, formula, sentence, rows, and the worked example."""
        width = WIDTH - 2 * EDGE
        self.text((EDGE, 18), shorten(heading, width - 90, 18), 18, MUTED)
        self.text((WIDTH - EDGE, 18), count, 18, MUTED, "right")
        formula = scene.formula
        title_width = width - text_width(formula, 30) - 40
        beside = text_width(scene.title, TITLE, "bold") <= title_width
        for line in wrap(scene.title, width, TITLE, "bold")[:1]:
            self.text((EDGE, 50), line, TITLE, weight="bold")
        below = 50 if beside else 92
        self.text((WIDTH - EDGE, below + 4), formula, 30, ACCENT, "right")
        top = below + 52.0
        for line in wrap(scene.explanation, width, TEXT)[:3]:
            self.text((EDGE, top), line, TEXT, MUTED)
            top += 1.3 * TEXT
        bottom = HEIGHT - 20.0
        for text in filter(None, (scene.omitted, scene.example)):
            bottom -= 34
            self.text((EDGE, bottom), shorten(higher(text), width, TEXT), TEXT,
                      MUTED if text == scene.omitted else INK)  # fmt: skip
        self.rows(scene, top + 12, bottom - 12)
        patches = PatchCollection(self.boxes, facecolors=self.colours, linewidths=0)
        self.axes.add_collection(patches)

    def rows(self, scene: Scene, top: float, bottom: float) -> None:
        """Draw the rows, spread over the remaining height."""
        pitch = min(72.0, (bottom - top) / len(scene.rows))
        start = top + max(0.0, (bottom - top - pitch * len(scene.rows)) / 2)
        leads = [text_width(higher(row.lead), TEXT - 2) for row in scene.rows if row.lead]
        lead = max(leads) + 14 if leads else 0
        widest = max(text_width(row.label, TEXT, "bold") for row in scene.rows) + 14
        columns = min(max(widest, LABEL), MOST_LABEL), lead
        for number, row in enumerate(scene.rows):
            self.row(row, start + number * pitch, pitch - 6, columns, scene)

    def row(
        self, row: SceneRow, top: float, height: float, columns: tuple[float, float], scene: Scene
    ) -> None:
        """Draw one row: label and lead, `columns` wide; vector or bar; number."""
        middle = top + height / 2
        ink = "#9aa3ab" if row.role == "masked" else ACCENT if row.role == "query" else INK
        if row.role in ("query", "result"):
            self.box(EDGE - 10, top, WIDTH - 2 * EDGE + 20, height,
                     WASH if row.role == "query" else RAISED)  # fmt: skip
            self.box(EDGE - 14, top, 4, height, ACCENT if row.role == "query" else INK)
        weight = "bold" if row.role in ("query", "result") else "normal"
        wide_label, lead = columns
        fits = text_width(row.label, TEXT, weight) <= wide_label - 14
        label = row.label if fits else shorten(row.label, wide_label - 30, TEXT)
        self.text((EDGE, middle), label, TEXT, ink, "left", "center", weight)
        left = EDGE + wide_label
        if row.lead:
            self.text((left, middle), higher(row.lead), TEXT - 2, MUTED, "left", "center")
        left += lead
        right = WIDTH - EDGE - (NUMBER if any(other.number for other in scene.rows) else 0)
        if row.values is not None:
            self.vector(row.values, scene.reach, (left, top + 2, right - left, height - 4),
                        faded=row.role == "masked")  # fmt: skip
        elif row.bar is not None:
            zero, scale = (0.5, 0.5) if scene.signed else (0.0, 1.0)
            wide = right - left - 20
            begin = left + (zero + min(0.0, row.bar) * scale) * wide
            self.box(left + zero * wide, top + 4, 1, height - 8, MUTED)
            self.box(begin, top + 9, abs(row.bar) * scale * wide, height - 18, BAR)
        if row.number:
            corner = WIDTH - EDGE, middle
            self.text(corner, row.number, TEXT, ink if row.role else INK, "right", "center")

    def vector(
        self, values: Vector, reach: float, box: tuple[float, float, float, float], *, faded: bool
    ) -> None:
        """Draw the first values as coloured cells and, if there are more, all as a strip below."""
        left, top, width, height = box
        numbers = [float(value) for value in values]
        count = min(CELLS, len(numbers))
        while count > 4 and width / count < 56:  # room for a sign and three digits
            count -= 1
        strip = len(numbers) > count
        tall = height - (10 if strip else 0)
        pitch = width / max(count, 8)
        for place_, value in enumerate(numbers[:count]):
            at = left + place_ * pitch
            self.box(at, top, pitch - 2, tall, colour(value, reach))
            ink = "#9aa3ab" if faded else "white" if is_deep(value, reach) else INK
            text = written(value, 2 if abs(value) < 100 else 0)
            spot = at + pitch / 2 - 1, top + tall / 2
            self.text(spot, text, CELL, ink, "center", "center")
        if strip:
            drawn = numbers[:STRIP]
            thin = width / len(drawn)
            for place_, value in enumerate(drawn):
                self.box(left + place_ * thin, top + tall + 2, thin, 8, colour(value, reach))

    def box(self, left: float, top: float, width: float, height: float, fill: str) -> None:
        """Add a filled rectangle; all rectangles are drawn at the end of `paint`."""
        self.boxes.append(Rectangle((left, top), width, height))
        self.colours.append(fill)

    def text(
        self,
        position: tuple[float, float],
        text: str,
        size: float,
        ink: str = INK,
        across: str = "left",
        down: str = "top",
        weight: str = "normal",
    ) -> None:
        """Draw a line of text in front of all rectangles."""
        self.axes.text(*position, text, fontsize=points(size), color=ink, ha=across, va=down,
                       weight=weight, zorder=5)  # fmt: skip


def higher(text: str) -> str:
    """Write the exponent of `e^0.52` in superscript characters.

    Example:
        >>> higher("e^−0.52 / 3")
        'e⁻⁰·⁵² / 3'
    """
    return re.sub(r"\^(−?[\d.]*\d)", lambda match: match[1].translate(HIGHER), text)
