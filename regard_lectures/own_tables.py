"""A person's own numbers or categories, read from a text."""

from __future__ import annotations

import re

from regard.errors import InputError
from regard_lectures.tries import listed

NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
SEPARATORS = re.compile(r"[,;/\n]+")


def read_table(text: str) -> list[list[float]] | None:
    """Rows of numbers; None if the text has none.

    Raises:
        InputError: If some entries are no numbers, or the rows are of different lengths.

    Example:
        >>> read_table("23 1200; 34 2000"), read_table("black brown")
        ([[23.0, 1200.0], [34.0, 2000.0]], None)
    """
    rows = [row.replace(",", " ").split() for row in re.split(r"[;/\n]+", text) if row.strip()]
    cells = [cell for row in rows for cell in row]
    are_numbers = [bool(NUMBER.fullmatch(cell)) for cell in cells]
    if not any(are_numbers):
        return None
    fix = "rows of as many numbers each, such as '23 1200 200; 34 2000 200'"
    if not all(are_numbers):
        got = f"{cells[are_numbers.index(False)]!r} among numbers"
        raise InputError("--text", got=got, expected="numbers alone, or words alone", fix=fix)
    lengths = {len(row) for row in rows}
    if len(lengths) > 1:
        got = f"rows of {listed([str(length) for length in sorted(lengths)])} numbers"
        raise InputError("--text", got=got, expected="as many in each row", fix=fix)
    return [[float(cell) for cell in row] for row in rows]


def read_categories(text: str) -> list[str]:
    """The different entries of a text, in their order: between commas, else between spaces.

    Raises:
        InputError: If there is none.

    Example:
        >>> read_categories("dark blue, red, dark blue"), read_categories("M F F M")
        (['dark blue', 'red'], ['M', 'F'])
    """
    entries = SEPARATORS.split(text) if SEPARATORS.search(text) else text.split()
    values = list(dict.fromkeys(entry.strip() for entry in entries if entry.strip()))
    if not values:
        raise InputError("--text", got="nothing", expected="numbers, categories, a word, an image")
    return values
