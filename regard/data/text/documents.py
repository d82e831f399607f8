r"""Text files -> documents in pieces: the first step of pretraining.

In: files of plain text, uncompressed or `.gz`, or tables with a column of texts. Out:
`DocumentPiece`s of bounded length, so that files, documents and lines may be larger than memory.
Nothing is repaired except that Windows line ends become \n, and bad lines are skipped only with
`data.on_bad=skip`.
"""

from __future__ import annotations

import codecs
import glob
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from regard.data.config import ALL_FOUND, Columns, OnBad
from regard.data.text import arrow, records, tables
from regard.data.text.records import Problem, Unfit
from regard.data.text.roles import DOCUMENTS, PAIRS
from regard.errors import InputError

SUFFIXES = (".txt", ".txt.gz", ".jsonl", ".jsonl.gz")
"""Suffixes of the files that are read from a folder. A file given by name may have any other, such
as `.tsv`."""
EMPTY_FILE = "empty file"
LINES = "texts"
"""What a table should contain, for the error about an empty file."""
LINE = 2**16
"""The most bytes of a line that are read at once; a longer line is read in parts."""
PIECE = 2**18
"""The most characters of a piece of a document."""
ENTRY = 2**26
"""The most characters of a JSONL line: unlike a line of text, it must be parsed as a whole."""

OnProblem = Callable[[Problem], None]
"""Handles a problem: raises an error, or counts it."""
Lines = Iterator[tuple[int, str]]
"""Lines with their numbers; a long line comes in parts with the same number."""


class DocumentPiece(NamedTuple):
    """A part of a document, cut where this does not change the tokens."""

    text: str
    last: bool
    """Whether this is the last piece of the document."""


class Text(Protocol):
    """A source of documents: files, or the documentation of Python's standard library."""

    def pieces(self, skipped: Counter[str]) -> Iterator[DocumentPiece]:
        """Yield the pieces of all documents in order; count skipped problems in `skipped`."""

    def checksums(self) -> dict[str, str]:
        """SHA-256 of each file or source, by name, in the order of reading."""

    def settings(self) -> dict[str, Any]:
        """All other settings that the documents depend on, for JSON."""


def find_files(patterns: str | Sequence[str]) -> tuple[str, ...]:
    """List the files of names, folders and glob patterns: each once, sorted within each pattern.

    Raises:
        InputError: If a pattern matches no file.
    """
    all_files: dict[str, None] = {}
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        path = Path(pattern)
        if arrow.is_dataset(pattern):
            names = [pattern]
        elif path.is_dir():
            names = [str(file) for file in path.rglob("*") if file.name.endswith(SUFFIXES)]
        elif path.exists() or not glob.has_magic(pattern):
            names = [pattern]  # opening a missing file raises an error that names it
        else:
            names = glob.glob(pattern, recursive=True)  # noqa: PTH207 (absolute patterns, too)
        files = sorted(n for n in names if not Path(n).is_dir() or arrow.is_dataset(n))
        if not files:
            kinds = ", ".join(SUFFIXES)
            raise InputError(pattern, got="no text file", expected=f"at least one of {kinds}")
        all_files |= dict.fromkeys(files)
    return tuple(all_files)


