"""The words beside the rows and columns of a map: long ones are cut, so that the map has room."""

from __future__ import annotations

from collections.abc import Iterable

from regard.draw import SMALLEST, shorten, text_width, visible
from regard_lectures.own_words import MARK

WIDEST = 130
"""Pixels of a label beside a map as wide as half of the sheet."""


def map_labels(words: Iterable[str], widest: float = WIDEST) -> list[str]:
    """The labels of some words or tokens; a cut one ends in an ellipsis.

    The mark of a word whose vector is a stand-in stays, since captions explain it.

    Example:
        >>> map_labels(["a b", "Geschwindigkeitsbegrenzung"])
        ['a b', 'Geschwi…']
        >>> map_labels(["Geschwindigkeitsbegrenzung*"])[0][-2:]
        '…*'
    """
    return [_label(visible(word), widest) for word in words]


def _label(word: str, widest: float) -> str:
    """A word, cut to a width in pixels, with its mark if it has one."""
    short = shorten(word, widest, SMALLEST)
    if short == word or not word.endswith(MARK):
        return short
    return shorten(word, widest - text_width(MARK, SMALLEST), SMALLEST) + MARK
