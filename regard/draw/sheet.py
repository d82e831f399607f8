"""A matplotlib figure laid out in pixels from the top left corner, and its output formats.

`plot` places axes and text at computed positions, using measured text widths, so that nothing
overlaps. A finished figure is rendered to the bytes of a PNG, SVG or PDF file. pyplot is not used,
and matplotlib's settings are left unchanged.
"""

from __future__ import annotations

import io
import math
import re
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import matplotlib
from matplotlib import font_manager, ticker
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties

from regard.draw.colours import INK, MUTED, RULE, LineStyle

DPI = 96  # as in browsers, so that an SVG, which matplotlib measures in points, has the same size
WIDTH, HEIGHT = 1280, 720  # pixels of a projector

# Font sizes in pixels on a sheet of 1280×720, chosen to be readable from the back row.
TITLE = 28
TEXT = 24  # headings, axis labels, legends, captions
SMALLEST = 24  # tick labels, numbers in cells and beside bars: no text is smaller

PAPER = 160  # millimetres: the width of a picture for print
PAPER_DPI = 300

LEADING = 1.28
"""The line height of a paragraph as a multiple of the font size."""

# DejaVu Sans comes with matplotlib; the others supply missing glyphs if they are installed.
FALLBACKS = (
    "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC", "Noto Sans JP", "Noto Sans KR",
    "PingFang SC", "Hiragino Sans", "Microsoft YaHei", "Malgun Gothic", "WenQuanYi Zen Hei",
    "Noto Sans Devanagari", "Noto Sans Thai", "Noto Sans Arabic", "Noto Sans Hebrew",
)  # fmt: skip

_lock = threading.RLock()  # settings and warning filters are shared by all threads


@cache
def families() -> tuple[str, ...]:
    """The font families to draw with, in order of preference."""
    installed = {font.name for font in font_manager.fontManager.ttflist}
    return ("DejaVu Sans", *(name for name in FALLBACKS if name in installed))


@contextmanager
def style() -> Iterator[None]:
    """Use our matplotlib settings instead of the user's while drawing."""
    settings: dict[Any, Any] = {
        "font.family": list(families()),
        "text.usetex": False,
        "text.parse_math": False,  # `$` in a label is a literal dollar sign
        "axes.unicode_minus": True,
        "axes.edgecolor": RULE,
        "text.color": INK,
        "svg.fonttype": "none",  # keep text selectable, searchable and accessible
        "svg.hashsalt": "regard",  # the same picture gives the same file
        "pdf.fonttype": 42,  # embed TrueType fonts, so that text stays text
        "hatch.linewidth": 0.8,
        "path.simplify": True,
    }
    with _lock, matplotlib.rc_context(settings), warnings.catch_warnings():
        # A glyph that no font has is drawn as a box, without a warning.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def points(pixels: float) -> float:
    """Convert pixels to points, the unit of fonts and lines in matplotlib."""
    return pixels * 72 / DPI


@cache
def _renderer() -> RendererAgg:
    return RendererAgg(1, 1, DPI)  # type: ignore[no-untyped-call]


@lru_cache(maxsize=8192)
def text_width(text: str, size: float, weight: str = "normal") -> float:
    """The width of a line of text in pixels; call it inside `style()` only."""
    font = FontProperties(family=list(families()), size=points(size), weight=weight)
    size_of: Any = _renderer().get_text_width_height_descent
    width, _, _ = size_of(text or " ", font, ismath=False)
    return float(width)


def shorten(text: str, width: float, size: float) -> str:
    """Cut a text to a width in pixels; the cut part is replaced by an ellipsis."""
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
            # bold text is wider than `shorten` measures: nine tenths of the width leave room
            lines.append(shorten(word, width if weight == "normal" else 0.9 * width, size))
    return [line for line in lines if line]


@dataclass(frozen=True)
class Medium:
    """Whether a picture is for screen or print, and whether it contains details.

    Attributes:
        paper: For print: 160 mm wide, without title and caption.
        details: Also write details into the picture, below its caption.
    """

    paper: bool = False
    details: bool = False


SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def scientific(value: float) -> str:
    """A number as text: plain if it is moderate, else with a power of ten.

    Example:
        >>> scientific(1e-3), scientific(0.1), scientific(64), scientific(3e18)
        ('10⁻³', '0.1', '64', '3·10¹⁸')
    """
    if value == 0 or 0.01 <= abs(value) <= 2000:
        return f"{value:g}"
    exponent = math.floor(math.log10(abs(value)) + 1e-9)
    lead = value / 10**exponent
    front = "" if abs(lead - 1) < 0.05 else f"{lead:.2g}·"
    return f"{front}10{str(exponent).translate(SUPERSCRIPT)}"


class Chart(Axes):
    """Matplotlib axes with the text sizes, legends and logarithmic ticks of all our pictures."""

    def write(self, point: tuple[float, float], text: str, **options: Any) -> None:
        """Write a text at a point of the axes, in the font size of tick labels."""
        self.text(*point, text, **{"fontsize": points(SMALLEST), "color": INK, **options})

    def write_beside(self, point: tuple[float, float], text: str, **options: Any) -> None:
        """Write a text next to a point of the axes; `xytext` is the offset in points."""
        defaults = {"fontsize": points(SMALLEST), "color": INK, "xytext": (0, 4), "ha": "center"}
        self.annotate(text, point, textcoords="offset points", **{**defaults, **options})

    def curve(self, *data: Any, style: LineStyle, width: float = 2.6, **options: Any) -> None:
        """Draw a curve in the colour and dash of a style; `data` is y, or x and y."""
        self.plot(*data, color=style.colour, linestyle=style.dash, linewidth=width, **options)

    def draw_frame(self, most_ticks: int | None = None) -> None:
        """Draw a frame at the bottom and on the left, with ticks, and a light grid."""
        self.spines[["top", "right"]].set_visible(False)
        self.spines[["bottom", "left"]].set_color(MUTED)
        for axis in (self.xaxis, self.yaxis):
            locator = ticker.AutoLocator() if most_ticks is None else ticker.MaxNLocator(most_ticks)
            axis.set_major_locator(locator)
            axis.set_major_formatter(ticker.ScalarFormatter())
        self.tick_params(length=4, color=MUTED, labelcolor=INK, which="major")
        self.tick_params(length=0, which="minor")
        self.grid(color=RULE, linewidth=0.6)
        self.set_axisbelow(True)

    def draw_legend(self, where: str = "best") -> None:
        """Draw a legend of the curves, without a border."""
        legend: Any = self.legend
        legend(
            loc=where, fontsize=points(TEXT), frameon=True, framealpha=0.85,
            edgecolor="none", handlelength=1.5, handletextpad=0.4, labelspacing=0.15,
            borderpad=0.1, borderaxespad=0.2, columnspacing=1.0,
        )  # fmt: skip

    def log_axis(self, side: str, ticks: Sequence[float]) -> None:
        """Make the `x` or `y` axis logarithmic, with labels at these ticks only."""
        axis = self.xaxis if side == "x" else self.yaxis
        (self.set_xscale if side == "x" else self.set_yscale)("log")
        axis.set_major_locator(ticker.FixedLocator(list(ticks)))
        axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: scientific(value)))
        axis.set_minor_formatter(ticker.NullFormatter())


