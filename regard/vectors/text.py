"""Plain text -> the words that get a vector, and the text as their numbers."""

from __future__ import annotations

import logging
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from regard.data.text.documents import Piece, Text, TextFiles, find_files
from regard.data.text.python_docs import PythonText
from regard.errors import InputError
from regard.tokens.kinds import WORD
from regard.vectors.recipe import LibraryData, SentencesData, VectorsRecipe, WordsConfig

END = -1
"""What stands for the end of a line."""
LONGEST_LINE = 2**20
"""Characters; a longer line is cut there."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Read:
    """A text as numbers of words."""

    words: list[str]
    """The most frequent first, equals in alphabetical order."""
    counts: npt.NDArray[np.int64]
    stream: npt.NDArray[np.int32]
    """The numbers of the words, and `END` after each line; words without a vector are left out."""
    total: int
    """How many words the text has, those without a vector included."""


def text_of(recipe: VectorsRecipe) -> Text:
    """Where a recipe's text comes from."""
    if isinstance(recipe.data, SentencesData):
        return TextFiles(find_files(recipe.data.files), on_bad=recipe.data.on_bad)
    if isinstance(recipe.data, LibraryData):
        return PythonText()
    raise InputError("data.kind", got=recipe.data.kind, expected="a text to learn from",
                     fix="add data.files=FILE")  # fmt: skip


def read_text(text: Text, config: WordsConfig) -> Read:
    """Counts the words of a text and numbers them, in one pass.

    Raises:
        InputError: Fewer than two words are frequent enough.
    """
    skipped: Counter[str] = Counter()
    numbers: dict[str, int] = {}
    stream = array("i")
    for line in _lines(text.pieces(skipped)):
        for word in cutter(config)(line):
            stream.append(numbers.setdefault(word, len(numbers)))
        stream.append(END)
    for problem, count in skipped.items():
        _logger.warning("data: %d lines or files skipped: %s", count, problem)
    return _frequent(list(numbers), np.array(stream, np.int32), config)


def cutter(config: WordsConfig) -> Callable[[str], Iterable[str]]:
    """What cuts a line into words."""
    cut: Callable[[str], Iterable[str]]
    cut = str.split if config.split == "spaces" else re.compile(WORD).findall
    return (lambda line: cut(line.lower())) if config.lowercase else cut


def _frequent(names: list[str], stream: npt.NDArray[np.int32], config: WordsConfig) -> Read:
    """Only words that are frequent enough, numbered anew by frequency."""
    is_word = stream != END
    counts = np.bincount(stream[is_word], minlength=len(names))
    frequent = [place for place in range(len(names)) if counts[place] >= config.min_count]
    order = sorted(frequent, key=lambda place: (-counts[place], names[place]))[: config.vocab]
    if len(order) < 2:
        most = int(counts.max(initial=0))
        raise InputError(
            f"tokens.min_count: {config.min_count}",
            got=f"{len(order)} such words in a text of {int(is_word.sum()):,}",
            expected="two or more",
            fix=f"the most frequent word occurs {most} times; take more text, or a lower count",
        )
    renamed = np.full(len(names) + 1, END - 1, np.int32)  # the last place stands for END
    renamed[order] = np.arange(len(order), dtype=np.int32)
    renamed[END] = END
    found = renamed[stream]
    kept = found[found >= END]
    words = [names[place] for place in order]
    return Read(words, counts[order], kept, int(is_word.sum()))


def _lines(pieces: Iterable[Piece]) -> Iterator[str]:
    """The lines of documents; a document's end is a line's."""
    rest = ""
    for piece in pieces:
        *lines, rest = (rest + piece.text).split("\n")
        yield from (line for line in lines if line)
        if rest and (piece.last or len(rest) > LONGEST_LINE):
            yield rest
            rest = ""
