"""A white sheet measured in pixels from its top left corner, for pictures that never overlap.

`plot` puts axes and text on it at places it has computed, because only measured text can be
promised not to overlap. A finished figure goes out as the bytes of a PNG, SVG or PDF file.
Nothing here goes through pyplot or leaves a setting of matplotlib changed.
"""

from __future__ import annotations

import io
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import matplotlib
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties

from regard.explain.colours import INK, RULE

DPI = 96  # as browsers count, so that an SVG, which matplotlib measures in points, is as large
WIDTH, HEIGHT = 1280, 720  # a projector

# Sizes of text in pixels of a sheet of 1280 by 720, chosen to be read from the back row.
TITLE = 28
TEXT = 24  # headings, axis labels, legends, captions
SMALLEST = 18  # labels of ticks, numbers in cells and beside bars

PAPER = 160  # millimetres: the width of a picture for print
PAPER_DPI = 300

LEADING = 1.28
"""From one line of a paragraph to the next, of the size of its text."""

# DejaVu Sans comes with matplotlib; the others draw what it lacks, where they are installed.
FALLBACKS = (
    "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC", "Noto Sans JP", "Noto Sans KR",
    "PingFang SC", "Hiragino Sans", "Microsoft YaHei", "Malgun Gothic", "WenQuanYi Zen Hei",
    "Noto Sans Devanagari", "Noto Sans Thai", "Noto Sans Arabic", "Noto Sans Hebrew",
)  # fmt: skip

_lock = threading.RLock()  # settings and warning filters are shared by all threads


@cache
def families() -> tuple[str, ...]:
    """The fonts to draw with, first choice first."""
    installed = {font.name for font in font_manager.fontManager.ttflist}
    return ("DejaVu Sans", *(name for name in FALLBACKS if name in installed))


@contextmanager
def style() -> Iterator[None]:
    """Our settings instead of the user's, for the time of drawing."""
    settings: dict[Any, Any] = {
        "font.family": list(families()),
        "text.usetex": False,
        "text.parse_math": False,  # a `$` in a label is a dollar
        "axes.unicode_minus": True,
        "axes.edgecolor": RULE,
        "text.color": INK,
        "svg.fonttype": "none",  # text stays text: it can be selected, searched and read aloud
        "svg.hashsalt": "regard",  # the same picture is the same file
        "pdf.fonttype": 42,  # fonts go into the file as they are, so that text stays text
        "hatch.linewidth": 0.8,
        "path.simplify": True,
    }
    with _lock, matplotlib.rc_context(settings), warnings.catch_warnings():
        # A letter that no font has is drawn as a box; that is all there is to say about it.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def points(pixels: float) -> float:
    """Pixels as the points that matplotlib measures fonts and lines in."""
    return pixels * 72 / DPI


@cache
def _renderer() -> RendererAgg:
    return RendererAgg(1, 1, DPI)  # type: ignore[no-untyped-call]


@lru_cache(maxsize=8192)
def text_width(text: str, size: float, weight: str = "normal") -> float:
    """How wide a line of text is, in pixels; inside `style()` only."""
    font = FontProperties(family=list(families()), size=points(size), weight=weight)
    size_of: Any = _renderer().get_text_width_height_descent
    width, _, _ = size_of(text or " ", font, ismath=False)
    return float(width)


def shorten(text: str, width: float, size: float) -> str:
    """Cut a text to a width in pixels; what was cut is an ellipsis."""
    if text_width(text, size) <= width:
        return text
    low, high = 0, min(len(text), 400)
    while low < high:
        middle = (low + high + 1) // 2
        fits = text_width(text[:middle] + "…", size) <= width
        low, high = (middle, high) if fits else (low, middle - 1)
    return text[:low] + "…"


