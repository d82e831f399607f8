"""Files of parallel text -> pairs of sentences: the first step for your own data.

In: two line-aligned files, or a TSV, CSV or JSONL file, uncompressed or `.gz`. Out: for each line a
`Pair`, or a `Problem` with file and line number. Nothing is repaired, and bad lines are skipped
only on request: one extra line on one side would silently train a model on noise.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Literal

from regard.data.config import Files
from regard.data.text.pairs import Pair
from regard.data.text.suspicions import Sides, is_header, named_languages
from regard.errors import InputError

LONGEST_LINE = 2**24
"""The most bytes of a line: a line in a small gzip file could otherwise fill the memory."""

BOM = b"\xef\xbb\xbf"
UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")

EMPTY = "empty line"
EMPTY_SIDES = ("empty source", "empty target")
HEADER = "names of columns"
SWAPPED = "sides that look swapped"
QUOTES = "not CSV"
UNDECODABLE = "not UTF-8"
LONG = "over-long"
COLUMNS = "wrong number of columns"
JSON = "not JSON"
KEYS = "wrong keys"
CONTROL = "a control character in the text"
FEWEST = 8
"""The fewest pairs of a dataset in which swapped pairs are searched for."""
_CONTROL = re.compile(r"[\x00\n]")
"""No sentence has a line break or NUL: a file with them has been read in the wrong format."""


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


@dataclass(frozen=True)
class Lengths:
    """Lengths of the sentences of one side, in words separated by white space."""

    mean: float
    median: int
    longest: int

    def __str__(self) -> str:
        return f"mean {self.mean:.1f}, median {self.median}, longest {self.longest}"


@dataclass(frozen=True)
class Report:
    """The result of checking a dataset of pairs."""

    pairs: int
    """Number of usable pairs."""
    problems: dict[str, int]
    """Number of problems, by kind."""
    first: tuple[Problem, ...]
    """The first problems, in the order of the file."""
    duplicates: int
    """Number of usable pairs that repeat an earlier pair."""
    source: Lengths
    target: Lengths

    def describe(self) -> str:
        """Describe the result: the first problems, each with file and line, then the counts."""
        hidden = sum(self.problems.values()) - len(self.first)
        return "\n".join(
            [
                *(str(problem) for problem in self.first),
                *([f"… and {hidden} more"] if hidden else []),
                *(f"{count} lines: {what}" for what, count in self.problems.items()),
                f"{self.pairs} pairs can be used"
                + (f", {self.duplicates} of them duplicates" if self.duplicates else ""),
                f"words in a source: {self.source}",
                f"words in a target: {self.target}",
            ]
        )


def read_pairs(files: Files, max_words: int) -> Iterator[Pair | Problem]:
    """Read parallel text line by line.

    Args:
        files: One `.tsv`, `.csv` or `.jsonl` file, or two line-aligned files; plain or `.gz`.
        max_words: A pair with more words than this on either side is a problem.

    Yields:
        For each line a pair, or its problem.

    Raises:
        InputError: If a file cannot be read at all, is empty, or two files differ in length.
    """
    return (row for _, row in _read(files, max_words))


def _read(files: Files, max_words: int) -> Iterator[tuple[int, Pair | Problem]]:
    """Read parallel text as `read_pairs` does; each pair or problem comes with its line number."""
    rows = _single(files) if isinstance(files, str) else _aligned(*files)
    for row in rows:
        if isinstance(row, Problem):
            yield row.line, row
        else:
            yield row[0].line, _judged(row, max_words)


def split_files(names: Sequence[str]) -> Files:
    """Parse one or two file names: `["x.tsv"]`, `["x.en,x.de"]` or `["x.en", "x.de"]`."""
    parts = [part.strip() for name in names for part in name.strip("[]").split(",")]
    if len(parts) == 1:
        return parts[0]
    if len(parts) == 2:
        return parts[0], parts[1]
    raise InputError("data", got=f"{len(parts)} files", expected="one file, or source and target")


def load_pairs(
    files: Files, max_words: int, on_bad: Literal["stop", "skip"]
) -> tuple[list[Pair], dict[str, int]]:
    """Read all pairs of a dataset.

    Args:
        files: One `.tsv`, `.csv` or `.jsonl` file, or two line-aligned files; plain or `.gz`.
        max_words: A pair with more words than this on either side is a problem.
        on_bad: `stop` at the first problem, or `skip` such lines.

    Returns:
        The pairs, and how many lines were skipped by kind of problem.

    Raises:
        InputError: At the first problem with `stop`; or if no pair is left.
    """
    pairs: list[Pair] = []
    skipped: Counter[str] = Counter()
    last: Problem | None = None
    for row in read_pairs(files, max_words):
        if isinstance(row, Pair):
            pairs.append(row)
            continue
        if on_bad == "stop":
            raise InputError(
                str(row),
                fix="fix the line, or leave such lines out with data.on_bad=skip in a recipe",
            )
        skipped[row.what] += 1
        last = row
    if not pairs:
        raise InputError(
            _name(files),
            got=f"no usable pair in {sum(skipped.values())} lines",
            expected="at least one",
            fix=f"the last problem: {last}",
        )
    return pairs, dict(skipped)


def check(files: Files, max_words: int, shown: int = 10) -> Report:
    """Check a dataset of pairs without stopping at bad lines.

    Args:
        files: One `.tsv`, `.csv` or `.jsonl` file, or two line-aligned files; plain or `.gz`.
        max_words: A pair with more words than this on either side is a problem.
        shown: How many problems to keep with file and line.

    Raises:
        InputError: If a file cannot be read at all, is empty, or two files differ in length.
    """
    problems: Counter[str] = Counter()
    first: list[Problem] = []
    seen: set[int] = set()  # hashes only, so that the dataset may be larger than memory
    duplicates = 0
    sources: Counter[int] = Counter()
    targets: Counter[int] = Counter()
    sides = Sides()
    top: Pair | None = None
    for line, row in _read(files, max_words):
        if isinstance(row, Problem):
            problems[row.what] += 1
            first += [row] if len(first) < shown else []
            continue
        key = hash((row.source, row.target))
        duplicates += key in seen
        seen.add(key)
        sources[len(row.source.split())] += 1
        targets[len(row.target.split())] += 1
        sides.learn(row)
        top = row if line == 1 else top
    words = _lengths(sources + targets).mean
    for odd in _suspicions(files, max_words, sides, top if top and is_header(top, words) else None):
        problems[odd.what] += 1
        first += [odd] if len(first) < shown else []
    return Report(
        pairs=sources.total(),
        problems=dict(problems),
        first=tuple(sorted(first, key=lambda problem: problem.line)),
        duplicates=duplicates,
        source=_lengths(sources),
        target=_lengths(targets),
    )


def _suspicions(
    files: Files, max_words: int, sides: Sides, header: Pair | None
) -> Iterator[Problem]:
    """Yield suspicious but usable lines: a header, swapped sides. Reads the files again."""
    name = _name(files)
    if header is not None:
        found = f"{header.source!r} and {header.target!r}: if so, remove the line"
        yield Problem(name, 1, HEADER, found)
    named, guessed = named_languages(files), sides.languages()
    if named is not None and guessed == named[::-1]:
        one, two = named
        detail = f"the file name says {one} and {two}, the text looks like {two} and {one}"
        yield Problem(name, 1, SWAPPED, detail)
    if sides.pairs < FEWEST:
        return
    pairs = ((line, row) for line, row in _read(files, max_words) if isinstance(row, Pair))
    for line in sides.swapped(pairs):
        yield Problem(name, line, SWAPPED, "each side looks like the other side of the other lines")


@dataclass(frozen=True)
class _Side:
    """One side of a pair, with its file and line number."""

    file: str
    line: int
    text: str


def _judged(sides: tuple[_Side, _Side], max_words: int) -> Pair | Problem:
    """Return a pair if both texts can be used, else the problem."""
    for side, empty in zip(sides, EMPTY_SIDES, strict=True):
        if not side.text.strip():
            return Problem(side.file, side.line, empty)
        if (found := _CONTROL.search(side.text)) is not None:
            return Problem(side.file, side.line, CONTROL, repr(found.group()))
        if (words := len(side.text.split())) > max_words:
            return Problem(side.file, side.line, LONG, f"{words} words, at most {max_words}")
    source, target = (side.text.replace("\t", " ") for side in sides)  # occurs in real datasets
    return Pair(source, target)


def _aligned(source: str, target: str) -> Iterator[tuple[_Side, _Side] | Problem]:
    """Yield the lines of two files side by side."""
    # Lines are counted first: a missing line shifts all lines after it, which is worse than a bad
    # line.
    counts = [sum(1 for _ in _lines(file)) for file in (source, target)]
    if counts[0] != counts[1]:
        raise InputError(
            f"{source} and {target} are not aligned",
            got=f"{counts[0]} and {counts[1]} lines",
            expected="as many in one as in the other",
            fix="line n of one must be the translation of line n of the other",
        )
    for pair in zip(_lines(source), _lines(target), strict=True):
        sides = [_decoded(file, *line) for file, line in zip((source, target), pair, strict=True)]
        problems = [side for side in sides if isinstance(side, Problem)]
        good = [side for side in sides if isinstance(side, _Side)]
        yield problems[0] if problems else (good[0], good[1])


def _single(file: str) -> Iterator[tuple[_Side, _Side] | Problem]:
    """Yield the pairs of one file, whose suffix decides the format."""
    name = file.lower().removesuffix(".gz")
    if name.endswith(".csv"):
        yield from _csv(file)
        return
    read = next((FORMATS[suffix] for suffix in FORMATS if name.endswith(suffix)), None)
    if read is None:
        raise InputError(
            file,
            got="an unknown file suffix",
            expected="two files, or one that ends in .tsv, .csv or .jsonl (or with .gz after it)",
            fix="two aligned files are written [source.txt, target.txt]",
        )
    for line in _lines(file):
        side = _decoded(file, *line)
        yield side if isinstance(side, Problem) else read(side)


def _tsv(line: _Side) -> tuple[_Side, _Side] | Problem:
    columns = line.text.split("\t")
    if not line.text.strip():
        return Problem(line.file, line.line, EMPTY)
    if len(columns) != 2:
        return Problem(line.file, line.line, COLUMNS, f"{len(columns)}, not 2")
    return _Side(line.file, line.line, columns[0]), _Side(line.file, line.line, columns[1])


def _csv(file: str) -> Iterator[tuple[_Side, _Side] | Problem]:
    for number, cells in csv_rows(file, "one pair a line"):
        if isinstance(cells, Problem):
            yield cells
        elif not any(cell.strip() for cell in cells):
            yield Problem(file, number, EMPTY)
        elif len(cells) != 2:
            hint = (
                "; commas separate them, not semicolons"
                if len(cells) == 1 and ";" in cells[0]
                else ""
            )
            yield Problem(file, number, COLUMNS, f"{len(cells)}, not 2{hint}")
        else:
            yield _Side(file, number, cells[0]), _Side(file, number, cells[1])


def csv_rows(file: str, expected: str) -> Iterator[tuple[int, list[str] | Problem]]:
    """Yield the rows of a CSV file, or their problems, each with the number of its first line.

    Args:
        file: Plain or `.gz`; cells separated by commas, a cell with commas or quotes in quotes.
        expected: What the file should contain, for the error about an empty file.
    """
    last, too_long = 0, list[Problem]()

    def lines() -> Iterator[str]:
        nonlocal last
        for last, line in numbered(file, expected):  # noqa: B007 (read below)
            if isinstance(line, Problem):
                too_long.append(line)
                line = b""
            yield line.decode("utf-8", "surrogateescape") + "\n"

    rows = csv.reader(lines(), strict=True)
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
        elif not all(map(encodable, cells)):
            yield first, Problem(file, first, UNDECODABLE)
        else:
            yield first, cells


def _jsonl(line: _Side) -> tuple[_Side, _Side] | Problem:
    if not line.text.strip():
        return Problem(line.file, line.line, EMPTY)
    try:
        row = json.loads(line.text)
    except (ValueError, RecursionError) as problem:
        return Problem(line.file, line.line, JSON, str(problem))
    if not isinstance(row, dict):
        return Problem(line.file, line.line, JSON, f"a {type(row).__name__}, not an object")
    if not row.keys() >= {"source", "target"}:  # other keys, such as ids, are ignored
        found = ", ".join(map(repr, row)) or "none"
        return Problem(line.file, line.line, KEYS, f"{found}, not 'source', 'target'")
    for key in ("source", "target"):
        text = row[key]
        if not isinstance(text, str):
            return Problem(line.file, line.line, KEYS, f"{key!r} is not a text")
        if not encodable(text):
            return Problem(line.file, line.line, UNDECODABLE, f"half a character in {key!r}")
    source, target = row["source"], row["target"]
    return _Side(line.file, line.line, source), _Side(line.file, line.line, target)


FORMATS: dict[str, Callable[[_Side], tuple[_Side, _Side] | Problem]] = {
    ".tsv": _tsv,
    ".jsonl": _jsonl,
}
"""Parsers of a line of a single file, by the file's suffix."""


