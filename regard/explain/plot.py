"""Attention as pictures: from a look and a choice to a matplotlib figure.

Each picture measures 1280×720 pixels: title, colour scale with its meaning, the drawing, and a
caption of one sentence. Text is large enough to be read from the back row of a lecture hall;
where the labels of many words would overlap, only every second or third is drawn. Further
information (model, layer name, why the layer was chosen) is on the HTML page, and below the
picture if `details` is set.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard.draw.cells import COLUMN, ROW, Scale, label, paint, round_up, scale_for, signed_scale
from regard.draw.colours import ACCENT, MUTED
from regard.draw.frame import EDGE, Texts, framed_sheet
from regard.draw.labels import Weights, ordinal, visible
from regard.draw.sheet import (
    LEADING,
    SMALLEST,
    TEXT,
    WIDTH,
    Medium,
    Sheet,
    points,
    render,
    shorten,
    style,
    text_width,
)
from regard.explain.images.hiding import HiddenPatches
from regard.explain.look import IMAGE_KINDS, Comparison, Look, LookSelection, PictureKind
from regard.explain.maps import AttentionMap, mean_by_offset
from regard.explain.names import COUNTED, in_words

__all__ = ["Scale", "draw", "draw_comparison", "render"]

GAP = 24  # pixels between panels
LINES, BARS = 380, 300  # pixels: the widths of the lines and of the bars in the picture of a word
WINDOW = 8  # the largest distance in the picture of positions, in words
MOST_TITLED = 4  # layers of a grid whose squares have titles; of more, only the edges have
LONGEST_WORD = 100  # pixels: the widest word beside the squares of a grid


@dataclass(frozen=True)
class Panel:
    """One matrix of a picture with its labels and colour scale."""

    values: Weights  # (row, column)
    rows: Sequence[str]
    columns: Sequence[str]
    scale: Scale
    heading: str = ""
    named_rows: bool = True


@dataclass(frozen=True)
class Columns:
    """The layout of the column labels of all panels; lengths in pixels."""

    labels: list[list[str]]  # one list per panel, shortened to fit
    angle: int  # of the labels, in degrees
    pitch: float  # the width of a column
    longest: float  # the width of the longest label
    right_gap: float  # the free space to the right of each panel


@style()
def draw(
    look: Look,
    choice: LookSelection,
    test: HiddenPatches | None = None,
    *,
    details: bool = False,
    paper: bool = False,
) -> Figure:
    """Draw the chosen part of a look.

    Args:
        look: The recorded attention of one input.
        choice: The part to draw.
        test: What hiding patches of an image does, drawn beside its map.
        details: Also write all known facts below, which makes the picture taller.
        paper: Draw for print: without title and caption.
    """
    medium = Medium(paper=paper, details=details)
    if choice.kind in IMAGE_KINDS:
        # imported here: it imports this module
        from regard.explain.images.picture import draw_maps, draw_picture

        draw_image = draw_maps if choice.kind == "maps" else draw_picture
        return draw_image(look, choice, medium, test)
    if choice.row is not None:
        return _draw_word(look, choice, medium)
    return DRAWINGS[choice.kind](look, choice, medium)


@style()
def draw_comparison(
    comparison: Comparison,
    before: LookSelection,
    after: LookSelection,
    *,
    details: bool = False,
    paper: bool = False,
) -> Figure:
    """Draw two maps side by side and, if both have the same words, their difference."""
    first, second, names = before.map, after.map, comparison.names
    old = comparison.before.matrix(first, before.head)
    new = comparison.after.matrix(second, after.head)
    scale = scale_for(np.concatenate([old.ravel(), new.ravel()]))
    same_rows = first.queries == second.queries
    panels = [
        Panel(old, first.queries, first.keys, scale, names[0]),
        Panel(new, second.queries, second.keys, scale, names[1], named_rows=not same_rows),
    ]
    note = "the words differ, so no difference is drawn."
    if same_rows and first.keys == second.keys:
        change = new - old
        reach = max(round_up(float(np.nanmax(np.abs(change), initial=0.0))), 0.01)
        shift = signed_scale(reach, "difference")
        panels.append(Panel(change, first.queries, first.keys, shift, shift.name, named_rows=False))
        note = "blue: more weight after; orange or hatched: less."
    caption = f"{before.name}: {names[0]} and {names[1]}; {note} {COUNTED}."
    facts = [*_orientation(comparison.before, first), *facts_of(comparison.after, before)]
    medium = Medium(paper=paper, details=details)
    texts = Texts(comparison.before.title, _capital(caption), " ".join(facts), medium)
    return _draw_panels(panels, texts)


@style()
def draw_moments(moments: Sequence[tuple[str, Look]]) -> Figure:
    """Draw the same map at several moments of training; the layer is chosen from the last one.

    Args:
        moments: The name of each moment and its look, in order.
    """
    last = moments[-1][1]
    choice = last.choose("alignment")
    maps = [(name, look.site(choice.map.site)) for name, look in moments]
    scale = scale_for(np.concatenate([m.matrix(choice.head).ravel() for _, m in maps]))
    panels = [
        Panel(m.matrix(choice.head), m.queries, m.keys, scale, name, named_rows=number == 0)
        for number, (name, m) in enumerate(maps)
    ]
    texts = Texts("The alignment as it forms", _caption(last, choice), "", Medium())
    return _draw_panels(panels, texts)


def _draw_matrix(look: Look, choice: LookSelection, medium: Medium) -> Figure:
    values = _drawn_matrix(look, choice.map, choice.head)
    panel = Panel(values, choice.map.queries, choice.map.keys, scale_for(values))
    details = " ".join([*_orientation(look, choice.map), *facts_of(look, choice)])
    return _draw_panels([panel], Texts(look.title, _caption(look, choice), details, medium))


def _draw_positions(look: Look, choice: LookSelection, medium: Medium) -> Figure:
    longest = max(max(m.weights.shape[1:]) for m in choice.maps)
    window = max(1, min(WINDOW, longest - 1))
    map_heads = [(m, h) for m in choice.maps for h in _drawn_heads(m, choice)]
    means = {m.site: mean_by_offset(m.weights, window) for m in choice.maps}
    for m in choice.maps:
        means[m.site][list(look.knocked_out_in(m))] = np.nan
    values = np.stack([means[m.site][head] for m, head in map_heads])
    masked = ""
    if choice.map.stack == "decoder.self":
        values[:, window + 1 :] = np.nan  # nothing looks at what comes later
        masked = "; grey: masked"
    rows = [_head_name(look, m, head) for m, head in map_heads]
    columns = [f"{offset:+d}" if offset else "0" for offset in range(-window, window + 1)]
    panel = Panel(values, rows, [c.replace("-", "−") for c in columns], scale_for(values))
    # step t of a decoder predicts word t and has read the words before it
    origin = "0 is the word of the same number"
    if choice.map.stack.endswith(".self"):
        which = "written last" if choice.map.writes else "itself"
        origin = f"0 is the word {which}, −1 the one before"
    cut = f", of distances up to {longest - 1}" if window < longest - 1 else ""
    caption = f"Mean weight by distance from the query word{cut}: {origin}{masked}. {COUNTED}."
    details = [
        "Rows: the heads.",
        f"Columns: the distance from the query word; {origin}.",
        f"Mean over those of the {len(choice.map.queries)} words with a word at that distance.",
        *facts_of(look, choice),
    ]
    return _draw_panels([panel], Texts(look.title, caption, " ".join(details), medium))


def _draw_grid(look: Look, choice: LookSelection, medium: Medium) -> Figure:
    """One thumbnail per head: one row per layer, one column per head."""
    columns = max(len(_drawn_heads(m, choice)) for m in choice.maps)
    rows = len(choice.maps)
    weights = [look.matrix(m, head).ravel() for m in choice.maps for head in range(m.heads)]
    scale = scale_for(np.concatenate(weights))
    facts = [
        f"Each square is one head: {len(choice.map.queries)} rows, top to bottom, "
        f"by {len(choice.map.keys)} columns.",
        *_orientation(look, choice.map),
        *facts_of(look, choice),
    ]
    if rows > MOST_TITLED:
        return _draw_small_grid(look, choice, Texts(look.title, "", " ".join(facts), medium), scale)
    gap, size = 10, TEXT
    words = _Edge.of(choice.map.queries), _Edge.of(choice.map.keys)
    # the sheet has about 500 pixels below title and scale; each line of squares has a heading
    steps = (
        words[0].step((500 - words[1].depth) / rows - LEADING * size - gap),
        words[1].step((WIDTH - 2 * EDGE - words[0].depth) / columns - gap),
    )
    caption = f"{_caption(look, choice)} {_steps_sentence(steps[1], steps[0])}".strip()
    frame = framed_sheet(Texts(look.title, caption, " ".join(facts), medium), [scale])
    margin, below = words[0].depth, words[1].depth
    width = (WIDTH - 2 * EDGE - margin - (columns - 1) * gap) / columns
    height = (frame.height - below - (rows - 1) * gap) / rows
    for row, attention_map in enumerate(choice.maps):
        for column, head in enumerate(_drawn_heads(attention_map, choice)):
            left = EDGE + margin + column * (width + gap)
            top = frame.top + row * (height + gap) + LEADING * size
            name = _head_name(look, attention_map, head)
            is_out = head in look.knocked_out_in(attention_map)
            if text_width(name, size) > width:
                name = f"L{attention_map.layer} H{head}{' out' if is_out else ''}"
            axes = frame.sheet.axes(left, top, width, max(height - LEADING * size, 8))
            paint(axes, _drawn_matrix(look, attention_map, head), scale)
            if column == 0:
                words[0].write(axes, "y", steps[0], size)
            if row == rows - 1:
                words[1].write(axes, "x", steps[1], size)
            axes.text(
                0, 1.0, name, transform=axes.transAxes, va="bottom", fontsize=points(size),
                color=ACCENT if is_out else MUTED,
            )  # fmt: skip
    return frame.sheet.figure


def _draw_small_grid(look: Look, choice: LookSelection, texts: Texts, scale: Scale) -> Figure:
    """Squares of many layers: heads and layers are named at the edges, words in the caption."""
    heads = _drawn_heads(max(choice.maps, key=lambda m: m.heads), choice)
    rows, columns, gap = len(choice.maps), len(heads), 6
    sides = [
        f"{side} “{visible(words[0])}” to “{visible(words[-1])}”"
        for side, words in (("rows", choice.map.queries), ("columns", choice.map.keys))
    ]
    out = ", ".join(look.knocked_out)
    caption = (
        f"{_capital(choice.name)}: a square for each, {', '.join(sides)}"
        f"{'; grey: masked' if choice.map.stack == 'decoder.self' else ''}"
        f"{f'; out: {out}' if out else ''}. {COUNTED}."
    )
    frame = framed_sheet(replace(texts, caption=caption), [scale])
    margin, head_line = text_width("layer 00", TEXT) + 12, LEADING * TEXT
    width = (WIDTH - 2 * EDGE - margin - (columns - 1) * gap) / columns
    height = (frame.height - head_line - (rows - 1) * gap) / rows
    layer_step = math.ceil(ROW / (height + gap))
    frame.sheet.text((EDGE, frame.top), "head", colour=MUTED)
    for row, attention_map in enumerate(choice.maps):
        top = frame.top + head_line + row * (height + gap)
        if row % layer_step == 0:
            point = (EDGE, top + height / 2)
            name = f"layer {attention_map.layer}"
            frame.sheet.text(point, name, colour=MUTED, align="left center")
        for column, head in enumerate(_drawn_heads(attention_map, choice)):
            left = EDGE + margin + column * (width + gap)
            if row == 0:
                frame.sheet.text((left, frame.top), str(head), colour=MUTED)
            axes = frame.sheet.axes(left, top, width, height)
            paint(axes, _drawn_matrix(look, attention_map, head), scale)
    return frame.sheet.figure


@dataclass(frozen=True)
class _Edge:
    """The words along one side of the squares of a grid.

    Attributes:
        words: The words, those that are too long cut.
        depth: The pixels that the widest of them takes.
    """

    words: tuple[str, ...]
    depth: float

    @classmethod
    def of(cls, words: Sequence[str]) -> _Edge:
        """The words with their widths; call it inside `style()` only."""
        short = tuple(shorten(visible(word), LONGEST_WORD, TEXT) for word in words)
        return cls(short, max(text_width(word, TEXT) for word in short) + 8)

    def step(self, length: float) -> int:
        """The n such that every n-th word fits along a side of this length, in pixels."""
        return max(1, math.ceil(1.15 * TEXT * len(self.words) / max(length, 1.0)))

    def write(self, axes: Axes, side: str, step: int, size: float) -> None:
        """Write every n-th word at the left (`y`) or, rotated, below (`x`)."""
        ticks, words = np.arange(0, len(self.words), step) + 0.5, self.words[::step]
        axes.tick_params(length=0)
        if side == "y":
            axes.set_yticks(ticks, words, fontsize=points(size))
        else:
            axes.set_xticks(ticks, words, fontsize=points(size), rotation=90)


def _drawn_matrix(look: Look, attention_map: AttentionMap, head: int | None) -> Weights:
    """The weights of a head, with NaN, which is drawn grey, where a decoder's mask forbids them."""
    values = look.matrix(attention_map, head)
    if attention_map.stack != "decoder.self":
        return values
    queries, keys = values.shape
    allowed = np.tri(queries, keys, keys - queries, dtype=bool)
    return np.where(allowed, values, np.nan)


