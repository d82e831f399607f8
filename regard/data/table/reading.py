"""A CSV or TSV file -> the names of its columns, and its rows of cells, block by block.

Cells are separated by commas, by semicolons (`.csv`) or by tabs (`.tsv`); `.gz` may follow. Each
row comes with the number of its line, or as a `Problem`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from regard.data.text import records
from regard.data.text.columns import names_text
from regard.data.text.records import Problem
from regard.errors import InputError
from regard.inputs.table.reader import number_in

ENDINGS = (".csv", ".tsv")
EXPECTED = "a table: the names of its columns, and a row in each line below"
BLOCK = 4096
"""Rows that are read at once."""
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}


@dataclass(frozen=True)
class Header:
    """What is known about the columns of a file before its rows are read."""

    file: str
    names: tuple[str, ...]
    """The names of the columns; in a file without names their numbers, from 1."""
    lines: int
    """The number of lines that have the names: 1 or 0."""

    @property
    def numbers_fix(self) -> str:
        """What to do about columns that a file does not name."""
        last = len(self.names)
        return (
            "put the names of the columns into a line above it; or say data.header=false, and name "
            f"columns by their numbers, such as data.target={last}"
        )


@dataclass(frozen=True)
class Block:
    """Some rows of a file."""

    lines: list[int]
    """The number of the line of each row."""
    cells: list[list[str]]
    """The cells of each row."""
    problems: list[Problem]
    """Lines that are no rows of this table."""

    def column(self, index: int) -> list[str]:
        """The cells of a column, without the blanks around them."""
        return [row[index].strip() for row in self.cells]


def is_table(name: str) -> bool:
    """Whether a name is that of a table."""
    return records.has_suffix(name, *ENDINGS)


def read_header(file: str, header: bool | None = None, known: Collection[str] = ()) -> Header:
    """Read the names of the columns of a file.

    Args:
        file: A CSV or TSV file.
        header: Whether its first line has their names; None: it decides.
        known: Names that the columns must have: a line with one of them has the names.

    Raises:
        InputError: It is no table, or its columns have no names, or two of them the same.
    """
    if not is_table(file):
        fix = "save it as CSV, with the names of the columns in its first line"
        raise InputError(file, got="another kind of file", expected=".csv or .tsv", fix=fix)
    line, first = _first_row(file)
    cells = [cell.strip() for cell in first]
    _check_separator(file, cells)
    if header is False:
        return Header(file, tuple(str(number + 1) for number in range(len(cells))), 0)
    has_number = any(number_in(cell) is not None for cell in cells)
    if header is None and has_number and not {*cells} & {*known}:
        what = f"{file}:{line}: {names_text(cells)}"
        fix = Header(file, tuple(cells), 0).numbers_fix
        raise InputError(what, expected="the names of the columns, not numbers", fix=fix)
    twice = next((name for name in cells if name and cells.count(name) > 1), None)
    if twice is not None:
        numbers = [number + 1 for number, name in enumerate(cells) if name == twice]
        where = ", ".join(map(str, numbers))
        what, fix = f"{file}:{line}", "give each column another name"
        raise InputError(what, got=f"{twice!r} as the name of columns {where}", fix=fix)
    names = (name or f"column {number + 1}" for number, name in enumerate(cells))
    return Header(file, tuple(names), 1)


def first_cells(file: str) -> list[str]:
    """The cells of the first line of a file, without the blanks around them."""
    return [cell.strip() for cell in _first_row(file)[1]]


def _first_row(file: str) -> tuple[int, list[str]]:
    """The first line with cells, and its number."""
    for line, row in records.table_rows(file, EXPECTED):
        if isinstance(row, Problem):
            raise problem_error(row)
        if any(cell.strip() for cell in row):
            return line, row
    raise InputError(file, got="empty lines alone", expected=EXPECTED)


def _check_separator(file: str, cells: Sequence[str]) -> None:
    """Refuse a file whose cells are separated by something else."""
    if len(cells) > 1:
        return
    name = "a .csv" if records.has_suffix(file, ".csv") else "a .tsv"
    expected = "commas or semicolons" if name == "a .csv" else "tabs"
    for separator, words in _SEPARATORS.items():
        if separator not in cells[0]:
            continue
        fix = f"separate all cells by one of them; {words} stand in its first line"
        if words == "tabs":
            fix = "its cells are separated by tabs: name it .tsv"
        elif name == "a .tsv" and words in ("commas", "semicolons"):
            fix = f"its cells are separated by {words}: name it .csv"
        elif name == "a .csv" and words in expected:
            fix = f"{words} stand in its first line, but not as many in all of its first lines"
        what = f"{file}: one column, {cells[0]!r}"
        raise InputError(what, expected=f"{expected} between the cells of {name}", fix=fix)


def blocks(header: Header) -> Iterator[Block]:
    """Yield the rows of a file below its header, block by block; empty lines are left out."""
    rows = records.table_rows(header.file, EXPECTED)
    width, headers = len(header.names), header.lines
    while part := list(islice(rows, BLOCK)):
        block = Block([], [], [])
        for line, row in part:
            if isinstance(row, Problem):
                block.problems.append(row)
            elif not any(cell.strip() for cell in row):
                continue
            elif headers:
                headers -= 1
            elif len(row) != width:
                detail = f"{len(row)}, not {width}"
                block.problems.append(Problem(header.file, line, records.COLUMNS, detail))
            else:
                block.lines.append(line)
                block.cells.append(row)
        yield block


def floats(cells: Sequence[str]) -> NDArray[np.float64]:
    """The numbers in cells; NaN where there is none: (cells,).

    Example:
        >>> floats(["1", " 2.5", "x", "inf", "1_0"]).tolist()
        [1.0, 2.5, nan, nan, nan]
    """
    try:
        numbers = np.array(cells, dtype=np.float64)
    except ValueError:
        numbers = np.full(len(cells), np.nan)
    # Python reads more as numbers than people write
    if np.isfinite(numbers).all() and "_" not in "".join(cells):
        return numbers
    values = (number_in(cell) for cell in cells)
    return np.array([np.nan if value is None else value for value in values], np.float64)


def problem_error(problem: Problem, fix: str | None = None) -> InputError:
    """The error for a line that cannot be read, with what to do about it."""
    if problem.what == records.UNDECODABLE and not is_table(problem.file):
        fix = "a table is a file of text: .csv or .tsv"
    elif problem.what == records.UNDECODABLE:
        fix = f"save it as UTF-8, or: iconv -f LATIN1 -t UTF-8 {problem.file} > NEW.csv"
    elif problem.what == records.COLUMNS:
        fix = "a cell with a separator in it needs quotes; " + (fix or "correct the line")
    return InputError(str(problem), fix=fix)
