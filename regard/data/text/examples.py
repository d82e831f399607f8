"""Examples of files as a sequence: few in memory, many in a file of the cache.

In: pairs or labelled examples, one after the other as they are read. Out: `Examples`, a sequence
that holds each example as JSON and gives it back when it is asked for, with a hash of the key by
which examples are grouped. If they are many, JSON and hashes are in files, and only the parts that
are asked for are read.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import weakref
from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import IO, Any, Generic, TypeVar, overload

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from regard.data.config import OnBad
from regard.data.order import generator, index_type
from regard.data.text.cache import finish, key_of, new_folder
from regard.data.text.records import Problem, keep_usable
from regard.runtime.files import cache_folder, write_synced
from regard.runtime.progress import Progress

IN_MEMORY = 2**26
"""Bytes of examples that stay in memory; more are written to the cache."""
LOOKED_UP = IN_MEMORY // 4
"""Bytes of files from which on they are looked up in the cache, for which their checksums are
needed first."""
FLUSH = 2**20
"""Bytes after which a part is written to the file."""
BLOCK_BYTES, BLOCK_EXAMPLES = 2**20, 2**12
"""The most bytes and examples that are read at once."""
SCANNED = 2**20
"""Hashes that are compared at once."""
SAMPLE = 2**26
"""Bytes of examples from which a vocabulary is learned."""
VERSION = 1
"""Version of the cache's file format; it is part of the cache key."""

Item = TypeVar("Item")
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Reading(Generic[Item]):
    """What is read, and how."""

    type: type[Item]
    """The dataclass of an example."""
    key: Callable[[Item], Hashable]
    """Equal for examples that must stay in one split."""
    name: str
    """The name of the files in messages."""
    noun: str
    """What an example is called in messages."""
    depends_on: Callable[[], dict[str, Any]]
    """Computes all that the examples depend on, as JSON: checksums and settings."""
    size: int
    """About how many bytes of text there are to read."""
    on_bad: OnBad = "stop"

    @cached_property
    def folder(self) -> Path:
        """The folder of the cache."""
        depends_on = {"version": VERSION, "type": self.type.__name__, **self.depends_on()}
        return cache_folder() / "examples" / key_of(depends_on)

    def digest(self, example: Item) -> bytes:
        """Return 128 bits of an example's key: equal keys have equal bits, others do not."""
        key_text = repr(self.key(example)).encode()
        return hashlib.blake2b(key_text, digest_size=16).digest()


@dataclass(frozen=True, eq=False)
class _Rows:
    """All examples of some files: JSON, and where each ends."""

    data: bytes | int
    """The JSON, or the descriptor of its file."""
    ends: NDArray[np.int64]
    keys: NDArray[np.uint64]
    """(examples, 2) The 128 bits of each key."""
    folder: str
    """The name of the folder in the cache; empty if they are in memory."""

    def read(self, start: int, stop: int) -> bytes:
        """Return the bytes from `start` to `stop`."""
        if isinstance(self.data, bytes):
            return self.data[start:stop]
        return os.pread(self.data, stop - start, start)


