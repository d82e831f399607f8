"""The interface between `regard eval` and a task: the selection, the options, and the report.

`regard eval` passes a `Selection` of examples and a `Scoring` to the task, and gets a `Report`,
which it prints as a table or as JSON.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from regard.data.config import ALL_FOUND, Columns
from regard.data.seen import Overlap
from regard.decode.config import DecodeConfig
from regard.errors import InputError
from regard.tasks.measures.accuracy import Confusion

OnProgress = Callable[[float, str], None]
"""Called with the share of the work that is done (0 to 1), and the name of that work."""
Curve = Sequence[tuple[str, int, float]]
"""Scores by length: the range of lengths as a text, the number of examples, and their score."""


@dataclass(frozen=True)
class Selection:
    """The examples that a user selects for an evaluation."""

    split: str | None = None
    """A split of the run's own data; None: the task's default."""
    files: str | None = None
    """Files to read instead of the run's own data."""
    verb: str = "eval"
    """The name of the command, for errors."""
    model: str = "the model"
    """The name of the model, for errors."""
    columns: Columns = ALL_FOUND
    """The columns that the user names for the files."""

    def __post_init__(self) -> None:
        if self.files is not None and self.split is not None:
            raise InputError("--data with --split", expected="one of the two")
        if self.files is None and self.columns != ALL_FOUND:
            what = "columns are named for --data"
            raise InputError(what, got="no --data", expected="--data FILE")

    def columns_for(self, data: Any) -> Columns:
        """Which columns of the files are read: as the user names them, else as in training.

        Args:
            data: The data config of the model.
        """
        default: Columns = getattr(data, "columns", ALL_FOUND)
        named = {**default.named, **self.columns.named}
        # other files may have a header even if those of training had none
        header = default.header or None if self.columns == ALL_FOUND else self.columns.header
        return Columns(named, header)


@dataclass(frozen=True)
class ExampleSet:
    """Examples to score, and how many others of their data are left out."""

    examples: Any
    left_out: Mapping[str, int] = field(default_factory=dict)
    """The number of examples that are not scored, by reason."""

    def without(self, examples: Any, reason: str, count: int) -> ExampleSet:
        """The set with fewer examples, of which `count` are left out for a reason."""
        new_reason = {reason: count} if count else {}
        return ExampleSet(examples, {**self.left_out, **new_reason})


@dataclass(frozen=True)
class Notes:
    """What one has to know about the scores of a set: which examples they are of."""

    noun: str
    scored: int
    """The number of examples that were scored."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """The number of examples that were not, by reason."""
    truncated: int = 0
    """The number of scored examples of which the model reads only a part."""
    overlap: Overlap | None = None
    """How many of them were in the training data; None if that is not known."""
    own_split: bool = False
    """Whether it is a split of the model's own data."""

    @property
    def total(self) -> int:
        """The number of examples in the data."""
        return self.scored + sum(self.left_out.values())

    def to_json(self) -> dict[str, Any]:
        """The notes as JSON values."""
        return {
            "scored": self.scored,
            "of": self.total,
            "left_out": dict(self.left_out),
            **({"truncated": self.truncated} if self.truncated else {}),
            "in_training": None if self.overlap is None else self.overlap.to_json(),
        }

    def lines(self) -> list[str]:
        """Formats the notes as lines of text.

        Example:
            >>> Notes("pairs", 1000, {"longer than the model reads": 14}).lines()
            ['scored 1,000 of 1,014 pairs: 14 longer than the model reads']
        """
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in self.left_out.items())
        share = f"{self.scored:,} of {self.total:,}" if reasons else f"all {self.scored:,}"
        line = f"scored {share} {self.noun}" + (f": {reasons}" if reasons else "")
        if self.truncated:
            line += f"; the end of {self.truncated:,} is cut off, as the model reads them"
        warning = self.overlap and self.overlap.warning(held_out=self.own_split)
        return [line, *([f"warning: {warning}"] if warning else [])]


@dataclass(frozen=True)
class Scoring:
    """The options of an evaluation; the `scoring` of a task names those that apply to it."""

    decode: DecodeConfig
    lowercase: bool = False
    """Whether to score without regard to case."""
    suggest: bool = False
    """Whether to measure next-word suggestions, too; one takes as long as hundreds of tokens."""
    on_progress: OnProgress = lambda *_: None
    on_headline: Callable[[str], None] | None = None
    """Called with the first line of the table as soon as it is known, before the others."""
    keep: Callable[[Mapping[str, str]], None] = lambda _: None
    """Called with the files to save for a set, as name -> content, as soon as the set is done."""


@dataclass(frozen=True)
class Report(ABC):
    """The scores of a model on one or more sets of examples."""

    notes: Mapping[str, Notes] = field(default_factory=dict, kw_only=True)
    """What one has to know about the scores of each set, by its name."""

    @abstractmethod
    def to_json(self) -> dict[str, Any] | list[dict[str, Any]]:
        """All numbers as JSON values: one object, or one per set."""

    @abstractmethod
    def table(self) -> str:
        """Formats the report as a text table."""

    def check(self) -> None:  # noqa: B027 (most reports have nothing to check)
        """Raises an error if the scores are meaningless, because the model cannot read the texts.

        Raises:
            FoundProblems: More than half of the words, or tokens, are unknown.
        """

    def files(self) -> dict[str, str]:
        """The files to save at the end, as name -> content."""
        return {}

    def curves(self) -> Mapping[str, Curve]:
        """The scores by length of each set, to be drawn."""
        return {}

    def confusions(self) -> Mapping[str, Confusion]:
        """How often each class was taken for each, by set, to be drawn."""
        return {}

    def text(self) -> str:
        """The table, followed by the notes."""
        has_several = len(self.notes) > 1
        notes = [
            f"{name}: {line}" if has_several else line
            for name, note in self.notes.items()
            for line in note.lines()
        ]
        return "\n".join([self.table(), *notes])

    def with_notes(self) -> dict[str, Any] | list[dict[str, Any]]:
        """All numbers and the notes as JSON values: one object, or one per set."""
        numbers, notes = self.to_json(), [note.to_json() for note in self.notes.values()]
        if isinstance(numbers, list) and len(numbers) == len(notes):
            return [{**entry, **note} for entry, note in zip(numbers, notes, strict=True)]
        if isinstance(numbers, dict) and len(notes) == 1:
            return {**numbers, **notes[0]}
        return numbers

    def rows(self) -> list[str]:
        """The report with its notes as lines of JSON."""
        numbers = self.with_notes()
        entries = numbers if isinstance(numbers, list) else [numbers]
        return [json.dumps(entry, ensure_ascii=False) for entry in entries]

    def score_file(self) -> dict[str, str]:
        """The report with its notes as one JSON file, as name -> content."""
        return {"scores.json": json.dumps(self.with_notes(), ensure_ascii=False, indent=1)}


def count_progress(on_progress: OnProgress, total: int, what: str) -> Callable[[int], None]:
    """Converts counts to progress: returns a function that adds a count and reports the share.

    Args:
        on_progress: Called with the share that is done, and `what`.
        total: The count at which the work is complete.
        what: The name of the work.
    """
    done = 0

    def count(amount: int) -> None:
        nonlocal done
        done += amount
        on_progress(min(1.0, done / max(1, total)), what)

    on_progress(0.0, what)
    return count
