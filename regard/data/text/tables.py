"""Any table -> its rows by role: the one reader of CSV, TSV, JSONL, Parquet and dataset folders.

In: a table, the roles of a task's columns, and the columns that a recipe names. Out: for each row
the value of each role, such as {"text": …, "label": …}, or its `Problem`. What was decided about
the columns is a `Plan`, which can be described. Rows are read one after another.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from regard.data.config import Columns
from regard.data.text import arrow, records
from regard.data.text.columns import (
    Names,
    Rows,
    choose_columns,
    find_column,
    is_header,
    is_out_of_order,
    may_be_names,
    may_name_tags,
    names_text,
    unclear_columns_error,
)
from regard.data.text.records import Numbered, Problem, Unfit
from regard.data.text.roles import LAYOUTS, QUESTIONS, WORDS, Layout, is_usual
from regard.errors import InputError

CELLS = (".csv", ".tsv")
OBJECTS = (".jsonl",)
SAMPLE = 100
"""How many first rows decide about the columns."""
SAMPLE_SIZE = 2**22
"""The most characters of these rows."""

Row = dict[str, Any]
"""The value of each role in a row."""
Example = TypeVar("Example")
Parse = Callable[[Row], Example]
Objects = Sequence[dict[str, Any]]


@dataclass(frozen=True)
class Plan:
    """What was decided about the columns of a table."""

    file: str
    names: tuple[str, ...] = ()
    """The names of all columns; none in a file without names."""
    header: bool = False
    """Whether they are the first line of the file."""
    chosen: dict[str, int] = field(default_factory=dict)
    """The index of the column of each role; empty if the number of columns decides."""
    inferred: bool = False
    """Whether a header or a role was found out, not said by the user or by the roles' own names."""
    positions: tuple[str, ...] = ()
    """The roles of columns without names, if another number of columns has other roles."""

    def describe(self) -> str:
        """Say what is read from which column, in one line; nothing if that was not found out."""
        if not self.inferred:
            return ""
        if self.positions:
            return f"{self.file} has no names of columns, taken as {', '.join(self.positions)}"
        columns = {role: self.column(role) for role in self.chosen}
        unused = [name for i, name in enumerate(self.names) if i not in self.chosen.values()]
        header = f"first line of {self.file} taken as names of columns: {names_text(self.names)}"
        parts = [
            header if self.header else "",
            ", ".join(f"{role} from {name}" for role, name in columns.items() if name != role),
            f"not used: {names_text(unused)}" if unused else "",
        ]
        described = "; ".join(part for part in parts if part)
        return described if self.header or not described else f"{self.file}: {described}"

    def column(self, role: str) -> str:
        """The name of the column of a role, or its number."""
        index = self.chosen[role]
        return self.names[index] if self.names else f"column {index + 1}"


def is_table(table: str) -> bool:
    """Whether a name is that of a table."""
    return records.has_suffix(table, *CELLS, *OBJECTS) or arrow.is_table(table)


def read_rows(
    table: str, layout: Layout, columns: Columns, understand: Parse[Example], expected: str
) -> Numbered[Example]:
    """Yield the example in each row of a table, or its problem, with the number of its line.

    Args:
        table: A file, or a dataset folder.
        layout: The roles of the columns.
        columns: The columns that the user names.
        understand: Converts the values of a row, by role; raises `Unfit` if it cannot.
        expected: What the file should contain, for the error about an empty file.

    Raises:
        InputError: The file cannot be read, or it is not clear which column is what.
    """
    plan = plan_columns(table, layout, columns, expected)
    rows: Iterator[tuple[int, Any]]
    pick: Callable[[Any], Row]
    if records.has_suffix(table, *CELLS):
        choose = _choose_by_name(plan, layout) if plan.chosen else _ByPosition(table, layout)
        pick = partial(_pick_cells, layout, choose)
        if plan.header:
            rows = islice(_cell_rows(table, expected), 1, None)
        else:
            rows = records.table_rows(table, expected)
    else:
        rows, pick = _object_rows(table, plan, expected), _pick_by_key(plan, layout)

    def example(row: Any) -> Example:
        """Make an example from a row; a problem of an empty cell names its column."""
        picked = pick(row)
        try:
            return understand(picked)
        except Unfit as problem:
            raise _add_column(problem, plan, picked) from None

    return records.convert(table, rows, example)


