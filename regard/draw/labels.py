"""What drawings of weights share: the arrays, and texts made fit for labels."""

from __future__ import annotations

import unicodedata

import numpy as np
import numpy.typing as npt

Weights = npt.NDArray[np.floating]
VISIBLE = {"\n": "⏎", "\r": "⏎", "\t": "⇥"}


def visible(text: str) -> str:
    r"""A label fit for display: line ends become visible, control characters are replaced.

    Example:
        >>> visible("a\nb"), visible(""), visible(" ")
        ('a⏎b', '∅', '␣')
    """
    if not text:
        return "∅"
    if text.isspace() and not set(text) & set(VISIBLE):
        return "␣" * len(text)
    letters = (VISIBLE.get(letter, letter) for letter in text)
    # control characters and lone surrogates can be neither drawn nor encoded
    return "".join("\ufffd" if unicodedata.category(c) in ("Cc", "Cs") else c for c in letters)


def ordinal(number: int) -> str:
    """A number in a row, from 2 on.

    Example:
        >>> ordinal(2), ordinal(3), ordinal(11), ordinal(22)
        ('2nd', '3rd', '11th', '22nd')
    """
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number % 100 in (11, 12, 13) else ending}"
