"""The cells of a table -> numbers, categories and targets, row by row; rows that do not fit.

In: the columns of a reader, and a file. Out: `Cells`, and from them the numbers that a model reads.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.config import OnBad
from regard.data.table.columns import SKIP_FIX
from regard.data.table.reading import Block, Header, blocks, floats, problem_error
from regard.data.text.columns import names_text
from regard.data.text.records import Problem
from regard.errors import InputError, nearest
from regard.inputs.table.reader import (
    CategoryColumn,
    Column,
    NumberColumn,
    category_in,
    is_missing,
)
from regard.inputs.text.bloom import Keys, keys_of

MISSING, NO_NUMBER, UNKNOWN = "an empty cell", "no number", "an unknown category"


@dataclass(frozen=True, eq=False)
class TableExamples:
    """Rows of a table as a model reads them, with what is to be predicted from each."""

    inputs: NDArray[np.float32]
    """(rows, features)"""
    labels: tuple[str, ...] = ()
    """The class of each row; empty if numbers are predicted."""
    numbers: NDArray[np.float64] | None = None
    """(rows, 1) The number to predict from each row, in its own units."""
    skipped: int = 0
    """The number of rows of its file that were left out."""

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, rows: slice) -> TableExamples:
        return self.take(range(*rows.indices(len(self))))

    def take(self, rows: Sequence[int]) -> TableExamples:
        """Some of the rows, by their numbers."""
        index = list(rows)
        labels = tuple(self.labels[row] for row in index) if self.labels else ()
        numbers = None if self.numbers is None else self.numbers[index]
        return TableExamples(self.inputs[index], labels, numbers)

    def keys(self) -> Iterator[Keys]:
        """Yield the keys of the rows' inputs, by which copies of them are found: (rows, 1, 2)."""
        digests = (hashlib.sha256(row.tobytes()).digest()[:16] for row in self.inputs)
        for keys in keys_of(digests):
            yield keys[:, None]


@dataclass(frozen=True, eq=False)
class Cells:
    """The rows of a file before their numbers are standardised."""

    numbers: NDArray[np.float64]
    """(rows, columns) The cells of columns of numbers; 0 in other columns."""
    codes: NDArray[np.int32]
    """(rows, columns) The index of the category, in columns of categories; 0 in others."""
    labels: tuple[str, ...]
    targets: NDArray[np.float64]
    """(rows,) The numbers to predict, if the target is a number."""
    skipped: Mapping[str, int]
    """Rows that were left out, by what is wrong."""

    def take(self, rows: NDArray[np.int64]) -> Cells:
        """Some of the rows, by their numbers."""
        labels = tuple(self.labels[row] for row in rows) if self.labels else ()
        targets = self.targets[rows] if len(self.targets) else self.targets
        return Cells(self.numbers[rows], self.codes[rows], labels, targets, {})

    def __len__(self) -> int:
        return len(self.numbers)

    def examples(self, columns: Sequence[Column]) -> TableExamples:
        """The rows as a model reads them, as `TableReader` reads each: (rows, features)."""
        parts: list[NDArray[Any]] = []
        for index, column in enumerate(columns):
            if isinstance(column, NumberColumn):
                parts.append((self.numbers[:, index, None] - column.mean) / column.deviation)
            else:
                parts.append(self.codes[:, index, None] == np.arange(len(column.values)))
        inputs = np.concatenate(parts, axis=1).astype(np.float32)
        targets = self.targets[:, None] if len(self.targets) else None
        return TableExamples(inputs, self.labels, targets, sum(self.skipped.values()))


