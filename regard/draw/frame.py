"""The frame of an attention picture: title, colour scales, caption and details."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.draw.cells import Scale
from regard.draw.colours import MUTED
from regard.draw.labels import visible
from regard.draw.sheet import (
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
    shorten,
    text_width,
    wrap,
)

EDGE, MARGIN = 20, 12  # pixels left free at the sides, and above and below
BAR = (150, 18)  # the colour bar
MAX_LINES = 2  # the largest number of lines of a title or a caption


@dataclass(frozen=True)
class Texts:
    """The texts around a drawing: title above, caption below, optional details."""

    title: str
    caption: str
    details: str
    medium: Medium


@dataclass(frozen=True)
class Frame:
    """A sheet with its texts, and the y range in pixels that is free for the drawing."""

    sheet: Sheet
    top: float
    bottom: float

    @property
    def height(self) -> float:
        """The free height in pixels."""
        return self.bottom - self.top


def framed_sheet(texts: Texts, scales: Sequence[Scale]) -> Frame:
    """A sheet with title, caption, details and colour scales, ready for the drawing."""
    width = WIDTH - 2.0 * EDGE
    details = texts.details if texts.medium.details else ""
    below = lines_height(details, width, TEXT) + 16 if details else 0.0
    sheet = Sheet(WIDTH, HEIGHT + below)
    top, bottom = float(MARGIN), float(HEIGHT - MARGIN)
    if not texts.medium.paper:
        title = _cut_to_lines(visible(texts.title), width, TITLE, "bold")
        top = sheet.paragraph((EDGE, MARGIN), title, width, TITLE, weight="bold") + 6
        caption = _cut_to_lines(visible(texts.caption), width, TEXT)
        bottom -= lines_height(caption, width, TEXT)
        sheet.paragraph((EDGE, bottom), caption, width)
        bottom -= 10
    if details:
        sheet.paragraph((EDGE, HEIGHT), details, width, colour=MUTED)
    left = float(EDGE)
    for scale in scales:
        left = _draw_scale(sheet, scale, left, top)
    return Frame(sheet, top + (LEADING * TEXT + 8 if scales else 0), bottom)


def _cut_to_lines(text: str, width: float, size: float, weight: str = "normal") -> str:
    """The text cut to `MAX_LINES` lines of the given width."""
    lines = wrap(text, width, size, weight)
    if len(lines) <= MAX_LINES:
        return text
    last = shorten(lines[MAX_LINES - 1] + " " + lines[MAX_LINES], 0.88 * width, size)
    return " ".join([*lines[: MAX_LINES - 1], last])


def _draw_scale(sheet: Sheet, scale: Scale, left: float, top: float) -> float:
    """Draw the name of a scale, its bar and the values at its ends; returns its right end."""
    middle = top + LEADING * TEXT / 2
    sheet.text((left, middle), scale.name, align="left center")
    left += text_width(scale.name, TEXT) + 14
    ends = [f"{end:.2g}".replace("-", "−") for end in (scale.low, scale.high)]
    left += text_width(ends[0], SMALLEST) + 6
    bar = sheet.axes(left, middle - BAR[1] / 2, *BAR)
    values = np.linspace(scale.low, scale.high, 256)[None]
    bar.imshow(values, scale.colormap(), aspect="auto", extent=(0, 1, 0, 1))
    for x, side, text in ((-0.04, "right", ends[0]), (1.04, "left", ends[1])):
        bar.text(x, 0.5, text, ha=side, va="center", fontsize=points(SMALLEST))
    return left + BAR[0] + text_width(ends[1], SMALLEST) + 50
