"""The columns of a table -> what each is: numbers or categories, what is read, what is predicted.

In: the blocks of a file and the `data:` section. Out: a `Plan`. Cells are counted here; the rows
are read in `sources.py`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np

from regard.data.config import TableData
from regard.data.table.reading import Block, Header, blocks, floats, problem_error, read_header
from regard.data.text.columns import find_column, names_text, shell_word
from regard.data.text.records import Problem
from regard.data.text.roles import IDS, Role, fold
from regard.errors import InputError
from regard.inputs.table.reader import category_in, is_missing

MOST_CATEGORIES = 1000
"""The most values of a column of categories."""
MOST_CLASSES_OF_NUMBERS = 20
"""Whole numbers are classes if there are at most so many of them, ..."""
ROWS_OF_A_NUMBER = 5
"""... and on average at least so many rows of each."""
TARGETS = Role("target", ("target", "label", "class", "y"))
"""The usual names of a column that is predicted."""
SKIP_FIX = "correct it; data.on_bad=skip leaves such rows out"
_COMMA = re.compile(r"[+-]?\d+,\d+")


@dataclass
class Column:
    """What the cells of a column are."""

    name: str
    index: int
    numbers: int = 0
    texts: int = 0
    missing: int = 0
    whole: bool = True
    """Whether all of its numbers are whole."""
    commas: int = 0
    """Texts such as `3,5`."""
    first_text: tuple[int, str] | None = None
    """The line and the cell of the first text."""
    least: float = np.inf
    most: float = -np.inf
    values: dict[str, int] | None = field(default_factory=dict)
    """The cells of each value; None if there are too many of them."""

    @property
    def count(self) -> int:
        """The number of cells that have a value."""
        return self.numbers + self.texts

    @property
    def is_text(self) -> bool:
        """Whether its cells are texts, or as many as are numbers."""
        return self.texts >= max(1, self.numbers)

    @property
    def is_name(self) -> bool:
        """Whether its texts differ from row to row, as names do."""
        several = self.values is None or len(self.values) > max(20, self.count // 2)
        return several and self.is_text

    @property
    def is_constant(self) -> bool:
        """Whether all of its cells are the same."""
        return self.values is not None and len(self.values) == 1

    @property
    def is_class(self) -> bool:
        """Whether its numbers look like classes: few whole ones, with several rows of each."""
        if self.values is None or not self.whole:
            return False
        few = len(self.values) <= MOST_CLASSES_OF_NUMBERS
        return few and self.count >= ROWS_OF_A_NUMBER * len(self.values)

    def add(self, block: Block) -> None:
        """Count the cells of some rows."""
        cells = block.column(self.index)
        numbers = floats(cells)
        are_numbers = np.isfinite(numbers)
        count = int(are_numbers.sum())
        self.numbers += count
        if count:
            of_cells = numbers[are_numbers]
            self.whole = self.whole and bool((of_cells == np.round(of_cells)).all())
            self.least = min(self.least, float(of_cells.min()))
            self.most = max(self.most, float(of_cells.max()))
        if count < len(cells):
            self._add_texts(block.lines, cells, are_numbers.tolist())
        if self.values is not None:
            for cell, times in Counter(cells).items():
                if not is_missing(cell):
                    category = category_in(cell)
                    self.values[category] = self.values.get(category, 0) + times
            if len(self.values) > MOST_CATEGORIES:
                self.values = None

    def _add_texts(self, lines: list[int], cells: list[str], are_numbers: list[bool]) -> None:
        """Count cells that are no numbers."""
        for line, cell, is_number in zip(lines, cells, are_numbers, strict=True):
            if is_number:
                continue
            if is_missing(cell):
                self.missing += 1
                continue
            self.texts += 1
            self.commas += _COMMA.fullmatch(cell) is not None
            self.first_text = self.first_text or (line, cell)


@dataclass(frozen=True)
class Plan:
    """What is read from a table, and what is predicted."""

    header: Header
    rows: int
    """Rows of the file, without lines that are none."""
    problems: tuple[Problem, ...]
    """Lines that are no rows."""
    numbers: tuple[Column, ...]
    categories: tuple[Column, ...]
    target: Column
    has_classes: bool
    """Whether classes are predicted, not numbers."""
    unread: tuple[str, ...]
    """The names of columns that are left out."""

    @property
    def inputs(self) -> tuple[Column, ...]:
        """The columns that are read, in the order of the file."""
        return tuple(sorted((*self.numbers, *self.categories), key=lambda column: column.index))

    def describe(self) -> str:
        """What is read and predicted, in one line."""
        count = len(self.numbers)
        parts = [f"{count} column{'s' if count > 1 else ''} of numbers"] if count else []
        if self.categories:
            named = (f"{column.name} ({len(column.values or ())})" for column in self.categories)
            parts.append(f"categories {names_text([*named])}")
        target = f"the number {self.target.name}"
        if self.has_classes:
            target = f"{self.target.name}, {len(self.target.values or ())} classes"
            if not self.target.texts:
                target += " (data.predict=numbers: as a number)"
        text = f"{' and '.join(parts)} -> {target}"
        text += f"; not read: {names_text(self.unread)}" if self.unread else ""
        constant = [column.name for column in self.inputs if column.is_constant]
        return text + (f"; always the same: {names_text(constant)}" if constant else "")


def plan_table(data: TableData) -> Plan:
    """Decide what the columns of the training file are.

    Raises:
        InputError: It is no table, a column is not there, or it is not clear what one is.
    """
    known = [str(data.target)] if isinstance(data.target, str) else []
    header = read_header(data.train, data.header, known)
    names, file = header.names, data.train
    target = _find_target(header, data)
    unread = [find_column(file, names, "leave_out", column) for column in data.leave_out]
    if data.inputs:
        read = [find_column(file, names, "inputs", column) for column in data.inputs]
    else:
        ids = [i for i, name in enumerate(names) if fold(name) in IDS or _is_index(header, i)]
        unread += ids
        read = [i for i in range(len(names)) if i != target and i not in unread]
    if target in read:
        what, got = "data.inputs", f"{names[target]}, the column that is predicted"
        raise InputError(what, got=got, expected="other columns")
    if not read:
        fix = "name some: data.inputs=[a,b]" if len(names) > 1 else "a table needs other columns"
        raise InputError(f"{file}: columns to read", got="none", expected="some", fix=fix)
    as_categories = {find_column(file, names, "categories", item) for item in data.categories}
    columns, rows, problems = _scan(file, _stamp(file), header, (*sorted({*read, target}),))
    by_index = {column.index: column for column in columns}
    if not rows:
        fix = f"the first problem: {problems[0]}" if problems else "below the names is nothing"
        raise InputError(file, got="no row", expected="some to learn from", fix=fix)
    if problems and data.on_bad == "stop":
        raise problem_error(problems[0], SKIP_FIX)
    inputs = [by_index[index] for index in read]
    _check_names(file, [column for column in inputs if column.index not in as_categories], names)
    kinds = {column.index: _is_category(file, column, as_categories, data) for column in inputs}
    return Plan(
        header,
        rows,
        tuple(problems),
        tuple(column for column in inputs if not kinds[column.index]),
        tuple(column for column in inputs if kinds[column.index]),
        by_index[target],
        _predicts_classes(file, by_index[target], data),
        tuple(names[index] for index in sorted(unread) if index != target),
    )


def _is_index(header: Header, index: int) -> bool:
    """Whether a column is the index that pandas writes: the first, without a name."""
    return index == 0 and header.lines == 1 and header.names[0] == "column 1"


def _find_target(header: Header, data: TableData) -> int:
    """The column that is predicted."""
    names = header.names
    if data.target is not None:
        return find_column(header.file, names, "target", data.target)
    usual = [index for index, name in enumerate(names) if TARGETS.fits(name)]
    if len(usual) == 1:
        return usual[0]
    candidates = usual or [len(names) - 1]
    named = " or ".join(f"data.target={shell_word(names[i], i, names)}" for i in candidates)
    what = f"{header.file} has the columns {names_text(names)}: which one is to be predicted?"
    raise InputError(what, fix=f"add {named}")


def _stamp(file: str) -> tuple[int, int]:
    """What changes when a file changes."""
    status = Path(file).stat()
    return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=2)
def _scan(
    file: str, stamp: tuple[int, int], header: Header, indices: tuple[int, ...]
) -> tuple[list[Column], int, list[Problem]]:
    """Count the cells of some columns of a file; the number of rows, and lines that are none."""
    del file, stamp  # another file, another result
    columns = [Column(header.names[index], index) for index in indices]
    rows, problems = 0, list[Problem]()
    for block in blocks(header):
        rows += len(block.lines)
        problems += block.problems
        for column in columns:
            column.add(block)
    return columns, rows, problems


def _check_names(file: str, inputs: Sequence[Column], names: Sequence[str]) -> None:
    """Refuse columns of names, remarks and other texts that are no categories."""
    unfit = [column for column in inputs if column.is_name and not column.commas]
    empty = [column for column in inputs if not column.count]
    for columns, got in ((empty, "no value in any row"), (unfit, _name_words(unfit))):
        if columns:
            listed = ",".join(shell_word(c.name, c.index, names) for c in columns)
            what = f"{file}: column {names_text([column.name for column in columns])}"
            fix = f"leave such columns out: data.leave_out=[{listed}]"
            raise InputError(what, got=got, expected="numbers or categories", fix=fix)


def _name_words(columns: Sequence[Column]) -> str:
    """How many texts a column has that is none of categories."""
    if not columns:
        return ""
    column = columns[0]
    count = f"more than {MOST_CATEGORIES:,}" if column.values is None else len(column.values)
    return f"{count} different texts in {column.count:,} rows"


def _is_category(
    file: str, column: Column, as_categories: Collection[int], data: TableData
) -> bool:
    """Whether a column is one of categories.

    Raises:
        InputError: It has numbers with a comma, or a few texts among its numbers.
    """
    if column.index not in as_categories:
        _check_numbers(file, column, data, f"data.categories=[{column.name}]")
        return column.is_text
    if column.values is None:
        got = f"more than {MOST_CATEGORIES:,} values"
        raise InputError(f"{file}: column {column.name}", got=got, expected="categories")
    return True


def _check_numbers(file: str, column: Column, data: TableData, otherwise: str) -> None:
    """Refuse numbers with a comma, and a few texts in a column of numbers.

    Args:
        file: The table.
        column: One of its columns.
        data: The `data:` section.
        otherwise: What to say if its numbers are meant as categories.
    """
    if not column.texts or column.first_text is None:
        return
    line, cell = column.first_text
    what = f"{file}:{line}: column {column.name}"
    if column.commas == column.texts:
        fix = "write numbers with a decimal point, without separators of thousands"
        raise InputError(what, got=repr(cell), expected="a number such as 3.5", fix=fix)
    if not column.is_text and data.on_bad == "stop":
        expected = f"a number, as in {column.numbers:,} other rows"
        fix = f"{SKIP_FIX}; {otherwise} takes all of its cells as names"
        raise InputError(what, got=repr(cell), expected=expected, fix=fix)


def _predicts_classes(file: str, target: Column, data: TableData) -> bool:
    """Whether the target is a class.

    Raises:
        InputError: It is always the same, or no class and no number.
    """
    what = f"{file}: column {target.name}, which is to be predicted"
    if not target.count:
        raise InputError(what, got="no value in any row", expected="numbers or classes")
    if data.predict is None:
        has_classes = target.is_text or target.is_class
    else:
        has_classes = data.predict == "classes"
    if data.predict != "classes":
        _check_numbers(file, target, data, "data.predict=classes")
    if not has_classes and target.is_text:
        raise InputError(what, got="texts", expected="numbers, for data.predict=numbers")
    if target.is_constant:
        [value] = target.values or {"": 0}
        expected = "at least two classes" if has_classes else "different numbers"
        rows = f"all {target.count:,} rows" if target.count > 1 else "its only row"
        raise InputError(what, got=f"{value!r} in {rows}", expected=expected)
    if has_classes and (target.values is None or len(target.values) > max(20, target.count // 2)):
        got = _name_words([target]).replace("texts", "values")
        raise InputError(what, got=got, expected="classes, each with several rows")
    return has_classes
