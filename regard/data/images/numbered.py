"""A table of images with numbers, or a folder that has one -> which images there are.

A row has the path of an image, relative to the table, and a column for each number to predict.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.data.config import ALL_FOUND, Column, Columns
from regard.data.images.listing import (
    ImageFile,
    Listing,
    escape_controls,
    merge_listings,
    name_and_source,
)
from regard.data.text import arrow, records, tables
from regard.data.text.arrow import SPLITS
from regard.data.text.columns import find_column, names_text
from regard.data.text.records import Problem
from regard.data.text.roles import CAPTIONS, IDS, Layout, Role, fold
from regard.errors import InputError
from regard.inputs.table.reader import is_missing, number_in

TABLES = (
    "outputs.csv",
    "outputs.tsv",
    "outputs.jsonl",
    "numbers.csv",
    "metadata.csv",
    "metadata.jsonl",
)
"""Files that list the images of a folder with their numbers."""
NO_NUMBER = {"-", "none"}
"""What stands in a cell without a number, too, in lower case: in a column of categories it could be
one of them."""
EXPECTED = "images and numbers"
FIX = "a table has a column of paths and a column for each number: data.file=TABLE.csv"
MOST_COLUMNS = 10_000
"""The most numbers of an image."""


def find_numbered(
    path: str, outputs: Sequence[Column] = (), columns: Columns = ALL_FOUND
) -> Listing:
    """List the images of a table, with the numbers to predict from each.

    Args:
        path: A table (`.csv`, `.tsv`, `.jsonl`, `.parquet`, a dataset folder), or a folder that has
            one of `TABLES`.
        outputs: The columns of the numbers; none: all but those of paths, splits and row numbers.
        columns: Which column has the paths.

    Raises:
        InputError: It does not exist, a column is missing, or a cell is no number.
    """
    path = table_of(path)
    parts = (arrow.splits_in(path) if arrow.is_table(path) else {}) or {"": path}
    listings: dict[str, Listing] = {}
    for split, part in parts.items():  # the first decides which numbers there are
        listings[split] = _list_table(part, outputs, columns)
        outputs = outputs or listings[split].outputs
    listing = merge_listings(listings)
    if not listing.files:
        got = f"no image with all numbers; {len(listing.problems)} without"
        raise InputError(path, got=got, expected=EXPECTED, fix=FIX)
    listing.files[:] = map(escape_controls, listing.files)
    return listing


def describe_numbered(path: str, outputs: Sequence[Column], columns: Columns) -> str:
    """Say which columns are the numbers to predict, if that was found out; else nothing.

    Args:
        path: As for `find_numbered`.
        outputs: The columns that are named.
        columns: Which column has the paths.
    """
    if outputs or not Path(path).exists():  # the error for a missing file comes when it is read
        return ""
    names = names_text(numbers_in(path, columns))
    return f"numbers to predict: {names} (data.outputs=[A,B]: these alone)"


def numbers_in(path: str, columns: Columns = ALL_FOUND) -> tuple[str, ...]:
    """Return the names of all columns of numbers of a table, or of a folder's.

    Args:
        path: As for `find_numbered`.
        columns: Which column has the paths.
    """
    return _columns_of(table_of(path), (), columns)[2]


def table_of(path: str) -> str:
    """The table of a folder, or a table itself.

    Raises:
        InputError: It does not exist, the folder has none, or the file is none.
    """
    location = Path(path)
    if not location.exists() and not glob.glob(path):  # noqa: PTH207 (a pattern of Parquet files)
        what = f"{path}: no such file or folder"
        raise InputError(what, expected=EXPECTED, fix=FIX)
    if location.is_dir() and not arrow.is_table(path):
        in_folder = [location / name for name in TABLES if (location / name).is_file()]
        if not in_folder:
            expected = f"a table in it: {', '.join(TABLES[:3])}"
            raise InputError(path, got="a folder without a table", expected=expected, fix=FIX)
        path = str(in_folder[0])
    if not tables.is_table(path.lower()) and not arrow.is_table(path):
        expected = f"{EXPECTED}: .csv, .tsv, .jsonl, .parquet, or a folder with one"
        raise InputError(path, got="another kind of file", expected=expected, fix=FIX)
    return path


def _list_table(table: str, outputs: Sequence[Column], columns: Columns) -> Listing:
    """Read one table."""
    layout, named, names = _columns_of(table, outputs, columns)
    listing, path = Listing(outputs=names), Path(table)
    folder = path if path.is_dir() else path.parent
    for number, row in tables.read_rows(table, layout, named, dict, EXPECTED):
        where = f"{table}:{number}"
        if isinstance(row, Problem):
            if row.what == records.EMPTY:
                continue
            raise InputError(str(row), expected=f"a path and {len(names)} numbers")
        name, source = name_and_source(row.get("image"), folder, number)
        if not name:
            raise InputError(where, got="no path", expected="the path of an image")
        values = [_number(row.get(_role(i)), where, output) for i, output in enumerate(names)]
        numbers = tuple(value for value in values if value is not None)
        if len(numbers) < len(names):
            missing = names[values.index(None)]
            problem = f"no number for {missing}: fill it in, or leave the row out"
            listing.problems[f"{name}, line {number}"] = problem
            continue
        split = str(row.get("split") or "").lower()
        if split and split not in SPLITS:
            raise InputError(f"{where}: split", got=split, expected="train, valid or test")
        file = ImageFile(name, source, "", SPLITS.get(split, ""), line=number, numbers=numbers)
        listing.files.append(file)
    return listing


def _columns_of(
    table: str, outputs: Sequence[Column], columns: Columns
) -> tuple[Layout, Columns, tuple[str, ...]]:
    """The layout of a table, its columns by role, and the names of its numbers."""
    if columns.header is False:
        expected = "names of the columns in the first line: they name the numbers"
        raise InputError(f"{table}: data.header: false", expected=expected)
    header = True if records.has_suffix(table, *tables.CELLS) else None
    names = list(tables.names_of(table, Columns(header=header), EXPECTED))
    image_role, split_role = CAPTIONS["image"], CAPTIONS["split"]
    named: dict[str, Column] = {
        role: column for role, column in columns.named.items() if role == "image"
    }
    split = next((name for name in names if fold(name) == "split"), None)
    if split is not None:
        named["split"] = split
    if outputs:
        indices = [find_column(table, names, "outputs", output) for output in outputs]
    else:
        image = None
        if "image" in named:
            image = find_column(table, names, "image", named["image"])
        others = {"split", *IDS}
        indices = [
            index
            for index, name in enumerate(names)
            if not (image_role.fits(name) if image is None else index == image)
            and fold(name) not in others
        ]
    chosen = tuple(names[index] for index in indices)
    twice = next((name for name in chosen if chosen.count(name) > 1), None)
    if twice is not None:
        what = f"{table}: columns of numbers"
        raise InputError(what, got=f"{twice} twice", expected="each once: data.outputs=[a,b]")
    if "image" not in named and not any(map(image_role.fits, names)):
        what = f"{table} has the columns {names_text(names)}, but none of paths"
        raise InputError(what, fix="name it, as data.image=FILE")
    if not 0 < len(chosen) <= MOST_COLUMNS:
        got = f"{len(chosen)} beside the paths: {names_text(names)}"
        raise InputError(f"{table}: columns of numbers", got=got, expected="some", fix=FIX)
    roles = [Role(_role(i), (), is_text=False) for i in range(len(chosen))]
    named |= {_role(i): name for i, name in enumerate(chosen)}
    layout = Layout((image_role, split_role, *roles), strips=True)
    return layout, Columns(named, header), chosen


def _role(number: int) -> str:
    """The name of the role of a number."""
    return f"output {number}"


def _number(value: Any, where: str, column: str) -> float | None:
    """The number in a cell; None if there is none.

    Raises:
        InputError: There is something else.
    """
    if is_missing(value) or str(value).strip().lower() in NO_NUMBER:
        return None
    number = number_in(value)
    if number is None:
        with_comma = isinstance(value, str) and re.fullmatch(r"[+-]?\d+,\d+", value.strip())
        columns_fix = "correct the cell, or name the columns that are numbers: data.outputs=[a,b]"
        fix = "write it with a point: 3.5" if with_comma else columns_fix
        got = repr(value)[:60]
        raise InputError(f"{where}: column {column}", got=got, expected="a number", fix=fix)
    return number
