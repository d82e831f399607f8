"""Formats numbers and tables for people: three digits and a unit, columns of text."""

from __future__ import annotations

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


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table: the first column is aligned to the left, the others to the right.

    Example:
        >>> aligned([("a", "10"), ("bcd", "5")])
        ['a    10', 'bcd   5']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows
    ]
