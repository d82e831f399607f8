"""Files of labelled examples -> examples: the first step of fine-tuning.

In: tables (TSV, CSV, JSONL, Parquet, dataset folders) of texts with a class, of words with tags or
of questions about a text; words with tags in columns as in CoNLL; SQuAD's JSON. Out: for each
example a `LabelledText`, `TaggedWords` or `Question`, or a `Problem` with file and line number.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Any, TypeVar

from regard.data.config import Columns
from regard.data.text import records, tables
from regard.data.text.records import Numbered, Problem, Unfit
from regard.data.text.roles import QUESTIONS, TEXTS, WORDS, Layout
from regard.data.text.tables import Row
from regard.errors import InputError

LABELLED = "examples with labels"
"""What a file should contain, for the error about an empty file."""
DOCUMENT = "-DOCSTART-"
"""Stands in place of a word between two documents in CoNLL files."""
LONGEST_DOCUMENT = 2**28
"""The most characters of a JSON document; SQuAD has 42 million, all on one line."""
MISPLACED = "an answer that is not at its start"


@dataclass(frozen=True)
class LabelledText:
    """A text, or a pair of texts, with its class."""

    text: str
    pair: str | None
    label: str

    @property
    def key(self) -> Hashable:
        """Examples with equal keys must stay in one split."""
        return self.text, self.pair

    @property
    def texts(self) -> tuple[str, ...]:
        """The text, or both texts."""
        return (self.text,) if self.pair is None else (self.text, self.pair)

    @property
    def labels(self) -> tuple[str, ...]:
        """The class."""
        return (self.label,)


@dataclass(frozen=True)
class TaggedWords:
    """The words of a sentence with a tag for each."""

    words: tuple[str, ...]
    tags: tuple[str, ...]

    @property
    def key(self) -> Hashable:
        """Examples with equal keys must stay in one split."""
        return self.words

    @property
    def texts(self) -> tuple[str, ...]:
        """All words as one text."""
        return (" ".join(self.words),)

    @property
    def labels(self) -> tuple[str, ...]:
        """The tags."""
        return self.tags


@dataclass(frozen=True)
class Excerpt:
    """A part of a text, and the index of its first character."""

    text: str
    start: int


@dataclass(frozen=True)
class Question:
    """A question about a text, with the marked answers in it; none if it has no answer."""

    question: str
    context: str
    answers: tuple[Excerpt, ...]

    @property
    def key(self) -> Hashable:
        """Examples with equal keys must stay in one split."""
        return self.context

    @property
    def texts(self) -> tuple[str, ...]:
        """The question and its context."""
        return self.question, self.context


Example = TypeVar("Example", LabelledText, TaggedWords, Question)


# Texts with a class


def _read_texts(table: str, columns: Columns) -> Iterator[LabelledText | Problem]:
    """Read a table of texts with a class."""
    return _read_table(table, columns, TEXTS, _parse_text)


def _read_table(
    table: str, columns: Columns, layout: Layout, understand: Callable[[Row], Example]
) -> Iterator[Example | Problem]:
    """Read a table; `understand` makes an example from the values of a row."""
    rows = tables.read_rows(table, layout, columns, understand, LABELLED)
    return (example for _, example in rows)


def _parse_text(row: Row) -> LabelledText:
    """Make a labelled text, or pair of texts, from the values of a row."""
    _check_filled(row, "text", *(() if row.get("pair") is None else ("pair",)))
    return LabelledText(row["text"], row.get("pair"), _parse_label(row))


def _check_filled(row: Row, *roles: str) -> None:
    """Raise `Unfit` if a text is empty."""
    for role in roles:
        if not row[role].strip():
            raise Unfit(f"empty {role}")


def _parse_label(row: Row) -> str:
    """Return the label of a row as a text; numbers of classes are allowed."""
    label = row["label"]
    if isinstance(label, float) and label.is_integer():
        label = int(label)  # what tables make of whole numbers where some are missing
    if not isinstance(label, str | int):
        raise Unfit(records.KEYS, "'label' should be a name or a whole number")
    if str(label).strip() == "":
        raise Unfit("empty label")
    return str(label).strip()


# Words with tags


def _read_words(table: str, columns: Columns) -> Iterator[TaggedWords | Problem]:
    """Read words with tags: a word per line, or lists in the rows of a table."""
    if one_word_a_line(table):
        return _read_sentences(table, columns)
    return _read_table(table, columns, WORDS, _parse_words)


def one_word_a_line(table: str) -> bool:
    """Whether a file of words has a line for each, not a list in each row."""
    return records.has_suffix(table, *tables.CELLS) or not tables.is_table(table)


def _parse_words(row: Row) -> TaggedWords:
    """Make a sentence from a row with a list of words and a list of tags."""
    words, tags = _parse_list(row, "words"), _parse_list(row, "tags")
    if len(words) != len(tags):
        raise Unfit(records.COLUMNS, f"{len(words)} words but {len(tags)} tags")
    if not words or not all(text.strip() for text in (*words, *tags)):
        raise Unfit(records.EMPTY, "a sentence without words, or an empty word or tag")
    return TaggedWords(tuple(words), tuple(tags))


def _parse_list(row: Row, key: str) -> list[str]:
    """Return the list of texts of a row's column."""
    values = row[key]
    if key == "tags" and isinstance(values, list):  # tags may be numbers
        values = [str(value) if type(value) is int else value for value in values]
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise Unfit(records.KEYS, f"{key!r} should be a list of texts")
    return values


