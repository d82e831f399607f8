"""The picture of a captioned image: the image once for each word, under that word's weights.

Below each word stands its test: its probability as the image is, and with what it looked at hidden.
`animation` shows the words one after the other.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from regard.draw.cells import Scale, scale_for
from regard.draw.colours import INK, MUTED, ORANGE, over_image
from regard.draw.frame import EDGE, Texts, framed_sheet
from regard.draw.labels import Weights, visible
from regard.draw.sheet import LEADING, TEXT, WIDTH, Medium, Sheet, render, shorten, style
from regard.explain.images.caption_look import CaptionLook
from regard.explain.images.hiding import HiddenPatches, Verdict, judge
from regard.explain.look import LookSelection
from regard.explain.plot import facts_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from regard.explain.images.caption_hiding import WordTests

DENSEST = 0.85
"""How much of the image the largest weight hides."""
GAP = 14
"""Pixels between two panels."""
WIDEST = 460
"""Pixels: the largest side of a panel."""
LEAST = 163
"""Pixels: the least width of a panel, so that the numbers below its word fit."""
SIGNS: dict[Verdict, tuple[str, str]] = {
    "holds": ("✓", ORANGE), "cannot tell": ("?", MUTED), "does not hold": ("✗", INK),
}  # fmt: skip
"""How the verdict of a word is marked, and its colour."""
FRAME = (640, 720)
"""Width and height of an animation in pixels."""
SECONDS = 1.2
"""How long each word of an animation is shown."""


def draw_words(
    look: CaptionLook, choice: LookSelection, medium: Medium, tests: WordTests | None = None
) -> Figure:
    """Draw the image, and for each word of the caption the image under the weights of that word.

    All words have one scale: the veil over a cell is the denser the larger its weight.

    Args:
        look: The recorded attention for a captioned image.
        choice: The layer, the head (None: the mean), and the word (None: all words).
        medium: Whether it is for print, and whether details are drawn.
        tests: What hiding cells does to each word.
    """
    image, maps = look.image, look.word_maps(choice)
    assert image is not None  # given by `look_of`
    with style():
        scale = _scale(look, maps)
        head = LEADING * TEXT
        lines = 1 if tests is None else 2
        width = WIDTH - 2.0 * EDGE
        words = _that_fit(look.words(choice), width, head * lines)
        left_out = len(look.words(choice)) - len(words)
        caption = words_of_picture(choice, tests, left_out)
        facts = " ".join(facts_of(look, choice))
        frame = framed_sheet(Texts(title_of(look), caption, facts, medium), [scale])
        box = width, frame.height
        size = image.pixels.shape[1], image.pixels.shape[2]
        columns, panel = _best_columns(len(words) + 1, box, size, head * lines)
        pitch = max(panel[1], LEAST)
        for number, word in enumerate([None, *words]):
            row, column = divmod(number, columns)
            left = EDGE + column * (pitch + GAP)
            top = frame.top + row * (panel[0] + lines * head + GAP)
            _write_head(frame.sheet, (left, top), pitch, choice, word, tests)
            axes = frame.sheet.axes(left, top + lines * head, panel[1], panel[0])
            _draw_image(axes, look)
            if word is not None:
                _draw_weights(axes, maps[word], scale)
    return frame.sheet.figure


def title_of(look: CaptionLook) -> str:
    """The image and its caption, and whether the image is unlike what the model learned from."""
    if look.image is None or not look.image.unfamiliar:
        return look.title
    # first, because the end of a long title is cut
    return f"Do not trust it: {look.image.unfamiliar.partition(':')[0]}. {look.title}"


def words_of_picture(choice: LookSelection, tests: WordTests | None, left_out: int = 0) -> str:
    """What the panels show, and what the numbers below the words mean; computed from the tests."""
    what = "" if choice.row is None else f" for “{choice.map.queries[choice.row]}”"
    said = f"Weights{what}: {choice.name}."
    if left_out:
        said += f" {left_out} more words do not fit."
    if tests is None:
        return said
    first = tests.tests[0]
    counts = [sum(judge(test.most, test.random) == name for test in tests.tests) for name in SIGNS]
    return (
        f"{said} P→P with the {first.hidden} of {first.patches} cells hidden that a word looks at "
        f"most (as many others): ✓ {counts[0]} need them, ? {counts[1]} unclear, ✗ {counts[2]} do "
        "not."
    )


def _write_head(
    sheet: Sheet,
    corner: tuple[float, float],
    width: float,
    choice: LookSelection,
    word: int | None,
    tests: WordTests | None,
) -> None:
    """Write a word above its panel, and below it the numbers of its test."""
    if word is None:
        sheet.text(corner, "the image")
        return
    label = shorten(visible(choice.map.queries[word]), width, TEXT)
    if tests is None:
        sheet.text(corner, label, weight="bold")
        return
    test = tests.tests[word]
    sign, colour = SIGNS[judge(test.most, test.random)]
    label = shorten(visible(choice.map.queries[word]), width - 30, TEXT)
    sheet.text(corner, f"{label} {sign}", weight="bold")
    sheet.text((corner[0], corner[1] + LEADING * TEXT), numbers_of(test), colour=colour)


def numbers_of(test: HiddenPatches) -> str:
    """The numbers of a word's test: `.98→.11 (.95)`."""
    before, most, others = (_short(value) for value in (test.before, test.most, test.others))
    return f"{before}→{most} ({others})"


