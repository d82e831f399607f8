"""Looks at all rows of a table: what its columns are, and what is wrong with rows.

In: a `data:` section, or a file and its target. Out: a report, as `regard data check` prints it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from regard.data.config import TableData
from regard.data.table.cells import Fields
from regard.data.table.columns import Column, Plan, plan_table
from regard.data.table.reading import Block, blocks
from regard.data.table.sources import columns_of
from regard.errors import InputError

MAX_LISTED = 10
"""How many problems, classes and columns the report in words names."""


@dataclass(frozen=True)
class TableReport:
    """What is in a table."""

    rows: int
    usable: int
    """Rows that can be learned from."""
    target: str
    classes: dict[str, int]
    """The rows of each class; empty if a number is predicted."""
    columns: dict[str, str]
    """What each column is that is read, in words."""
    unread: tuple[str, ...]
    """The names of the columns that are not read."""
    constant: tuple[str, ...]
    """Columns with the same cell in all rows."""
    copies: int
    """Rows of which another one is a copy, in what is read of them."""
    problems: dict[str, int]
    """Rows that cannot be used, by what is wrong."""
    first_problems: tuple[str, ...]
    """Some of them, each with its line."""

    @property
    def is_bad(self) -> bool:
        """Whether something should be put right before a training."""
        return bool(self.problems)

    def describe(self) -> str:
        """The report as text."""
        lines = [f"{self.usable:,} of {self.rows:,} rows are usable; copies of others: "
                 f"{self.copies:,}"]  # fmt: skip
        if self.classes:
            counts = [f"{name} {count:,}" for name, count in self.classes.items()]
            lines.append(f"{self.target} is predicted, {len(counts)} classes: {_first(counts)}")
        else:
            lines.append(f"the number {self.target} is predicted: {self.columns[self.target]}")
        read = {name: text for name, text in self.columns.items() if name != self.target}
        lines += [f"  {name}: {text}" for name, text in [*read.items()][:MAX_LISTED]]
        if len(read) > MAX_LISTED:
            lines.append(f"  and {len(read) - MAX_LISTED:,} more columns; --json lists all")
        if self.unread:
            lines.append(f"not read: {_first(self.unread)}")
        if self.constant:
            lines.append(f"the same in all rows: {_first(self.constant)}")
        lines += [f"rows with {what}: {count:,}" for what, count in self.problems.items()]
        lines += [f"  {problem}" for problem in self.first_problems]
        return "\n".join(lines)


def check_table(data: TableData) -> TableReport:
    """Look at all rows of the training file.

    Raises:
        InputError: It is no table, or it is not clear what its columns are.
    """
    plan = plan_table(data.model_copy(update={"on_bad": "skip"}))
    columns = columns_of(plan)
    fields = Fields.of(plan.header, columns, plan.target.name, has_classes=plan.has_classes)
    problems, usable, total = Counter[str](), 0, 0
    keys: Counter[bytes] = Counter()
    first_problems: list[str] = []
    for block in blocks(plan.header):
        cells, fits = fields.read_block(block)
        total += len(block.lines) + len(block.problems)
        usable += int(fits.sum())
        bad_rows = _problems_of(fields, block, fits.tolist())
        problems.update(what for what, _ in bad_rows)
        first_problems += [text for _, text in bad_rows][: MAX_LISTED - len(first_problems)]
        keys.update(row.tobytes() for row in cells.examples(columns).inputs[fits])
    if not total:
        raise InputError(data.train, got="no row", expected="some")
    described = {column.name: _words(column, plan) for column in (*plan.inputs, plan.target)}
    return TableReport(
        rows=total,
        usable=usable,
        target=plan.target.name,
        classes=dict(plan.target.values or {}) if plan.has_classes else {},
        columns=described,
        unread=plan.unread,
        constant=tuple(column.name for column in plan.inputs if column.is_constant),
        copies=keys.total() - len(keys),
        problems=dict(problems),
        first_problems=tuple(first_problems),
    )


def _problems_of(fields: Fields, block: Block, fits: list[bool]) -> list[tuple[str, str]]:
    """What is wrong with rows, and the same with file and line, in their order."""
    problems = [*block.problems]
    problems += [fields.problem(block, row) for row, is_usable in enumerate(fits) if not is_usable]
    problems.sort(key=lambda problem: problem.line)
    return [(problem.what, str(problem)) for problem in problems]


def _words(column: Column, plan: Plan) -> str:
    """What the cells of a column are."""
    missing = f", {column.missing:,} without a value" if column.missing else ""
    if column in plan.categories or (column is plan.target and plan.has_classes):
        values = sorted(column.values or {}, key=lambda value: -(column.values or {})[value])
        return f"{len(values)} categories: {_first(values)}{missing}"
    return f"numbers from {column.least:g} to {column.most:g}{missing}"


def _first(names: tuple[str, ...] | list[str]) -> str:
    """The first of some names."""
    more = len(names) - MAX_LISTED
    return ", ".join(names[:MAX_LISTED]) + (f" and {more:,} more" if more > 0 else "")
