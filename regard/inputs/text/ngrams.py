"""The word n-grams of a text as a set of bounded size, so that a model can avoid copying them.

In: the documents of the training text. Out: an `Ngrams` set, small enough to be kept beside the
tokenizer, which says whether n consecutive words occur in that text.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError
from regard.inputs.text.bloom import Bloom, Keys, as_keys
from regard.inputs.text.saved import COPY

BITS_PER_NGRAM = 10
"""Bits of the set for each n-gram."""
BITS_SET = 7
"""Bits set for each n-gram: with 10 bits each, ln 2 · 10 = 7 gives the fewest false members, 1%."""
MAX_NGRAMS = 20_000_000
"""The largest number of n-grams in a set, which then takes 25 MB."""
HASHES_AT_ONCE = 2**20
"""Hashes that are sorted at once."""

_WORD = re.compile(r"\w+")


def words_in(text: str) -> list[str]:
    """The words of a text in lower case, without punctuation.

    Example:
        >>> words_in("Once upon a time, it didn't rain.")
        ['once', 'upon', 'a', 'time', 'it', 'didn', 't', 'rain']
    """
    return _WORD.findall(text.lower())


@dataclass(frozen=True)
class Ngrams:
    """A set of word n-grams as a Bloom filter.

    Every n-gram that was added is found; about 1% of all others are found as well.
    """

    size: int
    """The number of words of each n-gram."""
    bits: bytes

    @classmethod
    def of(cls, pieces: Iterable[tuple[str, bool]], size: int) -> Ngrams:
        """The n-grams of all documents of a text; an n-gram does not cross two documents.

        Args:
            pieces: The documents in pieces, each with whether it is the last of its document.
            size: The number of words of an n-gram.
        """
        hashes = _Hashes()
        for words in _word_windows(pieces, size):
            hashes.add(_hash_words(words))
            if hashes.count > MAX_NGRAMS:  # at once, so that a longer text cannot fill the memory
                got = f"a text with more than {MAX_NGRAMS:,} different sequences of {size} words"
                expected, fix = f"at most {MAX_NGRAMS:,}", "set decode.no_copy to 0"
                raise InputError("decode.no_copy", got=got, expected=expected, fix=fix)
        hashes.flush()
        ngrams = Bloom.empty(hashes.count, BITS_PER_NGRAM)
        for keys in hashes.runs:
            ngrams.add(keys)
        return cls(size, ngrams.bits.tobytes())

    @cached_property
    def _bloom(self) -> Bloom:
        """The filter over `bits`."""
        return Bloom(np.frombuffer(self.bits, np.uint8), BITS_SET)

    def __contains__(self, words: Sequence[str]) -> bool:
        """Whether these `size` words, in lower case, are in the set."""
        return bool(self._bloom.holds(as_keys(_hash_words(words)))[0])

    def copies(self, before: str, after: str) -> bool:
        """Whether extending the text `before` to `after` completes an n-gram of the set."""
        words, old = words_in(after), words_in(before)
        first = len(old) if words[: len(old)] == old else len(old) - 1  # the first new word
        windows = range(max(first, self.size - 1), len(words))
        return any(words[last + 1 - self.size : last + 1] in self for last in windows)

    def to_spec(self) -> dict[str, Any]:
        """The set as values of JSON."""
        return {"size": self.size, "bits": base64.b64encode(self.bits).decode()}

    @classmethod
    def from_spec(cls, spec: object) -> Ngrams:
        """Builds the set from `to_spec`'s result.

        Raises:
            InputError: It is damaged.
        """
        entries = spec if isinstance(spec, dict) else {}
        size, bits = entries.get("size"), b""
        with contextlib.suppress(KeyError, TypeError, ValueError):
            bits = base64.b64decode(entries["bits"], validate=True)
        if not isinstance(size, int) or not 1 <= size <= 1000 or not bits:
            got, expected = "damaged n-grams of the training text", "those of a Regard checkpoint"
            raise InputError("tokenizer.json", got=got, expected=expected, fix=COPY)
        return cls(size, bits)


class _Hashes:
    """Different hashes of 128 bits, in sorted arrays of 64-bit halves: 16 bytes for each."""

    def __init__(self) -> None:
        self.runs: list[Keys] = []
        self.count = 0
        self._new = bytearray()

    def add(self, hashed: bytes) -> None:
        """Adds a hash; it counts once it was compared with the others."""
        self._new += hashed
        if len(self._new) >= 16 * min(HASHES_AT_ONCE, MAX_NGRAMS):
            self.flush()

    def flush(self) -> None:
        """Compares the new hashes with those before, and keeps the different ones."""
        new = _unique_hashes(as_keys(bytes(self._new)))
        self._new.clear()
        for run in self.runs:
            new = new[~_is_in_run(new, run)]
        if self.runs and len(self.runs[-1]) < HASHES_AT_ONCE:  # small runs are joined
            new = _unique_hashes(np.concatenate([self.runs.pop(), new]))
        if len(new):
            self.runs.append(new)
        self.count = sum(map(len, self.runs))


def _unique_hashes(hashes: Keys) -> Keys:
    """Sorts hashes, each once."""
    hashes = hashes[np.lexsort((hashes[:, 1], hashes[:, 0]))]
    first = np.ones(len(hashes), dtype=np.bool_)
    first[1:] = (hashes[1:] != hashes[:-1]).any(axis=1)
    return hashes[first]


def _is_in_run(hashes: Keys, run: Keys) -> NDArray[np.bool_]:
    """Whether each hash is in a sorted run; the first halves of a run differ, with 64 bits."""
    rows = np.searchsorted(run[:, 0], hashes[:, 0])
    return (run[np.minimum(rows, len(run) - 1)] == hashes).all(axis=1)


def _word_windows(pieces: Iterable[tuple[str, bool]], size: int) -> Iterator[list[str]]:
    """Yields every `size` consecutive words of each document."""
    words: list[str] = []
    for text, last in pieces:
        words += words_in(text)
        for start in range(len(words) - size + 1):
            yield words[start : start + size]
        words = [] if last else words[max(0, len(words) - size + 1) :]


def _hash_words(words: Sequence[str]) -> bytes:
    """A hash of some words, of 128 bits."""
    return hashlib.blake2b(" ".join(words).encode(), digest_size=16).digest()