def _short(value: float) -> str:
    """A probability in two digits.

    Example:
        >>> _short(0.984), _short(1.0), _short(0.001)
        ('.98', '1', '0')
    """
    rounded = f"{value:.2f}"
    return {"1.00": "1", "0.00": "0"}.get(rounded, rounded[1:])


def _scale(look: CaptionLook, maps: Sequence[Weights]) -> Scale:
    """One scale for the maps of all words, in a colour that the image has little of."""
    image = look.image
    assert image is not None
    return replace(scale_for(np.stack(maps)), colours=over_image(image.pixels))


def _that_fit(words: Sequence[int], width: float, head: float) -> Sequence[int]:
    """The first words, as many as have panels of which something can be seen."""
    columns = int((width + GAP) // (LEAST + GAP))
    rows = int(560 // (head + 60 + GAP))  # 60 pixels of an image are the least
    return words[: columns * rows - 1]


def _best_columns(
    count: int, box: tuple[float, float], size: tuple[int, int], head: float
) -> tuple[int, tuple[float, float]]:
    """The number of columns with which panels are largest; their height and width in pixels.

    Args:
        count: The number of panels.
        box: Width and height that are free, in pixels.
        size: Height and width of the image.
        head: The height of the lines above each panel.
    """
    factors = {}
    for columns in range(1, min(count, int((box[0] + GAP) // (LEAST + GAP))) + 1):
        rows = -(-count // columns)
        width = (box[0] - (columns - 1) * GAP) / columns
        height = (box[1] - (rows - 1) * GAP) / rows - head
        factors[columns] = min(width / size[1], height / size[0], WIDEST / max(size))
    best = max(factors, key=lambda columns: factors[columns])
    return best, (factors[best] * size[0], factors[best] * size[1])


def shown_pixels(look: CaptionLook) -> Any:
    """The image as the model reads it or, if the look says so, as it was: 0 to 1, for imshow."""
    image = look.image
    assert image is not None
    if look.original and image.original is not None:
        return image.original() / 255
    return image.pixels[0] if len(image.pixels) == 1 else image.pixels.transpose(1, 2, 0)


def _draw_image(axes: Any, look: CaptionLook) -> None:
    """Draw the image over the whole panel."""
    image = look.image
    assert image is not None
    (rows, columns), grey = image.grid, {"cmap": "gray", "vmin": 0, "vmax": 1}
    axes.imshow(shown_pixels(look), extent=(0, columns, rows, 0), aspect="auto", **grey)


def _draw_weights(axes: Any, weights: Weights, scale: Scale) -> None:
    """Draw a veil over an image, as dense as the weights (rows, columns) are large."""
    rows, columns = weights.shape
    veil = np.ones((rows, columns, 4))
    veil[..., :3] = scale.colours[-1]
    veil[..., 3] = DENSEST * np.clip(weights / scale.high, 0, 1)
    axes.imshow(veil, extent=(0, columns, rows, 0), aspect="auto", interpolation="nearest")


def animation(look: CaptionLook, choice: LookSelection, tests: WordTests | None) -> bytes:
    """A GIF that shows the words of the caption one after the other.

    Args:
        look: The recorded attention for a captioned image.
        choice: The layer, the head, and the word (None: all words).
        tests: What hiding cells does to each word.
    """
    maps, frames = look.word_maps(choice), []
    scale = _scale(look, maps)
    for word in [None, *look.words(choice)]:
        with style():
            figure = _frame(look, choice, word, maps, scale, tests)
            with Image.open(io.BytesIO(render(figure, ".png"))) as png:
                frame = png.convert("RGB").crop((0, 0, *FRAME))  # a sheet is at least 1280 wide
            frames.append(frame.quantize(128))
    out = io.BytesIO()
    frames[0].save(
        out, "gif", save_all=True, append_images=frames[1:], duration=int(1000 * SECONDS), loop=0
    )
    return out.getvalue()


def _frame(
    look: CaptionLook,
    choice: LookSelection,
    word: int | None,
    maps: Sequence[Weights],
    scale: Scale,
    tests: WordTests | None,
) -> Figure:
    """One frame of an animation: the image with a word and its numbers, or with the caption."""
    image = look.image
    assert image is not None
    width, height = FRAME
    sheet = Sheet(width, height)
    free_height, lines = height - 3.4 * LEADING * TEXT, LEADING * TEXT
    factor = min((width - 2 * EDGE) / image.pixels.shape[2], free_height / image.pixels.shape[1])
    size = factor * image.pixels.shape[2], factor * image.pixels.shape[1]
    axes = sheet.axes((width - size[0]) / 2, EDGE / 2, *size)
    _draw_image(axes, look)
    top = EDGE / 2 + size[1] + 8
    if word is None:
        text, colour = shorten(look.target, 2 * width, TEXT), INK
        if image.unfamiliar:
            text, colour = f"Do not trust it: {image.unfamiliar.partition(':')[0]}", ORANGE
        sheet.paragraph((EDGE, top), text, width - 2 * EDGE, colour=colour)
        return sheet.figure
    _draw_weights(axes, maps[word], scale)
    sheet.text((EDGE, top), visible(choice.map.queries[word]), weight="bold")
    if tests is not None:
        sign, colour = SIGNS[judge(tests.tests[word].most, tests.tests[word].random)]
        first = tests.tests[word]
        said = f"{sign} {numbers_of(first)}: P→P without what it looks at"
        sheet.text((EDGE, top + lines), said, colour=colour)
        sheet.text((EDGE, top + 2 * lines), "(P without as many other cells)", colour=MUTED)
    return sheet.figure