def numbered(
    file: str, expected: str, longest: int = LONGEST_LINE
) -> Iterator[tuple[int, bytes | Problem]]:
    r"""Yield the lines of a file with their numbers; only \n and \r\n end a line, not U+2028.

    Args:
        file: Plain or `.gz`.
        expected: What the file should contain, for the error about an empty file.
        longest: The most bytes of a line; a longer line becomes a problem and is not kept.

    Raises:
        InputError: If the file cannot be read, is damaged or empty.
    """
    number = 0
    with opened(file) as stream:
        try:
            for number, line in enumerate(iter(partial(stream.readline, longest + 1), b""), 1):
                if len(line) > longest and not line.endswith(b"\n"):
                    while (rest := stream.readline(2**20)) and not rest.endswith(b"\n"):
                        pass
                    yield number, Problem(file, number, LONG, f"more than {longest:,} bytes")
                    continue
                content = line.removesuffix(b"\n").removesuffix(b"\r")
                if number == 1:
                    content = without_mark(file, content)
                yield number, content
        except UNPACKING as problem:
            raise damaged(file, number, problem) from None
        except OSError as problem:
            raise unreadable(file, problem) from None
    if not number:
        raise InputError(file, got="an empty file", expected=expected)


def _lines(file: str) -> Iterator[tuple[int, bytes | Problem]]:
    return numbered(file, "one sentence or pair a line")


