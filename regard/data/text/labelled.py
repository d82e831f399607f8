"""The `data:` section of a fine-tuning recipe -> labelled examples in splits, with checksums.

In: files of texts with a class, words with tags, or questions about a text. Out: training,
validation and test examples. As with parallel text, nothing is repaired, and bad examples are
skipped only with `data.on_bad=skip`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic

from regard.data.config import ALL_FOUND, Columns, LabelledData, OnBad
from regard.data.text.annotations import READERS, Example, LabelledText, Question, TaggedWords
from regard.data.text.records import keep_usable
from regard.data.text.splits import hold_out, read_splits

TYPES: dict[str, type[Any]] = {"classify": LabelledText, "tag": TaggedWords, "answer": Question}
"""The type of each task's examples."""


@dataclass(frozen=True)
class LabelledSplits(Generic[Example]):
    """Training, validation and test examples, with counts of skipped examples and checksums."""

    train: Sequence[Example]
    valid: Sequence[Example]
    tests: dict[str, Sequence[Example]]
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
        data,
        read=lambda file: READERS[task](file, data.columns),
        example_type=TYPES[task],
        noun="example",
        key=lambda example: example.key,
        grouping=task,
    )
    if "valid" not in parts:
        parts["train"], parts["valid"] = hold_out(parts["train"], data.held_out, data.seed, "text")
    splits = {name: examples.as_sequence() for name, examples in parts.items()}
    tests = {"test": splits["test"]} if "test" in splits else {}
    return LabelledSplits(splits["train"], splits["valid"], tests, skipped, checksums)


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
    return keep_usable(READERS[task](file, columns), on_bad, file, "example")


def labels_in(examples: Sequence[LabelledText | TaggedWords]) -> tuple[str, ...]:
    """Return the labels that occur, each once, sorted so that their order is reproducible."""
    return tuple(sorted({label for example in examples for label in example.labels}))
