"""Files -> lines of text, rows of cells or JSON objects: the reading that all file formats share.

In: a file, uncompressed or `.gz`. Out: for each line its number and its content, or a `Problem`
with file and line number. Nothing is repaired.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any, TypeVar

from regard.data.config import OnBad
from regard.data.text import arrow
from regard.errors import InputError

LONGEST_LINE = 2**24
"""The most bytes of a line: a line in a small gzip file could otherwise fill the memory."""

FIRST_LINES = 10
"""How many lines of a CSV file decide what separates its cells."""
BOM = b"\xef\xbb\xbf"
UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")

EMPTY = "empty line"
QUOTES = "not CSV"
UNDECODABLE = "not UTF-8"
LONG = "over-long"
COLUMNS = "wrong number of columns"
JSON = "not JSON"
KEYS = "wrong keys"
CONTROL = "a control character in the text"
UNPACKING = (gzip.BadGzipFile, EOFError, zlib.error)
"""Exceptions that reading a damaged gzip file can raise."""

Item = TypeVar("Item")
Parsed = TypeVar("Parsed")


@dataclass(frozen=True)
class Problem:
    """One line that cannot be used."""

    file: str
    line: int
    """Counted from 1."""
    what: str
    """The kind of problem, by which problems are counted."""
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what}{self.detail and f' ({self.detail})'}"


class Unfit(Exception):
    """Raised for a line that cannot be used: the kind of problem, and a detail."""


Numbered = Iterator[tuple[int, Item | Problem]]
"""Lines or what they were made into, or their problems, each with its line number."""


def convert(file: str, rows: Numbered[Item], parse: Callable[[Item], Parsed]) -> Numbered[Parsed]:
    """Convert each row by a function that raises `Unfit` if it cannot; problems are passed on."""
    for number, row in rows:
        if isinstance(row, Problem):
            yield number, row
            continue
        try:
            yield number, parse(row)
        except Unfit as problem:
            yield number, Problem(file, number, *problem.args)


def keep_usable(
    rows: Iterable[Item | Problem], on_bad: OnBad, name: str, what: str
) -> tuple[list[Item], dict[str, int]]:
    """Collect the rows that have no problem.

    Args:
        rows: Rows, or their problems.
        on_bad: `stop` at the first problem, or `skip` such rows.
        name: Name of the files in errors.
        what: What a row is, in errors: a pair, an example.

    Returns:
        The rows, and how many were skipped by kind of problem.

    Raises:
        InputError: At the first problem with `stop`; or if no row is left.
    """
    usable_rows: list[Item] = []
    skipped: Counter[str] = Counter()
    last: Problem | None = None
    for row in rows:
        if isinstance(row, Problem):
            count_or_stop(row, on_bad, skipped)
            last = row
        else:
            usable_rows.append(row)
    if not usable_rows:
        raise InputError(
            name,
            got=f"no usable {what} in {skipped.total()} lines",
            expected="at least one",
            fix=f"the last problem: {last}" if last else "below the names of columns is nothing",
        )
    return usable_rows, dict(skipped)


def count_or_stop(problem: Problem, on_bad: OnBad, skipped: Counter[str]) -> None:
    """Count a problem by its kind with `skip`; raise it as an error with `stop`."""
    if on_bad == "stop":
        fix = "fix it, or leave such lines out with data.on_bad=skip in a recipe"
        raise InputError(str(problem), fix=fix)
    skipped[problem.what] += 1


def has_suffix(file: str, *suffixes: str) -> bool:
    """Whether a file has one of the suffixes, before a `.gz` if there is one."""
    return file.lower().removesuffix(".gz").endswith(suffixes)


def text_lines(file: str, expected: str, longest: int | None = None) -> Numbered[str]:
    """Yield the lines of a file as `numbered_lines` does, decoded."""
    return convert(file, numbered_lines(file, expected, longest), _decode_line)


def json_rows(file: str, expected: str) -> Numbered[dict[str, Any]]:
    """Yield the objects of a JSONL file."""
    return convert(file, text_lines(file, expected), json_object)


def table_rows(file: str, expected: str) -> Numbered[list[str]]:
    """Yield the cells of each row of a CSV file, or of any other file with tabs between cells."""
    if has_suffix(file, ".csv"):
        return _csv_rows(file, expected)
    return convert(file, text_lines(file, expected), lambda line: line.split("\t"))


def _csv_rows(file: str, expected: str) -> Numbered[list[str]]:
    """Yield the rows of a CSV file, each with the number of its first line."""
    last, too_long = 0, list[Problem]()
    start = list(islice(numbered_lines(file, expected), FIRST_LINES))

    def lines() -> Iterator[str]:
        """Yield the lines as text; bytes that are not UTF-8 become surrogates, found below."""
        nonlocal last
        for last, line in numbered_lines(file, expected):  # noqa: B007 (read below)
            if isinstance(line, Problem):
                too_long.append(line)
                line = b""
            yield line.decode("utf-8", "surrogateescape") + "\n"

    rows = csv.reader(lines(), strict=True, delimiter=_delimiter([line for _, line in start]))
    while True:
        first = last + 1
        try:
            cells = next(rows)
        except StopIteration:
            return
        except csv.Error as problem:  # csv's own limit ends a cell without closing quote
            yield first, Problem(file, first, QUOTES, str(problem))
            continue
        if too_long:
            yield first, too_long.pop(0)
            too_long.clear()
        elif not all(map(is_encodable, cells)):
            yield first, Problem(file, first, UNDECODABLE)
        else:
            yield first, cells


def _delimiter(lines: Sequence[bytes | Problem]) -> str:
    """What separates the cells of a CSV file: semicolons if they do so in all first lines.

    Commas come first: they must not do so.
    """
    texts = [line.decode("utf-8", "replace") for line in lines if isinstance(line, bytes)]
    for delimiter in ",;":
        try:
            widths = {len(cells) for cells in csv.reader(texts, delimiter=delimiter) if cells}
        except csv.Error:
            continue
        if len(widths) == 1 and max(widths) > 1:
            return delimiter
    return ","


def json_object(line: str) -> dict[str, Any]:
    """Parse a line of a JSONL file."""
    if not line.strip():
        raise Unfit(EMPTY)
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as problem:
        raise Unfit(JSON, str(problem)) from None
    if not isinstance(row, dict):
        raise Unfit(JSON, f"a {type(row).__name__}, not an object")
    return row


def numbered_lines(file: str, expected: str, longest: int | None = None) -> Numbered[bytes]:
    r"""Yield the lines of a file with their numbers; only \n and \r\n end a line, not U+2028.

    Args:
        file: Plain or `.gz`.
        expected: What the file should contain, for the error about an empty file.
        longest: The most bytes of a line, by default `LONGEST_LINE`; a longer line becomes a
            problem and is not kept.

    Raises:
        InputError: If the file cannot be read, is damaged or empty.
    """
    number, longest = 0, longest or LONGEST_LINE
    with opened(file) as stream:
        try:
            for number, line in enumerate(iter(partial(stream.readline, longest + 1), b""), 1):
                if len(line) > longest and not line.endswith(b"\n"):
                    while (chunk := stream.readline(2**20)) and not chunk.endswith(b"\n"):
                        pass
                    yield number, Problem(file, number, LONG, f"more than {longest:,} bytes")
                    continue
                content = line.removesuffix(b"\n").removesuffix(b"\r")
                if number == 1:
                    content = without_mark(file, content)
                yield number, content
        except UNPACKING as problem:
            raise damage_error(file, number, problem) from None
        except OSError as problem:
            raise reading_error(file, problem) from None
    if not number:
        raise InputError(file, got="an empty file", expected=expected)


def damage_error(file: str, line: int, problem: Exception) -> InputError:
    """Return the error for a damaged gzip file."""
    return InputError(
        f"{file}: damaged after line {line}",
        got=f"a gzip file that cannot be unpacked ({problem})",
        fix="get the file again; gzip -t checks it",
    )


def opened(file: str) -> IO[bytes] | gzip.GzipFile:
    """Open a text file to read, decompressing it if its name ends in `.gz`.

    Raises:
        InputError: If there is no such file, or it cannot be read.
    """
    path = Path(file)
    try:
        if not path.exists():
            raise InputError(file, got="no such file", expected="a text file", fix=_file_fix(path))
        if path.is_dir():
            fix = "name a file in it"
            raise InputError(file, got="a directory", expected="a text file", fix=fix)
        if not path.is_file():
            raise InputError(file, got="a pipe or a device", expected="a text file")
        return gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb")
    except OSError as problem:
        raise reading_error(file, problem) from None


def checksum(name: str) -> str:
    """SHA-256 of a file's bytes, without decompressing them; of a dataset's files together."""
    files = arrow.shards(name) if arrow.is_table(name) else [Path(name)]
    sums = []
    for file in files:
        with file.open("rb") as stream:
            sums.append(hashlib.file_digest(stream, "sha256").hexdigest())
    return sums[0] if len(sums) == 1 else hashlib.sha256(" ".join(sums).encode()).hexdigest()


def without_mark(file: str, first: bytes) -> bytes:
    """Remove UTF-8's byte order mark from the first line of a file.

    Raises:
        InputError: If the line has UTF-16's byte order mark.
    """
    if first.startswith(UTF16_BOMS):
        fix = f"iconv -f UTF-16 -t UTF-8 {file} > NEW"
        raise InputError(file, got="UTF-16", expected="UTF-8", fix=fix)
    return first.removeprefix(BOM)


def _decode_line(line: bytes) -> str:
    """Decode a line of UTF-8; raise `Unfit` if it is none."""
    try:
        return line.decode()
    except UnicodeDecodeError as problem:
        raise decoding_error(problem) from None


def decoding_error(problem: UnicodeDecodeError) -> Unfit:
    """Return the error for bytes that are not UTF-8."""
    byte = problem.object[problem.start]
    return Unfit(UNDECODABLE, f"byte 0x{byte:02x} at {problem.start + 1}")


def is_encodable(text: str) -> bool:
    """Whether a text can be encoded as UTF-8; half a surrogate pair, from JSON, cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def reading_error(file: str, problem: OSError) -> InputError:
    """Return the error for a file that the operating system cannot read."""
    got = problem.strerror or str(problem)
    return InputError(file, got=got, expected="a file that can be read")


def _file_fix(path: Path) -> str:
    """Suggest a fix for a missing file: list the files of its folder."""
    if not path.parent.is_dir():
        return f"there is no folder {path.parent} either; paths start where the command is run"
    names = sorted(entry.name for entry in path.parent.iterdir() if entry.is_file())[:5]
    return f"in {path.parent} there is: {', '.join(names) or 'no file'}"
