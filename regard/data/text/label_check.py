"""Look through labelled examples: labels, duplicates, problems by file and line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from regard.data.config import ALL_FOUND, Columns
from regard.data.text import tables
from regard.data.text.annotations import LABELLED, READERS, Question, one_word_a_line, plan_words
from regard.data.text.records import Problem
from regard.data.text.roles import QUESTIONS, TEXTS, WORDS, Layout

ONE_LABEL = "one label only"
ONCE = "a label seen once"
CONTRADICTION = "the same text with another label"
SUSPICIOUS = (ONE_LABEL, ONCE, CONTRADICTION)
"""Problems of examples that can be used all the same."""
LAYOUTS: dict[str, Layout] = {"classify": TEXTS, "tag": WORDS, "answer": QUESTIONS}
MAX_LISTED = 20
"""How many labels are listed."""


@dataclass(frozen=True)
class LabelReport:
    """The result of checking a dataset of labelled examples."""

    examples: int
    """Number of usable examples."""
    problems: dict[str, int]
    """Number of problems, by kind."""
    first: tuple[Problem, ...]
    """The first problems, in the order of the file."""
    duplicates: int
    """Number of usable examples that repeat an earlier one."""
    labels: dict[str, int] = field(default_factory=dict)
    """Number of each label, the most frequent first."""
    columns: str = ""
    """What was decided about the columns of a table."""

    @property
    def is_bad(self) -> bool:
        """Whether there are problems, or no examples at all."""
        return bool(self.problems) or not self.examples

    def describe(self) -> str:
        """Describe the result: columns, the first problems with file and line, the counts."""
        bad = [count for what, count in self.problems.items() if what not in SUSPICIOUS]
        hidden = sum(bad) - len(self.first)
        copies = f", {self.duplicates} of them duplicates" if self.duplicates else ""
        lines = [
            self.columns,
            *map(str, self.first),
            f"… and {hidden} more" if hidden else "",
            *(f"{count} times: {what}" for what, count in self.problems.items()),
            f"{self.examples} examples can be used{copies}",
            f"labels: {_labels_text(self.labels)}" if self.labels else "",
        ]
        return "\n".join(filter(None, lines))


def check_labelled(
    table: str, task: str, columns: Columns = ALL_FOUND, shown: int = 10, limit: int | None = None
) -> LabelReport:
    """Check a dataset of labelled examples without stopping at bad ones.

    Args:
        table: A file or a dataset folder.
        task: A key of `READERS`: classify, tag or answer.
        columns: Which columns of a table are read.
        shown: How many problems to keep with file and line.
        limit: How many first examples to check; None: all.

    Raises:
        InputError: The file cannot be read at all, or it is not clear which column is what.
    """
    problems: Counter[str] = Counter()
    first: list[Problem] = []
    labels: Counter[str] = Counter()
    contents: dict[int, int] = {}  # hashes only, so that the dataset may be larger than memory
    examples = duplicates = 0
    for row in islice(READERS[task](table, columns), limit):
        if isinstance(row, Problem):
            problems[row.what] += 1
            first += [row] if len(first) < shown else []
            continue
        examples += 1
        labels.update(getattr(row, "labels", ()))
        key, content = hash(example_key(row)), hash(row)
        duplicates += contents.get(key) == content
        problems[CONTRADICTION] += contents.setdefault(key, content) != content
    problems |= _label_problems(labels, task)
    return LabelReport(
        examples=examples,
        problems={what: count for what, count in problems.items() if count},
        first=tuple(first),
        duplicates=duplicates,
        labels=dict(labels.most_common()),
        columns=describe_labelled(table, task, columns),
    )


def example_key(example: Any) -> Hashable:
    """A key that is equal for examples with the same input."""
    if isinstance(example, Question):
        return example.question, example.context
    return example.key


def describe_labelled(table: str, task: str, columns: Columns) -> str:
    """Say which columns of a table are read, if that was found out; else nothing."""
    if task == "tag" and one_word_a_line(table):
        return plan_words(table, columns).describe()
    return tables.describe_columns(table, LAYOUTS[task], columns, LABELLED)


def _label_problems(labels: Counter[str], task: str) -> Counter[str]:
    """Count problems of labels: a single one, or labels that occur once."""
    if task == "answer" or not labels:
        return Counter()
    once = sum(count == 1 for count in labels.values())
    return Counter({ONE_LABEL: int(len(labels) == 1), ONCE: once})


def _labels_text(labels: dict[str, int]) -> str:
    """List labels with their counts in one line; of many, the first."""
    entries = ", ".join(f"{label} {count:,}" for label, count in islice(labels.items(), MAX_LISTED))
    return entries + (f" and {len(labels) - MAX_LISTED} more" if len(labels) > MAX_LISTED else "")
