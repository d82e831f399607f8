"""Attention as pictures: a look and a choice come in, a matplotlib figure goes out.

Each picture has the drawing on the left and, on the right, what it is: title, layer and head,
colour bar, what rows and columns are, model. It measures 1280×720 pixels, and grows only
where labels of 14 pixels would touch (about 40 words); from 100 words on, labels thin out
instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from regard.explain.cells import COLUMN, ROW, Scale, label, paint, round_up, spread, weight_scale
from regard.explain.colours import ACCENT, MUTED, diverging
from regard.explain.look import Choice, Comparison, Kind, Look
from regard.explain.maps import AttentionMap, Weights, mean_by_offset, visible
from regard.explain.names import in_words
from regard.explain.sheet import (
    HEIGHT,
    SMALLEST,
    WIDTH,
    Sheet,
    points,
    render,
    shorten,
    style,
    text_width,
)

__all__ = ["Scale", "draw", "draw_comparison", "render"]

EDGE, RIM = 20, 10  # pixels left free at the sides, and above and below
GAP, ASIDE = 24, 236  # between the parts; the width of the text column
LINES, BARS = 240, 180  # the widths of the two halves of the picture of a word
WINDOW = 8  # words to either side, in the picture of positions


@dataclass(frozen=True)
class Panel:
    """One matrix of a picture."""

    values: Weights  # (row, column)
    rows: Sequence[str]
    columns: Sequence[str]
    scale: Scale
    heading: str = ""
    named_rows: bool = True


@dataclass(frozen=True)
class Columns:
    """How the columns of a picture stand; lengths in pixels."""

    labels: list[list[str]]  # of each panel, cut to fit
    angle: int
    pitch: float
    longest: float  # of the labels
    beside: float  # free to the right of each panel


def draw(look: Look, choice: Choice) -> Figure:
    """The picture of what was chosen."""
    with style():
        if choice.kind == "picture":
            from regard.explain.picture import draw_picture  # which uses what is below

            return draw_picture(look, choice)
        if choice.row is not None:
            return _draw_word(look, choice)
        return DRAWINGS[choice.kind](look, choice)


def draw_comparison(comparison: Comparison, before: Choice, after: Choice) -> Figure:
    """Two maps side by side and, where both have the same words, their difference."""
    with style():
        first, second = before.map, after.map
        values = first.seen(before.head), second.seen(after.head)
        scale = weight_scale(np.concatenate([v.ravel() for v in values]))
        same_rows = first.queries == second.queries
        panels = [
            Panel(values[0], first.queries, first.keys, scale, comparison.names[0]),
            Panel(
                values[1],
                second.queries,
                second.keys,
                scale,
                comparison.names[1],
                named_rows=not same_rows,
            ),
        ]
        facts = [f"Left: {comparison.names[0]}. Right: {comparison.names[1]}."]
        if same_rows and first.keys == second.keys:
            change = values[1] - values[0]
            reach = max(round_up(float(np.abs(change).max())), 0.01)
            shift = Scale(diverging(), -reach, reach, "difference of weights")
            panels.append(
                Panel(change, first.queries, first.keys, shift, "difference", named_rows=False)
            )
            facts = ["Blue: more weight after. Orange: less."]
        else:
            facts.append("The words differ, so there is no difference to draw.")
        facts = [
            *_orientation(comparison.before, first),
            *facts,
            *facts_of(comparison.after, before),
        ]
        return _draw_panels(panels, comparison.before.title, before.name, facts)


def draw_moments(moments: Sequence[tuple[str, Look]]) -> Figure:
    """The same map at several moments of training, named in order; the last one chooses it."""
    last = moments[-1][1]
    choice = last.choose("alignment")
    with style():
        maps = [(name, look.site(choice.map.site)) for name, look in moments]
        scale = weight_scale(np.concatenate([m.seen(choice.head).ravel() for _, m in maps]))
        panels = [
            Panel(m.seen(choice.head), m.queries, m.keys, scale, name, named_rows=number == 0)
            for number, (name, m) in enumerate(maps)
        ]
        facts = [
            *_orientation(last, choice.map),
            "From left to right: " + ", ".join(n for n, _ in moments) + ".",
        ]
        return _draw_panels(panels, "The alignment as it forms", choice.name, facts)


def _draw_matrix(look: Look, choice: Choice) -> Figure:
    values = choice.map.seen(choice.head)
    panel = Panel(values, choice.map.queries, choice.map.keys, weight_scale(values))
    facts = [*_orientation(look, choice.map), *facts_of(look, choice)]
    return _draw_panels([panel], look.title, choice.name, facts)


def _draw_positions(look: Look, choice: Choice) -> Figure:
    longest = max(max(m.weights.shape[1:]) for m in choice.maps)
    window = max(1, min(WINDOW, longest - 1))
    chosen = [(m, h) for m in choice.maps for h in _heads(m, choice)]
    means = {m.site: mean_by_offset(m.weights, window) for m in choice.maps}
    values = np.stack([means[m.site][head] for m, head in chosen])
    rows = [_head_name(look, m, head) for m, head in chosen]
    columns = [f"{offset:+d}" if offset else "0" for offset in range(-window, window + 1)]
    panel = Panel(values, rows, [c.replace("-", "−") for c in columns], weight_scale(values))
    words = len(choice.map.queries)
    # a decoder's step at place t writes word t, and has read the words before it
    origin = "0 is the word of the same number"
    if choice.map.stack.endswith(".self"):
        which = "written last" if choice.map.writes else "itself"
        origin = f"0 is the word {which}, −1 the one before"
    facts = [
        "Rows: the heads.",
        f"Columns: how far from its own place a word looks; {origin}.",
        f"Mean over those of the {words} words that have a word so far away.",
        *facts_of(look, choice),
    ]
    return _draw_panels([panel], look.title, choice.name, facts)


def _draw_grid(look: Look, choice: Choice) -> Figure:
    """One thumbnail a head: rows of layers, columns of heads."""
    across = max(len(_heads(m, choice)) for m in choice.maps)
    down = len(choice.maps)
    title, gap = SMALLEST + 6, 10
    width, height = WIDTH - 2.0 * EDGE - GAP - ASIDE, HEIGHT - 2.0 * RIM
    cell_width = max((width - (across - 1) * gap) / across, text_width("L00 H00", SMALLEST) + 2)
    cell_height = max((height - (down - 1) * gap) / down, title + 36)
    width, height = across * (cell_width + gap) - gap, down * (cell_height + gap) - gap
    sheet = Sheet(width + 2 * EDGE + GAP + ASIDE, height + 2 * RIM)
    scale = weight_scale(np.concatenate([m.weights.ravel() for m in choice.maps]))
    for row, attention_map in enumerate(choice.maps):
        for column, head in enumerate(_heads(attention_map, choice)):
            left = EDGE + column * (cell_width + gap)
            top = RIM + row * (cell_height + gap)
            name = _head_name(look, attention_map, head)
            if text_width(name, SMALLEST) > cell_width:
                name = f"L{attention_map.layer + 1} H{head + 1}"
            silenced = f"{attention_map.site}.{head}" in look.knocked_out
            sheet.text((left, top), name, colour=ACCENT if silenced else MUTED)
            axes = sheet.axes(left, top + title, cell_width, cell_height - title)
            paint(axes, attention_map.weights[head], scale)
    facts = [
        f"Each square is one head: {len(choice.map.queries)} rows, top to bottom, "
        f"by {len(choice.map.keys)} columns.",
        *_orientation(look, choice.map),
        *facts_of(look, choice),
    ]
    write_aside(sheet, look.title, choice.name, [scale], facts)
    return sheet.figure


def _draw_word(look: Look, choice: Choice) -> Figure:
    """The word on the left, what it looks at on the right: the thicker the line, the more."""
    row, queries, keys = choice.row or 0, choice.map.queries, choice.map.keys
    weights = choice.map.seen(choice.head)[row]  # (key)
    scale = weight_scale(weights)
    longest = max(len(queries), len(keys))
    size = _font_size(longest)
    pitch = spread((HEIGHT - 2 * RIM) / longest, longest, ROW, 46)
    every = math.ceil(round(ROW / pitch, 6))
    sheet = Sheet(WIDTH, longest * pitch + 2 * RIM)
    left_words, right_words = (
        [shorten(visible(word), 220, size) for word in words] for words in (queries, keys)
    )
    widths = [max(text_width(w, size) for w in words) for words in (left_words, right_words)]
    width = 1.15 * widths[0] + LINES + widths[1] + BARS + 60  # the bold word is the wider
    left = EDGE + max(0, (WIDTH - ASIDE - 3 * EDGE - width) / 2) + 1.15 * widths[0]
    right = left + LINES
    tops = [(sheet.height - len(words) * pitch) / 2 + pitch / 2 for words in (queries, keys)]

    _draw_lines(
        sheet, weights, scale, (left + 8, right - 8), (tops[0] + row * pitch, tops[1], pitch)
    )
    for place, word in enumerate(left_words):
        where = (left, tops[0] + place * pitch)
        if place == row:
            sheet.text(where, word, size, align="right center", weight="bold")
        elif place % every == 0 and abs(place - row) * pitch >= ROW:
            sheet.text(where, word, size, MUTED, align="right center")
    for place, word in enumerate(right_words[::every]):
        sheet.text((right, tops[1] + place * every * pitch), word, size, align="left center")
    _draw_bars(sheet, weights, scale, right + widths[1] + 16, (tops[1], pitch))
    rows, columns = look.orientation(choice.map)
    facts = [f"Left: {rows}.", f"Right: {columns}.", "The thicker the line, the more."]
    name = f"“{visible(queries[row])}” in {choice.name}"
    write_aside(sheet, look.title, name, [], [*facts, *facts_of(look, choice)])
    return sheet.figure


def _draw_lines(
    sheet: Sheet,
    weights: Weights,
    scale: Scale,
    sides: tuple[float, float],
    heights: tuple[float, float, float],
) -> None:
    """From the height of the word to that of each key: the first key's, and so on by the pitch."""
    (left, right), (start, first, pitch) = sides, heights
    axes = sheet.axes(left, 0, right - left, sheet.height)
    axes.set(xlim=(0, 1), ylim=(sheet.height, 0))
    axes.set_axis_off()
    t = np.linspace(0, 1, 40)
    for key in np.argsort(weights):  # the strongest on top
        share = float(weights[key]) / scale.high
        if share < 0.01:
            continue
        # an S-curve leaves both words level, so that neighbouring lines stay apart
        curve = start + (first + key * pitch - start) * t * t * (3 - 2 * t)
        colour = scale.colours[int(np.clip(0.25 + 0.6 * share, 0, 1) * 255)]
        width = points(0.4 + 13 * share)
        axes.plot(t, curve, color=colour, linewidth=width, solid_capstyle="butt", alpha=0.9)


