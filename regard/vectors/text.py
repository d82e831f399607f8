"""Read plain text into a vocabulary and a stream of word ids, the input of the training."""

from __future__ import annotations

import logging
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from regard.data.text.documents import DocumentPiece, Text, TextFiles, find_files, training_files
from regard.data.text.python_docs import PythonText
from regard.errors import InputError
from regard.inputs.text.kinds import WORD
from regard.vectors.recipe import LibraryData, SentencesData, VectorsRecipe, WordsConfig

END = -1
"""The id that marks the end of a line."""
LONGEST_LINE = 2**20
"""The longest line in characters; a longer line is split."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class TokenizedText:
    """A text as word ids."""

    words: list[str]
    """The vocabulary, most frequent first, ties in alphabetical order; the index is the id."""
    counts: npt.NDArray[np.int64]
    stream: npt.NDArray[np.int32]
    """Word ids, with `END` after each line; words outside the vocabulary are left out."""
    total: int
    """The number of words in the text, including those outside the vocabulary."""


def text_of(recipe: VectorsRecipe) -> Text:
    """The text source of a recipe.

    Raises:
        InputError: If the recipe has no text.
    """
    if isinstance(recipe.data, SentencesData):
        data = recipe.data
        train, _ = training_files(data.files, ())
        return TextFiles(find_files(train), on_bad=data.on_bad, columns=data.columns)
    if isinstance(recipe.data, LibraryData):
        return PythonText()
    raise InputError("data.kind", got=recipe.data.kind, expected="a text to learn from",
                     fix="add data.files=FILE")  # fmt: skip


def read_text(text: Text, config: WordsConfig) -> TokenizedText:
    """Read a text in one pass into a vocabulary with counts and a stream of word ids.

    Raises:
        InputError: If fewer than two words are frequent enough.
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
    return _keep_frequent(list(numbers), np.array(stream, np.int32), config)


def cutter(config: WordsConfig) -> Callable[[str], Iterable[str]]:
    """The function that splits a line into words."""
    cut: Callable[[str], Iterable[str]]
    cut = str.split if config.split == "spaces" else re.compile(WORD).findall
    return (lambda line: cut(line.lower())) if config.lowercase else cut


def _keep_frequent(
    names: list[str], stream: npt.NDArray[np.int32], config: WordsConfig
) -> TokenizedText:
    """Keep the words that are frequent enough and renumber them by frequency.

    Args:
        names: The words by their ids of the first pass.
        stream: Ids of the first pass, with `END` after each line.
        config: `min_count` and `vocab`.
    """
    is_word = stream != END
    counts = np.bincount(stream[is_word], minlength=len(names))
    frequent = [i for i in range(len(names)) if counts[i] >= config.min_count]
    order = sorted(frequent, key=lambda i: (-counts[i], names[i]))[: config.vocab]
    if len(order) < 2:
        what, maximum = f"tokens.min_count: {config.min_count}", int(counts.max(initial=0))
        got = f"{len(order)} such words in a text of {int(is_word.sum()):,}"
        fix = f"the most frequent word occurs {maximum} times; take more text, or a lower count"
        raise InputError(what, got=got, expected="two or more", fix=fix)
    new_ids = np.full(len(names) + 1, END - 1, np.int32)  # END is -1: the last entry
    new_ids[order] = np.arange(len(order), dtype=np.int32)
    new_ids[END] = END
    renumbered = new_ids[stream]
    words = [names[i] for i in order]
    kept_ids = renumbered[renumbered >= END]
    return TokenizedText(words, counts[order], kept_ids, int(is_word.sum()))


def _lines(pieces: Iterable[DocumentPiece]) -> Iterator[str]:
    """The non-empty lines of documents; the end of a document also ends a line."""
    unfinished = ""
    for piece in pieces:
        *lines, unfinished = (unfinished + piece.text).split("\n")
        yield from (line for line in lines if line)
        if unfinished and (piece.last or len(unfinished) > LONGEST_LINE):
            yield unfinished
            unfinished = ""
