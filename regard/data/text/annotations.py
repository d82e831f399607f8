"""Files of labelled examples -> examples: the first step of fine-tuning.

In: texts with a class (TSV, CSV, JSONL), words with tags (columns as in CoNLL, JSONL), or questions
about a text (SQuAD's JSON, JSONL), uncompressed or `.gz`. Out: for each example a `LabelledText`,
`TaggedWords` or `Question`, or a `Problem` with file and line number.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeVar

from regard.data.text import records
from regard.data.text.records import Numbered, Problem, Unfit
from regard.errors import InputError

LABELLED = "examples with labels"
"""What a file should contain, for the error about an empty file."""
HEADERS = {
    "text", "sentence", "sentence1", "sentence2", "pair", "premise", "hypothesis", "question",
    "label", "labels", "class", "sentiment", "target",
}  # fmt: skip
"""Usual names of columns: a first line of only these is a header, not an example."""
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


def _each(
    file: str, understand: Callable[[dict[str, Any]], Example]
) -> Iterator[Example | Problem]:
    """Yield the example in each object of a JSONL file, or its problem."""

    def example(row: dict[str, Any]) -> Example:
        if not records.encodable(json.dumps(row, ensure_ascii=False)):
            raise Unfit(records.UNDECODABLE, "half a character")
        return understand(row)

    return (found for _, found in records.parsed(file, records.json_rows(file, LABELLED), example))


def _text_in(row: dict[str, Any], key: str) -> str:
    value = records.text_field(row, key)
    if not value.strip():
        raise Unfit(f"empty {key}")
    return value


def _label(row: dict[str, Any]) -> str:
    label = row.get("label")
    if not isinstance(label, str | int) or str(label).strip() == "":
        raise Unfit(records.KEYS, "'label' should be a name or a whole number")
    return str(label).strip()


# Texts with a class


def _texts(file: str, header: bool) -> Iterator[LabelledText | Problem]:
    if records.has_suffix(file, ".jsonl"):
        return _each(file, _text_of)
    if records.has_suffix(file, ".tsv", ".csv"):
        return _columns(file, header)
    raise InputError(
        file,
        got="an unknown file suffix",
        expected=".tsv or .csv (text, label; or text, text, label) or .jsonl",
    )


def _text_of(row: dict[str, Any]) -> LabelledText:
    pair = None if row.get("pair") is None else _text_in(row, "pair")
    return LabelledText(_text_in(row, "text"), pair, _label(row))


def _columns(file: str, header: bool) -> Iterator[LabelledText | Problem]:
    width = 0  # columns of the first example: a file has texts or pairs, not both

    def example(row: list[str]) -> LabelledText:
        nonlocal width
        cells = [cell.strip() for cell in row]
        if not any(cells):
            raise Unfit(records.EMPTY)
        if len(cells) not in ((width,) if width else (2, 3)):
            raise Unfit(records.COLUMNS, f"{len(cells)}, not {width or '2 or 3'}")
        if not all(cells):
            place = cells.index("") + 1
            what = "label" if place == len(cells) else "text"
            raise Unfit(f"empty {what}", f"column {place}")
        width = len(cells)
        return LabelledText(cells[0], cells[1] if width == 3 else None, cells[-1])

    return (found for _, found in records.parsed(file, _without_header(file, header), example))


def _without_header(file: str, header: bool) -> Numbered[list[str]]:
    for number, cells in records.table_rows(file, LABELLED):
        names = [] if isinstance(cells, Problem) else [cell.strip().lower() for cell in cells]
        if number == 1 and names and not header and set(names) <= HEADERS:
            raise InputError(
                f"{file}:1",
                got=f"{', '.join(names)}: the names of the columns",
                expected="an example",
                fix="data.header=true leaves the first line out",
            )
        if number > 1 or not header:
            yield number, cells


# Words with tags


def _words(file: str, header: bool) -> Iterator[TaggedWords | Problem]:  # noqa: ARG001
    return _each(file, _words_of) if records.has_suffix(file, ".jsonl") else _sentences(file)


def _words_of(row: dict[str, Any]) -> TaggedWords:
    words, tags = _list_in(row, "words"), _list_in(row, "tags")
    if len(words) != len(tags):
        raise Unfit(records.COLUMNS, f"{len(words)} words but {len(tags)} tags")
    if not words or not all(each.strip() for each in (*words, *tags)):
        raise Unfit(records.EMPTY, "a sentence without words, or an empty word or tag")
    return TaggedWords(tuple(words), tuple(tags))


def _list_in(row: dict[str, Any], key: str) -> list[str]:
    values = row.get(key)
    if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
        raise Unfit(records.KEYS, f"{key!r} should be a list of texts")
    return values


def _sentences(file: str) -> Iterator[TaggedWords | Problem]:
    """Read one word per line with its tag in the last column; an empty line ends a sentence."""

    def is_empty(row: tuple[int, list[str] | Problem]) -> bool:
        return not isinstance(row[1], Problem) and not any(cell.strip() for cell in row[1])

    for empty, rows in groupby(records.table_rows(file, LABELLED), key=is_empty):
        found = None if empty else _sentence(file, rows)
        if found is not None:
            yield found


def _sentence(file: str, rows: Numbered[list[str]]) -> TaggedWords | Problem | None:
    """Return the sentence in some rows, or the first problem; None if there is no word."""
    words: list[tuple[str, str]] = []
    for number, row in rows:
        if isinstance(row, Problem):
            return row
        cells = row[0].split() if len(row) == 1 else [cell.strip() for cell in row]
        if cells[0] == DOCUMENT:
            continue
        if len(cells) < 2 or not cells[0] or not cells[-1]:
            return Problem(
                file, number, records.COLUMNS, f"{' '.join(row)!r}, not a word and its tag"
            )
        words.append((cells[0], cells[-1]))
    if not words:
        return None
    return TaggedWords(tuple(word for word, _ in words), tuple(tag for _, tag in words))


# Questions about a text


def _questions(file: str, header: bool) -> Iterator[Question | Problem]:  # noqa: ARG001
    if records.has_suffix(file, ".jsonl"):
        return _each(file, _question_of)
    if records.has_suffix(file, ".json"):
        return _squad(file)
    raise InputError(
        file, got="an unknown file suffix", expected=".json (in SQuAD's format) or .jsonl"
    )


def _question_of(row: dict[str, Any]) -> Question:
    context = _text_in(row, "context")
    return Question(_text_in(row, "question"), context, _answers(row.get("answers"), context))


def _answers(given: Any, context: str) -> tuple[Excerpt, ...]:
    """Parse the answers of a question, and check each against the context.

    Args:
        given: One object with text and start, a list of such objects, or an object with lists of
            texts and starts; None for no answer.
        context: The text that the starts refer to.
    """
    if isinstance(given, dict):
        texts, starts = given.get("text"), given.get("start", given.get("answer_start"))
        given = [given]
        if isinstance(texts, list) and isinstance(starts, list) and len(texts) == len(starts):
            given = [{"text": t, "start": s} for t, s in zip(texts, starts, strict=True)]
    given = [] if given is None else given
    if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
        raise Unfit(records.KEYS, "'answers' should have 'text' and 'start'")
    found = []
    for each in given:
        text, start = each.get("text"), each.get("start", each.get("answer_start"))
        if not isinstance(text, str) or type(start) is not int:
            raise Unfit(records.KEYS, "an answer should have a 'text' and a 'start'")
        if not text.strip() or start < 0 or context[start : start + len(text)] != text:
            raise Unfit(MISPLACED, f"{text[:40]!r} at {start}")
        found.append(Excerpt(text, start))
    return tuple(found)


def _squad(file: str) -> Iterator[Question | Problem]:
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
                "question": each["question"],
                "answers": [] if each.get("is_impossible") else each["answers"],
                "id": each.get("id", "?"),
            }
            for article in articles
            for paragraph in article["paragraphs"]
            for each in paragraph["qas"]
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        got = f"no {problem}" if isinstance(problem, KeyError) else "something else"
        expected = "JSON in SQuAD's format: data, paragraphs, context, qas, question, answers"
        raise InputError(file, got=got, expected=expected) from None
    for row in rows:
        try:
            yield _question_of(row)
        except Unfit as problem:
            what, *detail = problem.args
            yield Problem(file, 1, what, f"question {row['id']}: {' '.join(detail)}")


READERS: dict[str, Callable[[str, bool], Iterator[Any]]] = {
    "classify": _texts,
    "tag": _words,
    "answer": _questions,
}
"""The reader of each task's examples: (file, whether it has a header) -> examples or problems."""