@dataclass(frozen=True)
class Fields:
    """Which cells of a file's rows are read, and as what."""

    header: Header
    columns: Sequence[Column]
    indices: tuple[int, ...]
    """Where each of these columns stands in the file."""
    target: int
    """Where the column stands that is predicted."""
    has_classes: bool
    """Whether it has classes, not numbers."""

    @classmethod
    def of(
        cls, header: Header, columns: Sequence[Column], target: str, *, has_classes: bool
    ) -> Fields:
        """Find the columns in a file.

        Raises:
            InputError: One of them is not there.
        """
        indices = column_indices(header, [column.name for column in columns])
        if target not in header.names:
            close = nearest(target, header.names)
            fix = f"did you mean data.target={close[0]}?" if close else "it is what is scored"
            got = f"the columns {names_text(header.names)}"
            expected = f"{target}, which is predicted"
            raise InputError(header.file, got=got, expected=expected, fix=fix)
        index = header.names.index(target)
        return cls(header, columns, tuple(indices.values()), index, has_classes)

    def read(self, on_bad: OnBad) -> Cells:
        """Read all rows; those with a cell that does not fit are an error, or skipped."""
        skipped: Counter[str] = Counter()
        parts = []
        for block in blocks(self.header):
            part, fits = self.read_block(block)
            bad_rows = np.flatnonzero(~fits).tolist()
            problems = [*block.problems, *(self.problem(block, row) for row in bad_rows)]
            if problems and on_bad == "stop":
                raise problem_error(min(problems, key=lambda problem: problem.line), SKIP_FIX)
            skipped.update(problem.what for problem in problems)
            parts.append(part.take(np.flatnonzero(fits)) if bad_rows else part)
        if not any(map(len, parts)):
            counts = ", ".join(f"{count} with {what}" for what, count in skipped.items())
            fix = counts or "below the names of the columns is nothing"
            raise InputError(self.header.file, got="no usable row", expected="some", fix=fix)
        return _joined(parts, skipped)

    def read_block(self, block: Block) -> tuple[Cells, NDArray[np.bool_]]:
        """The cells of some rows, and whether all cells of a row fit: (rows,)."""
        shape = len(block.lines), len(self.columns)
        numbers, codes = np.zeros(shape), np.zeros(shape, np.int32)
        fits = np.ones(shape[0], np.bool_)
        for number, (column, index) in enumerate(zip(self.columns, self.indices, strict=True)):
            cells = block.column(index)
            if isinstance(column, NumberColumn):
                numbers[:, number] = floats(cells)
                fits &= np.isfinite(numbers[:, number])
            else:
                known = {value: code for code, value in enumerate(column.values)}
                codes[:, number] = [known.get(category_in(cell), -1) for cell in cells]
                fits &= codes[:, number] >= 0
        cells = block.column(self.target)
        if self.has_classes:
            fits &= np.array([not is_missing(cell) for cell in cells], np.bool_)
            return Cells(numbers, codes, tuple(map(category_in, cells)), np.zeros(0), {}), fits
        targets = floats(cells)
        fits &= np.isfinite(targets)
        return Cells(numbers, codes, (), targets, {}), fits

    def problem(self, block: Block, row: int) -> Problem:
        """What is wrong with the first cell of a row that does not fit."""
        read: list[tuple[int, Column | None]] = [*zip(self.indices, self.columns, strict=True)]
        for index, column in [*read, (self.target, None)]:
            cell, detail = block.cells[row][index].strip(), f"column {self.header.names[index]}"
            has_categories = isinstance(column, CategoryColumn)
            what = ""
            if is_missing(cell):
                what, detail = MISSING, detail + (f": {cell}" if cell else "")
            elif isinstance(column, CategoryColumn) and category_in(cell) not in column.values:
                close = nearest(cell, column.values) or column.values[:3]
                what = UNKNOWN
                detail += f": {cell!r}; the training data has {names_text(close)}"
            elif not has_categories and not (column is None and self.has_classes):
                is_number = bool(np.isfinite(floats([cell]))[0])
                what, detail = "" if is_number else NO_NUMBER, f"{detail}: {cell!r}"
            if what:
                return Problem(self.header.file, block.lines[row], what, detail)
        raise AssertionError("a row does not fit only if one of its cells does not")


def column_indices(header: Header, names: Sequence[str]) -> dict[str, int]:
    """Where the columns of a reader stand in a file.

    Raises:
        InputError: One of them is not there.
    """
    indices = {name: index for index, name in enumerate(header.names)}
    for name in names:
        if name not in indices:
            close = nearest(name, header.names)
            fix = f"is it {close[0]!r}? name it as in the training data" if close else None
            got, expected = f"no column {name}", f"the columns {names_text(names)}"
            raise InputError(header.file, got=got, expected=expected, fix=fix)
    return {name: indices[name] for name in names}


def _joined(parts: Sequence[Cells], skipped: Mapping[str, int]) -> Cells:
    """The rows of several parts of a file."""
    return Cells(
        np.concatenate([part.numbers for part in parts]),
        np.concatenate([part.codes for part in parts]),
        tuple(label for part in parts for label in part.labels),
        np.concatenate([part.targets for part in parts]),
        dict(skipped),
    )
