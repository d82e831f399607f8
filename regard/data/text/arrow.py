"""Parquet files and folders of Hugging Face `datasets` -> their rows, in batches.

In: a `.parquet` or `.arrow` file, a pattern of such files, or what `save_to_disk` wrote: a folder
of Arrow files for each split. Out: rows as values by column, read a few at a time. Only pyarrow is
needed, and no code of a folder is run. The integers of a `ClassLabel` become its names.
"""

from __future__ import annotations

import glob
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.runtime.files import read_json

SUFFIXES = (".parquet", ".arrow")
AT_ONCE = 256
"""Rows that are converted at once; a row may be a whole document."""
SPLITS = {"train": "train", "training": "train", "valid": "valid", "val": "valid", "dev": "valid",
          "validation": "valid", "test": "test", "testing": "test"}  # fmt: skip
"""Names of splits (of folders, files, and in a column `split`) -> the split that they mean."""
MOST_INFO = 2**24
"""The most bytes of a JSON file beside the data."""
_BYTES = re.compile(r"\b(large_)?binary\b")
_NO_TEXT = re.compile(rf"{_BYTES.pattern}|\b(timestamp|duration|time\d\d|date\d\d)\b")
"""Types of columns that no task reads. Not every time has a value in Python."""

Names = dict[str, list[str]]
"""Names of classes, by column; the index of a name is the number in the data."""


def is_table(table: str) -> bool:
    """Whether a name is that of a Parquet or Arrow file, a pattern of them, or a dataset folder."""
    return table.lower().endswith(SUFFIXES) or is_dataset(table)


def is_dataset(table: str) -> bool:
    """Whether a folder was written by `save_to_disk`, or holds Parquet files and no texts."""
    path = Path(table)
    if not path.is_dir():
        return False
    if any((path / name).is_file() for name in ("dataset_dict.json", "state.json")):
        return True
    return bool(_files_in(path))


def splits_in(table: str) -> dict[str, str]:
    """Find the splits of a folder: train, valid and test -> what to read for each.

    Of a single table, or of what is no folder of tables at all, there are none.
    """
    path = Path(table)
    if not path.is_dir():
        return {}
    if (path / "dataset_dict.json").is_file():
        names = read_json(path / "dataset_dict.json", MOST_INFO).get("splits")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise InputError(f"{path / 'dataset_dict.json'}", got="no list of splits")
        return {
            SPLITS[name]: str(path / name) for name in names
            if name in SPLITS and (path / name).is_dir()
        }  # fmt: skip
    if (path / "state.json").is_file():
        return {}
    files: dict[str, str] = {}
    for file in _files_in(path):
        name = re.split(r"[-.]", file.name)[0]
        if name not in SPLITS:
            return {}
        parts = f"{glob.escape(str(file.parent / name))}[-.]*{file.suffix}"
        files[SPLITS[name]] = str(file) if file.stem == name else parts
    return files


def split_to_score(table: str) -> str:
    """Return the test split of a dataset folder, else its validation split; else the table."""
    splits = splits_in(table)
    return splits.get("test") or splits.get("valid") or table


def shards(table: str) -> list[Path]:
    """List the files of a table, in order.

    Raises:
        InputError: There are none; or a folder has several splits, of which one must be named.
    """
    path = Path(table)
    if path.is_file():
        return [path]
    if path.is_dir():
        splits = splits_in(table)
        if splits:
            first = next(iter(splits.values()))
            got = f"a dataset with the splits {', '.join(splits)}"
            raise InputError(table, got=got, expected="one of them", fix=f"name it: {first}")
        files = _files_in_state(path) if (path / "state.json").is_file() else _files_in(path)
    else:
        files = sorted(Path(name) for name in glob.glob(table))  # noqa: PTH207 (any folder)
    if not files:
        raise InputError(table, got="no such file", expected="a Parquet file or a dataset folder")
    return files


def column_names(table: str) -> dict[str, list[str]]:
    """Read the names of the columns; for a column of objects, with the names of their keys."""
    path = shards(table)[0]
    schema, _ = _open_file(path)
    try:
        twice = [name for name in schema.names if schema.names.count(name) > 1]
        if twice:
            got = f"several columns called {twice[0]}"
            raise InputError(str(path), got=got, expected="a name for each")
        return {
            field.name: [child.name for child in field.type] if _is_object(field.type) else []
            for field in schema
        }
    except _reading_errors() as problem:  # a name that is not UTF-8
        raise _damage_error(path, problem) from None


