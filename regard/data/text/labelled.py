"""The `data:` section of a fine-tuning recipe -> labelled examples in splits, with checksums.

In: files of texts with a class, words with tags, or questions about a text. Out: training,
validation and test examples. As with parallel text, nothing is repaired, and bad examples are
skipped only with `data.on_bad=skip`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic

from regard.data.config import ALL_FOUND, Columns, LabelledData, OnBad
from regard.data.text.annotations import READERS, Example, LabelledText, TaggedWords
from regard.data.text.records import usable
from regard.data.text.splits import choose_groups, read_splits


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
    parts, skipped, checksums = read_splits(
        data, lambda file: read_labelled(file, task, columns=data.columns, on_bad=data.on_bad)
    )
    if "valid" not in parts:
        parts["train"], parts["valid"] = set_aside(parts["train"], data.held_out, data.seed)
    tests = {"test": parts["test"]} if "test" in parts else {}
    return LabelledSplits(parts["train"], parts["valid"], tests, skipped, checksums)


def read_labelled(
    file: str, task: str, *, columns: Columns = ALL_FOUND, on_bad: OnBad = "stop"
) -> tuple[list[Any], dict[str, int]]:
    """Read all examples of a file.

    Args:
        file: Its suffix decides the format.
        task: A key of `READERS`, which decides the type of the examples.
        columns: Which columns of a table are read.
        on_bad: `stop` at the first problem, or `skip` such examples.

    Returns:
        The examples, and how many were skipped by kind of problem.

    Raises:
        InputError: At the first problem with `stop`; or if no example is left.
    """
    return usable(READERS[task](file, columns), on_bad, file, "example")


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
    wanted = max(1, min(held_out, len(examples) // 10))
    chosen = choose_groups(sizes, wanted, seed, "text")
    train = tuple(example for example in examples if example.key not in chosen)
    return train, tuple(example for example in examples if example.key in chosen)


def labels_in(examples: Sequence[LabelledText | TaggedWords]) -> tuple[str, ...]:
    """Return the labels that occur, each once, sorted so that their order is reproducible."""
    return tuple(sorted({label for example in examples for label in example.labels}))
