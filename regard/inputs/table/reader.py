"""Rows of a table -> a model's input: numbers standardised, categories one-hot.

A checkpoint keeps the reader, with what it learned from the training data, as JSON in the place
where text models keep their tokenizer.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, TypeAdapter, model_validator

from regard.config import Config, checked
from regard.errors import InputError, UserError, nearest
from regard.inputs.reader import Encoded

if TYPE_CHECKING:  # a list of models reads their settings, and need not wait for torch
    from regard.inputs.arrays import Dense

MISSING = {"", "?", "na", "n/a", "nan", "null"}
"""Cells without a value, in lower case."""
MOST_VALUES = 12
"""An error lists all values of a category if they are at most so many."""
_WHOLE = re.compile(r"[+-]?\d+\.0+")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


class TableRow(dict[str, Any]):
    """The cells of a row by the names of their columns, and where the row stands.

    Attributes:
        location: File and line, such as `iris.csv:12`; empty for a row that is in no file.
        problem: Why the line cannot be read; empty if it can.
    """

    location: str = ""
    problem: str = ""

    @classmethod
    def at(cls, location: str, cells: Mapping[str, Any]) -> TableRow:
        """A row of a file."""
        row = cls(cells)
        row.location = location
        return row


def is_missing(cell: Any) -> bool:
    """Whether a cell has no value.

    Example:
        >>> is_missing(" NA "), is_missing(float("nan")), is_missing(0)
        (True, True, False)
    """
    return cell is None or str(cell).strip().lower() in MISSING


def number_in(cell: Any) -> float | None:
    """The number in a cell; None if it is none.

    Example:
        >>> number_in(" 1.5e3 "), number_in("3,5"), number_in("1_000"), number_in("inf")
        (1500.0, None, None, None)
    """
    text = str(cell).strip()
    number = float(text) if _NUMBER.fullmatch(text) else np.inf
    return number if np.isfinite(number) else None


def category_in(cell: Any) -> str:
    """A category as text, without the blanks around it; a whole number without a point.

    Example:
        >>> category_in(" red "), category_in(3), category_in("3.0")
        ('red', '3', '3')
    """
    text = str(cell).strip()
    return text.partition(".")[0] if _WHOLE.fullmatch(text) else text


class NumberColumn(Config):
    """A column of numbers x, each read as z = (x - mean) / deviation."""

    kind: Literal["number"] = "number"
    name: str
    mean: float
    deviation: float = Field(gt=0)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the numbers that a model reads of a cell."""
        return (self.name,)

    def read(self, cell: Any, what: str) -> list[float]:
        """What a model reads of a cell.

        Args:
            cell: The cell.
            what: Where it stands, for errors.

        Raises:
            InputError: It is no number.
        """
        number = number_in(cell)
        if number is None:
            raise InputError(what, got=repr(cell), expected="a number", fix=_number_fix(cell))
        return [(number - self.mean) / self.deviation]