def _read_sentences(file: str, columns: Columns) -> Iterator[TaggedWords | Problem]:
    """Read one word per line with its tag in the last column; an empty line ends a sentence."""

    def is_empty(row: tuple[int, list[str] | Problem]) -> bool:
        return not isinstance(row[1], Problem) and not any(cell.strip() for cell in row[1])

    plan = plan_words(file, columns)
    word, tag = (plan.chosen[role] for role in ("words", "tags")) if plan.chosen else (0, -1)
    lines = islice(_word_rows(file), int(plan.header), None)
    for empty, rows in groupby(lines, key=is_empty):
        sentence = None if empty else _parse_sentence(file, rows, word, tag)
        if sentence is not None:
            yield sentence


def plan_words(file: str, columns: Columns) -> tables.Plan:
    """Decide which columns of a file with one word per line are the word and the tag."""
    return tables.plan_cells(file, WORDS, columns, _word_rows(file))


def _word_rows(file: str) -> Numbered[list[str]]:
    """Yield the cells of each line, which tabs, commas or blanks separate."""
    for number, row in records.table_rows(file, LABELLED):
        if not isinstance(row, Problem):
            row = row[0].split() if len(row) == 1 else [cell.strip() for cell in row]
        yield number, row


def _parse_sentence(
    file: str, rows: Numbered[list[str]], word: int, tag: int
) -> TaggedWords | Problem | None:
    """Return the sentence in some rows, or the first problem; None if there is no word."""
    words: list[tuple[str, str]] = []
    for number, cells in rows:
        if isinstance(cells, Problem):
            return cells
        if cells[0] == DOCUMENT:
            continue
        if len(cells) < max(2, word + 1, tag + 1) or not cells[word] or not cells[tag]:
            line = " ".join(cells)
            return Problem(file, number, records.COLUMNS, f"{line!r}, not a word and its tag")
        if len(cells[word].split()) == len(cells[tag].split()) > 1:
            detail = f"{cells[word][:40]!r} is a sentence: one word a line, or lists in JSONL"
            return Problem(file, number, records.COLUMNS, detail)
        words.append((cells[word], cells[tag]))
    if not words:
        return None
    return TaggedWords(tuple(word for word, _ in words), tuple(tag for _, tag in words))


# Questions about a text


