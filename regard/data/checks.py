"""The `data:` section of a recipe -> what should be known about its data before a training.

In: a recipe's data and task. Out: a report for each split, as `regard data check` prints them, or
one line about what is worth a look, as `regard train` prints before it begins. An error if a file
is missing, with the key to add.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from regard.data.config import (
    Columns,
    FileData,
    ImagesData,
    LabelledData,
    MixtureData,
    TableData,
    TextData,
)
from regard.data.images.listing import list_in
from regard.data.images.numbered import describe_numbered
from regard.data.table.columns import plan_table
from regard.data.text import arrow, files, label_check, tables
from regard.data.text.annotations import READERS
from regard.data.text.documents import TextFiles, find_files, training_files
from regard.data.text.pairs import Pair
from regard.data.text.records import Problem
from regard.data.text.roles import CAPTIONS, IMAGES, PAIRS, Layout
from regard.data.text.splits import files_of_splits
from regard.errors import InputError, nearest

EXAMPLES_CHECKED = 50_000
"""How many examples of a split are looked through before a training."""
SUSPICIOUS = (files.SWAPPED, *label_check.SUSPICIOUS)
"""Problems of usable examples. All others are errors, or are counted, when the data is read."""


TASKS: dict[str, Layout] = {**label_check.LAYOUTS, "translate": PAIRS}


def guess_task(table: str | tuple[str, str], columns: Columns) -> str:
    """Guess which task a file is for by its named columns, else by the names in it.

    Pairs are the usual data: a file without names is taken for them.
    """
    if not isinstance(table, str):
        return "translate"
    if table.lower().removesuffix(".gz").endswith(".json"):
        return "answer"
    for task, layout in TASKS.items():
        if {*columns.named} & {role.key for role in layout.roles}:
            return task
    if not tables.is_table(table):
        return "translate"
    names = tables.names_of(table, columns, "a table")
    for task, layout in label_check.LAYOUTS.items():
        if all(any(role.fits(name) for name in names) for role in layout.required):
            return task
    return "translate"


def check_files(data: Any) -> None:
    """Raise an error for a file that a recipe names and that does not exist.

    Raises:
        InputError: It names the key of the recipe.
    """
    for key in ("train", "valid", "test", "files"):
        value = getattr(data, key, None) or ()
        for name in (value,) if isinstance(value, str) else value:
            if not Path(name).exists() and not glob.glob(name, recursive=True):  # noqa: PTH207
                fix = _file_fix(f"data.{key}", Path(name))
                raise InputError(f"data.{key}", got=f"{name}: no such file", fix=fix)
    for name, part in getattr(data, "parts", {}).items():
        try:
            check_files(part)
        except InputError as error:
            what = error.what.replace("data.", f"data.parts.{name}.")
            raise InputError(what, got=error.got, fix="name your own file there") from None


def _file_fix(key: str, path: Path) -> str:
    """What to do about a missing file: name another one, such as one with a similar name."""
    if not path.parent.is_dir():
        return f"there is no folder {path.parent} either; paths start where the command is run"
    names = [entry.name for entry in path.parent.iterdir() if not entry.name.startswith(".")]
    for similar_name in nearest(path.name, names)[:1]:
        return f"did you mean {key}={path.parent / similar_name}?"
    return f"add {key}=FILE with your own data"


def reports(data: FileData | LabelledData, task: str) -> dict[str, Any]:
    """Check the files of each split.

    Args:
        data: The `data:` section.
        task: The recipe's task.

    Returns:
        By split, a `files.Report` of pairs or a `LabelReport`.
    """
    return {split: _report(data, task, table) for split, table in files_of_splits(data).items()}


def _report(data: FileData | LabelledData, task: str, table: Any, limit: int | None = None) -> Any:
    """Check the files of one split, or their first examples."""
    if isinstance(data, FileData):
        return files.check(table, data.max_words, columns=data.columns, limit=limit)
    return label_check.check_labelled(table, task, data.columns, limit=limit)


def overlaps(data: Any, task: str, limit: int | None = None) -> dict[str, int]:
    """Count the examples of each other split that are training examples, too."""
    if not isinstance(data, FileData | LabelledData):
        return {}
    names = files_of_splits(data)
    train = set(_keys(names.pop("train"), data, task, limit))
    return {
        split: sum(key in train for key in _keys(table, data, task, limit))
        for split, table in names.items()
    }


def _keys(table: Any, data: FileData | LabelledData, task: str, limit: int | None) -> Iterator[int]:
    """Yield a hash of the input of each example."""
    if isinstance(data, FileData):
        rows: Iterator[Any] = files.read_pairs(table, data.max_words, data.columns)
    else:
        rows = READERS[task](table, data.columns)
    for row in islice(rows, limit):
        if not isinstance(row, Problem):
            yield hash(row if isinstance(row, Pair) else label_check.example_key(row))


def summary(data: Any, task: str) -> str:
    """Say in one line what is worth a look in a recipe's data; nothing if all is as usual.

    Raises:
        InputError: A file is missing or cannot be read, or it is not clear which column is what.
    """
    check_files(data)
    parts = [*_column_descriptions(data, task)]
    if isinstance(data, FileData | LabelledData):
        train, *other_tables = files_of_splits(data).values()
        report = _report(data, task, train, EXAMPLES_CHECKED)
        parts += [report.columns, *_oddities(report)]
        parts += [_columns_of(data, task, table) for table in other_tables]
    if isinstance(data, LabelledData):  # of pairs, the task itself says so
        parts += [
            f"{count} examples of {split} are training examples, too"
            for split, count in overlaps(data, task, EXAMPLES_CHECKED).items()
            if count
        ]
    return "; ".join(dict.fromkeys(filter(None, parts)))


def _columns_of(data: FileData | LabelledData, task: str, table: Any) -> str:
    """Say which columns of a split are read, if that was found out; else nothing."""
    if isinstance(data, FileData):
        return files.describe_columns(table, data.columns)
    return label_check.describe_labelled(table, task, data.columns)


def _oddities(report: Any) -> Iterator[str]:
    """Yield what is odd about usable training examples, with counts."""
    if report.duplicates:
        yield f"duplicates: {report.duplicates}"
    for what, count in report.problems.items():
        if what == label_check.ONCE:
            once = [label for label, times in report.labels.items() if times == 1]
            yield f"{what}: {', '.join(once[:3])}{'' if count < 4 else f' and {count - 3} more'}"
        elif what in SUSPICIOUS:
            yield f"{what}: {count}"


def _column_descriptions(data: Any, task: str) -> Iterator[str]:
    """Describe the columns of tables without a report of their own, where they were found out."""
    if isinstance(data, TableData):
        yield plan_table(data).describe()
    elif isinstance(data, MixtureData):
        for part in data.parts.values():
            if part.train is not None:
                yield files.describe_columns(part.train, part.columns)
    elif isinstance(data, TextData):
        train, valid = training_files(data.files, data.valid)
        texts = TextFiles(find_files([*train, *valid]), columns=data.columns)
        yield from texts.describe()
    elif isinstance(data, ImagesData):
        yield from _image_columns(data, task)


def _image_columns(data: ImagesData, task: str) -> Iterator[str]:
    """Describe the columns of a table of images: classes, captions or numbers."""
    table, layout = data.folder or data.file or "", IMAGES
    if task == "predict":
        yield describe_numbered(table, data.outputs, data.columns)
        return
    if task == "caption":
        table, layout = list_in(table), CAPTIONS
    if Path(table).exists():  # the error for a missing file comes when images are read
        for split in arrow.splits_in(table).values() or [table]:
            yield tables.describe_columns(split, layout, data.columns, "images")
