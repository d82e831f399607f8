"""The work of `regard data`: which data is meant, the reports about it, and some examples of it."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from regard.data import checks
from regard.data.config import (
    Column,
    Columns,
    FileData,
    ImagesData,
    LabelledData,
    TableData,
)
from regard.data.images.listing import has_captions, has_images
from regard.data.table.reading import is_table
from regard.data.text.annotations import READERS
from regard.data.text.arrow import splits_in
from regard.data.text.files import check, split_files
from regard.data.text.label_check import check_labelled
from regard.errors import InputError
from regard.recipes import recipe as recipes
from regard.runtime.printing import print_result

PAIRS_TASKS = ("translate", "rewrite")
TASKS = (*PAIRS_TASKS, *READERS, "predict")
"""The tasks whose data can be checked."""


def check_data(
    arguments: Sequence[str], task: str | None, max_words: int, *, as_json: bool, quiet: bool
) -> bool:
    """Prints a report about files, or about the data of a recipe.

    Args:
        arguments: Files or the name of a recipe, and columns such as `data.text=sentence`.
        task: What the files are for; None: found out.
        max_words: Sentences with more words are too long.
        as_json: Whether to print JSON.
        quiet: Whether to show no progress.

    Returns:
        Whether there are problems.
    """
    overrides = [word for word in arguments if word.startswith("data.") and "=" in word]
    names = [word for word in arguments if word not in overrides]
    if not names:
        raise InputError("data check", got="no file", expected="FILES, or a recipe")
    if task is not None and task not in TASKS:
        raise InputError("--task", got=task, expected=f"one of {', '.join(TASKS)}")
    if len(names) == 1 and _is_recipe(names[0]):
        return _check_recipe(recipes.load(names[0], overrides), as_json=as_json, quiet=quiet)
    columns = recipes.parse_columns(overrides)
    if len(names) == 1 and _is_of_numbers(names[0], columns, task):
        target, header = columns.named.get("target"), columns.header
        data = TableData(train=names[0], target=target, header=header)
        return _check_table(data, as_json=as_json)
    if len(names) == 1 and splits_in(names[0]) and not has_images(names[0]):
        return _check_folder(names[0], columns, task, max_words, as_json=as_json)
    report = _check_files(names, columns, task, max_words, quiet=quiet)
    print_result(report.describe(), asdict(report), as_json=as_json)
    return bool(report.is_bad)


def _check_files(
    names: Sequence[str], columns: Columns, task: str | None, max_words: int, *, quiet: bool
) -> Any:
    """Checks files of texts, or images."""
    if task == "predict" and len(names) == 1:
        return _check_images(names[0], columns, outputs=(), quiet=quiet)
    if len(names) == 1 and task is None and ("image" in columns.named or has_images(names[0])):
        captions = has_captions(names[0], columns)
        return _check_images(names[0], columns, captions=captions, quiet=quiet)
    texts = split_files(names)
    if isinstance(texts, str) and not Path(texts).exists() and not glob.glob(texts):  # noqa: PTH207
        expected = "a file of texts, or a folder or file of images"
        raise InputError(f"{texts}: no such file or folder", expected=expected)
    task = task or checks.guess_task(texts, columns)
    if task in PAIRS_TASKS:
        return check(texts, max_words, columns=columns)
    if not isinstance(texts, str):
        raise InputError(f"--task {task}", got="two files", expected="one file with labels")
    return check_labelled(texts, task, columns)


def _check_recipe(recipe: Any, *, as_json: bool, quiet: bool) -> bool:
    """Prints a report about each split of a recipe's data; returns whether there are problems."""
    data = recipe.data
    if isinstance(data, ImagesData):
        table, captions = data.folder or data.file or "", recipe.task == "caption"
        outputs = data.outputs if recipe.task == "predict" else None
        report = _check_images(table, data.columns, captions=captions, outputs=outputs, quiet=quiet)
        print_result(report.describe(), asdict(report), as_json=as_json)
        return bool(report.is_bad)
    checks.check_files(data)
    if isinstance(data, TableData):
        return _check_table(data, as_json=as_json)
    if not isinstance(data, FileData | LabelledData):
        got, expected = f"data.kind: {data.kind}", "pairs or labels from files"
        raise InputError("data check", got=got, expected=expected)
    return _check_splits(data, recipe.task, as_json=as_json)