def wrap(text: str, width: float, size: float, weight: str = "normal") -> list[str]:
    """Break a text into lines no wider than `width`; a longer word is cut."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if text_width(longer, size, weight) <= width:
            lines[-1] = longer
        else:
            # bold is the wider, so a word cut to nine tenths fits in either weight
            lines.append(shorten(word, width if weight == "normal" else 0.9 * width, size))
    return [line for line in lines if line]


@dataclass(frozen=True)
class Medium:
    """Where a picture will be seen, and how much is said in it.

    Attributes:
        paper: For print: 160 mm wide; title and caption are left to the text around it.
        details: Whether the details stand in the picture, too, under its caption.
    """

    paper: bool = False
    details: bool = False


class Sheet:
    """A figure whose parts are placed in pixels, y growing downwards.

    Args:
        width: Of the sheet; at least that of a projector.
        height: Of the sheet; at least that of a projector.
    """

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = max(WIDTH, round(width)), max(HEIGHT, round(height))
        size = (self.width / DPI, self.height / DPI)
        self.figure = Figure(figsize=size, dpi=DPI, facecolor="white")
        FigureCanvasAgg(self.figure)

    def axes(self, left: float, top: float, width: float, height: float) -> Axes:
        """Axes that cover exactly this rectangle, without ticks."""
        axes = self.figure.add_axes(
            (
                left / self.width,
                1 - (top + height) / self.height,
                width / self.width,
                height / self.height,
            )
        )
        axes.tick_params(length=0, labelsize=points(SMALLEST), labelcolor=INK)
        axes.set_xticks([])
        axes.set_yticks([])
        return axes

    def text(
        self,
        place: tuple[float, float],
        text: str,
        size: float = TEXT,
        colour: str = INK,
        align: str = "left top",
        weight: str = "normal",
    ) -> None:
        """One line of text; `align` says which of its corners or sides is at the place."""
        horizontal, vertical = align.split()
        self.figure.text(
            place[0] / self.width,
            1 - place[1] / self.height,
            text,
            fontsize=points(size),
            color=colour,
            ha=horizontal,
            va=vertical,
            weight=weight,
        )

    def paragraph(
        self,
        place: tuple[float, float],
        text: str,
        width: float,
        size: float = TEXT,
        colour: str = INK,
        weight: str = "normal",
    ) -> float:
        """Wrapped text from the top left corner down; returns where it ends.

        What does not fit on the sheet is left out, with an ellipsis.
        """
        left, top = place
        pitch = LEADING * size
        lines = wrap(text, width, size, weight)
        room = max(0, int((self.height - 12 - top) / pitch))
        if len(lines) > room:
            lines = [*lines[: room - 1], lines[room - 1] + " …"] if room else []
        for number, line in enumerate(lines):
            self.text((left, top + number * pitch), line, size, colour, weight=weight)
        return top + len(lines) * pitch


def lines_height(text: str, width: float, size: float, weight: str = "normal") -> float:
    """How high a paragraph of this width is, in pixels."""
    return LEADING * size * len(wrap(text, width, size, weight))


def render(figure: Figure, ending: str, *, paper: bool = False) -> bytes:
    """A figure as the bytes of a file.

    Args:
        figure: What was drawn on a sheet.
        ending: `.png`, `.svg` or `.pdf`.
        paper: Whether the file is for print: 160 mm wide, a PNG with 300 dots an inch.
    """
    with style():
        return WRITERS[ending](figure, paper=paper)


def _paper_scale(figure: Figure) -> float:
    """The width on paper over the width on a screen."""
    return PAPER / 25.4 / float(figure.get_figwidth())


def _write_png(figure: Figure, *, paper: bool) -> bytes:
    buffer = io.BytesIO()
    dots = PAPER_DPI * _paper_scale(figure) if paper else DPI
    said = {"dpi": (PAPER_DPI, PAPER_DPI)} if paper else {}
    figure.savefig(buffer, format="png", dpi=dots, pil_kwargs=said)
    return buffer.getvalue()


def _write_svg(figure: Figure, *, paper: bool) -> bytes:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", dpi=DPI, metadata={"Date": None})
    # Verdana is as wide as DejaVu Sans, and is there where the latter is not.
    text = re.sub(r"(font: [^;\"]*)", r"\1, Verdana, sans-serif", buffer.getvalue())
    if paper:
        height = PAPER * float(figure.get_figheight() / figure.get_figwidth())
        sides = f'width="{PAPER}mm" height="{height:g}mm"'
        text = re.sub(r'width="[\d.]+pt" height="[\d.]+pt"', sides, text, count=1)
    return text.encode()


def _write_pdf(figure: Figure, *, paper: bool) -> bytes:
    """As matplotlib writes it, but on a page of the size that it will have in print."""
    from matplotlib.backends.backend_mixed import MixedModeRenderer
    from matplotlib.backends.backend_pdf import Op, PdfFile, RendererPdf

    scale = _paper_scale(figure) if paper else 1.0
    width, height = figure.get_size_inches()
    buffer = io.BytesIO()
    file: Any = PdfFile(buffer, metadata={"CreationDate": None})  # type: ignore[no-untyped-call]
    file.newPage(width * scale, height * scale)
    file.output(scale, 0, 0, scale, 0, 0, Op.concat_matrix)
    figure.dpi = 72  # a PDF counts in points
    try:
        pages: Any = RendererPdf(file, DPI, height, width)  # type: ignore[no-untyped-call]
        renderer: Any = MixedModeRenderer(figure, width, height, DPI, pages)  # type: ignore[no-untyped-call]
        figure.draw(renderer)
        renderer.finalize()
        file.finalize()
    finally:
        figure.dpi = DPI
        file.close()
    return buffer.getvalue()


WRITERS: dict[str, Callable[..., bytes]] = {
    ".png": _write_png,
    ".svg": _write_svg,
    ".pdf": _write_pdf,
}
