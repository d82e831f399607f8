"""Training, validation and test files -> splits; and the choice of what to hold out.

Used by datasets of pairs and of labelled examples: each split has a file, or a part of the
training examples is held out for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from regard.data.config import FileData, LabelledData, PartData
from regard.data.order import generator
from regard.data.text.arrow import splits_in
from regard.data.text.records import checksum
from regard.errors import InputError

Parts = dict[str, tuple[Any, ...]]
"""The examples of each split that has a file: train, valid, test."""


def read_splits(
    data: FileData | LabelledData, read: Callable[[Any], tuple[list[Any], dict[str, int]]]
) -> tuple[Parts, dict[str, int], dict[str, str]]:
    """Read the files of a recipe's `data:` section.

    Args:
        data: Names the files.
        read: Files of a split -> its examples, and how many were skipped by kind of problem.

    Returns:
        The examples of each split, the numbers of skipped ones, and the SHA-256 of each file.
    """
    parts: Parts = {}
    skipped: Counter[str] = Counter()
    checksums: dict[str, str] = {}
    for name, files in files_of_splits(data).items():
        examples, bad = read(files)
        parts[name] = tuple(examples)
        skipped.update(bad)
        names = (files,) if isinstance(files, str) else files
        checksums |= {file: checksum(file) for file in names}
    return parts, dict(skipped), checksums


def files_of_splits(data: FileData | LabelledData | PartData) -> dict[str, Any]:
    """Return the files of each split; a dataset folder as `train` may have the others in it."""
    named = {name: getattr(data, name) for name in ("train", "valid", "test")}
    inside = splits_in(data.train) if isinstance(data.train, str) else {}
    files = {name: named[name] or inside.get(name) for name in named}
    if "train" in inside:
        files["train"] = inside["train"]
    return {name: names for name, names in files.items() if names is not None}


def choose_groups(
    sizes: Mapping[Hashable, int], wanted: int, seed: int, what: str
) -> set[Hashable]:
    """Choose random groups of examples to hold out; at least one group is left to train on.

    Args:
        sizes: The number of examples of each group, by its key.
        wanted: Groups are chosen until they have this many examples.
        seed: Seed of the random choice.
        what: What the examples of a group have in common, for the error.

    Raises:
        InputError: If there are fewer than two groups.
    """
    keys = list(sizes)
    if len(keys) < 2:
        raise InputError(
            "data.train",
            got=f"a single {what} to train on and to validate with",
            expected=f"at least 2 different {what}s",
            fix=f"give more {what}s, or a data.valid",
        )
    chosen: set[Hashable] = set()
    count = 0
    for place in generator(seed).permutation(len(keys))[:-1].tolist():
        if count >= wanted:
            break
        chosen.add(keys[place])
        count += sizes[keys[place]]
    return chosen
