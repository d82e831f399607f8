"""Draw attention over an image: the row of weights, the patches, an overlay, and the test of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard.draw.cells import paint, scale_for
from regard.draw.colours import BLUE, INK, MUTED, ORANGE, Colours, over_image
from regard.draw.frame import EDGE, Frame, Texts, framed_sheet
from regard.draw.labels import Weights
from regard.draw.sheet import LEADING, SMALLEST, TEXT, WIDTH, Medium, points, shorten, text_width
from regard.explain.images.hiding import HiddenPatches, judge
from regard.explain.images.patches import (
    chosen_row,
    over_patches,
    picture_of,
    row_over_tokens,
)
from regard.explain.look import Look, LookSelection
from regard.explain.plot import GAP, facts_of
from regard.tasks.trace import ImageGrid

STRIP = 22
"""Pixels: the height of the row of weights."""
SMALL = 236
"""Pixels: the width of the column of the two small panels."""
WIDEST = 560
"""Pixels: the largest width of the large panel."""
READABLE = (44, 26)
"""Pixels: the smallest cell into which its weight is written."""
DENSEST = 0.85
"""How much of the image the largest weight hides."""
HEAD = LEADING * TEXT + 2


def draw_picture(
    look: Look, choice: LookSelection, medium: Medium, test: HiddenPatches | None = None
) -> Figure:
    """Draw the three steps of an attention map, and the test of it.

    One, the row of weights; two, the row reshaped to the grid of patches, below the image; three,
    the grid over the image. On the right, the probability of the class while patches are hidden.

    Args:
        look: The recorded attention for an image.
        choice: The layer and head (or the mean, or the rollout), and the query row (None: the mean
            of the patches).
        medium: Whether it is for print, and whether details are drawn.
        test: What hiding patches does; None: the picture has no test.
    """
    picture = picture_of(look, choice)
    assert look.picture is not None  # checked in `Look.choose`
    row = chosen_row(look, choice)  # (tokens,)
    patches = over_patches(picture, row)
    scale = replace(scale_for(patches), colours=over_image(picture.pixels))
    name = query_name(look, choice)
    caption = test.verdict if test else _share_sentence(row, picture.first, name)
    facts = [*facts_of(look, choice), _share_sentence(row, picture.first, name), *_test_facts(test)]
    frame = framed_sheet(Texts(look.title, caption, " ".join(facts), medium), [scale])
    sheet = frame.sheet
    scale_width = 2 * EDGE + text_width(scale.name, TEXT) + 330
    where = shorten(_layer_and_head(choice), WIDTH - scale_width, TEXT)
    sheet.text((WIDTH - EDGE, frame.top - HEAD - 6), where, colour=MUTED, align="right top")
    sheet.text((EDGE, frame.top), f"1  the row of {name}: {len(row)} weights", weight="bold")
    strip = sheet.axes(EDGE, frame.top + HEAD, WIDTH - 2 * EDGE, STRIP)
    paint(strip, row[None], scale)
    top = frame.top + HEAD + STRIP + 10

    size, widest = picture.pixels.shape[1:], WIDEST if test else WIDTH - 2 * EDGE - SMALL - GAP
    large = _fit_size(size, (frame.bottom - top - HEAD, widest))
    small = _fit_size(size, ((frame.bottom - top - 2 * HEAD - 8) / 2, SMALL))
    left = float(EDGE)
    small_image, heading = picture.pixels, "the input"
    if look.original and picture.original is not None:
        small_image, heading = _channels_first(picture.original()), "the original"
    sheet.text((left, top), heading, weight="bold")
    shape = _fit_size(small_image.shape[1:], (small[0], SMALL))
    _show(sheet.axes(left, top + HEAD, shape[1], shape[0]), small_image)
    below = top + HEAD + small[0] + 8
    rows, columns = picture.grid
    sheet.text((left, below), f"2  as {rows} × {columns}", weight="bold")
    grid = sheet.axes(left, below + HEAD, small[1], small[0])
    paint(grid, patches, scale)
    if small[1] / columns >= READABLE[0] and small[0] / rows >= READABLE[1]:
        for (y, x), value in np.ndenumerate(patches):
            text, ink = f"{value:.2f}".lstrip("0"), scale.ink(float(value))
            grid.write((x + 0.5, y + 0.5), text, ha="center", va="center", color=ink)
    left += max(small[1], SMALL) + GAP
    over_heading = "3  over the image"
    sheet.text((left, top), over_heading, weight="bold")
    over = sheet.axes(left, top + HEAD, large[1], large[0])
    _show(over, picture.pixels, picture.grid)
    _overlay(over, patches, scale.colours)
    _mark_patch(over, picture, look.picture.at(choice.maps[-1].site), choice.row)
    if test is not None:
        left += max(large[1], text_width(over_heading, TEXT, "bold")) + 1.5 * GAP
        _draw_test(frame, test, left, top)
    return sheet.figure


def draw_maps(
    look: Look, choice: LookSelection, medium: Medium, test: HiddenPatches | None = None
) -> Figure:
    """Draw the row of every layer and head over the image: a line for each layer, last the mean.

    Args:
        look: The recorded attention for an image.
        choice: The layers, the head (None: all), and the query row.
        medium: Whether it is for print, and whether details are drawn.
        test: What hiding patches by the mean of the last layer does; None: not tested.
    """
    assert look.picture is not None  # checked in `Look.choose`
    name = query_name(look, choice)
    caption = f"Where {name} looks, by layer and head, from 0; each with its own scale."
    if test:
        low, high = test.interval
        caption += (
            f" Hiding {test.hidden} of {test.patches} patches by the last mean: P({test.label}) "
            f"{test.before:.2f} → {test.most:.2f}; others → {test.others:.2f} ({low:.2f} to "
            f"{high:.2f}): {judge(test.most, test.random)}."
        )
    facts = [*facts_of(look, choice), *_test_facts(test)]
    frame = framed_sheet(Texts(look.title, caption, " ".join(facts), medium), [])
    colours = over_image(look.picture.pixels)
    heads: list[int | None] = [*range(max(m.heads for m in choice.maps))]
    heads = [*heads, None] if choice.head is None else [choice.head]
    labels = ["mean" if head is None else f"head {head}" for head in heads]
    margin = text_width(f"layer {len(choice.maps)}", SMALLEST) + 12
    cell = (WIDTH - 2 * EDGE - margin) / len(heads), (frame.height - 28) / len(choice.maps)
    height, width = _fit_size(look.picture.pixels.shape[1:], (cell[1] - 4, cell[0] - 6))
    pitch = min(cell[0], width + 28)
    start = margin + (WIDTH - 2 * EDGE - margin - len(heads) * pitch) / 2
    if text_width("head 12", SMALLEST) > pitch - 4:
        labels = ["all" if head is None else str(head) for head in heads]
    label_step = int(np.ceil((text_width("12", SMALLEST) + 6) / pitch))
    for line, m in enumerate(choice.maps):
        picture = look.picture.at(m.site)
        y, out = frame.top + 28 + line * cell[1], look.knocked_out_in(m)
        if line % int(np.ceil(1.2 * SMALLEST / cell[1])) == 0:
            axes = frame.sheet.axes(EDGE + start - margin, y, margin, height)
            axes.write((0, 0.5), f"layer {m.layer}", va="center", color=MUTED)
            axes.set_axis_off()
        for column, head in enumerate(heads):
            x = EDGE + start + column * pitch
            axes = frame.sheet.axes(x, y, width, height)
            weights = m.matrix(head, out) if (head or 0) < m.heads else m.matrix()
            row = row_over_tokens(picture, [weights], choice.row, through=False)
            patches = over_patches(picture, row)
            _show(axes, picture.pixels, picture.grid)
            _overlay(axes, patches, colours)
            if line == 0 and (column % label_step == 0 or head is None):
                axes.text(0.5, 1.03, labels[column], transform=axes.transAxes, ha="center",
                          va="bottom", fontsize=points(SMALLEST), color=MUTED)  # fmt: skip
    return frame.sheet.figure


def query_name(look: Look, choice: LookSelection) -> str:
    """The query in words: `[CLS]`, `patch 2,3`, or `the patches, on average`."""
    assert look.picture is not None
    if choice.row is None:
        return "the patches, on average"
    asked = choice.maps[-1]  # in a rollout, the last layer
    name = asked.queries[choice.row]
    if asked.queries != choice.map.queries:
        name = f"{name} of layer {asked.layer}"
    return name if choice.row < look.picture.first else f"patch {name}"


def _layer_and_head(choice: LookSelection) -> str:
    return f"{choice.name.replace(' (self)', '').replace('encoder ', '')} (counted from 0)"


def _draw_test(frame: Frame, test: HiddenPatches, left: float, top: float) -> None:
    """Draw the probability of the class with nothing hidden, and with patches hidden, as bars."""
    sheet, right = frame.sheet, WIDTH - EDGE
    name, share = shorten(test.label, 90, TEXT), test.hidden / test.patches
    sheet.text((left, top), f"P({name}), {share:.0%} hidden", weight="bold")
    lowest, highest = test.interval
    bars = [
        ("nothing", test.before, MUTED),
        ("looked at most", test.most, ORANGE),
        (f"others, {len(test.random)} draws", test.others, BLUE),
        ("looked at least", test.least, BLUE),
    ]
    axes = sheet.axes(left, top + HEAD, right - left, frame.bottom - top - HEAD)
    axes.set(xlim=(0, 1.3), ylim=(len(bars), 0))  # beyond 1 the numbers are written
    axes.set_axis_off()
    for index, (name, value, colour) in enumerate(bars):
        hatch = "///" if colour == ORANGE else None
        axes.barh(index + 0.66, value, height=0.36, color=colour, hatch=hatch, edgecolor="white")
        axes.text(0, index + 0.26, name, va="center", fontsize=points(TEXT), color=INK)
        axes.text(max(value, highest if index == 2 else 0) + 0.02, index + 0.66, f"{value:.2f}",
                  va="center", fontsize=points(TEXT), color=INK)  # fmt: skip
    axes.plot([lowest, highest], [2.66, 2.66], color=INK, linewidth=2)
    for end in (lowest, highest):
        axes.plot([end, end], [2.56, 2.76], color=INK, linewidth=2)


def _test_facts(test: HiddenPatches | None) -> list[str]:
    if test is None:
        return []
    filled = "the mean colour of the image" if test.fill == "mean" else "a blur"
    return [
        f"Hidden patches are replaced by {filled}; the line on the bar of the others holds "
        f"95% of {len(test.random)} random choices among the patches that are not looked at most "
        f"(seed {test.seed}).",
        test.verdict,
    ]


def _fit_size(size: Sequence[int], box: tuple[float, float]) -> tuple[float, float]:
    """Height and width of an image, as large as fits into the box (height, width)."""
    factor = min(box[0] / size[0], box[1] / size[1])
    return size[0] * factor, size[1] * factor


def _overlay(axes: Axes, patches: Weights, colours: Colours) -> None:
    """Draw weights over an image: a veil of one colour, the denser the larger the weight.

    It is clear at the smallest weight and densest at the largest, so that the image stays visible
    under weights that are nearly even.

    Args:
        axes: The axes with the image.
        patches: (rows, columns)
        colours: The colour scale; its last colour is that of the veil.
    """
    rows, columns = patches.shape
    veil = np.ones((rows, columns, 4))
    veil[..., :3] = colours[-1]
    low, high = float(patches.min()), float(patches.max())
    veil[..., 3] = DENSEST * (patches - low) / max(high - low, 1e-12)
    axes.imshow(veil, extent=(0, columns, rows, 0), aspect="auto", interpolation="nearest")
    axes.set(xlim=(0, columns), ylim=(rows, 0))


def _show(axes: Axes, pixels: Any, grid: tuple[int, int] = (1, 1)) -> None:
    """Draw an image (channels, height, width), measured in patches."""
    image = pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0)
    axes.imshow(image, cmap="gray", vmin=0, vmax=1, aspect="auto", interpolation="antialiased",
                extent=(0, grid[1], grid[0], 0))  # fmt: skip


def _mark_patch(axes: Axes, drawn: ImageGrid, asked: ImageGrid, row: int | None) -> None:
    """Outline the query patch of one grid, in axes whose unit is a cell of another."""
    if row is not None and row >= asked.first:
        down, right = divmod(row - asked.first, asked.grid[1])
        size = -(-drawn.grid[0] // asked.grid[0]), -(-drawn.grid[1] // asked.grid[1])
        x, y = np.array([0, 1, 1, 0, 0]) + right, np.array([0, 0, 1, 1, 0]) + down
        axes.plot(
            np.minimum(x * size[1], drawn.grid[1]), np.minimum(y * size[0], drawn.grid[0]),
            color=ORANGE, linewidth=3,
        )  # fmt: skip


def _channels_first(image: Any) -> Any:
    """Bytes (height, width) or (height, width, channels) -> (channels, height, width), 0 to 1."""
    values = image.astype(np.float32) / 255
    return values[None] if values.ndim == 2 else values.transpose(2, 0, 1)


def _share_sentence(weights: Weights, first: int, name: str) -> str:
    """A sentence: which share of the weights goes to the patches, and which to [CLS].

    Args:
        weights: (tokens,)
        first: The number of tokens before the patches.
        name: The query, in words.
    """
    name = name[:1].upper() + name[1:]
    looks = "look" if name.startswith("The patches") else "looks"
    if not first:
        return f"{name} {looks} at the patches alone: there is no [CLS]."
    share = float(weights[first:].sum())
    other_tokens = "[CLS]" if first == 1 else "the tokens before them"
    return (
        f"{name} {looks} at the patches with {share:.0%} of the weight, at {other_tokens} "
        "with the rest."
    )
