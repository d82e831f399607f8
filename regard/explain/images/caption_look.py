"""The look of a captioned image: for each word of the caption, a map of where the model looked.

Input: the recorded attention of a captioner, whose cross-attention has a row for each word and a
column for each cell of the image. Output: a picture with a panel for each word (`caption_plot`), an
animation, or a page on which one points at words and places (`caption_page`). `choose` picks the
layer and the head as for other looks; `test` hides what each word looked at.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from regard.draw.labels import Weights
from regard.errors import InputError
from regard.explain.images.patches import over_patches
from regard.explain.look import IMAGE_KINDS, KINDS, Look, LookSelection, picture_ending
from regard.explain.maps import AttentionMap
from regard.runtime.files import write_file

if TYPE_CHECKING:
    from regard.explain.images.caption_hiding import WordTests
    from regard.explain.images.hiding import Hiding
    from regard.tasks.trace import Captioned, ImageGrid

ENDINGS = (".html", ".png", ".gif", ".svg", ".pdf")
"""Endings of the files that the look of a caption can be written to: those of `regard caption`."""


@dataclass(frozen=True, eq=False, repr=False)
class CaptionLook(Look):
    """The attention recorded while a model wrote the caption of an image.

    Attributes:
        image: The image and its grid. `picture` is None: no map here is of a class.
        captioned: The image and the probabilities of the caption's words, by which maps are tested.
    """

    image: ImageGrid | None = None
    captioned: Captioned | None = None
    endings: ClassVar[tuple[str, ...]] = ENDINGS

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

    def words(self, choice: LookSelection) -> list[int]:
        """The numbers of the words of which a choice shows the maps."""
        return [*range(len(choice.map.queries))] if choice.row is None else [choice.row]

    def word_maps(self, choice: LookSelection) -> list[Weights]:
        """The map over the image (rows, columns) of every word of the caption."""
        assert self.image is not None  # given by `look_of`
        weights = np.nan_to_num(self.matrix(choice.map, choice.head))  # (words, tokens)
        return [over_patches(self.image, row) for row in weights]

    def testable(self, choice: LookSelection) -> bool:
        """Whether a choice has maps of the image for words."""
        image = self.image
        several_cells = image is not None and image.patches > 1
        return choice.kind == "alignment" and self.captioned is not None and several_cells

    def test(  # type: ignore[override]  # a test of each word, not of one class
        self, choice: LookSelection | None = None, hiding: Hiding | None = None
    ) -> WordTests:
        """Test the maps: hide the cells that each word looked at most, and as many others.

        Args:
            choice: The maps, as `choose` returns them; by default those that `save` draws.
            hiding: How cells are hidden; by default a fifth of them, by the mean colour.

        Raises:
            InputError: If the choice has no maps of the image.
        """
        from regard.explain.images.caption_hiding import hide_by_words  # it imports torch
        from regard.explain.images.hiding import Hiding

        choice = choice or self.choose()
        if not self.testable(choice) or self.captioned is None:
            expected = "a map of the image for each word"
            raise InputError("test", got=f"--kind {choice.kind}", expected=expected)
        maps = self.word_maps(choice)
        return hide_by_words(self.captioned, choice.map.queries, maps, hiding or Hiding())

    def save_choice(
        self,
        path: str | os.PathLike[str],
        choice: LookSelection,
        test: Any = None,
        *,
        details: bool = False,
        paper: bool = False,
    ) -> Path:
        """Write a page, a picture or an animation of what `choose` returned."""
        if choice.kind != "alignment":
            return super().save_choice(path, choice, None, details=details, paper=paper)
        ending = picture_ending(path, ENDINGS)
        if ending == ".html":
            from regard.explain.images.caption_page import caption_page

            return write_file(path, caption_page(self, choice, test).encode())
        from regard.draw.sheet import Medium, render  # matplotlib is slow to import
        from regard.explain.images.caption_plot import animation, draw_words

        if ending == ".gif":
            return write_file(path, animation(self, choice, test))
        figure = draw_words(self, choice, Medium(paper=paper, details=details), test)
        return write_file(path, render(figure, ending, paper=paper))

    def _repr_html_(self) -> str:
        from regard.explain.images.caption_page import caption_page
        from regard.explain.page import framed

        choice = self.choose()
        if choice.kind != "alignment":
            return super()._repr_html_()
        tests = self.test(choice) if self.testable(choice) else None
        return framed(caption_page(self, choice, tests))