def names_of(table: str, columns: Columns, expected: str) -> Sequence[str]:
    """Return the names of the columns of a table; of a CSV or TSV file without them, none."""
    if records.has_suffix(table, *OBJECTS):
        objects = _first_rows(records.json_rows(table, expected))
        return _object_columns([row for row in objects if not isinstance(row, Problem)], QUESTIONS)
    if arrow.is_table(table):
        return list(arrow.column_names(table))
    header = columns.header
    if header is None:
        header = any(has_header(table, layout, expected) for layout in LAYOUTS)
    cells = _first_rows(_cell_rows(table, expected))[0]
    return cells if header and not isinstance(cells, Problem) else ()


def has_header(file: str, layout: Layout, expected: str, *, unsure: bool = False) -> bool:
    """Whether the first line of a CSV or TSV file looks like the names of its columns.

    Args:
        file: Its name.
        layout: The columns that the task needs.
        expected: What the file should contain, for the error about an empty file.
        unsure: Also if it may be names or an example, which `plan_columns` asks about.
    """
    return _begins_with_names(_first_rows(_cell_rows(file, expected)), layout, unsure=unsure)


def _begins_with_names(
    sample: Sequence[list[str] | Problem], layout: Layout, *, unsure: bool = False
) -> bool:
    """Whether the first row looks like names of columns; with `unsure`, or may be an example."""
    rows = [row for row in sample if not isinstance(row, Problem)]
    if not rows or sample[0] is not rows[0]:
        return False
    may_be = may_name_tags if layout is WORDS else may_be_names
    return is_header(rows, layout) or (unsure and may_be(rows))


def describe_columns(table: str, layout: Layout, columns: Columns, expected: str) -> str:
    """Say which columns of a table are read, if that was found out; else nothing."""
    return plan_columns(table, layout, columns, expected).describe() if is_table(table) else ""


def plan_columns(table: str, layout: Layout, columns: Columns, expected: str) -> Plan:
    """Decide from its first rows which column of a table is what.

    Raises:
        InputError: The file cannot be read, or it is not clear which column is what.
    """
    roles = [role.key for role in layout.roles if role.key in columns.named]
    task_columns = Columns({role: columns.named[role] for role in roles}, columns.header)
    if records.has_suffix(table, *CELLS):
        return plan_cells(table, layout, task_columns, _cell_rows(table, expected))
    if records.has_suffix(table, *OBJECTS):
        rows = _first_rows(records.json_rows(table, expected))
        objects = [row for row in rows if not isinstance(row, Problem)]
        return _plan_objects(table, layout, task_columns, objects, _object_columns(objects, layout))
    if not arrow.is_table(table):
        raise InputError(
            table,
            got="an unknown file suffix",
            expected=f"{', '.join((*CELLS, *OBJECTS))} (or with .gz after it) or .parquet, or a "
            "folder that datasets wrote",
        )
    names = [
        name
        for outer, inner in arrow.column_names(table).items()
        for name in _column_names(outer, inner, layout)
    ]
    return _plan_objects(table, layout, task_columns, None, names)


def plan_cells(file: str, layout: Layout, columns: Columns, lines: Numbered[list[str]]) -> Plan:
    """Decide about the columns of a file of cells, which may or may not have a header.

    Args:
        file: Its name, for errors.
        layout: The roles of the columns.
        columns: The columns that the user names.
        lines: The rows of the file.
    """
    sample = _first_rows(lines)
    rows = [row for row in sample if not isinstance(row, Problem)]
    header = columns.header
    if header is None:
        header = any(isinstance(column, str) for column in columns.named.values())
        header = header or _begins_with_names(sample, layout)
    if header and isinstance(sample[0], Problem):
        raise InputError(str(sample[0]), got="a header that cannot be read")
    if not rows:
        return Plan(file)
    first = [cell.strip() for cell in rows[0]]
    may_be_header = not header and columns.header is None
    unsure = may_be_header and _begins_with_names(sample, layout, unsure=True)
    if not header and not unsure:
        return _plan_numbers(file, layout, columns, rows)
    indices = choose_columns(file, first, layout, columns.named)
    missing = [role.key for role in layout.required if role.key not in indices]
    roles = layout.positions.get(len(first)) if not columns.named and columns.header else None
    if missing and roles:
        indices = {role: index for index, role in enumerate(roles)}
    elif missing:
        sure = bool(columns.named or columns.header) or any(map(is_usual, first))
        note = "; if the first line is an example, data.header=false" if unsure or not sure else ""
        raise unclear_columns_error(file, first, layout, indices, rows[1:], note)
    if unsure:
        raise InputError(
            f"{file} begins with {names_text(first)}: are these names of columns?",
            fix="add data.header=true; if the first line is an example, data.header=false",
        )
    return Plan(file, tuple(first), header=True, chosen=indices, inferred=columns.header is None)


