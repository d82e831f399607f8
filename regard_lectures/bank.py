"""Real sentences that a word can be compared with: `sentences.txt.xz`, or a person's own file.

The shipped ones are everyday English of tatoeba.org (see `sentences.txt`), chosen by
`benchmarks/sentences.py` so that each common word is in at least `FEWEST` of them.
"""

from __future__ import annotations

import lzma
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from regard.errors import InputError

SENTENCES = Path(__file__).parent / "sentences.txt.xz"
FEWEST = 12
"""A word must be in so many of the shipped sentences; in a person's own file in one."""
CONTEXTS, OTHERS = 60, 140
"""The most sentences with the word, and without it, that are read."""
WORD = re.compile(r"\w+(?:['’\-]\w+)*")


@dataclass(frozen=True)
class Contexts:
    """The sentences that a word is compared with.

    Attributes:
        with_word: Sentences with the word.
        others: Sentences without it.
        total: The number of sentences with the word in the whole bank.
        sentences: The number of sentences of the whole bank.
    """

    with_word: tuple[str, ...]
    others: tuple[str, ...]
    total: int
    sentences: int


def words_of(sentence: str) -> list[str]:
    """The words of a sentence, in small letters.

    Example:
        >>> words_of("The dog didn't bark.")
        ['the', 'dog', "didn't", 'bark']
    """
    return WORD.findall(sentence.lower())


def contexts_of(word: str, text: str, bank: str = "") -> Contexts:
    """Sentences with a word and without it, other than the text itself.

    Args:
        word: The word.
        text: The text that the word was taken from.
        bank: A file of sentences, one on each line; empty: the shipped ones.

    Raises:
        InputError: If the file cannot be read, or the word is in too few of its sentences.
    """
    sentences = read_bank(bank)
    folded, same = word.lower(), words_of(text)
    sentences_by: dict[bool, list[str]] = {True: [], False: []}
    for sentence in sentences:
        words = words_of(sentence)
        if words and words != same:
            sentences_by[folded in words].append(sentence)
    count = len(sentences_by[True])
    fewest = 1 if bank else FEWEST
    if count < fewest:
        which = bank or f"the {len(sentences):,} sentences that are shipped"
        raise InputError(
            "word",
            got=f"{word!r}, which is in {count} of {which}",
            expected=f"a word of {fewest} or more",
            fix=f"bank=FILE names your own sentences with {word!r}, one on each line",
        )
    draw = random.Random(0)
    with_word, others = (
        _some(draw, sentences_by[True], CONTEXTS),
        _some(draw, sentences_by[False], OTHERS),
    )
    return Contexts(with_word, others, count, len(sentences))


def _some(draw: random.Random, group: Sequence[str], most: int) -> tuple[str, ...]:
    """At most so many of the sentences, in their order."""
    numbers = sorted(draw.sample(range(len(group)), min(most, len(group))))
    return tuple(group[number] for number in numbers)


def read_bank(bank: str = "") -> tuple[str, ...]:
    """The sentences of a file, without comments and empty lines; by default the shipped ones."""
    return _own_bank(bank) if bank else _shipped()


@cache
def _shipped() -> tuple[str, ...]:
    return tuple(lzma.decompress(SENTENCES.read_bytes()).decode().splitlines())


def _own_bank(bank: str) -> tuple[str, ...]:
    try:
        lines = Path(bank).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("bank", got=bank, expected="a file of sentences, one on a line") from error
    sentences = tuple(line.strip() for line in lines if line.strip() and line[0] != "#")
    if not sentences:
        raise InputError("bank", got=f"{bank}, which is empty", expected="a sentence on each line")
    return sentences