def _draw_bars(
    sheet: Sheet, weights: Weights, scale: Scale, left: float, heights: tuple[float, float]
) -> None:
    """A bar and its value beside each key; values only where they fit."""
    first, pitch = heights
    axes = sheet.axes(left, 0, BARS, sheet.height)
    axes.set(xlim=(0, scale.high), ylim=(sheet.height, 0))
    axes.set_axis_off()
    places = first + pitch * np.arange(len(weights))
    axes.barh(places, weights, height=min(22.0, 0.62 * pitch), color=scale.colours[150])
    for place, weight in zip(places, weights, strict=True):
        if pitch >= ROW and weight >= 0.005:
            end = left + BARS * float(weight) / scale.high + 6
            sheet.text((end, place), f"{weight:.2f}", align="left center", colour=MUTED)


def _draw_panels(panels: Sequence[Panel], title: str, name: str, facts: Sequence[str]) -> Figure:
    """Matrices side by side, sized so that labels of at least 14 pixels do not touch."""
    rows = max(len(panel.rows) for panel in panels)
    columns = max(len(panel.columns) for panel in panels)
    size = _font_size(max(rows, columns * len(panels)))
    labels = [[shorten(visible(r), 150, size) for r in p.rows] for p in panels]
    margins = [
        max(text_width(text, size) for text in texts) + 10 if panel.named_rows else 0.0
        for panel, texts in zip(panels, labels, strict=True)
    ]
    heading = 30 if any(panel.heading for panel in panels) else 0
    most = 150 if len(panels) == 1 else 96  # several panels leave less room for labels
    tallest = float(np.clip(HEIGHT - 2 * RIM - heading - 4 - rows * ROW, 72, most))
    fixed = sum(margins) + ASIDE + 2 * EDGE
    heads = _place_columns(panels, (WIDTH - fixed) / len(panels), size, tallest)
    lean, column = math.radians(heads.angle), heads.pitch
    above = heading + heads.longest * math.sin(lean) + size * math.cos(lean) + 4
    row = spread((HEIGHT - 2 * RIM - above) / rows, rows, ROW, 96)

    width = columns * column
    total = fixed + len(panels) * (width + heads.beside)
    sheet = Sheet(total, above + rows * row + 2 * RIM)
    top = (sheet.height - above - rows * row) / 2 + above
    left = EDGE + (sheet.width - total) / 2
    for panel, margin, texts, tops in zip(panels, margins, labels, heads.labels, strict=True):
        left += margin
        axes = sheet.axes(left, top, len(panel.columns) * column, len(panel.rows) * row)
        paint(axes, panel.values, panel.scale, cell=(column, row))
        label(axes, texts if panel.named_rows else [], tops, (column, row), (heads.angle, size))
        if panel.heading:
            # on the line above the highest label
            where = (left, top - above)
            sheet.text(where, shorten(visible(panel.heading), width, 16), 16, weight="bold")
        left += width + heads.beside
    scales = list({panel.scale.name: panel.scale for panel in panels}.values())
    write_aside(sheet, title, name, scales, facts)
    return sheet.figure