def _plan_numbers(file: str, layout: Layout, columns: Columns, rows: Rows) -> Plan:
    """Decide about the columns of a file without names: as numbered, else by their number."""
    width = len(rows[0])
    numbers = [str(index + 1) for index in range(width)]
    indices = {role: find_column(file, numbers, role, name) for role, name in columns.named.items()}
    if not indices:
        wide = {len(row) for row in rows} == {width} and width > max(layout.positions, default=2**9)
        unclear = wide or layout is QUESTIONS or is_out_of_order(layout, rows)
        if layout.ragged or not unclear:
            roles = layout.positions.get(width, ())
            several = not layout.ragged and len(roles) > len(layout.required)
            return Plan(file, inferred=several, positions=roles if several else ())
    if any(role.key not in indices for role in layout.required):
        raise unclear_columns_error(file, numbers, layout, indices, rows)
    return Plan(file, chosen=indices)


def _plan_objects(
    table: str, layout: Layout, columns: Columns, objects: Objects | None, names: Names
) -> Plan:
    """Decide about the columns of a file that has a name beside each value."""
    indices = choose_columns(table, names, layout, columns.named)
    missing = [role.key for role in layout.required if role.key not in indices]
    if len(missing) > len(names) - len(indices) and objects is not None:
        # Nothing to choose from: each line is then reported for the key that it lacks.
        names = [*names, *missing]
        indices |= {role: names.index(role, len(names) - len(missing)) for role in missing}
    elif missing:
        rows = islice(arrow.rows(table), SAMPLE) if objects is None else objects
        cells = [[str(_column_value(row, name) or "") for name in names] for row in rows]
        raise unclear_columns_error(table, names, layout, indices, cells)
    unnamed = {role: index for role, index in indices.items() if role not in columns.named}
    inferred = any(names[index] != role for role, index in unnamed.items())
    return Plan(table, tuple(names), chosen=indices, inferred=inferred)


def _pick_cells(layout: Layout, choose: Callable[[Names], Row], cells: Names) -> Row:
    """Choose the cells of a row; the blanks around them are removed if the layout says so."""
    if not any(cell.strip() for cell in cells):
        raise Unfit(records.EMPTY)
    row = choose(cells)
    return {role: cell.strip() for role, cell in row.items()} if layout.strips else row


def _choose_by_name(plan: Plan, layout: Layout) -> Callable[[Names], Row]:
    """Return a function that chooses the cells of columns that have names or were numbered."""
    width = 0 if layout.ragged else len(plan.names)
    least = max(plan.chosen[role.key] for role in layout.required) + 1
    most = 0 if layout.may_be_wider else len(plan.names)

    def choose(cells: Names) -> Row:
        if len(cells) != width if width else len(cells) < least:
            raise Unfit(records.COLUMNS, f"{len(cells)}, not {width or least}")
        _check_width(cells, most)
        return {role: cells[index] for role, index in plan.chosen.items() if index < len(cells)}

    return choose


def _check_width(cells: Names, most: int) -> None:
    """Refuse a row with more cells than columns; 0: it may have any number."""
    if most and len(cells) > most:
        raise Unfit(records.COLUMNS, f"{len(cells)}, not {most}")


class _ByPosition:
    """Chooses the cells of a file without names: the number of its columns says what they are."""

    def __init__(self, file: str, layout: Layout) -> None:
        self.file, self.layout = file, layout
        self.width = 0  # of the first whole row: a file has texts or pairs of texts, not both

    def __call__(self, cells: Names) -> Row:
        positions = self.layout.positions
        if self.layout.ragged:
            _check_width(cells, 0 if self.layout.may_be_wider else max(positions))
            return dict(zip(positions[max(positions)], cells, strict=False))
        if len(cells) not in ((self.width,) if self.width else positions):
            expected = self.width or " or ".join(map(str, positions))
            raise Unfit(records.COLUMNS, f"{len(cells)}, not {expected}{self._hint(cells)}")
        if all(cell.strip() for cell in cells):
            self.width = len(cells)
        return dict(zip(positions[len(cells)], cells, strict=True))

    def _hint(self, cells: Names) -> str:
        """Say which separator a line of a single cell seems to have instead."""
        if len(cells) > 1:
            return ""
        expected = "commas" if records.has_suffix(self.file, ".csv") else "tabs"
        signs = {";": "semicolons", "\t": "tabs", "|": "vertical bars", ",": "commas"}
        others = [name for sign, name in signs.items() if sign in cells[0] and name != expected]
        return f"; {expected} separate them, not {others[0]}" if others else ""


