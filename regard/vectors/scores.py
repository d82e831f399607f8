"""Evaluate word vectors on analogy questions and on human similarity scores.

Analogies are the questions of Mikolov et al. (2013), such as `king − man + woman`, answered by the
word with the largest cosine (3CosAdd), the words of the question excluded. Similarities are word
pairs scored by people; they are compared with the cosines by Spearman's rank correlation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.data.text.records import Problem, numbered_lines
from regard.errors import InputError
from regard.vectors.questions import own_questions
from regard.vectors.table import WordVectors

AT_ONCE = 2**26
"""The largest number of cosines held in memory at once."""
LONGEST_LINE = 2**16
OWN_QUESTIONS = "own questions"
"""The name of the questions that come with Regard."""

Question = tuple[str, str, str, str]
Pairs = list[tuple[str, str, float]]


@dataclass(frozen=True)
class Answered:
    """How many questions of a section were answered correctly."""

    right: int
    asked: int
    """Questions whose four words all have a vector."""
    outside: int
    """Questions with an unknown word, which do not count."""

    @property
    def accuracy(self) -> float | None:
        """The share of correct answers among the asked questions; None if none were asked."""
        return self.right / self.asked if self.asked else None

    def to_json(self) -> dict[str, Any]:
        """Counts and accuracy by name."""
        return {**asdict(self), "accuracy": self.accuracy}


@dataclass(frozen=True)
class Ranked:
    """The rank correlation between cosines and human scores of word pairs."""

    spearman: float | None
    """None if there are fewer than two pairs, or all values are equal."""
    pairs: int
    """Pairs whose two words both have a vector."""
    outside: int
    """Pairs with an unknown word, which do not count."""


@dataclass(frozen=True)
class VectorScores:
    """The result of `regard eval` for word vectors."""

    name: str
    analogies: dict[str, dict[str, Answered]]
    """Analogy results by file, then by section."""
    similarities: dict[str, Ranked]
    """Similarity results by file."""

    def to_json(self) -> list[dict[str, Any]]:
        """One object per file."""
        rows: list[dict[str, Any]] = []
        for file, sections in self.analogies.items():
            results = {name: answered.to_json() for name, answered in sections.items()}
            rows.append({"analogies": file, **total(sections).to_json(), "sections": results})
        for file, ranked in self.similarities.items():
            rows.append({"similarity": file, **asdict(ranked)})
        return rows

    def table(self) -> str:
        """The results as a text table."""
        lines = []
        for file, sections in self.analogies.items():
            lines.append(_table_row(Path(file).name, total(sections)))
            if len(sections) > 1:
                lines += [_table_row(f"  {name}", answered) for name, answered in sections.items()]
        for file, ranked in self.similarities.items():
            correlation = "-" if ranked.spearman is None else f"{ranked.spearman:.3f}"
            outside = f"({ranked.outside:,} with unknown words)"
            result = f"Spearman {correlation} on {ranked.pairs:,} pairs"
            lines.append(f"{Path(file).name:<32}  {result} {outside}")
        return "\n".join(lines)


def _table_row(name: str, answered: Answered) -> str:
    """Write one line of the table: accuracy and counts."""
    share = "-" if answered.accuracy is None else f"{answered.accuracy:.1%}"
    result = f"{share:>6} of {answered.asked:,} questions"
    return f"{name:<32}  {result} ({answered.outside:,} with unknown words)"


def total(sections: dict[str, Answered]) -> Answered:
    """The counts of all sections added up."""
    results = sections.values()
    return Answered(
        sum(answered.right for answered in results),
        sum(answered.asked for answered in results),
        sum(answered.outside for answered in results),
    )


def evaluate(
    table: WordVectors, analogies: Sequence[str] = (), similarities: Sequence[str] = ()
) -> VectorScores:
    """Evaluate word vectors; without any file, on the questions that come with Regard.

    Args:
        table: The word vectors.
        analogies: Files of questions in the format of `questions-words.txt`, plain or `.gz`.
        similarities: Files of scored pairs in the format of WordSim-353 or SimLex-999.
    """
    if not analogies and not similarities:
        questions_by_file = {OWN_QUESTIONS: own_questions()}
    else:
        questions_by_file = {file: read_questions(file) for file in analogies}
    pairs = {file: read_pairs(file) for file in similarities}
    answers = {file: answer(table, sections) for file, sections in questions_by_file.items()}
    return VectorScores(table.name, answers, {file: rank(table, pairs[file]) for file in pairs})


def read_questions(file: str) -> dict[str, list[Question]]:
    """Read a file of analogies: a line `: name` begins a section, others have four words.

    Raises:
        InputError: For a line of another form, with its number, or a file without questions.
    """
    sections: dict[str, list[Question]] = {}
    name = ""
    for number, text in _numbered_lines(file, "questions of four words per line"):
        if text.startswith(":"):
            name = text[1:].strip()
            continue
        words = text.split()
        if len(words) != 4:
            raise InputError(f"{file}:{number}", got=f"{len(words)} words", expected="four words")
        sections.setdefault(name, []).append((words[0], words[1], words[2], words[3]))
    if not sections:
        raise InputError(file, got="no question", expected="four words per line")
    return sections


def read_pairs(file: str) -> Pairs:
    """Read two words and a score per line, separated by tabs, commas, semicolons or spaces.

    Lines that begin with # are comments; a first line without a number is a header.

    Raises:
        InputError: For a line of another form, with its number, or a file without pairs.
    """
    pairs: Pairs = []
    past_first_line = False
    for number, text in _numbered_lines(file, "two words and a score per line"):
        separator = next((mark for mark in "\t,;" if mark in text), None)
        fields = [field.strip() for field in text.split(separator)]
        score = _score(fields)
        if score is not None:
            pairs.append((fields[0], fields[1], score))
        elif past_first_line or len(fields) < 3:
            got, expected = text[:60], "two words and a score"
            raise InputError(f"{file}:{number}", got=repr(got), expected=expected)
        past_first_line = True
    if not pairs:
        raise InputError(file, got="no pair", expected="two words and a score per line")
    return pairs


def _score(fields: list[str]) -> float | None:
    """The first number after the two words; in SimLex-999 the part of speech comes before it."""
    for field in fields[2:4]:
        try:
            score = float(field)
        except ValueError:
            continue
        return score if np.isfinite(score) else None
    return None


def _numbered_lines(file: str, expected: str) -> Iterable[tuple[int, str]]:
    """The numbered lines of a file, without empty lines and comments."""
    for number, line in numbered_lines(file, expected, LONGEST_LINE):
        if isinstance(line, Problem):
            raise InputError(str(line))
        try:
            text = line.decode().strip()
        except UnicodeDecodeError:
            what = f"{file}:{number}"
            raise InputError(what, got="bytes that are not UTF-8", expected="text") from None
        if text and not text.startswith("#"):
            yield number, text


def answer(table: WordVectors, sections: dict[str, list[Question]]) -> dict[str, Answered]:
    """Answer every question whose words all have a vector; results by section."""
    words = {word for questions in sections.values() for question in questions for word in question}
    rows = {word: row for word in words if (row := _row_of(table, word)) is not None}
    return {name: _results(table, questions, rows) for name, questions in sections.items()}


def _row_of(table: WordVectors, word: str) -> int | None:
    """The row of a word: in lower case, or as written if the lower case is unknown."""
    row = table.index.get(word.lower())
    return table.index.get(word) if row is None else row


def _results(table: WordVectors, questions: Sequence[Question], rows: dict[str, int]) -> Answered:
    """Answer the questions of a section by 3CosAdd, and count the correct answers."""
    known_questions = [question for question in questions if rows.keys() >= {*question}]
    row_lists = [[rows[word] for word in question] for question in known_questions]
    if not row_lists:
        return Answered(0, 0, len(questions))
    question_rows, correct = np.array(row_lists), 0
    step = max(1, AT_ONCE // len(table))
    for start in range(0, len(question_rows), step):
        a, b, c, expected = question_rows[start : start + step].T
        cosines = (table.unit[b] - table.unit[a] + table.unit[c]) @ table.unit.T
        for words in (a, b, c):
            cosines[np.arange(len(words)), words] = -np.inf
        correct += int((cosines.argmax(1) == expected).sum())
    return Answered(correct, len(question_rows), len(questions) - len(question_rows))


def rank(table: WordVectors, pairs: Pairs) -> Ranked:
    """Spearman's rank correlation between the cosines and the human scores of word pairs."""
    known_pairs = [
        (row, other_row, score)
        for word, other, score in pairs
        if (row := _row_of(table, word)) is not None
        and (other_row := _row_of(table, other)) is not None
    ]
    outside = len(pairs) - len(known_pairs)
    if not known_pairs:
        return Ranked(None, 0, outside)
    rows = np.array([(row, other_row) for row, other_row, _ in known_pairs])
    cosines = (table.unit[rows[:, 0]] * table.unit[rows[:, 1]]).sum(1)
    scores = np.array([score for *_, score in known_pairs])
    return Ranked(spearman(cosines, scores), len(known_pairs), outside)


def spearman(values: npt.ArrayLike, other_values: npt.ArrayLike) -> float | None:
    """Spearman's rank correlation; ties get their mean rank. None where it is undefined.

    Example:
        >>> spearman([1, 2, 3, 4], [10, 20, 30, 25])
        0.8
    """
    first, second = (ranks(np.asarray(numbers, np.float64)) for numbers in (values, other_values))
    first, second = first - first.mean(), second - second.mean()
    scale = float(np.sqrt((first**2).sum() * (second**2).sum()))
    return round(float((first * second).sum() / scale), 12) if scale else None


def ranks(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The ranks of values in ascending order, from 1; ties get their mean rank.

    Example:
        >>> ranks(np.array([5.0, 1.0, 5.0])).tolist()
        [2.5, 1.0, 2.5]
    """
    _, inverse, times = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(times)
    return (last - (times - 1) / 2)[inverse]