def _font_size(words: int) -> int:
    return 18 if words <= 12 else 16 if words <= 24 else SMALLEST


def _place_columns(panels: Sequence[Panel], room: float, size: float, tallest: float) -> Columns:
    """The smallest angle at which the column labels do not touch in the room of a panel."""
    names = [[visible(text) for text in panel.columns] for panel in panels]
    count = max(len(texts) for texts in names)
    for angle in (0, 45, 60):
        lean = math.radians(angle)
        if angle:
            limit = (tallest - size * math.cos(lean)) / math.sin(lean)
            names = [[shorten(text, limit, size) for text in texts] for texts in names]
        longest = max(text_width(text, size) for texts in names for text in texts)
        beside = max(GAP, longest * math.cos(lean)) if angle else GAP  # the last one hangs over
        pitch = spread((room - beside) / count, count, COLUMN, 136)
        step = pitch * math.ceil(round(COLUMN / pitch, 6))
        if longest + 8 <= step if angle == 0 else step * math.sin(lean) >= 1.15 * size:
            break
    return Columns(names, angle, pitch, longest, beside)


def write_aside(
    sheet: Sheet, title: str, name: str, scales: Sequence[Scale], facts: Sequence[str]
) -> None:
    """The column on the right: what this is a picture of."""
    left = sheet.width - EDGE - ASIDE
    top = sheet.paragraph((left, EDGE), visible(title), ASIDE, 20, weight="bold") + 6
    top = sheet.paragraph((left, top), name, ASIDE, 16, MUTED) + 18
    for scale in scales:
        sheet.text((left, top), scale.name)
        bar = sheet.axes(left + 6, top + 24, ASIDE - 24, 14)
        bar.imshow(
            np.linspace(scale.low, scale.high, 256)[None],
            scale.colormap(),
            aspect="auto",
            extent=(scale.low, scale.high, 0, 1),
        )
        ticks = [scale.low, (scale.low + scale.high) / 2, scale.high]
        bar.set_xticks(ticks, [f"{tick:.2g}".replace("-", "−") for tick in ticks])
        top += 74
    for fact in facts:
        top = sheet.paragraph((left, top), fact, ASIDE) + 8