def text_row(row: dict[str, Any], role: str, column: str) -> Row:
    """Pick one text of a row that has a name for each value.

    Raises:
        Unfit: There is none.
    """
    value = _column_value(row, column)
    if value is None and column.partition(".")[0] not in row:
        raise Unfit(records.KEYS, f"{', '.join(map(repr, row)) or 'none'}, not {column!r}")
    if value is None:
        raise Unfit(f"empty {role}")
    if not isinstance(value, str):
        raise Unfit(records.KEYS, f"{column!r} is not a text")
    if not records.is_encodable(value):
        raise Unfit(records.UNDECODABLE, f"half a character in {column!r}")
    return {role: value}


def _pick_by_key(plan: Plan, layout: Layout) -> Callable[[dict[str, Any]], Row]:
    """Return a function that picks the values of a row that has a name for each."""
    columns = {layout[role]: plan.names[index] for role, index in plan.chosen.items()}
    is_json = records.has_suffix(plan.file, *OBJECTS)

    def pick(row: dict[str, Any]) -> Row:
        picked: Row = {}
        for role, column in columns.items():
            value = _column_value(row, column)
            if role.is_text and not (role.optional and value is None):
                picked |= text_row(row, role.key, column)
                continue
            if is_json and not records.is_encodable(json.dumps(value, ensure_ascii=False)):
                raise Unfit(records.UNDECODABLE, "half a character")
            picked[role.key] = value
        return picked

    return pick


def _column_value(row: dict[str, Any], column: str) -> Any:
    """Return the value of a column, which may be a key of an object: `translation.en`."""
    if column in row:
        return row[column]
    outer, dot, inner = column.partition(".")
    value = row.get(outer)
    return _column_value(value, inner) if dot and isinstance(value, dict) else None


def _object_rows(table: str, plan: Plan, expected: str) -> Iterator[tuple[int, Any]]:
    """Yield the rows of a JSONL file, or of a table with only the columns that are read."""
    if records.has_suffix(table, *OBJECTS):
        return records.json_rows(table, expected)
    names_to_read = {plan.names[index] for index in plan.chosen.values()}
    tops = dict.fromkeys(name.partition(".")[0] for name in plan.names if name in names_to_read)
    return enumerate(arrow.rows(table, list(tops)), 1)


def _cell_rows(file: str, expected: str) -> Numbered[list[str]]:
    """Yield the rows of cells from the first that is not blank: a header may stand below blanks."""
    rows = records.table_rows(file, expected)
    for number, row in rows:
        first = number, row
        if isinstance(row, Problem) or any(cell.strip() for cell in row):
            break
    else:  # nothing but blanks: the last of them is the problem
        rows = iter(())
    yield first
    yield from rows


def _first_rows(rows: Numbered[Example]) -> list[Example | Problem]:
    """Return the first rows, or their problems."""
    sample: list[Example | Problem] = []
    total = 0
    for _, row in islice(rows, SAMPLE):
        sample.append(row)
        total += len(str(row))
        if total > SAMPLE_SIZE:
            break
    return sample


def _object_columns(objects: Objects, layout: Layout) -> list[str]:
    """Return the names of the columns of objects, in their order."""
    names: dict[str, None] = {}
    for row in objects:
        for key, value in row.items():
            inner = [*map(str, value)] if isinstance(value, dict) else []
            names |= dict.fromkeys(_column_names(key, inner, layout))
    return list(names)


def _column_names(outer: str, inner: Sequence[str], layout: Layout) -> list[str]:
    """Return the names of a column: of an object one for each key, unless it is read as a whole."""
    is_one_value = any(role.fits(outer) for role in layout.roles if not role.is_text)
    return [outer] if is_one_value or not inner else [f"{outer}.{name}" for name in inner]


def _add_column(problem: Unfit, plan: Plan, picked: Row) -> Unfit:
    """Add the column to the problem of an empty cell."""
    what, *detail = problem.args
    role = str(what).removeprefix("empty ")
    if detail or role not in picked or role == what:
        return problem
    if not plan.chosen:
        return Unfit(what, f"column {list(picked).index(role) + 1}")
    column = plan.column(role)
    return problem if column == role else Unfit(what, column)
