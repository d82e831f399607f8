"""Files of parallel text -> pairs of sentences: the first step for a person's own data.

In: two line-aligned files, a TSV, CSV or JSONL file, plain or `.gz`. Out: for each line a `Pair`,
or a `Problem` that names file and line. Nothing is mended and nothing skipped unasked: a corpus
with a line too many on one side trains a model on noise, and nobody notices.
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
"""Bytes of the longest line: a packed file of some megabytes may hold one that fills the memory."""

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
"""Pairs, at least, for a pair that is unlike the others to be told."""
_CONTROL = re.compile(r"[\x00\n]")
"""A sentence has no line break or NUL: a file with them was taken for another kind."""


@dataclass(frozen=True)
class Problem:
    """One line that cannot be used."""

    file: str
    line: int
    """Counted from 1."""
    what: str
    """The kind of problem; problems are counted by it."""
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what}{self.detail and f' ({self.detail})'}"


@dataclass(frozen=True)
class Lengths:
    """How long the sentences of one side are, in words between spaces."""

    mean: float
    median: int
    longest: int

    def __str__(self) -> str:
        return f"mean {self.mean:.1f}, median {self.median}, longest {self.longest}"


@dataclass(frozen=True)
class Report:
    """What a look through a corpus found."""

    pairs: int
    """How many pairs can be used."""
    problems: dict[str, int]
    """How many lines cannot, by kind of problem."""
    first: tuple[Problem, ...]
    """The first problems, in the order of the file."""
    duplicates: int
    """How many pairs stood in the file before."""
    source: Lengths
    target: Lengths

    def describe(self) -> str:
        """For people: the first problems, each with file and line, then the counts."""
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
        max_words: A pair with more words than this on a side is a problem.

    Yields:
        For each line a pair, or what is wrong with it.

    Raises:
        InputError: If a file cannot be read at all, is empty, or two files differ in length.
    """
    return (row for _, row in _read(files, max_words))


def _read(files: Files, max_words: int) -> Iterator[tuple[int, Pair | Problem]]:
    """The same with the number of each line."""
    rows = _single(files) if isinstance(files, str) else _aligned(*files)
    for row in rows:
        if isinstance(row, Problem):
            yield row.line, row
        else:
            yield row[0].line, _judged(row, max_words)


def split_files(names: Sequence[str]) -> Files:
    """One file, or two: `["x.tsv"]`, `["x.en,x.de"]` or `["x.en", "x.de"]`."""
    parts = [part.strip() for name in names for part in name.strip("[]").split(",")]
    if len(parts) == 1:
        return parts[0]
    if len(parts) == 2:
        return parts[0], parts[1]
    raise InputError("data", got=f"{len(parts)} files", expected="one file, or source and target")