def _draw_word(look: Look, choice: LookSelection, medium: Medium) -> Figure:
    """Queries on the left, keys on the right: line width shows the weight of the chosen query."""
    row, queries, keys = choice.row or 0, choice.map.queries, choice.map.keys
    weights = np.nan_to_num(look.matrix(choice.map, choice.head)[row])  # (key)
    scale = scale_for(weights)
    rows, columns = look.orientation(choice.map)
    facts = [f"Left: {rows}.", f"Right: {columns}.", "Thicker lines: larger weights."]
    query = visible(queries[row])
    caption = f"Weights of “{query}”, {choice.name}: thicker lines for larger weights"
    details = " ".join([*facts, *facts_of(look, choice)])
    caption += f"{_knocked_out_clause(look, choice)}. {COUNTED}."
    texts = Texts(look.title, caption, details, medium)
    frame = framed_sheet(texts, [])
    sheet, longest = frame.sheet, max(len(queries), len(keys))
    size = TEXT
    pitch = min(frame.height / longest, 52)
    label_step = math.ceil(round(ROW / pitch, 6))
    left_words, right_words = (
        [shorten(visible(word), 260, size) for word in words] for words in (queries, keys)
    )
    widths = [max(text_width(w, size) for w in words) for words in (left_words, right_words)]
    width = 1.15 * widths[0] + LINES + widths[1] + BARS + 60  # 1.15: bold text is wider
    left = EDGE + max(0, (WIDTH - 2 * EDGE - width) / 2) + 1.15 * widths[0]
    right = left + LINES
    middle = frame.top + frame.height / 2
    tops = [middle - len(words) * pitch / 2 + pitch / 2 for words in (queries, keys)]

    _draw_lines(
        sheet, weights, scale, (left + 8, right - 8), (tops[0] + row * pitch, tops[1], pitch)
    )
    axes = sheet.axes(0, 0, sheet.width, sheet.height)  # axes in pixels over the whole sheet
    axes.set(xlim=(0, sheet.width), ylim=(sheet.height, 0))
    axes.set_axis_off()
    font = {"fontsize": points(size), "va": "center"}
    for index, word in enumerate(left_words):
        y = tops[0] + index * pitch
        if index == row:
            axes.text(left, y, word, ha="right", weight="bold", **font)  # type: ignore[arg-type]
        elif index % label_step == 0 and abs(index - row) * pitch >= ROW:
            axes.text(left, y, word, ha="right", color=MUTED, **font)  # type: ignore[arg-type]
    for index, word in enumerate(right_words[::label_step]):
        axes.text(right, tops[1] + index * label_step * pitch, word, ha="left", **font)  # type: ignore[arg-type]
    _draw_bars(sheet, weights, scale, right + widths[1] + 16, (tops[1], pitch))
    return sheet.figure