def _check_folder(
    table: str, columns: Columns, task: str | None, max_words: int, *, as_json: bool
) -> bool:
    """Prints a report about each split of a dataset folder."""
    task = task or checks.guess_task(next(iter(splits_in(table).values())), columns)
    data_class = FileData if task in PAIRS_TASKS else LabelledData
    if unknown := columns.named.keys() - {*data_class.COLUMNS}:
        expected = f"one of {', '.join(data_class.COLUMNS)} for --task {task}"
        raise InputError("the column that is named", got=f"data.{min(unknown)}", expected=expected)
    settings: dict[str, Any] = {**columns.named, "header": columns.header, "train": table}
    settings |= {"max_words": max_words} if data_class is FileData else {}
    return _check_splits(data_class(**settings), task, as_json=as_json)


def _check_splits(data: FileData | LabelledData, task: str, *, as_json: bool) -> bool:
    """Prints a report about each split; returns whether there are problems."""
    reports = checks.reports(data, task)
    copies = {split: count for split, count in checks.overlaps(data, task).items() if count}
    for split, report in reports.items():
        row = {"split": split, **asdict(report), "also_in_train": copies.get(split, 0)}
        print_result(f"{split}:\n{report.describe()}", row, as_json=as_json)
    if not as_json:
        for split, count in copies.items():
            print_result(f"{count} of {split} are training examples, too", as_json=False)
    return bool(copies) or any(report.is_bad for report in reports.values())


def _is_of_numbers(name: str, columns: Columns, task: str | None) -> bool:
    """Whether a file is a table of numbers and categories, with a column to predict."""
    if task != "predict" or not is_table(name) or "image" in columns.named:
        return False
    return "target" in columns.named or not (Path(name).exists() and has_images(name))


def _check_table(data: TableData, *, as_json: bool) -> bool:
    """Prints a report about a table; returns whether there are problems."""
    from regard.data.table.check import check_table

    report = check_table(data)
    print_result(report.describe(), asdict(report), as_json=as_json)
    return report.is_bad


def _check_images(
    table: str,
    columns: Columns,
    *,
    captions: bool = False,
    outputs: Sequence[Column] | None = None,
    quiet: bool,
) -> Any:
    """Checks a folder or table of images, with a progress bar."""
    from regard.data.images.check import check_images
    from regard.runtime.progress import Progress

    with Progress(1.0, quiet=quiet, at_once=False) as bar:

        def show(done: int, of: int) -> None:
            bar.update_to(done / of, f"{done:,} of {of:,} images")

        return check_images(table, show, columns, captions=captions, outputs=outputs)


def _is_recipe(name: str) -> bool:
    """Whether an argument names a recipe: a YAML file, or no file and like `tiny/translate`."""
    if Path(name).suffix in (".yaml", ".yml"):
        return True
    # a misspelt name, too: the error about it has the nearest recipes
    is_name = re.fullmatch(r"[\w-]+/[\w-]+", name) is not None
    return not Path(name).exists() and (name in recipes.shipped() or is_name)


def labelled_lines(recipe: Any, split: str, count: int) -> Iterator[str]:
    """Yields the first examples of a recipe's labelled data: texts and labels, with tabs between.

    Args:
        recipe: The recipe.
        split: train, valid or test.
        count: How many.
    """
    from regard.data.text.labelled import load_labelled

    splits = load_labelled(recipe.data, recipe.task)
    sets_by_name = {"train": splits.train, "valid": splits.valid, **splits.tests}
    if split not in sets_by_name:
        raise InputError("--split", got=split, expected=f"one of {', '.join(sets_by_name)}")
    for example in sets_by_name[split][:count]:
        answers = [answer.text for answer in getattr(example, "answers", ())]
        cells = (*example.texts, " ".join(getattr(example, "labels", answers)))
        yield "\t".join(cell.replace("\t", " ").replace("\n", " ") for cell in cells)


def row_lines(data: Any, split: str, count: int) -> Iterator[str]:
    """Yields the first rows of a recipe's table as a model reads them, and what is predicted.

    Args:
        data: The recipe's data.
        split: train, valid or test.
        count: How many.
    """
    from regard.data.table.sources import load_table

    splits = load_table(data)
    sets_by_name = {"train": splits.train, "valid": splits.valid, **splits.tests}
    if split not in sets_by_name:
        raise InputError("--split", got=split, expected=f"one of {', '.join(sets_by_name)}")
    rows = sets_by_name[split][:count]
    yield "\t".join([*splits.reader.inputs, splits.reader.target])
    for index, inputs in enumerate(rows.inputs):
        target = rows.labels[index] if rows.numbers is None else f"{rows.numbers[index, 0]:g}"
        yield "\t".join([*(f"{number:.3g}" for number in inputs.tolist()), target])
