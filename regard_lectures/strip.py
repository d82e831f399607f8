"""Draw scenes as pictures: a single one of 1280×720, all below each other, or one PDF page each."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.backends.backend_pdf import PdfPages
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from regard.draw import (
    ACCENT,
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
from regard.explain import Words
from regard_lectures.scene import PER_LINE, Scene, SceneRow, Vector, written
from regard_lectures.slides import colour, is_deep

EDGE, TITLE, TEXT = 32, 34, 24
"""The margin, and the font sizes of titles and of all else, in pixels."""
LINE = 1.3 * TEXT
WASH, RAISED, BAR = "#fdf1ea", "#f6f8fa", "#4a7fb5"
LABEL, MOST_LABEL, NUMBER = 170, 300, 110  # the least and largest width of labels; of numbers
HIGHER = str.maketrans("−0123456789.", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹·")


@dataclass(frozen=True)
class Heading:
    """What stands above all scenes: the words of the figure, and its limits."""

    words: Words
    limits: str

    def lines(self) -> list[tuple[str, float, str, str]]:
        """Lines of the heading, each with its size, colour and weight."""
        width = WIDTH - 2 * EDGE
        parts = (
            (self.words.title, TITLE, INK, "bold"),
            (self.words.caption, TEXT, INK, "normal"),
            (self.limits, TEXT, MUTED, "normal"),
        )
        return [
            (line, size, colour, weight)
            for text, size, colour, weight in parts
            for line in wrap(text, width, size, weight)
        ]


def draw_strip(heading: Heading, scenes: Sequence[Scene]) -> Figure:
    """Draw all scenes below each other, each 1280×720 pixels, under the heading."""
    with style():
        lines = heading.lines()
        head = round(sum(1.3 * size for _, size, _, _ in lines) + 2 * EDGE)
        sheet = Sheet(WIDTH, head + len(scenes) * HEIGHT)
        y = float(EDGE)
        for line, size, ink, weight in lines:
            sheet.text((EDGE, y), line, size, ink, weight=weight)
            y += 1.3 * size
        for number, scene in enumerate(scenes):
            corner = 0, head + number * HEIGHT
            Painter(sheet, corner).paint(scene, "", f"{number + 1} / {len(scenes)}")
    return sheet.figure


def draw_scene(heading: Heading, scenes: Sequence[Scene], number: int) -> Figure:
    """Draw scene `number`, counted from 1, on a sheet of 1280×720 pixels."""
    with style():
        sheet = Sheet(WIDTH, HEIGHT)
        count = f"{number} / {len(scenes)}"
        Painter(sheet).paint(scenes[number - 1], heading.words.caption, count, heading.limits)
    return sheet.figure


def pages(heading: Heading, scenes: Sequence[Scene]) -> bytes:
    """The bytes of a PDF with one page per scene."""
    buffer = io.BytesIO()
    figures = [draw_scene(heading, scenes, number) for number in range(1, len(scenes) + 1)]
    with style(), PdfPages(buffer, metadata={"CreationDate": None}) as pdf:
        for figure in figures:
            pdf.savefig(figure)
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

    def paint(self, scene: Scene, heading: str, count: str, limits: str = "") -> None:
        """Draw a whole scene: title, formula, sentence, rows, and the worked example."""
        width = WIDTH - 2 * EDGE
        self.text((EDGE, 12), shorten(heading, width - 110, TEXT), TEXT, MUTED)
        self.text((WIDTH - EDGE, 12), count, TEXT, MUTED, "right")
        formula = scene.formula
        title_width = width - text_width(formula, 30) - 40
        beside = text_width(scene.title, TITLE, "bold") <= title_width
        for line in wrap(scene.title, width, TITLE, "bold")[:1]:
            self.text((EDGE, 50), line, TITLE, weight="bold")
        below = 50 if beside else 92
        self.text((WIDTH - EDGE, below + 4), formula, 30, ACCENT, "right")
        top = below + 52.0
        for line in wrap(scene.explanation, width, TEXT):
            self.text((EDGE, top), line, TEXT, MUTED)
            top += LINE
        bottom = HEIGHT - 12.0
        left_out = " ".join(filter(None, (scene.cut, scene.omitted)))
        for text, ink in ((limits, MUTED), (left_out, MUTED), (higher(scene.example), INK)):
            for line in reversed(wrap(text, width, TEXT)):
                bottom -= LINE
                self.text((EDGE, bottom), line, TEXT, ink)
        self.rows(scene, top + 8, bottom - 8)
        patches = PatchCollection(self.boxes, facecolors=self.colours, linewidths=0)
        self.axes.add_collection(patches)

    def rows(self, scene: Scene, top: float, bottom: float) -> None:
        """Draw the rows, spread over the remaining height; a long vector takes several lines."""
        lines = [self.lines(row, scene) for row in scene.rows]
        gaps = 4 * len(lines)
        pitch = min(56.0, (bottom - top - gaps) / sum(lines))
        start = top + max(0.0, (bottom - top - gaps - pitch * sum(lines)) / 2)
        leads = [text_width(higher(row.lead), TEXT) for row in scene.rows if row.lead]
        lead = max(leads) + 14 if leads else 0
        widest = max(text_width(row.label, TEXT, "bold") for row in scene.rows) + 14
        columns = min(max(widest, LABEL), MOST_LABEL), lead
        for row, count in zip(scene.rows, lines, strict=True):
            self.row(row, start, pitch * count, columns, scene)
            start += pitch * count + 4

    def lines(self, row: SceneRow, scene: Scene) -> int:
        """The number of lines that the written numbers of a row take."""
        if row.values is None:
            return 1
        return -(-min(scene.written, len(row.values)) // PER_LINE)

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
            self.text((left, middle), higher(row.lead), TEXT, MUTED, "left", "center")
        left += lead
        right = WIDTH - EDGE - (NUMBER if any(other.number for other in scene.rows) else 0)
        if row.values is not None:
            self.vector(row.values, scene, (left, top + 1, right - left, height - 2),
                        faded=row.role == "masked")  # fmt: skip
        elif row.bar is not None:
            zero, scale = (0.5, 0.5) if scene.signed else (0.0, 1.0)
            wide = right - left - 20
            begin = left + (zero + min(0.0, row.bar) * scale) * wide
            self.box(left + zero * wide, top + 2, 1, height - 4, MUTED)
            self.box(begin, top + 5, abs(row.bar) * scale * wide, height - 10, BAR)
        if row.number:
            corner = WIDTH - EDGE, middle
            self.text(corner, row.number, TEXT, ink if row.role else INK, "right", "center")

    def vector(
        self, values: Vector, scene: Scene, box: tuple[float, float, float, float], *, faded: bool
    ) -> None:
        """Draw the written values as coloured cells; of a longer vector, all as a strip below."""
        left, top, width, height = box
        count = min(scene.written, len(values))
        strip = 8 if len(values) > count else 0
        pitch, tall = width / PER_LINE, (height - strip) / -(-count // PER_LINE)
        for index, value in enumerate(map(float, values[:count])):
            line, column = divmod(index, PER_LINE)
            corner = left + column * pitch, top + line * tall
            self.box(*corner, pitch - 2, tall - 1, colour(value, scene.reach))
            ink = "#9aa3ab" if faded else "white" if is_deep(value, scene.reach) else INK
            spot = corner[0] + pitch / 2 - 1, corner[1] + tall / 2
            text = written(value, 2 if abs(value) < 100 else 0)
            self.text(spot, text, TEXT, ink, "center", "center")
        thin = width / len(values)
        for index, value in enumerate(map(float, values if strip else ())):
            start = left + index * thin
            self.box(start, top + height - strip + 1, thin, strip - 2, colour(value, scene.reach))

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