UNPACKING = (gzip.BadGzipFile, EOFError, zlib.error)
"""Exceptions that reading a damaged gzip file can raise."""


def damaged(file: str, line: int, problem: Exception) -> InputError:
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
            raise InputError(file, got="no such file", expected="a text file", fix=_nearby(path))
        if path.is_dir():
            fix = "name a file in it"
            raise InputError(file, got="a directory", expected="a text file", fix=fix)
        if not path.is_file():
            raise InputError(file, got="a pipe or a device", expected="a text file")
        return gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb")
    except OSError as problem:
        raise unreadable(file, problem) from None


def checksum(file: str) -> str:
    """SHA-256 of a file's bytes, without decompressing them."""
    with Path(file).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def without_mark(file: str, first: bytes) -> bytes:
    """Remove UTF-8's byte order mark from the first line of a file.

    Raises:
        InputError: If the line has UTF-16's byte order mark.
    """
    if first.startswith(UTF16_BOMS):
        raise InputError(
            file, got="UTF-16", expected="UTF-8", fix=f"iconv -f UTF-16 -t UTF-8 {file} > NEW"
        )
    return first.removeprefix(BOM)


def _decoded(file: str, number: int, line: bytes | Problem) -> _Side | Problem:
    if isinstance(line, Problem):
        return line
    try:
        return _Side(file, number, line.decode())
    except UnicodeDecodeError as problem:
        byte = f"byte 0x{line[problem.start]:02x} at {problem.start + 1}"
        return Problem(file, number, UNDECODABLE, byte)


def encodable(text: str) -> bool:
    """Whether a text can be encoded as UTF-8; half a surrogate pair, from JSON, cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def unreadable(file: str, problem: OSError) -> InputError:
    """Return the error for a file that the operating system cannot read."""
    return InputError(
        file, got=problem.strerror or str(problem), expected="a file that can be read"
    )


def _nearby(path: Path) -> str:
    """Suggest a fix for a missing file: list the files of its folder."""
    if not path.parent.is_dir():
        return f"there is no folder {path.parent} either; paths start where the command is run"
    names = sorted(entry.name for entry in path.parent.iterdir() if entry.is_file())[:5]
    return f"in {path.parent} there is: {', '.join(names) or 'no file'}"


def _name(files: Files) -> str:
    return files if isinstance(files, str) else " and ".join(files)


def _lengths(counts: Counter[int]) -> Lengths:
    """Compute mean, median (the lower of two) and maximum from counts of lengths."""
    total = counts.total()
    if not total:
        return Lengths(0.0, 0, 0)
    passed = 0
    for median in sorted(counts):
        passed += counts[median]
        if 2 * passed >= total:
            break
    mean = sum(length * count for length, count in counts.items()) / total
    return Lengths(mean, median, max(counts))
