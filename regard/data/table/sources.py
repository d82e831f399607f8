"""The `data:` section of a recipe -> training, validation and test rows, with checksums.

In: files, and what their columns are (`columns.py`). Out: for each split the numbers that a model
reads, and what is to be predicted. Copies of a row never stand in two splits of one file.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.config import TableData
from regard.data.images.sources import sort_classes
from regard.data.table.cells import Cells, Fields, TableExamples, column_indices
from regard.data.table.columns import Plan, plan_table
from regard.data.table.reading import (
    Header,
    blocks,
    first_cells,
    floats,
    read_header,
)
from regard.data.text.records import checksum
from regard.data.text.splits import choose_groups
from regard.errors import InputError
from regard.inputs.table.reader import (
    CategoryColumn,
    Column,
    NumberColumn,
    TableReader,
    TableRow,
    category_in,
    is_missing,
)

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class TableSplits:
    """The rows of each split, the reader that has learned from the training rows, and the head."""

    train: TableExamples
    valid: TableExamples
    tests: dict[str, TableExamples]
    reader: TableReader
    classes: tuple[str, ...]
    """The classes that are predicted; empty if it is a number."""
    checksums: dict[str, str]
    """SHA-256 of each file, by its name."""


def load_table(
    data: TableData, reader: TableReader | None = None, *, has_classes: bool = False
) -> TableSplits:
    """Read the files that a recipe's `data:` section names.

    Args:
        data: The section.
        reader: The reader of a trained model, whose columns are read; None: learn one.
        has_classes: Whether that model predicts classes.

    Raises:
        InputError: A file cannot be used, or a row, unless `data.on_bad` is `skip`.
    """
    if reader is None:
        plan = plan_table(data)
        columns, has_classes = columns_of(plan), plan.has_classes
        target, header = plan.target.name, plan.header
    else:
        columns, target = reader.columns, reader.target
        header = read_header(data.train, data.header, reader.names)
    names = [column.name for column in columns]
    files = {"train": data.train, "valid": data.valid, "test": data.test}
    cells: dict[str, Cells] = {}
    for name, file in files.items():
        if file is not None:
            part = header if name == "train" else read_header(file, data.header, names)
            cells[name] = Fields.of(part, columns, target, has_classes=has_classes).read(
                data.on_bad
            )
    classes = sort_classes(cells["train"].labels) if has_classes else ()
    skipped: Counter[str] = Counter()
    for read in cells.values():
        skipped.update(read.skipped)
    for what, count in skipped.items():
        _logger.warning("data: %d row%s skipped: %s", count, "s" if count > 1 else "", what)
    _hold_out(cells, data)
    if reader is None:
        columns = _with_statistics(columns, cells["train"].numbers)
        reader = TableReader(columns=columns, target=target)
    sets = {name: read.examples(columns) for name, read in cells.items()}
    tests = {"test": sets["test"]} if "test" in sets else {}
    checksums = {file: checksum(file) for file in files.values() if file is not None}
    return TableSplits(sets["train"], sets["valid"], tests, reader, classes, checksums)


def read_examples(
    file: str, reader: TableReader, target: str, data: Any, *, has_classes: bool
) -> TableExamples:
    """The rows of another file for a trained model.

    Args:
        file: A CSV or TSV file.
        reader: The model's reader.
        target: The column of what is predicted.
        data: The `data:` section of the model.
        has_classes: Whether the model predicts classes.

    Raises:
        InputError: It cannot be read, or lacks a column.
    """
    header = read_header(file, getattr(data, "header", None), (*reader.names, target))
    fields = Fields.of(header, reader.columns, target, has_classes=has_classes)
    return fields.read(getattr(data, "on_bad", "stop")).examples(reader.columns)


def read_rows(file: str, reader: TableReader) -> list[TableRow]:
    """The rows of a file to predict from, by the names of the reader's columns.

    A file without names has values for the reader's columns in their order.

    Raises:
        InputError: It cannot be read, or lacks a column.
    """
    header = _header_of_rows(file, reader)
    indices = column_indices(header, reader.names)
    rows = []
    for block in blocks(header):
        read = {problem.line: TableRow() for problem in block.problems}
        for problem in block.problems:
            read[problem.line].problem = str(problem)
        for line, cells in zip(block.lines, block.cells, strict=True):
            row = {name: cells[index].strip() for name, index in indices.items()}
            read[line] = TableRow.at(f"{file}:{line}", row)
        rows += [read[line] for line in sorted(read)]
    if not rows:
        raise InputError(file, got="no row", expected="some to predict from")
    return rows


def _header_of_rows(file: str, reader: TableReader) -> Header:
    """The header of a file: its first line, unless that is a row of values."""
    cells = first_cells(file)
    are_names = reader.are_names(cells)
    is_row = len(cells) == len(reader.columns) and all(map(_could_be, reader.columns, cells))
    if is_row and not are_names:
        return Header(file, reader.names, 0)
    were_numbered = all(name.isdecimal() for name in reader.names) and not are_names
    return read_header(file, False if were_numbered else None, reader.names)


def _could_be(column: Column, cell: str) -> bool:
    """Whether a cell can stand in a column."""
    if isinstance(column, NumberColumn):
        return bool(np.isfinite(floats([cell]))[0]) or is_missing(cell)
    return category_in(cell) in column.values or is_missing(cell)


def columns_of(plan: Plan) -> tuple[Column, ...]:
    """The columns that a reader reads; the statistics of numbers are still to be computed."""
    columns: list[Column] = []
    for column in plan.inputs:
        if column in plan.categories:
            values = sort_classes(tuple(column.values or ()))
            columns.append(CategoryColumn(name=column.name, values=values))
        else:
            columns.append(NumberColumn(name=column.name, mean=0.0, deviation=1.0))
    return tuple(columns)


def _with_statistics(columns: Sequence[Column], numbers: NDArray[np.float64]) -> tuple[Column, ...]:
    """The columns with means and deviations of the training rows; 1 instead of a deviation of 0.

    Args:
        columns: The columns.
        numbers: (rows, columns) Their cells.
    """
    means, deviations = numbers.mean(axis=0), numbers.std(axis=0)
    learned: list[Column] = []
    for column, mean, deviation in zip(columns, means.tolist(), deviations.tolist(), strict=True):
        if isinstance(column, NumberColumn):
            is_spread = deviation > 1e-12 * max(1.0, abs(mean))  # else what rounding has left
            column = NumberColumn(
                name=column.name, mean=mean, deviation=deviation if is_spread else 1.0
            )
        learned.append(column)
    return tuple(learned)


def _hold_out(cells: dict[str, Cells], data: TableData) -> None:
    """Take validation and test rows from the training rows, if they have no file of their own."""
    counts = {"valid": data.held_out, "test": data.held_out_test}
    for number, (name, count) in enumerate(counts.items()):
        if name in cells or not count:
            continue
        train = cells["train"]
        both = np.concatenate([train.numbers, train.codes], axis=1)
        keys = [row.tobytes() for row in both]
        groups = Counter(keys)
        held_out = max(1, min(count, len(train) // 10))
        chosen = choose_groups([*groups.values()], held_out, data.seed + number * 2**32, "row")
        names = [*groups]
        chosen_keys = {names[group] for group in chosen.tolist()}
        is_chosen = np.array([key in chosen_keys for key in keys], np.bool_)
        cells[name] = train.take(np.flatnonzero(is_chosen))
        cells["train"] = replace(train.take(np.flatnonzero(~is_chosen)), skipped=train.skipped)
