"""Files of labelled examples -> examples: the first step of fine-tuning.

In: texts with a class (TSV, CSV, JSONL), words with tags (columns as in CoNLL, JSONL), or questions
about a text (SQuAD's JSON, JSONL), uncompressed or `.gz`. Out: for each example a `LabelledText`,
`TaggedWords` or `Question`, or a `Problem` with file and line number.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from regard.data.text.files import (
    COLUMNS,
    EMPTY,
    JSON,
    KEYS,
    LONGEST_LINE,
    UNDECODABLE,
    Problem,
    csv_rows,
    encodable,
    numbered,
)
from regard.errors import InputError

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


@dataclass(frozen=True)
class TaggedWords:
    """The words of a sentence with a tag for each."""

    words: tuple[str, ...]
    tags: tuple[str, ...]

    @property
    def key(self) -> Hashable:
        """Examples with equal keys must stay in one split."""
        return self.words


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


def text_of(example: LabelledText | TaggedWords | Question) -> str:
    """Return the whole text of an example: both texts, all words, or question and context."""
    if isinstance(example, TaggedWords):
        return " ".join(example.words)
    if isinstance(example, Question):
        return f"{example.question} {example.context}"
    return example.text if example.pair is None else f"{example.text} {example.pair}"


Example = TypeVar("Example", LabelledText, TaggedWords, Question)


def _numbered(file: str, longest: int = LONGEST_LINE) -> Iterator[tuple[int, str | Problem]]:
    r"""Yield the lines of a file, ended by \n or \r\n only, or their problems, with numbers."""
    for number, content in numbered(file, "examples with labels", longest):
        if isinstance(content, Problem):
            yield number, content
            continue
        try:
            yield number, content.decode()
        except UnicodeDecodeError as problem:
            byte = f"byte 0x{content[problem.start]:02x} at {problem.start + 1}"
            yield number, Problem(file, number, UNDECODABLE, byte)


def _ends(file: str, suffix: str) -> bool:
    return file.lower().removesuffix(".gz").endswith(suffix)


def _objects(file: str) -> Iterator[tuple[int, dict[str, Any] | Problem]]:
    """Yield the objects of a JSONL file, or their problems, with line numbers."""
    for number, line in _numbered(file):
        if isinstance(line, Problem):
            yield number, line
            continue
        if not line.strip():
            yield number, Problem(file, number, EMPTY)
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as problem:
            yield number, Problem(file, number, JSON, str(problem))
            continue
        if not isinstance(row, dict):
            kind = type(row).__name__
            yield number, Problem(file, number, JSON, f"a {kind}, not an object")
        elif not encodable(json.dumps(row, ensure_ascii=False)):
            yield number, Problem(file, number, UNDECODABLE, "half a character")
        else:
            yield number, row


def _each(
    file: str, understand: Callable[[dict[str, Any]], Example]
) -> Iterator[Example | Problem]:
    """Yield the example in each object of a JSONL file, or its problem."""
    for number, row in _objects(file):
        if isinstance(row, Problem):
            yield row
            continue
        try:
            yield understand(row)
        except _Unfit as problem:
            yield Problem(file, number, problem.what, problem.detail)


class _Unfit(Exception):
    """Raised for an example that cannot be used, with the reason."""

    def __init__(self, what: str, detail: str) -> None:
        super().__init__(what, detail)
        self.what, self.detail = what, detail


def _text_in(row: dict[str, Any], key: str) -> str:
    value = row.get(key)
    if not isinstance(value, str):
        found = ", ".join(map(repr, row)) or "none"
        raise _Unfit(KEYS, f"{found}: {key!r} should be a text")
    if not value.strip():
        raise _Unfit(f"empty {key}", "")
    return value


def _label(row: dict[str, Any]) -> str:
    label = row.get("label")
    if not isinstance(label, str | int) or str(label).strip() == "":
        raise _Unfit(KEYS, "'label' should be a name or a whole number")
    return str(label).strip()


# Texts with a class


def _texts(file: str, header: bool) -> Iterator[LabelledText | Problem]:
    if _ends(file, ".jsonl"):
        return _each(file, _text_of)
    if _ends(file, ".tsv") or _ends(file, ".csv"):
        return _columns(file, header=header)
    raise InputError(
        file,
        got="an unknown file suffix",
        expected=".tsv or .csv (text, label; or text, text, label) or .jsonl",
    )


def _text_of(row: dict[str, Any]) -> LabelledText:
    pair = None if row.get("pair") is None else _text_in(row, "pair")
    return LabelledText(_text_in(row, "text"), pair, _label(row))


def _columns(file: str, *, header: bool) -> Iterator[LabelledText | Problem]:
    width = 0  # columns of the first example: a file has texts or pairs, not both
    rows = csv_rows(file, "examples with labels") if _ends(file, ".csv") else _tabbed(file)
    for number, row in rows:
        if number == 1 and header:
            continue
        if isinstance(row, Problem):
            yield row
            continue
        cells = [cell.strip() for cell in row]
        if number == 1 and {cell.lower() for cell in cells} <= HEADERS:
            raise InputError(
                f"{file}:1",
                got=f"{', '.join(cells)}: the names of the columns",
                expected="an example",
                fix="data.header=true leaves the first line out",
            )
        if not any(cells):
            yield Problem(file, number, EMPTY)
        elif len(cells) not in ((width,) if width else (2, 3)):
            yield Problem(file, number, COLUMNS, f"{len(cells)}, not {width or '2 or 3'}")
        elif not all(cells):
            place = cells.index("") + 1
            yield Problem(file, number, "empty label" if place == len(cells) else "empty text",
                          f"column {place}")  # fmt: skip
        else:
            width = len(cells)
            yield LabelledText(cells[0], cells[1] if width == 3 else None, cells[-1])


def _tabbed(file: str) -> Iterator[tuple[int, list[str] | Problem]]:
    """Yield the rows of a TSV file, or their problems, with line numbers."""
    for number, line in _numbered(file):
        yield number, line if isinstance(line, Problem) else line.split("\t")


# Words with tags


def _words(file: str, header: bool) -> Iterator[TaggedWords | Problem]:  # noqa: ARG001
    return _each(file, _words_of) if _ends(file, ".jsonl") else _sentences(file)


def _words_of(row: dict[str, Any]) -> TaggedWords:
    words, tags = row.get("words"), row.get("tags")
    for name, values in (("words", words), ("tags", tags)):
        if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
            raise _Unfit(KEYS, f"{name!r} should be a list of texts")
    assert isinstance(words, list)
    assert isinstance(tags, list)
    if len(words) != len(tags):
        raise _Unfit(COLUMNS, f"{len(words)} words but {len(tags)} tags")
    if not words or not all(each.strip() for each in (*words, *tags)):
        raise _Unfit(EMPTY, "a sentence without words, or an empty word or tag")
    return TaggedWords(tuple(words), tuple(tags))


def _sentences(file: str) -> Iterator[TaggedWords | Problem]:
    """Read one word per line with its tag in the last column; an empty line ends a sentence."""
    words: list[tuple[str, str]] = []
    bad: Problem | None = None
    rows = csv_rows(file, "examples with labels") if _ends(file, ".csv") else _tabbed(file)
    for number, cells in rows:
        if isinstance(cells, Problem):
            bad = bad or cells
            continue
        if not any(cell.strip() for cell in cells):
            yield from _sentence(words, bad)
            words, bad = [], None
            continue
        if len(cells) == 1:
            cells = cells[0].split()
        word, tag = cells[0].strip(), cells[-1].strip()
        if word == DOCUMENT:
            continue
        if len(cells) < 2 or not word or not tag:
            row = " ".join(cells)
            bad = bad or Problem(file, number, COLUMNS, f"{row!r}, not a word and its tag")
        words.append((word, tag))
    yield from _sentence(words, bad)


def _sentence(words: list[tuple[str, str]], bad: Problem | None) -> Iterator[TaggedWords | Problem]:
    if bad is not None:
        yield bad
    elif words:
        yield TaggedWords(tuple(word for word, _ in words), tuple(tag for _, tag in words))


# Questions about a text


def _questions(file: str, header: bool) -> Iterator[Question | Problem]:  # noqa: ARG001
    if _ends(file, ".jsonl"):
        return _each(file, _question_of)
    if _ends(file, ".json"):
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
        if isinstance(texts, list) and isinstance(starts, list) and len(texts) == len(starts):
            given = [{"text": t, "start": s} for t, s in zip(texts, starts, strict=True)]
        else:
            given = [given]
    if given is None:
        given = []
    if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
        raise _Unfit(KEYS, "'answers' should have 'text' and 'start'")
    found = []
    for each in given:
        text, start = each.get("text"), each.get("start", each.get("answer_start"))
        if not isinstance(text, str) or type(start) is not int:
            raise _Unfit(KEYS, "an answer should have a 'text' and a 'start'")
        if not text.strip() or start < 0 or context[start : start + len(text)] != text:
            raise _Unfit(MISPLACED, f"{text[:40]!r} at {start}")
        found.append(Excerpt(text, start))
    return tuple(found)


def _squad(file: str) -> Iterator[Question | Problem]:
    """Read SQuAD's JSON document: articles, their paragraphs, the questions about each."""
    lines, size = [], 0
    for _, line in _numbered(file, LONGEST_DOCUMENT):
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
        paragraphs = [paragraph for article in articles for paragraph in article["paragraphs"]]
        rows = [
            {
                "context": paragraph["context"],
                "question": each["question"],
                "answers": [] if each.get("is_impossible") else each["answers"],
                "id": each.get("id", "?"),
            }
            for paragraph in paragraphs
            for each in paragraph["qas"]
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        got = f"no {problem}" if isinstance(problem, KeyError) else "something else"
        expected = "JSON in SQuAD's format: data, paragraphs, context, qas, question, answers"
        raise InputError(file, got=got, expected=expected) from None
    for row in rows:
        try:
            yield _question_of(row)
        except _Unfit as problem:
            yield Problem(file, 1, problem.what, f"question {row['id']}: {problem.detail}")


READERS: dict[str, Callable[[str, bool], Iterator[Any]]] = {
    "classify": _texts,
    "tag": _words,
    "answer": _questions,
}
"""The reader of each task's examples: (file, whether it has a header) -> examples or problems."""
