"""What `regard eval` asks of a task, and what it gets: a report for people and for scripts."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regard.decode.config import DecodeConfig

Tell = Callable[[float, str], None]
"""Told which share of some work is done, and what of it."""
Curve = Sequence[tuple[str, int, float]]
"""By length: its name, how many there are of it, and their score."""


@dataclass(frozen=True)
class Selection:
    """Which examples are asked for."""

    split: str | None = None
    """Of the run's own data; None: what the task takes by default."""
    files: str | None = None
    """Others instead."""
    verb: str = "eval"
    """What they are for, for errors."""
    model: str = "the model"
    """Whose they would be, for errors."""


@dataclass(frozen=True)
class Scoring:
    """How sets are scored. A task takes of it what it names in `scoring`."""

    decode: DecodeConfig
    lowercase: bool = False
    """Without regard to case."""
    suggest: bool = False
    """Whether next words are asked for, too: each takes as long as hundreds of tokens do."""
    tell: Tell = lambda *_: None
    first: Callable[[str], None] | None = None
    """Told of the first line of the table, if it is known before the others."""
    keep: Callable[[Mapping[str, str]], None] = lambda _: None
    """Takes what is to be kept of a set, by the names of files, as soon as the set is done."""


class Report(ABC):
    """How a model does on some sets."""

    @abstractmethod
    def to_json(self) -> dict[str, Any] | list[dict[str, Any]]:
        """All numbers: an object, or one a set."""

    @abstractmethod
    def table(self) -> str:
        """For people."""

    def check(self) -> None:  # noqa: B027 (most reports have nothing to refuse)
        """Refuses scores of texts that the model cannot read.

        Raises:
            FoundProblems: More than half of the words, or tokens, are unknown.
        """

    def files(self) -> dict[str, str]:
        """What is kept in a folder at the end, by the names of files."""
        return {}

    def curves(self) -> Mapping[str, Curve]:
        """Scores by length, to be drawn, of each set."""
        return {}

    def rows(self) -> list[str]:
        """The numbers as lines of JSON."""
        found = self.to_json()
        entries = found if isinstance(found, list) else [found]
        return [json.dumps(entry, ensure_ascii=False) for entry in entries]

    def whole(self) -> dict[str, str]:
        """All numbers as one file."""
        return {"scores.json": json.dumps(self.to_json(), ensure_ascii=False, indent=1)}


def counted(tell: Tell, whole: int, what: str) -> Callable[[int], None]:
    """Tells which share of something is done, given how much more of it is."""
    done = 0

    def count(more: int) -> None:
        nonlocal done
        done += more
        tell(min(1.0, done / max(1, whole)), what)

    tell(0.0, what)
    return count
