"""The `data:` section of a fine-tuning recipe -> labelled examples in splits, with checksums.

In: files of texts with a class, words with tags, or questions about a text. Out: training,
validation and test examples. As with parallel text, nothing is repaired, and bad examples are
skipped only with `data.on_bad=skip`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal

import numpy as np

from regard.data.config import LabelledData
from regard.data.text.annotations import READERS, Example, LabelledText, Question, TaggedWords
from regard.data.text.files import Problem, checksum
from regard.errors import InputError


@dataclass(frozen=True)
class LabelledSplits(Generic[Example]):
    """Training, validation and test examples, with counts of skipped examples and checksums."""

    train: tuple[Example, ...]
    valid: tuple[Example, ...]
    tests: dict[str, tuple[Example, ...]]
    skipped: dict[str, int]
    """Number of skipped examples, by kind of problem."""
    checksums: dict[str, str]
    """SHA-256 of each file, by file name."""


def load_labelled(data: LabelledData, task: str) -> LabelledSplits[Any]:
    """Read the examples that a recipe's `data:` section describes.

    Args:
        data: Names the files.
        task: A key of `READERS`: classify, tag or answer.

    Raises:
        InputError: A file cannot be used.
    """
    skipped: Counter[str] = Counter()
    parts: dict[str, tuple[Any, ...]] = {}
    checksums: dict[str, str] = {}
    for name, file in (("train", data.train), ("valid", data.valid), ("test", data.test)):
        if file is None:
            continue
        examples, bad = read_labelled(file, task, header=data.header, on_bad=data.on_bad)
        parts[name] = tuple(examples)
        skipped.update(bad)
        checksums[file] = checksum(file)
    if "valid" not in parts:
        parts["train"], parts["valid"] = set_aside(parts["train"], data.held_out, data.seed)
    tests = {"test": parts["test"]} if "test" in parts else {}
    return LabelledSplits(parts["train"], parts["valid"], tests, dict(skipped), checksums)


def read_labelled(
    file: str, task: str, *, header: bool = False, on_bad: Literal["stop", "skip"] = "stop"
) -> tuple[list[Any], dict[str, int]]:
    """Read all examples of a file.

    Args:
        file: Its suffix decides the format.
        task: A key of `READERS`, which decides the type of the examples.
        header: Whether the first line of a TSV or CSV file holds the names of the columns.
        on_bad: `stop` at the first problem, or `skip` such examples.

    Returns:
        The examples, and how many were skipped by kind of problem.

    Raises:
        InputError: At the first problem with `stop`; or if no example is left.
    """
    found: list[Any] = []
    skipped: Counter[str] = Counter()
    for row in READERS[task](file, header):
        if not isinstance(row, Problem):
            found.append(row)
        elif on_bad == "stop":
            fix = "fix it, or leave such examples out with data.on_bad=skip in a recipe"
            raise InputError(str(row), fix=fix)
        else:
            skipped[row.what] += 1
    if not found:
        got = f"no usable example ({sum(skipped.values())} are not usable)"
        raise InputError(file, got=got, expected="at least one")
    return found, dict(skipped)


def set_aside(
    examples: Sequence[Example], held_out: int, seed: int
) -> tuple[tuple[Example, ...], tuple[Example, ...]]:
    """Split examples into training and validation examples.

    Examples with the same text, or questions about the same text, stay in one split.

    Args:
        examples: All training examples.
        held_out: How many to hold out; at most about a tenth of them.
        seed: Seed of the random choice.

    Raises:
        InputError: If all examples have the same text.
    """
    sizes = Counter(example.key for example in examples)
    keys = list(sizes)
    if len(keys) < 2:
        raise InputError(
            "data.train",
            got="a single text to train on and to validate with",
            expected="at least 2 different ones",
            fix="give more examples, or a data.valid",
        )
    wanted = max(1, min(held_out, len(examples) // 10))
    random = np.random.Generator(np.random.PCG64(seed % 2**64))
    chosen: set[Hashable] = set()
    count = 0
    for place in random.permutation(len(keys))[: len(keys) - 1].tolist():
        if count >= wanted:
            break
        chosen.add(keys[place])
        count += sizes[keys[place]]
    train = tuple(example for example in examples if example.key not in chosen)
    return train, tuple(example for example in examples if example.key in chosen)


def labels_in(examples: Sequence[LabelledText | TaggedWords]) -> tuple[str, ...]:
    """Return the labels that occur, each once, sorted so that their order is reproducible."""
    found: set[str] = set()
    for example in examples:
        found.update([example.label] if isinstance(example, LabelledText) else example.tags)
    return tuple(sorted(found))


def texts_in(example: LabelledText | TaggedWords | Question) -> tuple[str, ...]:
    """Return the texts of an example, to learn a vocabulary from."""
    if isinstance(example, LabelledText):
        return (example.text, *(() if example.pair is None else (example.pair,)))
    if isinstance(example, TaggedWords):
        return (" ".join(example.words),)
    return example.question, example.context
