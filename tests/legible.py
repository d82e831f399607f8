"""Whether a picture can be read from the back row: sizes of text, overlaps, the sheet's edge.

Every text of a matplotlib figure is asked how large it is, in pixels of a sheet 1280 wide: titles,
captions, legends, labels of ticks, numbers in cells and rows of tables alike at least 24.
"""

from __future__ import annotations

import math

import numpy as np
from matplotlib.figure import Figure
from matplotlib.text import Text

from regard.draw.sheet import SMALLEST, TEXT, WIDTH, style


def texts(figure: Figure) -> list[tuple[Text, float]]:
    """Every text that is drawn, with the least size that it may have."""
    with style():
        figure.canvas.draw()
    ticks, inside, undrawn = set(), set(), set()
    for axes in figure.axes:
        inside |= {id(text) for text in axes.texts}
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                labels = {id(tick.label1), id(tick.label2)}
                # matplotlib keeps the labels of ticks beyond the axes, and does not draw them
                slack = 1e-9 * max(abs(low), abs(high), 1e-300)
                (ticks if low - slack <= tick.get_loc() <= high + slack else undrawn).update(labels)
    found = [
        text
        for text in figure.findobj(Text)
        if text.get_visible() and text.get_text().strip() and id(text) not in undrawn
    ]
    found = [text for text in found if text.axes is None or text.axes.axison or id(text) in inside]
    return [(text, SMALLEST if id(text) in ticks | inside else TEXT) for text in found]


def pixels(figure: Figure, text: Text) -> float:
    """The size of a text where the figure is shown 1280 pixels wide."""
    return float(text.get_fontsize() / 72 * WIDTH / figure.get_figwidth())


def corners(text: Text) -> np.ndarray:
    """The four corners of a text as it stands, turned or not, in pixels."""
    angle = text.get_rotation()
    with style():
        if angle == 0 or text.get_rotation_mode() != "anchor":
            box = text.get_window_extent()
            return np.array(
                [[box.x0, box.y0], [box.x1, box.y0], [box.x1, box.y1], [box.x0, box.y1]]
            )
        anchor = text.get_transform().transform(text.get_position())
        text.set_rotation(0)
        box = text.get_window_extent()
        text.set_rotation(angle)
    flat = np.array([[box.x0, box.y0], [box.x1, box.y0], [box.x1, box.y1], [box.x0, box.y1]])
    lean = math.radians(angle)
    turn = np.array([[math.cos(lean), -math.sin(lean)], [math.sin(lean), math.cos(lean)]])
    return (flat - anchor) @ turn.T + anchor


def overlap(one: np.ndarray, other: np.ndarray) -> float:
    """By how many pixels two rectangles overlap: the least over their four axes."""
    edges = [one[1] - one[0], one[2] - one[1], other[1] - other[0], other[2] - other[1]]
    depths = []
    for axis in (edge / np.linalg.norm(edge) for edge in edges):
        a, b = one @ axis, other @ axis
        depths.append(min(a.max(), b.max()) - max(a.min(), b.min()))
    return min(depths)


def problems(figure: Figure, slack: float = 1.0) -> list[str]:
    """What is too small, off the sheet, or over another text; slack: pixels that may be shared."""
    found = []
    drawn = texts(figure)
    for text, least in drawn:
        if (size := pixels(figure, text)) < least - 0.01:
            found.append(f"{size:.1f} px, not {least}: {text.get_text()!r}")
    boxes = [corners(text) for text, _ in drawn]
    width, height = figure.get_size_inches() * figure.dpi
    for (text, _), box in zip(drawn, boxes, strict=True):
        inside = box.min() >= -1 and box[:, 0].max() <= width + 1 and box[:, 1].max() <= height + 1
        if not inside:
            found.append(f"off the sheet: {text.get_text()!r} at {box.min(0)} to {box.max(0)}")
    if not boxes:
        return found
    low, high = (np.array([pick(box, 0) for box in boxes]) for pick in (np.min, np.max))
    near = (low[:, None] < high[None]).all(-1) & (low[None] < high[:, None]).all(-1)
    for one, other in np.argwhere(np.triu(near, 1)):  # only these can overlap at all
        depth = overlap(boxes[one], boxes[other])
        if depth >= slack:
            pair = drawn[one][0].get_text(), drawn[other][0].get_text()
            found.append(f"over each other by {depth:.1f}: {pair[0]!r} and {pair[1]!r}")
    return found
