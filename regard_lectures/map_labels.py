"""The words beside the rows and columns of a map: long ones are cut, so that the map has room."""

from __future__ import annotations

from collections.abc import Iterable

from regard.draw import SMALLEST, shorten, visible

WIDEST = 130
"""Pixels of a label beside a map as wide as half of the sheet."""


def map_labels(words: Iterable[str], widest: float = WIDEST) -> list[str]:
    """The labels of some words or tokens; a cut one ends in an ellipsis.

    Example:
        >>> map_labels(["a b", "Geschwindigkeitsbegrenzung"])
        ['a b', 'Geschwi…']
    """
    return [shorten(visible(word), widest, SMALLEST) for word in words]