class Examples(Sequence[Item]):
    """Examples, which are in memory or in a file.

    Args:
        rows: All examples of the files.
        reading: How they were read.
        index: The numbers of the examples of this sequence, in ascending order; None: all.
    """

    def __init__(
        self, rows: _Rows, reading: Reading[Item], index: NDArray[Any] | None = None
    ) -> None:
        self._rows, self._reading, self._index = rows, reading, index
        self._load: Callable[[bytes], Item] = TypeAdapter(reading.type).validate_json

    def __len__(self) -> int:
        return len(self._rows.ends if self._index is None else self._index)

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> Examples[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | Examples[Item]:
        if isinstance(index, slice):
            return self.take(self._numbers(index))
        number = range(len(self))[index]
        [[example]] = self.take(self._numbers(slice(number, number + 1))).blocks()
        return example

    def __iter__(self) -> Iterator[Item]:
        for block in self.blocks():
            yield from block

    def blocks(self) -> Iterator[list[Item]]:
        """Yield the examples in lists of bounded size."""
        for first in range(0, len(self), BLOCK_EXAMPLES):
            numbers = self._numbers(slice(first, first + BLOCK_EXAMPLES)).astype(np.int64)
            stops = np.asarray(self._rows.ends[numbers])
            starts = np.where(numbers > 0, self._rows.ends[numbers - 1], 0)
            while len(starts):
                count = int(np.searchsorted(np.cumsum(stops - starts), BLOCK_BYTES)) + 1
                yield self._load_examples(starts[:count].tolist(), stops[:count].tolist())
                starts, stops = starts[count:], stops[count:]

    def _load_examples(self, starts: list[int], stops: list[int]) -> list[Item]:
        """Parse the examples at these ranges of bytes, read together if they are close."""
        begin, needed_bytes = starts[0], sum(stops) - sum(starts)
        ranges = zip(starts, stops, strict=True)
        if stops[-1] - begin > 2 * needed_bytes:  # far apart: one by one
            return [self._load(self._rows.read(start, stop)) for start, stop in ranges]
        data = self._rows.read(begin, stops[-1])
        return [self._load(data[start - begin : stop - begin]) for start, stop in ranges]

    def _numbers(self, part: slice) -> NDArray[Any]:
        """Return the numbers, among all examples of the files, of a part of this sequence."""
        if self._index is None:
            return np.arange(*part.indices(len(self)), dtype=index_type(len(self)))
        return self._index[part]

    def take(self, index: NDArray[Any]) -> Examples[Item]:
        """Return the examples with these numbers among all examples of the files."""
        return Examples(self._rows, self._reading, index)

    def as_sequence(self) -> Sequence[Item]:
        """Return a tuple if the examples are in memory, else the sequence itself."""
        return tuple(self) if isinstance(self._rows.data, bytes) else self

    @property
    def depends_on(self) -> dict[str, str]:
        """All that these examples depend on, for keys of the cache."""
        index = b"" if self._index is None else self._index.tobytes()
        return {"examples": self._rows.folder, "chosen": hashlib.sha256(index).hexdigest()}

    @property
    def size(self) -> int:
        """About how many bytes the examples take."""
        return int(self._rows.ends[-1] / len(self._rows.ends) * len(self))

    def keys(self, rows: slice | NDArray[Any]) -> NDArray[np.uint64]:
        """Return the hashed keys of some examples, by their indices: (examples, 2)."""
        row_numbers = rows if self._index is None else self._index[rows]
        return np.asarray(self._rows.keys[row_numbers])

    @property
    def numbers(self) -> NDArray[Any]:
        """The numbers of the examples among all examples of the files, in ascending order."""
        return self._numbers(slice(None))

    def sample(self, size: int = SAMPLE) -> Sequence[Item]:
        """Return about `size` bytes of examples, chosen at random but always the same."""
        if self.size <= size:
            return self
        random, share = generator(0), size / self.size
        parts = (self._numbers(part) for part in scanned_parts(len(self)))
        sampled = [numbers[random.random(len(numbers)) < share] for numbers in parts]
        return self.take(np.concatenate(sampled))

    def with_keys_of(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield the examples whose key is that of one of the items."""
        digests = b"".join(map(self._reading.digest, items))
        hashes = np.unique(np.frombuffer(digests, dtype=np.uint64)[::2])
        for part in scanned_parts(len(self)):
            same = np.isin(self.keys(part)[:, 0], hashes)
            yield from self.take(self._numbers(part)[same])


def scanned_parts(count: int) -> list[slice]:
    """Return the parts in which `count` hashes are compared."""
    return [slice(first, first + SCANNED) for first in range(0, count, SCANNED)]


def collect(
    rows: Callable[[], Iterable[Item | Problem]], reading: Reading[Item]
) -> tuple[Examples[Item], dict[str, int]]:
    """Read all examples of files, or open them from the cache if they were read before.

    Args:
        rows: Begins to read: yields examples, and problems of lines that cannot be used.
        reading: What is read.

    Returns:
        The examples, and how many were skipped by kind of problem.

    Raises:
        InputError: At the first problem with `stop`; or if no example is left.
        WriteError: If they cannot be written to the cache; no partial files are left.
    """
    stored = _open_rows(reading.folder) if reading.size >= LOOKED_UP else None
    if stored is None:
        with ExitStack() as stack:
            spool = _Spool(stack, reading)
            stream = spool.store(rows())
            _, skipped = keep_usable(stream, reading.on_bad, reading.name, reading.noun)
            memory = spool.finish(skipped)
        stored = _open_rows(reading.folder) if memory is None else (memory, skipped)
    assert stored is not None
    return Examples(stored[0], reading), stored[1]


class _Spool(Generic[Item]):
    """Writes examples into memory and, if they are many, into a folder of the cache."""

    def __init__(self, stack: ExitStack, reading: Reading[Item]) -> None:
        self._stack, self._reading = stack, reading
        self._buffers: dict[str, Any] = {
            "rows.jsonl": bytearray(),
            "ends.bin": array("q"),
            "keys.bin": bytearray(),
        }
        self._files: dict[str, IO[bytes]] = {}
        self._temporary: Path | None = None
        self._bar: Progress | None = None
        self._count = self._size = 0
        names = TypeAdapter(reading.type).json_schema()["properties"]
        self._frame = sum(len(name) + 5 for name in names)  # "name":"",

    def store(self, rows: Iterable[Item | Problem]) -> Iterator[Item | Problem]:
        """Store the examples among rows; yield all problems, and the first example."""
        dump, digest = TypeAdapter(self._reading.type).dump_json, self._reading.digest
        data, ends, keys = self._buffers.values()
        limit = IN_MEMORY
        for row in rows:
            if isinstance(row, Problem):
                yield row
                continue
            line = dump(row) + b"\n"
            data += line
            self._size += len(line)
            ends.append(self._size)
            keys += digest(row)
            if len(data) >= limit:
                self._flush()
                limit = FLUSH
            if not self._count:
                yield row
            self._count += 1

    def _flush(self) -> None:
        """Write what is in memory to the files; the first time, begin them and the progress."""
        if self._temporary is None:
            state = "the examples are not stored; no partial files are left"
            folder = self._reading.folder
            new = new_folder(folder, lambda path: _read_facts(path) is not None, state)
            self._temporary = self._stack.enter_context(new)
            for name in self._buffers:
                opened = (self._temporary / name).open("wb")
                self._files[name] = self._stack.enter_context(opened)
            self._bar = self._stack.enter_context(progress(self._reading.size))
        for name, file in self._files.items():
            file.write(self._buffers[name])
            del self._buffers[name][:]
        if self._bar is not None:
            noun = f"{self._reading.noun}s" if self._count != 1 else self._reading.noun
            text = self._size - self._count * self._frame
            self._bar.update_to(text, f"{self._count:,} {noun} read")

    def finish(self, skipped: dict[str, int]) -> _Rows | None:
        """Complete the files; without any, return the examples in memory."""
        if self._temporary is None:
            data, ends, keys = self._buffers.values()
            numbers = np.frombuffer(bytes(keys), dtype=np.uint64).reshape(-1, 2)
            return _Rows(bytes(data), np.array(ends, dtype=np.int64), numbers, "")
        self._flush()
        for file in self._files.values():
            finish(file)
        facts = {"examples": self._count, "bytes": self._size, "skipped": skipped}
        write_synced(self._temporary / "examples.json", json.dumps(facts).encode())
        return None


def _read_facts(folder: Path) -> dict[str, Any] | None:
    """Return the numbers in `examples.json` if the folder is complete."""
    try:
        facts: dict[str, Any] = json.loads((folder / "examples.json").read_bytes())
        count = facts["examples"]
        sizes = {"rows.jsonl": facts["bytes"], "ends.bin": 8 * count, "keys.bin": 16 * count}
        is_complete = all((folder / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, KeyError, TypeError):  # files of the cache may be missing
        return None
    return facts if is_complete else None


def _open_rows(folder: Path) -> tuple[_Rows, dict[str, int]] | None:
    """Open the examples in a folder of the cache; None if it is missing or incomplete."""
    facts = _read_facts(folder)
    if facts is None:
        return None
    ends = np.memmap(folder / "ends.bin", dtype=np.int64, mode="r")
    keys = np.memmap(folder / "keys.bin", dtype=np.uint64, mode="r").reshape(-1, 2)
    descriptor = os.open(folder / "rows.jsonl", os.O_RDONLY | os.O_CLOEXEC)
    rows = _Rows(descriptor, ends, keys, folder.name)
    weakref.finalize(rows, os.close, descriptor)
    return rows, facts["skipped"]


def progress(total: float, *, quiet: bool = False) -> Progress:
    """Return a progress bar for work that may take minutes; none if warnings are not shown."""
    hidden = quiet or not _logger.isEnabledFor(logging.WARNING)
    return Progress(total, quiet=hidden, at_once=False)


def blocks_of(examples: Sequence[Item]) -> Iterator[list[Item]]:
    """Yield examples in lists of bounded size."""
    if isinstance(examples, Examples):
        return examples.blocks()
    items = iter(examples)
    return iter(lambda: list(islice(items, BLOCK_EXAMPLES)), [])


def sample(examples: Sequence[Item]) -> Sequence[Item]:
    """Return examples to learn a vocabulary from: all of them, or a part if they are many."""
    return examples.sample() if isinstance(examples, Examples) else examples


def with_keys_of(examples: Sequence[Item], items: Sequence[Item]) -> Iterable[Item]:
    """Return the examples among which each of the items is, if it is an example."""
    return examples.with_keys_of(items) if isinstance(examples, Examples) else examples
