"""The look of a captioned image: for each word of the caption, a map of where the model looked.

Input: the recorded attention of a captioner, whose cross-attention has a row for each word and a
column for each cell of the image. Output: a picture with a panel for each word, or a page with that
picture and all other maps. `choose` picks the layer and the head as for other looks.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.draw.labels import Weights, visible
from regard.errors import InputError
from regard.explain.images.patches import over_patches
from regard.explain.look import IMAGE_KINDS, KINDS, Look, LookSelection, picture_ending
from regard.explain.maps import AttentionMap
from regard.runtime.files import write_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from regard.draw.cells import Scale
    from regard.draw.sheet import Medium
    from regard.explain.images.hiding import HiddenPatches
    from regard.tasks.trace import ImageGrid

DENSEST = 0.85
"""How much of the image the largest weight hides."""
GAP = 14
"""Pixels between two panels."""
WIDEST = 460
"""Pixels: the largest side of a panel."""


@dataclass(frozen=True, eq=False, repr=False)
class CaptionLook(Look):
    """The attention recorded while a model wrote the caption of an image.

    Attributes:
        image: The image and its grid. `picture` is None: no map here is of a class.
    """

    image: ImageGrid | None = None

    def choose(
        self,
        kind: str | None = None,
        layer: int | str | None = None,
        head: int | None = None,
        word: str | None = None,
    ) -> LookSelection:
        """As `Look.choose`; the default kind, `alignment`, has a map of the image for each word."""
        if kind in IMAGE_KINDS:
            expected = ", ".join(other for other in KINDS if other not in IMAGE_KINDS)
            fix = "these show what a class is computed from; alignment draws a map for each word"
            raise InputError("--kind", got=kind, expected=expected, fix=fix)
        return super().choose(kind, layer, head, word)

    def orientation(self, attention_map: AttentionMap) -> tuple[str, str]:
        """Two phrases: what the rows of a map are, and what its columns are."""
        rows, columns = super().orientation(attention_map)
        if attention_map.stack.startswith("encoder"):
            return "the query patch", "the patches attended to"
        return rows, "the patches attended to" if attention_map.stack.endswith(
            ".cross"
        ) else columns

    def save_choice(
        self,
        path: str | os.PathLike[str],
        choice: LookSelection,
        test: HiddenPatches | None = None,
        *,
        details: bool = False,
        paper: bool = False,
    ) -> Path:
        """Write a page or a picture of what `choose` returned."""
        if choice.kind != "alignment":
            return super().save_choice(path, choice, test, details=details, paper=paper)
        ending = picture_ending(path)
        if ending == ".html":
            return write_file(path, self._page(choice).encode())
        from regard.draw.sheet import Medium, render  # matplotlib is slow to import

        figure = draw_words(self, choice, Medium(paper=paper, details=details))
        return write_file(path, render(figure, ending, paper=paper))

    def _page(self, choice: LookSelection) -> str:
        """The page: the maps of all words over the image, and the viewer of all weights."""
        from regard.draw.sheet import Medium, render
        from regard.explain.page import Looks, Picture, page

        figure = draw_words(self, choice, Medium(paper=True))
        word = None if choice.row is None else choice.map.queries[choice.row]
        maps = Picture(render(figure, ".svg").decode(), _sentence(choice))
        return page(self.title, [maps, Looks([("", self)], choice.map.site, choice.head, word)])

    def _repr_html_(self) -> str:
        from regard.explain.page import framed

        choice = self.choose()
        return framed(self._page(choice)) if choice.kind == "alignment" else super()._repr_html_()


def draw_words(look: CaptionLook, choice: LookSelection, medium: Medium) -> Figure:
    """Draw the image, and for each word of the caption the image under the weights of that word.

    All words have one scale: the veil over a cell is the denser the larger its weight.

    Args:
        look: The recorded attention for a captioned image.
        choice: The layer, the head (None: the mean), and the word (None: all words).
        medium: Whether it is for print, and whether details are drawn.
    """
    from regard.draw.cells import scale_for
    from regard.draw.colours import over_image
    from regard.draw.frame import EDGE, Texts, framed_sheet
    from regard.draw.sheet import LEADING, TEXT, WIDTH, shorten, style
    from regard.explain.plot import facts_of

    image = look.image
    assert image is not None  # given by `look_of`
    words = range(len(choice.map.queries)) if choice.row is None else [choice.row]
    weights = np.nan_to_num(look.matrix(choice.map, choice.head))[words]  # (words, tokens)
    maps = [over_patches(image, row) for row in weights]  # (rows, columns) each
    labels = ["the image", *(visible(choice.map.queries[word]) for word in words)]
    with style():
        scale = replace(scale_for(weights[:, image.first :]), colours=over_image(image.pixels))
        texts = Texts(look.title, _sentence(choice), " ".join(facts_of(look, choice)), medium)
        frame = framed_sheet(texts, [scale])
        head = LEADING * TEXT
        width = WIDTH - 2.0 * EDGE
        box = width, frame.height
        columns, panel = _best_columns(len(labels), box, image.pixels.shape[1:], head)
        for number, label in enumerate(labels):
            row, column = divmod(number, columns)
            left = EDGE + column * (panel[1] + GAP)
            top = frame.top + row * (panel[0] + head + GAP)
            title = shorten(label, panel[1], TEXT)
            frame.sheet.text((left, top), title, weight="bold" if number else "normal")
            axes = frame.sheet.axes(left, top + head, panel[1], panel[0])
            _draw_image(axes, look)
            if number:
                _draw_weights(axes, maps[number - 1], scale)
    return frame.sheet.figure


def _best_columns(
    count: int, box: tuple[float, float], size: tuple[int, ...], head: float
) -> tuple[int, tuple[float, float]]:
    """The number of columns with which panels are largest; their height and width in pixels.

    Args:
        count: The number of panels.
        box: Width and height that are free, in pixels.
        size: Height and width of the image.
        head: The height of the line above each panel.
    """
    factors = {}
    for columns in range(1, count + 1):
        rows = -(-count // columns)
        width = (box[0] - (columns - 1) * GAP) / columns
        height = (box[1] - (rows - 1) * GAP) / rows - head
        factors[columns] = min(width / size[1], height / size[0], WIDEST / max(size))
    best = max(factors, key=lambda columns: factors[columns])
    return best, (factors[best] * size[0], factors[best] * size[1])


def _draw_image(axes: Any, look: CaptionLook) -> None:
    """Draw the image as the model reads it or, if the look says so, as it was."""
    image = look.image
    assert image is not None
    pixels = image.pixels[0] if len(image.pixels) == 1 else image.pixels.transpose(1, 2, 0)
    if look.original and image.original is not None:
        pixels = image.original() / 255
    (rows, columns), grey = image.grid, {"cmap": "gray", "vmin": 0, "vmax": 1}
    axes.imshow(pixels, extent=(0, columns, rows, 0), aspect="auto", **grey)


def _draw_weights(axes: Any, weights: Weights, scale: Scale) -> None:
    """Draw a veil over an image, as dense as the weights (rows, columns) are large."""
    rows, columns = weights.shape
    veil = np.ones((rows, columns, 4))
    veil[..., :3] = scale.colours[-1]
    veil[..., 3] = DENSEST * np.clip(weights / scale.high, 0, 1)
    axes.imshow(veil, extent=(0, columns, rows, 0), aspect="auto", interpolation="nearest")


def _sentence(choice: LookSelection) -> str:
    """A sentence: what the panels show."""
    what = "each word" if choice.row is None else f"“{choice.map.queries[choice.row]}”"
    return f"Where the model looks while it writes {what}: {choice.name}."
