"""Training, validation and test files -> splits; and the choice of what to hold out.

Used by datasets of pairs and of labelled examples: each split has a file, or a part of the
training examples is held out for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.config import FileData, LabelledData, PartData
from regard.data.order import generator, index_type, random_order
from regard.data.text import arrow, records
from regard.data.text.examples import Examples, Item, Reading, collect, scanned_parts
from regard.errors import InputError

Parts = dict[str, Examples[Any]]
"""The examples of each split that has a file: train, valid, test."""
BUCKETS = 64
"""Examples are grouped in this many parts, by the first bits of their keys, to save memory."""
CHOICE = {"train", "valid", "test", "held_out", "held_out_test", "group", "seed", "longest",
          "overlap", "unanswerable"}  # fmt: skip
"""Keys of a `data:` section that do not change how a file is read."""
TEXT_SHARE = {".gz": 4.0, ".parquet": 4.0, ".jsonl": 0.8}
"""About how many bytes of text there are in a byte of such a file, for the progress."""


def read_splits(
    data: FileData | LabelledData,
    read: Callable[[Any], Iterable[Any]],
    example_type: type[Item],
    noun: str,
    key: Callable[[Item], Hashable],
    grouping: str,
) -> tuple[Parts, dict[str, int], dict[str, str]]:
    """Read the files of a recipe's `data:` section.

    Args:
        data: Names the files.
        read: The files of a split -> examples, or problems of lines that cannot be used.
        example_type: The dataclass of an example.
        noun: What an example is called in messages.
        key: Equal for examples that must stay in one split.
        grouping: A name for `key`, for keys of the cache.

    Returns:
        The examples of each split, the numbers of skipped ones, and the SHA-256 of each file.

    Raises:
        InputError: A file cannot be used.
    """
    parts: Parts = {}
    skipped: Counter[str] = Counter()
    checksums: dict[str, str] = {}
    checksum = cache(records.checksum)  # of each file once, and only when it is asked for
    settings = data.model_dump(mode="json", exclude=CHOICE) | {"grouping": grouping}
    for name, files in files_of_splits(data).items():
        names = (files,) if isinstance(files, str) else files
        reading = Reading(
            type=example_type,
            key=key,
            name=" and ".join(names),
            noun=noun,
            depends_on=partial(_depends_on, names, checksum, settings),
            size=sum(map(text_size, names)),
            on_bad=data.on_bad,
        )
        parts[name], skipped_here = collect(partial(read, files), reading)
        skipped.update(skipped_here)
        checksums |= {file: checksum(file) for file in names}
    return parts, dict(skipped), checksums


def files_of_splits(data: FileData | LabelledData | PartData) -> dict[str, Any]:
    """Return the files of each split; a dataset folder as `train` may have the others in it."""
    inside = arrow.splits_in(data.train) if isinstance(data.train, str) else {}
    files = {name: getattr(data, name) or inside.get(name) for name in ("train", "valid", "test")}
    if "train" in inside:
        files["train"] = inside["train"]
    return {name: names for name, names in files.items() if names is not None}


def _depends_on(
    names: Sequence[str], checksum: Callable[[str], str], settings: dict[str, Any]
) -> dict[str, Any]:
    """Return all that the examples of files depend on."""
    return {"files": [[Path(name).name, checksum(name)] for name in names], **settings}


def text_size(name: str) -> int:
    """Estimate the bytes of text in a file or in the files of a dataset; 0 if there is none."""
    try:
        files = arrow.shards(name) if arrow.is_table(name) else [Path(name)]
        sizes = [file.stat().st_size * TEXT_SHARE.get(file.suffix.lower(), 1.0) for file in files]
    except (OSError, InputError):  # reading it raises a clear error
        return 0
    return int(sum(sizes))


def hold_out(
    examples: Examples[Item], held_out: int, seed: int, what: str, *, by_group: bool = False
) -> tuple[Examples[Item], Examples[Item]]:
    """Split examples into those to train on and those to hold out, by groups of equal keys.

    Args:
        examples: All training examples.
        held_out: How many examples to hold out; at most about a tenth of them, at least one.
        seed: Seed of the random choice.
        what: What the examples of a group have in common, for the error.
        by_group: Whether `held_out` counts groups instead.

    Raises:
        InputError: If there are fewer than two groups.
    """
    first, sizes = _group_by_key(examples)
    heads = np.flatnonzero(sizes)
    counts = np.broadcast_to(np.uint8(1), len(heads)) if by_group else sizes[heads]
    count = max(1, min(held_out, (len(heads) if by_group else len(examples)) // 10))
    held_out_heads = np.sort(heads[choose_groups(counts, count, seed, what)])
    is_held_out = np.zeros(len(examples), dtype=np.bool_)
    for part in scanned_parts(len(is_held_out)):
        is_held_out[part] = np.isin(first[part], held_out_heads)
    numbers = examples.numbers
    return examples.take(numbers[~is_held_out]), examples.take(numbers[is_held_out])


def _group_by_key(examples: Examples[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Group examples by their keys.

    Returns:
        For each example the index of the first one of its group; and for each first one the size
        of its group, 0 for all others.
    """
    count = len(examples)
    first = np.empty(count, dtype=index_type(count))
    sizes = np.zeros_like(first)
    buckets = np.empty(count, dtype=np.uint8)
    for part in scanned_parts(count):
        buckets[part] = examples.keys(part)[:, 0] % BUCKETS
    for bucket in range(BUCKETS):
        indices = np.flatnonzero(buckets == bucket).astype(first.dtype)
        keys = examples.keys(indices)
        order = np.lexsort((keys[:, 1], keys[:, 0]))  # stable: the first of a group stays first
        indices, keys = indices[order], keys[order]
        begins = np.ones(len(indices), dtype=np.bool_)
        begins[1:] = (keys[1:] != keys[:-1]).any(axis=1)
        heads = np.flatnonzero(begins)
        members = np.diff(np.append(heads, len(indices)))
        first[indices] = np.repeat(indices[heads], members)
        sizes[indices[heads]] = members
    return first, sizes


def choose_groups(
    sizes: Sequence[int] | NDArray[Any], count: int, seed: int, what: str
) -> NDArray[Any]:
    """Choose random groups of examples to hold out; at least one group is left to train on.

    Args:
        sizes: The number of examples of each group.
        count: Groups are chosen until they have this many examples.
        seed: Seed of the random choice.
        what: What the examples of a group have in common, for the error.

    Returns:
        The numbers of the chosen groups.

    Raises:
        InputError: If there are fewer than two groups.
    """
    if len(sizes) < 2:
        raise InputError(
            "data.train",
            got=f"a single {what} to train on and to validate with",
            expected=f"at least 2 different {what}s",
            fix=f"give more {what}s, or a data.valid",
        )
    order = random_order(generator(seed), len(sizes))[:-1][: max(0, count)]
    filled = np.cumsum(np.asarray(sizes)[order], dtype=np.int64)
    return order[: np.searchsorted(filled, count) + 1]