def _draw_lines(
    sheet: Sheet,
    weights: Weights,
    scale: Scale,
    sides: tuple[float, float],
    heights: tuple[float, float, float],
) -> None:
    """Draw a curve from the query to each key, its width and colour given by the weight.

    Args:
        sheet: The sheet to draw on.
        weights: (key)
        scale: The colour scale of the weights.
        sides: The x positions of queries and of keys, in pixels.
        heights: The y position of the query, that of the first key, and the distance of two keys.
    """
    (left, right), (start, first, pitch) = sides, heights
    axes = sheet.axes(left, 0, right - left, sheet.height)
    axes.set(xlim=(0, 1), ylim=(sheet.height, 0))
    axes.set_axis_off()
    t = np.linspace(0, 1, 40)
    for key in np.argsort(weights):  # the largest weight is drawn last, on top
        share = float(weights[key]) / scale.high
        if share < 0.01:
            continue
        # an S-curve is horizontal at both ends, which keeps neighbouring lines apart
        curve = start + (first + key * pitch - start) * t * t * (3 - 2 * t)
        colour = scale.colours[int(np.clip(0.25 + 0.6 * share, 0, 1) * 255)]
        width = points(0.4 + 13 * share)
        axes.plot(t, curve, color=colour, linewidth=width, solid_capstyle="butt", alpha=0.9)


