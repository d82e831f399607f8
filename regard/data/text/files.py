"""Files of parallel text -> pairs of sentences: the first step for your own data.

In: two line-aligned files, or a table (TSV, CSV, JSONL, Parquet, a dataset folder). Out: for each
line a `Pair`, or a `Problem` with file and line number. Nothing is repaired, and bad lines are
skipped only on request: one extra line on one side would silently train a model on noise.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from pathlib import Path

from regard.data.config import ALL_FOUND, Columns, Files, OnBad
from regard.data.text import records, tables
from regard.data.text.pairs import Pair
from regard.data.text.records import Numbered, Problem
from regard.data.text.roles import PAIRS
from regard.data.text.suspicions import Sides, named_languages
from regard.errors import InputError

EMPTY_SIDES = ("empty source", "empty target")
SWAPPED = "sides that look swapped"
FEWEST = 8
"""The fewest pairs of a dataset in which swapped pairs are searched for."""
ONE_EACH = "one sentence or pair a line"
_CONTROL = re.compile(r"[\x00\n]")
"""No sentence has a line break or NUL: a file with them has been read in the wrong format."""

Sentences = tuple[str, str]
"""The texts of both sides of a line."""


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
    columns: str = ""
    """What was decided about the columns of a table."""

    @property
    def is_bad(self) -> bool:
        """Whether there are problems, or no pairs at all."""
        return bool(self.problems) or not self.pairs

    def describe(self) -> str:
        """Describe the result: the first problems, each with file and line, then the counts."""
        hidden = sum(self.problems.values()) - len(self.first)
        copies = f", {self.duplicates} of them duplicates" if self.duplicates else ""
        lines = [
            self.columns,
            *map(str, self.first),
            f"… and {hidden} more" if hidden else "",
            *(f"{count} lines: {what}" for what, count in self.problems.items()),
            f"{self.pairs} pairs can be used{copies}",
            f"words in a source: {self.source}",
            f"words in a target: {self.target}",
        ]
        return "\n".join(filter(None, lines))


def read_pairs(
    files: Files, max_words: int, columns: Columns = ALL_FOUND
) -> Iterator[Pair | Problem]:
    """Read parallel text line by line.

    Args:
        files: One table, or two line-aligned files; plain or `.gz`.
        max_words: A pair with more words than this on either side is a problem.
        columns: Which columns of a table are source and target.

    Yields:
        For each line a pair, or its problem.

    Raises:
        InputError: If a file cannot be read at all, is empty, or two files differ in length.
    """
    return (row for _, row in _read_numbered(files, max_words, columns))


def _read_numbered(files: Files, max_words: int, columns: Columns) -> Numbered[Pair]:
    """Read parallel text as `read_pairs` does; each pair or problem comes with its line number."""
    rows = _read_pair_table(files, columns) if isinstance(files, str) else _read_aligned(*files)
    names = (files, files) if isinstance(files, str) else files
    for number, row in rows:
        if isinstance(row, Problem):
            yield row.line, row
        else:
            yield number, _check(names, number, row, max_words)


def split_files(names: Sequence[str]) -> Files:
    """Parse one or two file names: `["x.tsv"]`, `["x.en,x.de"]` or `["x.en", "x.de"]`."""
    parts = [part.strip() for name in names for part in name.strip("[]").split(",")]
    if len(parts) == 1:
        return parts[0]
    if len(parts) == 2:
        return parts[0], parts[1]
    raise InputError("data", got=f"{len(parts)} files", expected="one file, or source and target")


def load_pairs(
    files: Files, max_words: int, on_bad: OnBad, columns: Columns = ALL_FOUND
) -> tuple[list[Pair], dict[str, int]]:
    """Read all pairs of a dataset.

    Args:
        files: One table, or two line-aligned files; plain or `.gz`.
        max_words: A pair with more words than this on either side is a problem.
        on_bad: `stop` at the first problem, or `skip` such lines.
        columns: Which columns of a table are source and target.

    Returns:
        The pairs, and how many lines were skipped by kind of problem.

    Raises:
        InputError: At the first problem with `stop`; or if no pair is left.
    """
    return records.keep_usable(read_pairs(files, max_words, columns), on_bad, _name(files), "pair")


def check(
    files: Files,
    max_words: int,
    shown: int = 10,
    columns: Columns = ALL_FOUND,
    limit: int | None = None,
) -> Report:
    """Check a dataset of pairs without stopping at bad lines.

    Args:
        files: One table, or two line-aligned files; plain or `.gz`.
        max_words: A pair with more words than this on either side is a problem.
        shown: How many problems to keep with file and line.
        columns: Which columns of a table are source and target.
        limit: How many first lines to check; None: all.

    Raises:
        InputError: If a file cannot be read at all, is empty, or two files differ in length.
    """
    problems: Counter[str] = Counter()
    first: list[Problem] = []
    pair_hashes: set[int] = set()  # hashes only, so that the dataset may be larger than memory
    duplicates = 0
    sources: Counter[int] = Counter()
    targets: Counter[int] = Counter()
    sides = Sides()
    for _, row in islice(_read_numbered(files, max_words, columns), limit):
        if isinstance(row, Problem):
            problems[row.what] += 1
            first += [row] if len(first) < shown else []
            continue
        key = hash((row.source, row.target))
        duplicates += key in pair_hashes
        pair_hashes.add(key)
        sources[len(row.source.split())] += 1
        targets[len(row.target.split())] += 1
        sides.learn(row)
    rows = islice(_read_numbered(files, max_words, columns), limit)
    for suspicion in _suspicions(files, sides, rows):
        problems[suspicion.what] += 1
        first += [suspicion] if len(first) < shown else []
    return Report(
        pairs=sources.total(),
        problems=dict(problems),
        first=tuple(sorted(first, key=lambda problem: problem.line)),
        duplicates=duplicates,
        source=_lengths(sources),
        target=_lengths(targets),
        columns=describe_columns(files, columns),
    )


def describe_columns(files: Files, columns: Columns) -> str:
    """Say which columns of a table are read, if that was found out; else nothing."""
    if not isinstance(files, str):
        return ""
    return tables.describe_columns(files, PAIRS, columns, ONE_EACH)


def _suspicions(files: Files, sides: Sides, rows: Numbered[Pair]) -> Iterator[Problem]:
    """Yield suspicious but usable lines: those with swapped sides."""
    name = _name(files)
    file_languages, text_languages = named_languages(files), sides.languages()
    if file_languages is not None and text_languages == file_languages[::-1]:
        names, guesses = (" and ".join(pair) for pair in (file_languages, file_languages[::-1]))
        detail = f"the file name says {names}, the text looks like {guesses}"
        yield Problem(name, 1, SWAPPED, detail)
    if sides.pairs < FEWEST:
        return
    pairs = ((line, row) for line, row in rows if isinstance(row, Pair))
    for line in sides.swapped_lines(pairs):
        yield Problem(name, line, SWAPPED, "each side looks like the other side of the other lines")


def _check(files: tuple[str, str], line: int, sides: Sentences, max_words: int) -> Pair | Problem:
    """Return a pair if both texts can be used, else the problem."""
    for file, text, empty in zip(files, sides, EMPTY_SIDES, strict=True):
        if not text.strip():
            return Problem(file, line, empty)
        if (control := _CONTROL.search(text)) is not None:
            return Problem(file, line, records.CONTROL, repr(control.group()))
        if (words := len(text.split())) > max_words:
            return Problem(file, line, records.LONG, f"{words} words, at most {max_words}")
    source, target = (text.replace("\t", " ") for text in sides)  # occurs in real datasets
    return Pair(source, target)


def _read_aligned(source: str, target: str) -> Numbered[Sentences]:
    """Yield the lines of two files side by side."""
    # Lines are counted first: a missing line shifts all lines after it, which is worse than a bad
    # line.
    counts = [sum(1 for _ in records.numbered_lines(file, ONE_EACH)) for file in (source, target)]
    if counts[0] != counts[1]:
        raise InputError(
            f"{source} and {target} are not aligned",
            got=f"{counts[0]} and {counts[1]} lines",
            expected="as many in one as in the other",
            fix="line n of one must be the translation of line n of the other",
        )
    sides = (records.text_lines(file, ONE_EACH) for file in (source, target))
    for (number, text), (_, translation) in zip(*sides, strict=True):
        if isinstance(text, Problem):
            yield number, text
        else:
            yield number, translation if isinstance(translation, Problem) else (text, translation)


def _read_pair_table(file: str, columns: Columns) -> Numbered[Sentences]:
    """Yield the pairs of a table."""
    if not tables.is_table(file) and Path(file).exists():
        raise InputError(
            file,
            got="an unknown file suffix",
            expected="two files, or one that ends in .tsv, .csv or .jsonl (or with .gz after it) "
            "or .parquet",
            fix="two aligned files are written [source.txt, target.txt]",
        )
    return tables.read_rows(file, PAIRS, columns, itemgetter("source", "target"), ONE_EACH)


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
