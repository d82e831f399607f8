"""How well word vectors agree with people: analogies that they solve, similarities that they rank.

Analogies are the questions of Mikolov et al. (2013), `king − man + woman`, answered by the nearest
word of all (3CosAdd), words of the question left out. Similarities are pairs of words that people
scored; what is compared is their order (Spearman).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.data.text.files import Problem, numbered
from regard.errors import InputError
from regard.vectors.questions import own_questions
from regard.vectors.table import WordVectors

AT_ONCE = 2**26
"""Cosines that are held at once, at most."""
LONGEST_LINE = 2**16
OWN = "own questions"
"""What the questions that come with Regard are called."""

Question = tuple[str, str, str, str]
Pairs = list[tuple[str, str, float]]


@dataclass(frozen=True)
class Answered:
    """How many questions of a section were answered rightly."""

    right: int
    asked: int
    """Questions whose four words have a vector."""
    outside: int
    """Others, which are not counted."""

    @property
    def accuracy(self) -> float | None:
        """Of those that were asked; None if none could be."""
        return self.right / self.asked if self.asked else None

    def to_json(self) -> dict[str, Any]:
        """Counts and accuracy."""
        return {
            "right": self.right,
            "asked": self.asked,
            "outside": self.outside,
            "accuracy": self.accuracy,
        }


@dataclass(frozen=True)
class Ranked:
    """How alike two orders of pairs are."""

    spearman: float | None
    """None where there are fewer than two pairs, or all are equal."""
    pairs: int
    """Whose two words have a vector."""
    outside: int
    """Others, which are not counted."""


@dataclass(frozen=True)
class VectorScores:
    """What `regard eval` tells of word vectors."""

    name: str
    analogies: dict[str, dict[str, Answered]]
    """By file, then by section."""
    similarities: dict[str, Ranked]
    """By file."""

    def to_json(self) -> list[dict[str, Any]]:
        """One object a file."""
        rows: list[dict[str, Any]] = []
        for file, sections in self.analogies.items():
            whole = {name: each.to_json() for name, each in sections.items()}
            rows.append({"analogies": file, **total(sections).to_json(), "sections": whole})
        for file, ranked in self.similarities.items():
            found = {"spearman": ranked.spearman, "pairs": ranked.pairs}
            rows.append({"similarity": file, **found, "outside": ranked.outside})
        return rows

    def table(self) -> str:
        """For people."""
        lines = []
        for file, sections in self.analogies.items():
            lines.append(_row(Path(file).name, total(sections)))
            if len(sections) > 1:
                lines += [_row(f"  {name}", each) for name, each in sections.items()]
        for file, ranked in self.similarities.items():
            told = "-" if ranked.spearman is None else f"{ranked.spearman:.3f}"
            outside = f"({ranked.outside:,} with unknown words)"
            lines.append(
                f"{Path(file).name:<32}  Spearman {told} on {ranked.pairs:,} pairs {outside}"
            )
        return "\n".join(lines)


def _row(name: str, found: Answered) -> str:
    share = "-" if found.accuracy is None else f"{found.accuracy:.1%}"
    told = f"{share:>6} of {found.asked:,} questions"
    return f"{name:<32}  {told} ({found.outside:,} with unknown words)"


def total(sections: dict[str, Answered]) -> Answered:
    """All sections as one."""
    found = sections.values()
    return Answered(
        sum(each.right for each in found),
        sum(each.asked for each in found),
        sum(each.outside for each in found),
    )


def evaluate(
    table: WordVectors, analogies: Sequence[str] = (), similarities: Sequence[str] = ()
) -> VectorScores:
    """Scores word vectors.

    Args:
        table: What is scored.
        analogies: Files of questions, as `questions-words.txt` has them, plain or `.gz`.
        similarities: Files of pairs with scores, as WordSim-353 and SimLex-999 have them. Without
            any file, the questions that come with Regard.
    """
    if not analogies and not similarities:
        asked = {OWN: own_questions()}
    else:
        asked = {file: read_questions(file) for file in analogies}
    pairs = {file: read_pairs(file) for file in similarities}
    return VectorScores(
        table.name,
        {file: answer(table, sections) for file, sections in asked.items()},
        {file: rank(table, rows) for file, rows in pairs.items()},
    )


def read_questions(file: str) -> dict[str, list[Question]]:
    """The sections of a file of analogies: `: name`, then four words a line.

    Raises:
        InputError: A line is neither, with its number; or there is no question.
    """
    sections: dict[str, list[Question]] = {}
    name = ""
    for number, text in _texts(file, "questions of four words a line"):
        if text.startswith(":"):
            name = text[1:].strip()
            continue
        words = text.split()
        if len(words) != 4:
            raise InputError(f"{file}:{number}", got=f"{len(words)} words", expected="four words")
        sections.setdefault(name, []).append((words[0], words[1], words[2], words[3]))
    if not sections:
        raise InputError(file, got="no question", expected="four words a line")
    return sections


def read_pairs(file: str) -> Pairs:
    """Two words and a score a line, with tabs, commas or spaces between.

    Lines that begin with # are comments; a first line without a number names columns.

    Raises:
        InputError: A line is not such, with its number; or there is no pair.
    """
    pairs: Pairs = []
    begun = False
    for number, text in _texts(file, "two words and a score a line"):
        separator = next((mark for mark in "\t,;" if mark in text), None)
        fields = [field.strip() for field in text.split(separator)]
        score = _score(fields)
        if score is not None:
            pairs.append((fields[0], fields[1], score))
        elif begun or len(fields) < 3:
            got, expected = text[:60], "two words and a score"
            raise InputError(f"{file}:{number}", got=repr(got), expected=expected)
        begun = True
    if not pairs:
        raise InputError(file, got="no pair", expected="two words and a score a line")
    return pairs


def _score(fields: list[str]) -> float | None:
    """The first number after the two words: SimLex-999's own file has the part of speech before."""
    for field in fields[2:4]:
        try:
            found = float(field)
        except ValueError:
            continue
        return found if np.isfinite(found) else None
    return None