def _draw_bars(
    sheet: Sheet, weights: Weights, scale: Scale, left: float, heights: tuple[float, float]
) -> None:
    """Draw a bar beside each key, with its value where there is room."""
    first, pitch = heights
    longest = BARS - 70
    axes = sheet.axes(left, 0, BARS, sheet.height)
    axes.set(xlim=(0, scale.high * BARS / longest), ylim=(sheet.height, 0))
    axes.set_axis_off()
    ys = first + pitch * np.arange(len(weights))
    axes.barh(ys, weights, height=min(24.0, 0.62 * pitch), color=scale.colours[150])
    for y, weight in zip(ys, weights, strict=True):
        if pitch >= ROW and weight >= 0.005:
            end = weight + 6 * scale.high / longest
            axes.text(end, y, f"{weight:.2f}", va="center", fontsize=points(SMALLEST))


def _draw_panels(panels: Sequence[Panel], texts: Texts, left_out: str = "") -> Figure:
    """Draw matrices side by side, as large as fits; labels that would overlap are thinned out.

    Args:
        panels: The matrices.
        texts: Title, caption and details.
        left_out: Which labels are thinned out, in words; the caption says so.
    """
    rows = max(len(panel.rows) for panel in panels)
    columns = max(len(panel.columns) for panel in panels)
    size = TEXT
    scales = list({panel.scale.name: panel.scale for panel in panels}.values())
    said = f"{texts.caption} {left_out}".strip()
    frame = framed_sheet(replace(texts, caption=said), scales)
    labels = [[shorten(visible(r), 230, size) for r in p.rows] for p in panels]
    margins = [
        max(text_width(name, size) for name in names) + 10 if panel.named_rows else 0.0
        for panel, names in zip(panels, labels, strict=True)
    ]
    heading = LEADING * TEXT + 4 if any(panel.heading for panel in panels) else 0
    limit = 170 if len(panels) == 1 else 120  # several panels leave less room for labels
    tallest = float(np.clip(frame.height - heading - 4 - rows * ROW, 90, limit))
    fixed = sum(margins) + 2 * EDGE
    layout = _place_columns(panels, (WIDTH - fixed) / len(panels), size, tallest)
    lean, column = math.radians(layout.angle), layout.pitch
    above = heading + layout.longest * math.sin(lean) + size * math.cos(lean) + 4
    row = min((frame.height - above) / rows, 96)

    steps = math.ceil(round(COLUMN / column, 6)), math.ceil(round(ROW / row, 6))
    if (sentence := _steps_sentence(*steps)) != left_out:  # once more, with room for the sentence
        return _draw_panels(panels, texts, sentence)
    total = fixed + len(panels) * (columns * column + layout.right_gap)
    top = frame.top + (frame.height - above - rows * row) / 2 + above
    left = EDGE + max(0.0, WIDTH - total) / 2
    for panel, margin, names, tops in zip(panels, margins, labels, layout.labels, strict=True):
        left += margin
        axes = frame.sheet.axes(left, top, len(panel.columns) * column, len(panel.rows) * row)
        paint(axes, panel.values, panel.scale, cell=(column, row))
        label(axes, names if panel.named_rows else [], tops, steps, (layout.angle, size))
        if panel.heading:
            # the heading is on a line of its own above the column labels
            name = shorten(visible(panel.heading), 0.9 * columns * column, TEXT)
            frame.sheet.text((left, top - above), name, weight="bold")
        left += columns * column + layout.right_gap
    return frame.sheet.figure