class CategoryColumn(Config):
    """A column of categories, each read as 1 for its own value and 0 for all others."""

    kind: Literal["category"] = "category"
    name: str
    values: tuple[str, ...] = Field(min_length=1)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the numbers that a model reads of a cell."""
        return tuple(f"{self.name}={value}" for value in self.values)

    def read(self, cell: Any, what: str) -> list[float]:
        """What a model reads of a cell.

        Args:
            cell: The cell.
            what: Where it stands, for errors.

        Raises:
            InputError: The category is none of the training data.
        """
        category = category_in(cell)
        if category not in self.values:
            raise InputError(
                what,
                got=f"{category!r}, a category that the training data did not have",
                expected=f"one of {self._listed(category)}",
            )
        return [float(category == value) for value in self.values]

    def _listed(self, category: str) -> str:
        """All values, or of many the nearest ones."""
        if len(self.values) <= MOST_VALUES:
            return ", ".join(self.values)
        close = nearest(category, self.values) or self.values[:MOST_VALUES]
        return f"{len(self.values)} values, such as {', '.join(close)}"


Column = Annotated[NumberColumn | CategoryColumn, Field(discriminator="kind")]


class TableReader(Config):
    """Turns rows into a model's input.

    A row is a mapping from the names of columns to values, a list of values in the order of the
    columns, or a line of text with commas between them.

    Example:
        >>> length = NumberColumn(name="length", mean=10.0, deviation=2.0)
        >>> colour = CategoryColumn(name="colour", values=("blue", "red"))
        >>> reader = TableReader(columns=(length, colour), target="price")
        >>> reader.collate(reader.read([{"colour": "red", "length": 13}, "8,blue"])).values.tolist()
        [[1.5, 0.0, 1.0], [-1.0, 1.0, 0.0]]
        >>> TableReader.from_spec(reader.model_dump(mode="json")) == reader
        True
    """

    modality: ClassVar[str] = "table"
    nouns: ClassVar[str] = "rows"
    key: ClassVar[str | None] = "row"
    has_grid: ClassVar[bool] = False
    dash_is_item: ClassVar[bool] = False

    reader: Literal["table"] = "table"
    columns: tuple[Column, ...] = Field(min_length=1)
    """The columns that are read, in their order."""
    target: str = ""
    """The name of the column that is predicted."""

    @model_validator(mode="after")
    def _check_names(self) -> TableReader:
        if len(set(self.names)) < len(self.columns):
            raise ValueError("two columns have the same name")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the numbers that a model reads of a row."""
        return tuple(name for column in self.columns for name in column.inputs)

    @classmethod
    def from_spec(cls, spec: Any) -> TableReader:
        """Build a reader from its parsed JSON.

        Raises:
            InputError: The JSON is damaged.
        """
        return checked(TypeAdapter(TableReader), spec, "tokenizer.json")

    def to_json(self) -> str:
        """Return the reader as JSON, as a checkpoint keeps it."""
        return self.model_dump_json()

    @classmethod
    def are_ids(cls, items: Any) -> bool:
        """False: a list of whole numbers is a row."""
        del items
        return False

    @classmethod
    def is_one(cls, what: str, items: Any, is_single: Callable[[Any], bool]) -> bool:
        """Whether this is one row, not several: a mapping, a line, or a list of plain values."""
        del what, is_single
        if isinstance(items, Mapping | str):
            return True
        if hasattr(items, "ndim"):
            return bool(items.ndim == 1)
        if not isinstance(items, Sequence) or not items:
            return False
        first = items[0]
        if isinstance(first, str):  # a cell; or a line, if there are several cells in it
            return "," not in first
        return not isinstance(first, Mapping) and not hasattr(first, "__len__")

    @classmethod
    def check(cls, what: str, items: Any, takes: Callable[[Any], bool]) -> None:
        """Nothing: rows are checked when they are read."""

    @classmethod
    def item(cls, line: Any, parse: Callable[[str], Any]) -> Any:
        """A row of a file as it is, or a line of values in the order of the columns."""
        del parse
        return line

    @classmethod
    def prepared_input(cls, values: Any) -> Dense:
        """Standardised numbers (rows, inputs) as a model's input."""
        import torch

        from regard.inputs.arrays import Dense

        numbers = torch.as_tensor(values)
        if numbers.ndim != 2 or not numbers.is_floating_point():
            shape = " x ".join(map(str, numbers.shape)) or "a number"
            expected = "real numbers, rows x inputs"
            raise InputError("logits", got=f"{shape} of {numbers.dtype}", expected=expected)
        return Dense(numbers.float())

    def files_in(self, arguments: list[Any], skip: Callable[[str], None]) -> list[Any]:
        """The arguments: a task that reads tables puts the rows in their place."""
        del skip
        return arguments

    def read(self, items: Sequence[Any], limit: int | None = None) -> list[Encoded]:
        """Read rows.

        Args:
            items: Mappings, lists of values, or lines of text.
            limit: Nothing is cut off.

        Raises:
            InputError: A value is missing, no number, or an unknown category.
        """
        del limit
        has_several = len(items) > 1
        return [
            Encoded(item, self._numbers(item, f"row {index + 1}" if has_several else "the row"))
            for index, item in enumerate(items)
        ]

    def header_in(self, line: str) -> list[str]:
        """The names in a line that has the names of columns, and what separates them, at the end.

        Nothing for a row of values.

        Raises:
            UserError: A column of the training data is not there.
        """
        for separator in ("\t", ";", ","):
            cells = [cell.strip() for cell in next(csv.reader([line], delimiter=separator), [])]
            if self.are_names(cells):
                missing = next((name for name in self.names if name not in cells), None)
                if missing is not None:  # an InputError would be about this line alone
                    error = self.missing_column_error("the first line", missing, cells)
                    raise UserError(error.what, got=error.got, expected=error.expected)
                return [*cells, separator]
        return []

    def are_names(self, cells: Sequence[str]) -> bool:
        """Whether cells are names of columns, not values, of which some may be called alike."""
        named = {cell.strip() for cell in cells} & {*self.names}
        if len(named) > len(self.columns) // 2:
            return True
        return bool(named) and all(number_in(cell) is None for cell in cells)

    @staticmethod
    def row_of(line: str, header: Sequence[str]) -> TableRow:
        """The row in a line below names of columns.

        Args:
            line: The line.
            header: What `header_in` has returned.

        Raises:
            InputError: It has another number of cells.
        """
        *names, separator = header
        cells = next(csv.reader([line], delimiter=separator), [])
        if len(cells) != len(names):
            expected = f"{len(names)}, as in the first line"
            raise InputError("the row", got=f"{len(cells)} values", expected=expected)
        return TableRow(zip(names, cells, strict=True))

    def collate(self, encoded: Sequence[Encoded]) -> Dense:
        """Rows as the model's input: (rows, inputs)."""
        import torch

        from regard.inputs.arrays import Dense

        rows = np.stack([row.values for row in encoded]).astype(np.float32)
        return Dense(torch.from_numpy(rows))

    def matrix(self, rows: Sequence[Any]) -> NDArray[np.float32]:
        """What a model reads of rows: (rows, inputs)."""
        numbers = [row.values for row in self.read(rows)]
        return np.array(numbers, np.float32).reshape(len(rows), len(self.inputs))

    def _numbers(self, item: Any, location: str) -> NDArray[np.float64]:
        """What a model reads of one row: (inputs,)."""
        location = getattr(item, "location", "") or location
        if problem := getattr(item, "problem", ""):
            raise InputError(problem)
        cells = item if isinstance(item, Mapping) else self._by_name(item, location)
        numbers: list[float] = []
        for column in self.columns:
            if column.name not in cells:
                raise self.missing_column_error(location, column.name, list(cells))
            cell, what = cells[column.name], f"{location}: column {column.name}"
            if is_missing(cell):
                got = "an empty cell" if not str(cell or "").strip() else f"{cell}, no value"
                expected = f"a {column.kind}"
                raise InputError(what, got=got, expected=expected, fix="fill it in")
            numbers += column.read(cell, what)
        return np.array(numbers)

    def _by_name(self, item: Any, location: str) -> dict[str, Any]:
        """The values of a list or a line, by the names of their columns."""
        if not isinstance(item, str) and not hasattr(item, "__len__"):
            raise InputError(location, got=repr(item), expected="a row: names and values")
        values = next(csv.reader([item]), []) if isinstance(item, str) else list(item)
        is_line, count = isinstance(item, str), len(values)
        if is_line and self.are_names(values):
            fix = "give the file as an argument: regard predict MODEL FILE"
            raise InputError(location, got="names of columns", expected="values", fix=fix)
        if count != len(self.columns):
            got = f"{count} value{'s' if count != 1 else ''}"
            expected = f"{len(self.columns)}: {', '.join(self.names)}"
            no_file = f"{item!r} is no file, or its name does not end in .csv or .tsv"
            fix = no_file if is_line and count == 1 else "write them in this order"
            raise InputError(location, got=got, expected=expected, fix=fix)
        return dict(zip(self.names, values, strict=True))

    def missing_column_error(self, what: str, name: str, names: Sequence[str]) -> InputError:
        """The error for rows that lack a column of the training data."""
        close = nearest(name, names)
        hint = f"is it {close[0]!r}? " if close else ""
        return InputError(
            what,
            got=f"no column {name}",
            expected=f"the columns of the training data: {', '.join(self.names)}",
            fix=f"{hint}the names are in the first line of the file",
        )


def _number_fix(cell: Any) -> str:
    """What to do about a cell that is no number."""
    if re.fullmatch(r"\s*[+-]?\d+,\d+\s*", str(cell)):
        return "write numbers with a decimal point, without separators of thousands"
    return "correct the cell"