def load_pairs(
    files: Files, max_words: int, on_bad: Literal["stop", "skip"]
) -> tuple[list[Pair], dict[str, int]]:
    """Read all pairs of a corpus.

    Args:
        files: One `.tsv`, `.csv` or `.jsonl` file, or two line-aligned files; plain or `.gz`.
        max_words: A pair with more words than this on a side is a problem.
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
                str(row), fix="mend the line; in a recipe, data.on_bad=skip leaves such lines out"
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
    """Look through a corpus without stopping at bad lines.

    Args:
        files: One `.tsv`, `.csv` or `.jsonl` file, or two line-aligned files; plain or `.gz`.
        max_words: A pair with more words than this on a side is a problem.
        shown: How many problems to keep with file and line.

    Raises:
        InputError: If a file cannot be read at all, is empty, or two files differ in length.
    """
    problems: Counter[str] = Counter()
    first: list[Problem] = []
    seen: set[int] = set()  # hashes: a corpus need not fit in memory to be checked
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
    """What looks wrong in pairs that can be used one by one, from a second look at the file."""
    name = _name(files)
    if header is not None:
        found = f"{header.source!r} and {header.target!r}: if so, take the line out"
        yield Problem(name, 1, HEADER, found)
    told, guessed = named_languages(files), sides.languages()
    if told is not None and guessed == told[::-1]:
        detail = f"the name tells {told[0]} and {told[1]}, the text {told[1]} and {told[0]}"
        yield Problem(name, 1, SWAPPED, detail)
    if sides.pairs < FEWEST:
        return
    pairs = ((line, row) for line, row in _read(files, max_words) if isinstance(row, Pair))
    for line in sides.swapped(pairs):
        yield Problem(name, line, SWAPPED, "each is more like the other lines' other side")


@dataclass(frozen=True)
class _Side:
    """One text and where it stands."""

    file: str
    line: int
    text: str


def _judged(sides: tuple[_Side, _Side], max_words: int) -> Pair | Problem:
    """A pair, if both texts can be used."""
    for side, empty in zip(sides, EMPTY_SIDES, strict=True):
        if not side.text.strip():
            return Problem(side.file, side.line, empty)
        if (found := _CONTROL.search(side.text)) is not None:
            return Problem(side.file, side.line, CONTROL, repr(found.group()))
        if (words := len(side.text.split())) > max_words:
            return Problem(side.file, side.line, LONG, f"{words} words, at most {max_words}")
    source, target = (side.text.replace("\t", " ") for side in sides)  # real corpora have some
    return Pair(source, target)


def _aligned(source: str, target: str) -> Iterator[tuple[_Side, _Side] | Problem]:
    """The lines of two files, side by side."""
    # Counted beforehand: a missing line shifts all that follow, and matters more than a bad one.
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
    """The lines of one file, each read by the format that the name tells."""
    name = file.lower().removesuffix(".gz")
    if name.endswith(".csv"):
        yield from _csv(file)
        return
    read = next((FORMATS[suffix] for suffix in FORMATS if name.endswith(suffix)), None)
    if read is None:
        raise InputError(
            file,
            got="a name that tells no format",
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
                "; commas part them, not semicolons" if len(cells) == 1 and ";" in cells[0] else ""
            )
            yield Problem(file, number, COLUMNS, f"{len(cells)}, not 2{hint}")
        else:
            yield _Side(file, number, cells[0]), _Side(file, number, cells[1])


def csv_rows(file: str, expected: str) -> Iterator[tuple[int, list[str] | Problem]]:
    """The rows of a CSV file, each with the number of its first line, or what is wrong with one.

    Args:
        file: Plain or packed; commas between cells, a cell with commas or quotes in quotes.
        expected: What it should hold, to say of an empty one.
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
        except csv.Error as problem:  # a cell without end is cut off by csv's own limit
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
    if not row.keys() >= {"source", "target"}:  # others, such as ids, are left alone
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
"""How to read the line of a single file, by how its name ends."""


def numbered(
    file: str, expected: str, longest: int = LONGEST_LINE
) -> Iterator[tuple[int, bytes | Problem]]:
    r"""The numbered lines of a file, cut at \n or \r\n only: U+2028 and \x85 are text.

    Args:
        file: Plain or packed.
        expected: What it should hold, to say of an empty one.
        longest: Bytes of a line; a longer one is a problem, and is not kept.
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
"""What reading a packed file that is damaged can raise."""


def damaged(file: str, line: int, problem: Exception) -> InputError:
    """What to say of a packed file that breaks off."""
    return InputError(
        f"{file}: damaged after line {line}",
        got=f"a gzip file that cannot be unpacked ({problem})",
        fix="get the file again; gzip -t tests one",
    )


def opened(file: str) -> IO[bytes] | gzip.GzipFile:
    """A text file to read, unpacked if its name says that it is packed."""
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
    """SHA-256 of a file as it stands."""
    with Path(file).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def without_mark(file: str, first: bytes) -> bytes:
    """The first line of a file without UTF-8's mark; that of another encoding is refused."""
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
    """Whether a text can be UTF-8; half a surrogate pair, which JSON may hold, cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def unreadable(file: str, problem: OSError) -> InputError:
    """What to say of a file that the system does not give."""
    return InputError(
        file, got=problem.strerror or str(problem), expected="a file that can be read"
    )


def _nearby(path: Path) -> str:
    """What to do about a missing file: the folder's own files often tell."""
    if not path.parent.is_dir():
        return f"there is no folder {path.parent} either; paths start where the command is run"
    names = sorted(entry.name for entry in path.parent.iterdir() if entry.is_file())[:5]
    return f"in {path.parent} there is: {', '.join(names) or 'no file'}"


def _name(files: Files) -> str:
    return files if isinstance(files, str) else " and ".join(files)


def _lengths(counts: Counter[int]) -> Lengths:
    """Mean, median (the lower of two) and maximum of counted lengths."""
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