def _texts(file: str, expected: str) -> Iterable[tuple[int, str]]:
    """The numbered lines of a file that say something."""
    for number, line in numbered(file, expected, LONGEST_LINE):
        if isinstance(line, Problem):
            raise InputError(str(line))
        try:
            text = line.decode().strip()
        except UnicodeDecodeError:
            raise InputError(f"{file}:{number}", got="no UTF-8", expected="text") from None
        if text and not text.startswith("#"):
            yield number, text


def answer(table: WordVectors, sections: dict[str, list[Question]]) -> dict[str, Answered]:
    """Asks every question whose words are known, in lower case unless that is not known."""
    rows = {word: place for word in _words(sections) if (place := _row_of(table, word)) is not None}
    return {name: _section(table, questions, rows) for name, questions in sections.items()}


def _words(sections: dict[str, list[Question]]) -> set[str]:
    return {word for questions in sections.values() for each in questions for word in each}


def _row_of(table: WordVectors, word: str) -> int | None:
    """Questions are compared in lower case; a table with capitals alone is asked as written."""
    place = table.index.get(word.lower())
    return table.index.get(word) if place is None else place


def _section(table: WordVectors, questions: Sequence[Question], rows: dict[str, int]) -> Answered:
    known = [[rows[word] for word in each] for each in questions if all(w in rows for w in each)]
    if not known:
        return Answered(0, 0, len(questions))
    asked, right = np.array(known), 0
    step = max(1, AT_ONCE // len(table))
    for start in range(0, len(asked), step):
        a, b, c, wanted = asked[start : start + step].T
        cosines = (table.unit[b] - table.unit[a] + table.unit[c]) @ table.unit.T
        for place in (a, b, c):
            cosines[np.arange(len(place)), place] = -np.inf
        right += int((cosines.argmax(1) == wanted).sum())
    return Answered(right, len(asked), len(questions) - len(asked))


def rank(table: WordVectors, pairs: Pairs) -> Ranked:
    """Compares the order of cosines with that of people's scores."""
    known = [
        (first, second, score)
        for one, other, score in pairs
        if (first := _row_of(table, one)) is not None
        and (second := _row_of(table, other)) is not None
    ]
    outside = len(pairs) - len(known)
    if not known:
        return Ranked(None, 0, outside)
    places = np.array([(first, second) for first, second, _ in known])
    cosines = (table.unit[places[:, 0]] * table.unit[places[:, 1]]).sum(1)
    scores = np.array([score for *_, score in known])
    return Ranked(spearman(cosines, scores), len(known), outside)


def spearman(one: npt.ArrayLike, other: npt.ArrayLike) -> float | None:
    """The correlation of ranks, equals at the mean of their ranks; None where it is not defined.

    Example:
        >>> spearman([1, 2, 3, 4], [10, 20, 30, 25])
        0.8
    """
    first, second = (ranks(np.asarray(values, np.float64)) for values in (one, other))
    first, second = first - first.mean(), second - second.mean()
    scale = float(np.sqrt((first**2).sum() * (second**2).sum()))
    return round(float((first * second).sum() / scale), 12) if scale else None


def ranks(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Places in the order of size, from 1 on; equals share the mean of theirs.

    Example:
        >>> ranks(np.array([5.0, 1.0, 5.0])).tolist()
        [2.5, 1.0, 2.5]
    """
    _, where, times = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(times)
    found: npt.NDArray[np.float64] = (last - (times - 1) / 2)[where]
    return found