def _orientation(look: Look, attention_map: AttentionMap) -> list[str]:
    rows, columns = look.orientation(attention_map)
    return [f"Rows: {rows}.", f"Columns: {columns}."]


def facts_of(look: Look, choice: Choice) -> list[str]:
    """What to know of a picture beside what it shows."""
    silenced = "; ".join(map(in_words, look.knocked_out))
    facts = [
        f"To type: {choice.short}.",
        f"Chosen as {choice.reason}." if choice.reason else "",
        f"Knocked out: {silenced}." if silenced else "",
        f"Model: {visible(look.model)}." if look.model else "",
        choice.note,
        look.note,
    ]
    return [fact for fact in facts if fact]


def _heads(attention_map: AttentionMap, choice: Choice) -> list[int]:
    return list(range(attention_map.heads)) if choice.head is None else [choice.head]


def _head_name(look: Look, attention_map: AttentionMap, head: int) -> str:
    out = " (out)" if f"{attention_map.site}.{head}" in look.knocked_out else ""
    return f"layer {attention_map.layer + 1}, head {head + 1}{out}"


DRAWINGS: dict[Kind, Callable[[Look, Choice], Figure]] = {
    "alignment": _draw_matrix,
    "self": _draw_matrix,
    "grid": _draw_grid,
    "positions": _draw_positions,
}