def _read_questions(table: str, columns: Columns) -> Iterator[Question | Problem]:
    """Read questions from SQuAD's JSON or from a table."""
    if records.has_suffix(table, ".json"):
        return _read_squad(table)
    return _read_table(table, columns, QUESTIONS, _parse_question)


def _parse_question(row: Row) -> Question:
    """Make a question with its answers from the values of a row."""
    _check_filled(row, "context", "question")
    context, answers = row["context"], row.get("answers")
    if isinstance(answers, str):
        answers = _locate_answer(answers, row.get("start"), context) if answers.strip() else None
    return Question(row["question"], context, _parse_answers(answers, context))


def _locate_answer(answer: str, start: Any, context: str) -> dict[str, Any]:
    """Return an answer that is a text alone, with its start: as given, or its only place."""
    if start is None or str(start).strip() == "":
        if context.count(answer) != 1:
            times = context.count(answer)
            raise Unfit(MISPLACED, f"{answer[:40]!r} occurs {times} times: its start is needed")
        start = context.index(answer)
    try:
        return {"text": answer, "start": int(start)}
    except (TypeError, ValueError, OverflowError):
        raise Unfit(records.KEYS, f"'start' should be a whole number, not {start!r}") from None


def _parse_answers(value: Any, context: str) -> tuple[Excerpt, ...]:
    """Parse the answers of a question, and check each against the context.

    Args:
        value: One object with text and start, a list of such objects, or an object with lists of
            texts and starts; None for no answer.
        context: The text that the starts refer to.
    """
    if isinstance(value, dict):
        texts, starts = value.get("text"), value.get("start", value.get("answer_start"))
        value = [value]
        if isinstance(texts, list) and isinstance(starts, list) and len(texts) == len(starts):
            value = [{"text": t, "start": s} for t, s in zip(texts, starts, strict=True)]
    value = [] if value is None else value
    if not isinstance(value, list) or not all(isinstance(answer, dict) for answer in value):
        raise Unfit(records.KEYS, "'answers' should have 'text' and 'start'")
    answers = []
    for answer in value:
        text, start = answer.get("text"), answer.get("start", answer.get("answer_start"))
        if not isinstance(text, str) or type(start) is not int:
            raise Unfit(records.KEYS, "an answer should have a 'text' and a 'start'")
        if not text.strip() or start < 0 or context[start : start + len(text)] != text:
            raise Unfit(MISPLACED, f"{text[:40]!r} at {start}")
        answers.append(Excerpt(text, start))
    return tuple(answers)


def _read_squad(file: str) -> Iterator[Question | Problem]:
    """Read SQuAD's JSON document: articles, their paragraphs, the questions about each."""
    lines, size = [], 0
    for _, line in records.text_lines(file, LABELLED, LONGEST_DOCUMENT):
        if isinstance(line, Problem):
            yield line
            return
        lines.append(line)
        size += len(line) + 1
        if size > LONGEST_DOCUMENT:
            expected = f"at most {LONGEST_DOCUMENT:,} characters"
            raise InputError(file, got="more text", expected=expected)
    try:
        articles = json.loads("\n".join(lines))["data"]
        rows = [
            {
                "context": paragraph["context"],
                "question": question["question"],
                "answers": [] if question.get("is_impossible") else question["answers"],
                "id": question.get("id", "?"),
            }
            for article in articles
            for paragraph in article["paragraphs"]
            for question in paragraph["qas"]
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        got = f"no {problem}" if isinstance(problem, KeyError) else "something else"
        expected = "JSON in SQuAD's format: data, paragraphs, context, qas, question, answers"
        raise InputError(file, got=got, expected=expected) from None
    for row in rows:
        try:
            yield _parse_question(row)
        except Unfit as problem:
            what, *detail = problem.args
            yield Problem(file, 1, what, f"question {row['id']}: {' '.join(detail)}")


READERS: dict[str, Callable[[str, Columns], Iterator[Any]]] = {
    "classify": _read_texts,
    "tag": _read_words,
    "answer": _read_questions,
}
"""The reader of each task's examples: (table, named columns) -> examples or problems."""