def rows(table: str, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table as values by column.

    Args:
        table: A file, a pattern, or a folder.
        columns: The top-level columns to read; None: all but images, other bytes and times.

    Raises:
        InputError: A file is damaged, or the files have different columns.
    """
    for path in shards(table):
        schema, batches = _open_file(path)
        names = [n for n in schema.names if not _NO_TEXT.search(str(schema.field(n).type))] if (
            columns is None
        ) else list(columns)  # fmt: skip
        missing = [name for name in names if name not in schema.names]
        if missing:
            got = f"no column {missing[0]}, which {shards(table)[0]} has"
            raise InputError(str(path), got=got, expected="the same columns in all files")
        labels = _class_names(schema)
        try:
            for batch in batches(names):
                for row in batch.to_pylist():
                    yield {key: _label_names(value, labels.get(key)) for key, value in row.items()}
        except _reading_errors() as problem:
            raise _damage_error(path, problem) from None


def _label_names(value: Any, names: list[str] | None) -> Any:
    """Class number, or list of them -> its name from `names`; unchanged if `names` is None."""
    if names is None or value is None:
        return value
    if isinstance(value, list):
        return [_label_names(item, names) for item in value]
    has_name = isinstance(value, int) and 0 <= value < len(names)
    return names[value] if has_name else None  # -1 stands for a hidden label


Batches = Callable[[list[str]], Iterator[Any]]
"""Names of columns -> batches of rows with these columns."""


def _open_file(path: Path) -> tuple[Any, Batches]:
    """Open a file: its schema, and a function that reads it in batches."""
    pyarrow = _pyarrow(path)
    try:
        if path.name.lower().endswith(".parquet"):
            from pyarrow import parquet

            file = parquet.ParquetFile(path, memory_map=True)
            return file.schema_arrow, lambda columns: file.iter_batches(AT_ONCE, columns=columns)
        with pyarrow.memory_map(str(path)) as source:
            schema = _arrow_reader(pyarrow, source).schema
    except _reading_errors() as problem:
        raise _damage_error(path, problem) from None
    return schema, lambda columns: _arrow_batches(pyarrow, path, columns)


def _arrow_batches(pyarrow: Any, path: Path, columns: list[str]) -> Iterator[Any]:
    """Yield the rows of an Arrow file, at most `AT_ONCE` in a batch."""
    with pyarrow.memory_map(str(path)) as source:
        reader = _arrow_reader(pyarrow, source)
        is_file = hasattr(reader, "get_batch")  # a stream yields its batches itself
        batches = map(reader.get_batch, range(reader.num_record_batches)) if is_file else reader
        for record_batch in batches:
            batch = record_batch.select(columns)
            batch.validate(full=True)  # offsets that lead out of the file would be followed
            for start in range(0, batch.num_rows, AT_ONCE):
                yield batch.slice(start, AT_ONCE)


def _arrow_reader(pyarrow: Any, source: Any) -> Any:
    """Open Arrow's format of streams, which `datasets` writes, or that of files."""
    is_file = source.read(6) == b"ARROW1"
    source.seek(0)
    return pyarrow.ipc.open_file(source) if is_file else pyarrow.ipc.open_stream(source)


def _class_names(schema: Any) -> Names:
    """Read the names of classes that `datasets` wrote into a schema."""
    try:
        info = json.loads((schema.metadata or {})[b"huggingface"])
        features = info["info"]["features"].items()
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
        return {}
    names: Names = {}
    for column, feature in features:
        inner = feature.get("feature", feature) if isinstance(feature, dict) else feature
        classes = inner.get("names") if isinstance(inner, dict) else None
        if isinstance(classes, list) and all(isinstance(name, str) for name in classes):
            names[column] = classes
    return names


def _files_in(folder: Path) -> list[Path]:
    """List the Parquet files of a folder and of its `data` folder, unless it has texts, too."""
    files = sorted(folder.glob("*.parquet")) or sorted(folder.glob("data/*.parquet"))
    texts = any(folder.glob("*.txt*")) or any(folder.glob("*.jsonl*"))
    return [] if texts else files


def _files_in_state(folder: Path) -> list[Path]:
    """List the Arrow files that a `state.json` names; none of them may lie elsewhere."""
    state = read_json(folder / "state.json", MOST_INFO)
    if state.get("_indices_data_files") or state.get("_indices_files"):
        got = "a dataset with indices, written by an old version"
        raise InputError(str(folder), got=got, fix="save it again: load_from_disk, save_to_disk")
    try:
        names = [entry["filename"] for entry in state["_data_files"]]
    except (KeyError, TypeError):
        names = [path.name for path in sorted(folder.glob("*.arrow"))]
    for name in names:
        if not isinstance(name, str) or name != Path(name).name:
            got = f"the file name {name!r}"
            raise InputError(str(folder / "state.json"), got=got, expected="files of the folder")
        if not (folder / name).is_file():
            raise InputError(str(folder / name), got="no such file", expected="a part of the data")
    return [folder / name for name in names]


def _is_object(kind: Any) -> bool:
    return str(kind).startswith("struct<") and not _BYTES.search(str(kind))


def _pyarrow(path: Path) -> Any:
    """Import pyarrow; an error that names the extra if it is not installed."""
    try:
        import pyarrow
        import pyarrow.ipc
    except ImportError:
        raise InputError(
            str(path),
            got="no pyarrow to read it with",
            expected="the extra tables",
            fix="pip install 'regard[tables]'",
        ) from None
    return pyarrow


def _reading_errors() -> tuple[type[Exception], ...]:
    """What reading a damaged file can raise."""
    try:
        from pyarrow import ArrowException
    except ImportError:
        return (OSError,)
    return ArrowException, OSError, ValueError, OverflowError  # times that Python does not have


def _damage_error(path: Path, problem: Exception) -> InputError:
    """Return the error for a file that cannot be read."""
    reason = str(problem).partition("\n")[0]
    expected = "a whole Parquet or Arrow file"
    return InputError(f"{path} cannot be read", got=reason, expected=expected)