class Sheet:
    """A figure whose parts are placed in pixels from the top left corner.

    Args:
        width: The width in pixels; raised to `WIDTH` if smaller.
        height: The height in pixels; raised to `HEIGHT` if smaller.
    """

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = max(WIDTH, round(width)), max(HEIGHT, round(height))
        size = (self.width / DPI, self.height / DPI)
        self.figure = Figure(figsize=size, dpi=DPI, facecolor="white")
        FigureCanvasAgg(self.figure)

    def axes(self, left: float, top: float, width: float, height: float) -> Chart:
        """Add axes without ticks that cover exactly this rectangle, in pixels."""
        bottom = 1 - (top + height) / self.height
        sides = (left / self.width, bottom, width / self.width, height / self.height)
        axes = Chart(self.figure, sides)
        self.figure.add_axes(axes)
        axes.tick_params(length=0, labelsize=points(SMALLEST), labelcolor=INK)
        axes.set_xticks([])
        axes.set_yticks([])
        return axes

    def text(
        self,
        point: tuple[float, float],
        text: str,
        size: float = TEXT,
        colour: str = INK,
        align: str = "left top",
        weight: str = "normal",
    ) -> None:
        """Write one line of text.

        Args:
            point: The anchor (x, y) in pixels.
            text: The line.
            size: The font size in pixels.
            colour: The colour of the text.
            align: Horizontal and vertical alignment relative to the anchor, such as `left top`.
            weight: `normal` or `bold`.
        """
        ha, va = align.split()
        x, y = point[0] / self.width, 1 - point[1] / self.height
        self.figure.text(
            x, y, text, fontsize=points(size), color=colour, ha=ha, va=va, weight=weight
        )

    def paragraph(
        self,
        point: tuple[float, float],
        text: str,
        width: float,
        size: float = TEXT,
        colour: str = INK,
        weight: str = "normal",
    ) -> float:
        """Write wrapped text whose top left corner is at `point`; returns the y of its end.

        Lines that do not fit on the sheet are left out, marked by an ellipsis.
        """
        left, top = point
        pitch = LEADING * size
        lines = wrap(text, width, size, weight)
        max_lines = max(0, int((self.height - 12 - top) / pitch))
        if len(lines) > max_lines:
            lines = [*lines[: max_lines - 1], lines[max_lines - 1] + " …"] if max_lines else []
        for number, line in enumerate(lines):
            self.text((left, top + number * pitch), line, size, colour, weight=weight)
        return top + len(lines) * pitch


def lines_height(text: str, width: float, size: float, weight: str = "normal") -> float:
    """The height in pixels of a paragraph of this width."""
    return LEADING * size * len(wrap(text, width, size, weight))


def render(figure: Figure, ending: str, *, paper: bool = False) -> bytes:
    """Render a figure to the bytes of a file.

    Args:
        figure: The figure of a sheet.
        ending: `.png`, `.svg` or `.pdf`.
        paper: For print: 160 mm wide, PNG at 300 dpi.
    """
    with style():
        return WRITERS[ending](figure, paper=paper)


def _paper_scale(figure: Figure) -> float:
    """The ratio of the width on paper to the width on the screen."""
    return PAPER / 25.4 / float(figure.get_figwidth())


def _write_png(figure: Figure, *, paper: bool) -> bytes:
    buffer = io.BytesIO()
    dots = PAPER_DPI * _paper_scale(figure) if paper else DPI
    options = {"dpi": (PAPER_DPI, PAPER_DPI)} if paper else {}
    figure.savefig(buffer, format="png", dpi=dots, pil_kwargs=options)
    return buffer.getvalue()


def _write_svg(figure: Figure, *, paper: bool) -> bytes:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", dpi=DPI, metadata={"Date": None})
    # Verdana, which has the same widths, replaces DejaVu Sans where that is not installed.
    text = re.sub(r"(font: [^;\"]*)", r"\1, Verdana, sans-serif", buffer.getvalue())
    if paper:
        height = PAPER * float(figure.get_figheight() / figure.get_figwidth())
        sides = f'width="{PAPER}mm" height="{height:g}mm"'
        text = re.sub(r'width="[\d.]+pt" height="[\d.]+pt"', sides, text, count=1)
    return text.encode()


def _write_pdf(figure: Figure, *, paper: bool) -> bytes:
    """As matplotlib's own PDF output, but scaled to the size it will have in print."""
    from matplotlib.backends.backend_mixed import MixedModeRenderer
    from matplotlib.backends.backend_pdf import Op, PdfFile, RendererPdf

    scale = _paper_scale(figure) if paper else 1.0
    width, height = figure.get_size_inches()
    buffer = io.BytesIO()
    file: Any = PdfFile(buffer, metadata={"CreationDate": None})  # type: ignore[no-untyped-call]
    file.newPage(width * scale, height * scale)
    file.output(scale, 0, 0, scale, 0, 0, Op.concat_matrix)
    figure.dpi = 72  # a PDF is measured in points
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