def training_files(
    files: Sequence[str], valid: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the files of training and validation text; a dataset folder may have both in it."""
    train: list[str] = []
    inside: list[str] = []
    for name in files:
        splits = arrow.splits_in(name)
        train.append(splits.get("train", name))
        inside += [splits["valid"]] if "valid" in splits else []
    return tuple(train), tuple(valid or inside)


@dataclass(frozen=True)
class TextFiles:
    """Documents from files.

    A document is the text of each row of a table: of a JSONL or Parquet file, a dataset folder, or
    a CSV file whose header has a name for it; or the first column of each line of a TSV file (a
    line that repeats the first column of the line before is left out). Any other file is one
    document or, with a separator, several.
    """

    files: tuple[str, ...]
    separator: str | None = None
    """The line between documents; "" for a blank line. Blank lines around documents are dropped."""
    on_bad: OnBad = "stop"
    """What to do with bad UTF-8, NUL, bad JSONL and empty files; `skip` skips the line or file."""
    columns: Columns = ALL_FOUND
    """Which column of a table has the texts."""

    def pieces(self, skipped: Counter[str]) -> Iterator[DocumentPiece]:
        """Yield the pieces of all documents, file by file.

        Raises:
            InputError: If a file cannot be read, or at the first problem with `stop`.
        """

        def note(problem: Problem) -> None:
            records.count_or_stop(problem, self.on_bad, skipped)

        for file in self.files:
            skipped_before, any_piece = skipped.total(), False
            for piece in join_parts(self._document_parts(file, note)):
                any_piece = True
                yield piece
            if not any_piece and skipped.total() == skipped_before:
                note(Problem(file, 1, EMPTY_FILE))

    def checksums(self) -> dict[str, str]:
        """SHA-256 of each file.

        Raises:
            InputError: If a file cannot be read.
        """
        sums = {}
        for file in self.files:
            if not arrow.is_table(file):
                records.opened(file).close()  # raises a clear error for a missing file or a folder
            try:
                sums[file] = records.checksum(file)
            except OSError as problem:
                raise records.reading_error(file, problem) from None
        return sums

    def settings(self) -> dict[str, Any]:
        """The format of each file (its checksum does not include its name), and other fields."""
        formats = [self._format(file) for file in self.files]
        return {"read": formats, "separator": self.separator, "on_bad": self.on_bad}

    def plan(self, file: str) -> tables.Plan | None:
        """Decide which column of a file has the texts; None if the file is read as it stands.

        Raises:
            InputError: The file cannot be read, or it is not clear which column it is.
        """
        columns = self._columns(file)
        return None if columns is None else tables.plan_columns(file, DOCUMENTS, columns, LINES)

    def describe(self) -> list[str]:
        """Say of each table which column has the texts, if that was found out."""
        return [line for file in self.files if (line := self._column_note(file, self.plan(file)))]

    def _column_note(self, file: str, plan: tables.Plan | None) -> str:
        """Say which column of a table is read, if that was found out; else nothing."""
        if plan is not None:
            return plan.describe()
        if not tables.is_table(file):
            return ""
        first = records.has_suffix(file, ".tsv")
        read = "its first column is read" if first else "it is read as plain text"
        return f"{file} has no names of columns: {read}; data.text=NUMBER reads a column"

    def _columns(self, file: str) -> Columns | None:
        """The columns by which a table is read; None if the file is read as it stands."""
        if not tables.is_table(file):
            return None
        if not records.has_suffix(file, *tables.CELLS) or self.columns.named:
            return self.columns
        if self.columns.header is not None:
            return self.columns if self.columns.header else None
        if tables.has_header(file, DOCUMENTS, LINES):
            return self.columns
        if records.has_suffix(file, ".tsv") and tables.has_header(file, PAIRS, LINES):
            return Columns({"text": 1}, header=True)
        return self.columns if tables.has_header(file, DOCUMENTS, LINES, unsure=True) else None

    def _format(self, file: str) -> list[Any]:
        """The format of a file, and the column of a table if it is not the usual one."""
        is_jsonl = records.has_suffix(file, ".jsonl")
        settings: list[Any] = [file.lower().endswith(".gz"), is_jsonl]
        settings += ["tsv"] if records.has_suffix(file, ".tsv") else []
        plan = self.plan(file)
        if plan is not None and not (is_jsonl and plan.column("text") == "text"):
            settings += [plan.column("text"), "header" if plan.header else ""]
        return settings

    def _document_parts(self, file: str, note: OnProblem) -> Iterator[str | None]:
        """Yield the texts of a file's documents; None marks the end of a document."""
        columns = self._columns(file)
        if columns is not None and not records.has_suffix(file, ".jsonl"):
            yield from _table_documents(file, columns, note)
            return
        with closing(_lines(file, note)) as lines:  # close the file on an error, too
            if records.has_suffix(file, ".jsonl"):
                plan = tables.plan_columns(file, DOCUMENTS, self.columns, LINES)
                yield from _jsonl_documents(file, lines, note, plan.column("text"))
            elif records.has_suffix(file, ".tsv"):
                yield from _tsv_documents(file, lines, note)
            elif self.separator is None:
                yield from (text for _, text in lines)
                yield None
            else:
                yield from _separated_documents(lines, self.separator.strip())


def join_parts(parts: Iterable[str | None], longest: int = PIECE) -> Iterator[DocumentPiece]:
    """Join texts into pieces of at most `longest` characters; None marks the end of a document.

    A document of only white space is left out if it is not longer than a piece.
    """
    texts: list[str] = []
    size, is_cut = 0, False
    for part in parts:
        if part is not None:
            texts.append(part)
            size += len(part)
            if size > longest:
                *pieces, remainder = cut("".join(texts), longest)
                for piece in pieces:
                    yield DocumentPiece(piece, last=False)
                texts, size, is_cut = [remainder], len(remainder), True
            continue
        text = "".join(texts)
        if is_cut or text.strip():
            yield DocumentPiece(text, last=True)
        texts, size, is_cut = [], 0, False


def cut(text: str, longest: int) -> Iterator[str]:
    """Cut a text into parts of at most `longest` characters without changing its tokens.

    The cuts are before a space that follows a character other than white space; this holds for all
    kinds of vocabulary in `regard.inputs.text.kinds`. A text without such a space is cut before
    other white space, or anywhere.

    Example:
        >>> list(cut("to be or not", 7))
        ['to be', ' or not']
    """
    start = 0
    while len(text) - start > longest:
        limit = start + longest
        end = limit
        while (end := text.rfind(" ", start + 1, end)) > 0 and text[end - 1].isspace():
            pass
        if end < 0:
            end = max(text.rfind(mark, start + 1, limit) for mark in "\n\t\u3000")
        end = limit if end < 0 else end
        yield text[start:end]
        start = end
    yield text[start:]


def _separated_documents(lines: Lines, separator: str) -> Iterator[str | None]:
    """Yield the documents between separator lines."""
    has_text, ends = False, 0  # line ends are held back: those at the end of a document are dropped
    for _, parts in groupby(lines, key=lambda part: part[0]):
        for i, (_, text) in enumerate(parts):
            if i == 0 and len(text) < LINE and text.strip() == separator:
                yield None
                has_text, ends = False, 0
                continue
            body = text.removesuffix("\n")
            if body.strip() or (has_text and body):
                yield "\n" * ends + body
                has_text, ends = True, 0
            ends += has_text and text != body
            if ends > LINE:  # bounds the memory of a file of many empty lines
                yield "\n" * ends
                ends = 0
    yield None


def _table_documents(file: str, columns: Columns, note: OnProblem) -> Iterator[str | None]:
    """Yield the text of each row of a table that is not JSONL, whose lines may be longer."""
    for _, text in tables.read_rows(file, DOCUMENTS, columns, _check_text, LINES):
        if isinstance(text, Problem):
            note(text)
        else:
            yield from (text, None)


def _jsonl_documents(file: str, lines: Lines, note: OnProblem, column: str) -> Iterator[str | None]:
    """Yield the text of each line of a JSONL file."""
    for number, parts in groupby(lines, key=lambda part: part[0]):
        line, size = [], 0
        for _, part in parts:
            size += len(part)
            line += [part] if size <= ENTRY else []
        if size > ENTRY:
            note(Problem(file, number, records.LONG, f"{size} characters, at most {ENTRY}"))
            continue
        try:
            text = _check_text(tables.text_row(records.json_object("".join(line)), "text", column))
        except Unfit as problem:
            note(Problem(file, number, *problem.args))
        else:
            yield from (text, None)


def _tsv_documents(file: str, lines: Lines, note: OnProblem) -> Iterator[str | None]:
    """Yield the first column of each line of a TSV file, without immediate repetitions."""
    previous_text = None
    for number, parts in groupby(lines, key=lambda part: part[0]):
        first, *later_parts = parts
        text, tab, _ = first[1].partition("\t")
        text = text.strip()
        if later_parts and not tab:
            note(Problem(file, number, records.LONG, f"a first column of more than {LINE} bytes"))
        elif not text:
            note(Problem(file, number, records.EMPTY))
        elif text != previous_text:
            yield from (text, None)
        previous_text = text


def _check_text(row: tables.Row) -> str:
    """Return the text of a row with Windows line ends replaced; `Unfit` if it is empty."""
    text: str = row["text"]
    if not text.strip():
        raise Unfit(records.EMPTY)
    if "\0" in text:
        raise Unfit(records.CONTROL, repr("\0"))
    return text.replace("\r\n", "\n")


def _lines(file: str, note: OnProblem) -> Generator[tuple[int, str]]:
    r"""Yield the lines of a file, with their numbers and their \n; a long line comes in parts.

    A part that is not valid text is left out, unless `note` raises.
    """
    number = 1
    decoder = codecs.getincrementaldecoder("utf-8")()
    carriage_return = ""  # a final \r, which may be the first half of \r\n
    with records.opened(file) as stream:
        try:
            while raw := stream.readline(LINE):
                first = number == 1 and stream.tell() == len(raw)
                ends = raw.endswith(b"\n")
                try:
                    part = records.without_mark(file, raw) if first else raw
                    text = carriage_return + _decode_part(part, decoder)
                except Unfit as problem:
                    note(Problem(file, number, *problem.args))
                    carriage_return = ""
                else:
                    if ends:
                        text = text.removesuffix("\n").removesuffix("\r") + "\n"
                    carriage_return = "\r" if text.endswith("\r") else ""
                    yield number, text.removesuffix("\r")
                number += ends
        except records.UNPACKING as problem:
            raise records.damage_error(file, number, problem) from None
        except OSError as problem:
            raise records.reading_error(file, problem) from None
    if decoder.getstate()[0]:
        note(Problem(file, number, records.UNDECODABLE, "the file ends within a character"))
    elif carriage_return:
        yield number, carriage_return


def _decode_part(raw: bytes, decoder: codecs.IncrementalDecoder) -> str:
    """Decode a part of a line; the decoder keeps an incomplete character for the next part."""
    try:
        text = decoder.decode(raw, final=raw.endswith(b"\n"))
    except UnicodeDecodeError as problem:
        decoder.reset()
        raise records.decoding_error(problem) from None
    if "\0" in text:
        raise Unfit(records.CONTROL, repr("\0"))
    return text
