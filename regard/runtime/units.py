"""Formats numbers and tables for people: three digits and a unit, columns of text."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence


def short(number: float, unit: str = "") -> str:
    """Three digits with a unit: 63082496 -> `63.1 M`."""
    for exponent, prefix in ((15, "P"), (12, "T"), (9, "G"), (6, "M"), (3, "k")):
        if number >= 0.9995 * 10**exponent:
            value = number / 10**exponent
            return f"{value:.{decimals(value)}f} {prefix}{unit}"
    return f"{number:.0f} {unit}".rstrip()


def decimals(value: float) -> int:
    """The number of decimals that gives three significant digits."""
    return 2 if value < 9.995 else 1 if value < 99.95 else 0


def duration(hours: float) -> str:
    """Hours in the unit that fits: `3.5 days`."""
    for unit, size in (("years", 24 * 365.25), ("days", 24.0), ("hours", 1.0), ("minutes", 1 / 60)):
        if hours >= 2 * size:
            return f"{hours / size:,.{decimals(hours / size)}f} {unit}"
    return f"{hours * 3600:.{decimals(hours * 3600)}f} seconds"


def aligned(rows: Sequence[Sequence[str]], *, right: bool = False) -> list[str]:
    """The lines of a table with aligned columns; wide characters count as two columns.

    Args:
        rows: The cells of each row.
        right: Whether all columns but the first are aligned to the right, as numbers are.

    Example:
        >>> aligned([("a", "10"), ("bcd", "5")], right=True)
        ['a    10', 'bcd   5']
    """
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        spaces = [" " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True)]
        cells = [row[0] + spaces[0]]
        for cell, space in zip(row[1:], spaces[1:], strict=True):
            cells.append(space + cell if right else cell + space)
        lines.append("  ".join(cells).rstrip())
    return lines


def _width(text: str) -> int:
    """The number of columns that a text takes in a terminal."""
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))