def _steps_sentence(column_step: int, row_step: int) -> str:
    """A sentence that says which labels are drawn; empty if all are.

    Example:
        >>> _steps_sentence(3, 1), _steps_sentence(3, 2)
        ('Every 3rd column is named.', 'Every 2nd row and every 3rd column is named.')
    """
    steps = (("row", row_step), ("column", column_step))
    named = " and ".join(f"every {ordinal(step)} {side}" for side, step in steps if step > 1)
    return f"{named.capitalize()} is named." if named else ""


def _place_columns(panels: Sequence[Panel], width: float, size: float, tallest: float) -> Columns:
    """Lay out the column labels at the smallest angle of 0, 45 or 60° at which none overlap.

    Args:
        panels: The panels, which all get the same layout.
        width: The width available to one panel, in pixels.
        size: The font size in pixels.
        tallest: The largest height of turned labels, in pixels.
    """
    names = [[visible(text) for text in panel.columns] for panel in panels]
    count = max(len(texts) for texts in names)
    closest = COLUMN * size / SMALLEST
    for angle in (0, 45, 60):
        lean = math.radians(angle)
        if angle:
            limit = (tallest - size * math.cos(lean)) / math.sin(lean)
            names = [[shorten(text, limit, size) for text in texts] for texts in names]
        longest = max(text_width(text, size) for texts in names for text in texts)
        # room for the last label
        right_gap = max(GAP, longest * math.cos(lean)) if angle else GAP
        pitch = min((width - right_gap) / count, 150)
        step = pitch * math.ceil(round(closest / pitch, 6))
        if longest + 8 <= step if angle == 0 else step * math.sin(lean) >= 1.15 * size:
            break
    return Columns(names, angle, pitch, longest, right_gap)


