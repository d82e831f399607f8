"""The page of a captioned image: point at a word and see where the model looked, or at a place.

Input: the look of a captioned image, and the tests of its words. Output: one HTML file that needs
no network: the image, the maps of all words and the numbers of their tests are inside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from regard.draw.colours import hexadecimal, over_image
from regard.draw.labels import visible
from regard.explain.images.caption_look import CaptionLook
from regard.explain.images.hiding import judge
from regard.explain.images.page import data_uri
from regard.explain.look import LookSelection
from regard.explain.names import in_words
from regard.explain.page import escaped, fill_template, page_json

if TYPE_CHECKING:
    from regard.explain.images.caption_hiding import WordTests


def caption_page(look: CaptionLook, choice: LookSelection, tests: WordTests | None) -> str:
    """The text of a complete page.

    Args:
        look: The recorded attention for a captioned image.
        choice: The layer, the head (None: the mean), and the word to open at.
        tests: What hiding cells does to each word.
    """
    image, maps = look.image, look.word_maps(choice)
    assert image is not None  # given by `look_of`
    layers = [m for m in look.maps if m.stack == choice.map.stack]
    data = {
        "grid": list(image.grid),
        "size": list(image.pixels.shape[1:]),
        "image": data_uri(_bytes(image.pixels), "png"),
        "original": None if image.original is None else data_uri(image.original(), "jpeg"),
        "words": [visible(word) for word in choice.map.queries],
        "maps": [np.round(weights, 5).ravel().tolist() for weights in maps],
        "tests": [] if tests is None else [_numbers(test) for test in tests.tests],
        "hidden": [] if tests is None else [tests.tests[0].hidden, tests.tests[0].patches],
        "start": choice.row,
        "showsOriginal": look.original,
    }
    out = ", ".join(map(in_words, look.knocked_out))
    facts = [
        look.note,
        f"Model: {look.model}." if look.model else "",
        f"Weights: {choice.name}{_others(len(layers), choice.map.heads)}.",
        f"Knocked out: {out}." if out else "",
    ]
    return fill_template(
        "caption",
        schemes="light",
        heading=escaped(look.title),
        verdict="" if tests is None else escaped(tests.verdict),
        facts=escaped(" ".join(filter(None, facts))),
        data=page_json(data),
        scale=page_json(hexadecimal(over_image(image.pixels))),
    )


def _others(layers: int, heads: int) -> str:
    """How maps of other layers and heads are drawn; nothing if there are no others."""
    if layers == heads == 1:
        return ""
    several = f", of {layers} such layers" if layers > 1 else ""
    return f"{several}; others by regard look with --layer and --head"


def _bytes(pixels: Any) -> Any:
    """The image that the model reads, (channels, height, width), as bytes for Pillow."""
    values = np.rint(np.clip(pixels, 0, 1) * 255).astype(np.uint8)
    return np.ascontiguousarray(values[0] if len(values) == 1 else values.transpose(1, 2, 0))


def _numbers(test: Any) -> dict[str, Any]:
    """The numbers of a word's test, and its verdict."""
    values = {"before": test.before, "most": test.most, "others": test.others}
    rounded = {name: round(value, 4) for name, value in values.items()}
    return {**rounded, "verdict": judge(test.most, test.random)}
