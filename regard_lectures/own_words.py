"""A person's own sentence as word vectors, for figures without a model that reads text.

Punctuation is dropped and capitals are made small. A word without a vector gets a stand-in, random
numbers that depend on the word alone; figures mark it.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard import vectors
from regard.errors import InputError

VECTORS = "words/glove"
FEWEST, MOST = 2, 12
"""Words of a sentence that a figure can show."""
MARK = "*"
"""Stands after a word whose vector is a stand-in."""
WORD = re.compile(r"\w+(?:['’\-]\w+)*")  # don't and well-known are single words


@dataclass(frozen=True)
class WordInput:
    """The words of a sentence that a figure shows, and their vectors.

    Attributes:
        words: The words, in small letters, without punctuation.
        has_vector: For each word, whether it has a vector; if not, its row is a stand-in.
        vectors: (words, dim).
        total: The number of words of the whole sentence, of which the first are shown.
    """

    words: tuple[str, ...]
    has_vector: tuple[bool, ...]
    vectors: Tensor
    total: int

    @property
    def labels(self) -> list[str]:
        """The words, with a mark after those whose vector is a stand-in."""
        pairs = zip(self.words, self.has_vector, strict=True)
        return [word if known else word + MARK for word, known in pairs]

    @property
    def stand_ins(self) -> list[str]:
        """The words without a vector, each once, in the order of the sentence."""
        pairs = zip(self.words, self.has_vector, strict=True)
        return list(dict.fromkeys(word for word, known in pairs if not known))


def word_vectors(text: str, most: int = MOST, model: str = VECTORS) -> WordInput:
    """The first words of a sentence with their vectors.

    Args:
        text: A sentence, with punctuation and unknown words or not.
        most: The largest number of words to keep.
        model: Word vectors: a shipped name, a run, or a file.

    Raises:
        InputError: For a text of fewer than two words.

    Example:
        >>> word_vectors("Her muddy dog barked.").labels
        ['her', 'muddy*', 'dog', 'barked*']
    """
    words = WORD.findall(text.lower())
    if len(words) < FEWEST:
        fix = "give a sentence, such as 'the dog sees the cat'"
        raise InputError("--text", got=repr(text), expected=f"{FEWEST} words or more", fix=fix)
    table = vectors(model)
    known = set(table.words)
    spread = float(table.vectors.std())
    first = words[:most]
    rows = [
        np.array(table[word]) if word in known else _stand_in(word, table.dim, spread)
        for word in first
    ]
    return WordInput(
        tuple(first),
        tuple(word in known for word in first),
        torch.from_numpy(np.stack(rows)).float(),
        len(words),
    )


def _stand_in(word: str, dim: int, spread: float) -> np.ndarray:
    """Random numbers as large as those of a word vector; the same ones for the same word."""
    generator = np.random.default_rng(zlib.crc32(word.encode()))
    return generator.normal(0.0, spread, dim).astype(np.float32)


def input_phrase(total: int, shown: int, stand_ins: list[str]) -> str:
    """A sentence for a picture: which words are left out, and which have no vector; else empty.

    Example:
        >>> input_phrase(14, 12, ["muddy"])
        'Shown: the first 12 of 14 words. * no vector, random numbers stand in: muddy.'
    """
    parts = []
    if total > shown:
        parts.append(f"Shown: the first {shown} of {total} words.")
    if stand_ins:
        parts.append(f"{MARK} no vector, random numbers stand in: {', '.join(stand_ins)}.")
    return " ".join(parts)