def _caption(look: Look, choice: LookSelection) -> str:
    """The caption: layer, head, and what rows and columns are."""
    rows, columns = look.orientation(choice.map)
    masked = "; grey: masked" if choice.map.stack == "decoder.self" else ""
    clauses = f"{masked}{_knocked_out_clause(look, choice)}"
    text = f"{choice.name}: rows are {rows}, columns {columns}{clauses}."
    return f"{_capital(text)} {COUNTED}."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _knocked_out_clause(look: Look, choice: LookSelection) -> str:
    """A clause for the caption that names the knocked-out heads; empty if there are none."""
    if len(choice.maps) == 1 and choice.head in look.knocked_out_in(choice.map):
        return "; this head is knocked out, so its weights are not shown"
    if not look.knocked_out:
        return ""
    if len(look.knocked_out) > 2:
        return f"; {len(look.knocked_out)} heads are knocked out"
    return f"; knocked out: {' and '.join(map(in_words, look.knocked_out))}"


def _orientation(look: Look, attention_map: AttentionMap) -> list[str]:
    rows, columns = look.orientation(attention_map)
    return [f"Rows: {rows}.", f"Columns: {columns}."]


def facts_of(look: Look, choice: LookSelection) -> list[str]:
    """Sentences of further information: layer, reason of the choice, knock-outs, model, notes."""
    silenced = "; ".join(map(in_words, look.knocked_out))
    facts = [
        f"This is {choice.name}.",
        f"To type: {choice.short}.",
        f"Chosen as {choice.reason}." if choice.reason else "",
        f"Knocked out: {silenced}." if silenced else "",
        f"Model: {visible(look.model)}." if look.model else "",
        choice.note,
        look.note,
    ]
    return [fact for fact in facts if fact]


def _drawn_heads(attention_map: AttentionMap, choice: LookSelection) -> list[int]:
    return list(range(attention_map.heads)) if choice.head is None else [choice.head]


def _head_name(look: Look, attention_map: AttentionMap, head: int) -> str:
    out = " (out)" if f"{attention_map.site}.{head}" in look.knocked_out else ""
    return f"layer {attention_map.layer}, head {head}{out}"


DRAWINGS: dict[PictureKind, Callable[[Look, LookSelection, Medium], Figure]] = {
    "alignment": _draw_matrix,
    "self": _draw_matrix,
    "grid": _draw_grid,
    "positions": _draw_positions,
}
