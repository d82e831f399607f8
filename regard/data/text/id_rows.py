"""Lists of token ids in flat arrays, in memory or, of many examples, in files of the cache.

In: blocks of examples and a function that encodes them. Out: for each column, such as source and
target, an `IdRows`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.text.cache import finish, key_of, new_folder
from regard.data.text.examples import Examples, Item, blocks_of, progress
from regard.data.text.ranges import Ranges
from regard.runtime.files import cache_folder, write_synced

VERSION = 1
"""Version of the cache's file format; it is part of the cache key."""
PROGRESS_FROM = 2**16
"""Examples from which on the progress is shown while they are encoded."""

Lists = Sequence[Sequence[int]]
Columns = Mapping[str, np.dtype[Any]]
"""The name and type of each column."""
Flat = tuple[NDArray[Any], NDArray[np.int64]]
"""Lists as one array, and the size of each."""


@dataclass(frozen=True, eq=False)
class IdRows:
    """Lists of whole numbers, concatenated in one array, which may be a memory-mapped file.

    Example:
        >>> rows = IdRows.of([[5, 6], [], [7]])
        >>> rows[0], rows.sizes.tolist(), rows.ranges(np.array([2, 0])).indices().tolist()
        ([5, 6], [2, 0, 1], [2, 0, 1])
    """

    values: NDArray[Any]
    ends: NDArray[np.int64]
    """(rows,) Where each list ends in `values`."""

    @classmethod
    def of(cls, rows: Lists, kind: Any = np.int32) -> IdRows:
        """Concatenate lists in memory."""
        values, sizes = _flatten(rows, np.dtype(kind))
        return cls(values, np.cumsum(sizes))

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, row: int) -> list[int]:
        start = self.ends[row - 1] if row else 0
        return self.values[start : self.ends[row]].tolist()

    @property
    def sizes(self) -> NDArray[np.int32]:
        """(rows,) The length of each list."""
        sizes = np.empty(len(self), dtype=np.int32)
        sizes[:1] = self.ends[:1]
        np.subtract(self.ends[1:], self.ends[:-1], out=sizes[1:], casting="unsafe")
        return sizes

    def ranges(self, index: NDArray[np.int64]) -> Ranges:
        """Return the ranges of some lists in `values`."""
        starts = np.where(index > 0, self.ends[index - 1], 0)
        return Ranges(starts, self.ends[index] - starts)


def id_type(vocab: int) -> np.dtype[Any]:
    """Return the smallest type of the ids of a vocabulary."""
    return np.dtype(np.uint16 if vocab <= 2**16 else np.uint32)


def encode(
    examples: Sequence[Item],
    encode_block: Callable[[list[Item]], Sequence[Lists]],
    columns: Columns,
    depends_on: Callable[[], dict[str, Any]],
) -> list[IdRows]:
    """Encode examples block by block; those in a file into files, or open these from the cache.

    Args:
        examples: All examples.
        encode_block: Some examples -> the lists of each column.
        columns: The columns.
        depends_on: Computes all that the ids depend on beside the examples, as JSON.

    Raises:
        WriteError: If the ids cannot be written; no partial files are left.
    """
    blocks = _encode_blocks(examples, encode_block)
    if not isinstance(examples, Examples):
        return _rows_in_memory(blocks, columns)
    names = {name: kind.name for name, kind in columns.items()}
    key = {"version": VERSION, "columns": names, **examples.depends_on, **depends_on()}
    folder = cache_folder() / "ids" / key_of(key)
    stored = _open_columns(folder, columns)
    if stored is None:
        state = "the examples are not encoded; no partial files are left"
        new = new_folder(folder, lambda path: _open_columns(path, columns) is not None, state)
        with new as temporary:
            _write_columns(temporary, blocks, columns)
        stored = _open_columns(folder, columns)
    assert stored is not None
    return stored


def _encode_blocks(
    examples: Sequence[Item], encode_block: Callable[[list[Item]], Sequence[Lists]]
) -> Iterator[Sequence[Lists]]:
    """Encode examples block by block; of many, show the progress."""
    done = 0
    with progress(len(examples), quiet=len(examples) < PROGRESS_FROM) as bar:
        for block in blocks_of(examples):
            yield encode_block(block)
            done += len(block)
            bar.update_to(done, f"{done:,} of {len(examples):,} examples encoded")


def _rows_in_memory(blocks: Iterable[Sequence[Lists]], columns: Columns) -> list[IdRows]:
    """Concatenate the lists of all blocks, column by column."""
    parts = [[_flatten([], kind)] for kind in columns.values()]
    for block in blocks:
        for part, rows, kind in zip(parts, block, columns.values(), strict=True):
            part.append(_flatten(rows, kind))
    joined = []
    for part in parts:
        values, sizes = (np.concatenate(arrays) for arrays in zip(*part, strict=True))
        joined.append(IdRows(values, np.cumsum(sizes)))
    return joined


def _write_columns(folder: Path, blocks: Iterable[Sequence[Lists]], columns: Columns) -> None:
    """Write the lists of blocks into the files of a folder: ids, and where each list ends."""
    value_counts = dict.fromkeys(columns, 0)
    with ExitStack() as stack:
        files = {
            (name, end): stack.enter_context((folder / f"{name}.{end}").open("wb"))
            for name in columns
            for end in ("ids", "ends")
        }
        for block in blocks:
            for (name, kind), rows in zip(columns.items(), block, strict=True):
                values, sizes = _flatten(rows, kind)
                files[name, "ids"].write(values.tobytes())
                files[name, "ends"].write((value_counts[name] + np.cumsum(sizes)).tobytes())
                value_counts[name] += len(values)
        for file in files.values():
            finish(file)
    write_synced(folder / "ids.json", json.dumps(value_counts).encode())


def _open_columns(folder: Path, columns: Columns) -> list[IdRows] | None:
    """Open the columns in a folder of the cache; None if it is missing or incomplete."""
    try:
        value_counts = json.loads((folder / "ids.json").read_bytes())
        rows = [
            IdRows(
                _memmap(folder / f"{name}.ids", kind), _memmap(folder / f"{name}.ends", np.int64)
            )
            for name, kind in columns.items()
        ]
        is_complete = all(
            len(column.values) == value_counts[name] == (column.ends[-1] if len(column) else 0)
            for name, column in zip(columns, rows, strict=True)
        )
    except (OSError, ValueError, KeyError, TypeError):  # files of the cache may be missing
        return None
    return rows if is_complete and len({len(column) for column in rows}) == 1 else None


def _memmap(path: Path, kind: Any) -> NDArray[Any]:
    """Map a file of numbers into memory; an empty file cannot be mapped."""
    if not path.stat().st_size:
        return np.empty(0, dtype=kind)
    return np.asarray(np.memmap(path, dtype=kind, mode="r"))


def _flatten(rows: Lists, kind: np.dtype[Any]) -> Flat:
    """Concatenate lists: the flat array, and the size of each."""
    sizes = np.fromiter(map(len, rows), np.int64, count=len(rows))
    return np.fromiter(chain.from_iterable(rows), kind, count=int(sizes.sum())), sizes
