"""A corpus -> batches of a language model: full, without padding, in an order that resumes exactly.

In: documents as ids end to end. Out: `Batch`es, each of the same number of tokens, and for each
token the one that follows it. Two ways:

    packed    a b c | d e | f g h i j     documents apart: each is a sequence of its own, so that no
                                          token sees another document and places restart in each
    stream    a b c d | e f g h           rows from anywhere in the corpus, across documents

The order is a pure function of (seed, epoch), and any batch of it is found without the ones before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.batch import Batch, Cursor, epochs
from regard.data.input import Ragged
from regard.data.order import POOL_BATCHES, sequential
from regard.data.text.corpus import Corpus
from regard.errors import InputError


class Rows(Protocol):
    """A corpus in batches, one way or the other."""

    @property
    def corpus(self) -> Corpus:
        """The text."""
        ...

    def __len__(self) -> int:
        """How many batches an epoch has."""
        ...

    def batch(self, epoch: int, number: int) -> Batch[Ragged]:
        """One batch of an epoch."""
        ...

    def evaluation(self) -> Iterator[Batch[Ragged]]:
        """The whole corpus once, always the same: each token is predicted once."""
        ...


def batches(rows: Rows, start: Cursor) -> Iterator[tuple[Batch[Ragged], Cursor]]:
    """Training batches without end from a place on, each with the place after it."""
    return epochs(
        lambda _: range(len(rows)), lambda number, epoch: rows.batch(epoch, number), start
    )


class Packed:
    """Documents apart, sequences of like length together, every batch equally full.

    The documents of an epoch are shuffled and put end to end. A pool is some hundred batches of
    that; within it, documents are cut where they are longer than `length`, sorted by length (so
    that attention, which works on rows of equal length, has little to pad), put end to end again
    and cut into batches. So a document is cut where it must be, and else only at the border of two
    batches. At most one batch is dropped at the end of an epoch, and another in each.

    Args:
        corpus: The documents.
        length: The most tokens of a sequence.
        batch_tokens: The tokens of a batch.
        seed: Decides the order.
    """

    def __init__(self, corpus: Corpus, *, length: int, batch_tokens: int, seed: int = 0) -> None:
        self.corpus, self.length, self.seed = corpus, length, seed
        self._sizes = corpus.stops - corpus.starts - 1  # the last token only is predicted
        tokens = int(self._sizes.sum())
        if tokens < 1:
            raise InputError("the text", got="no token to learn from", expected="at least one")
        self.batch_tokens = min(batch_tokens, tokens)
        self._batches, self._spare = divmod(tokens, self.batch_tokens)
        self._epoch: tuple[int, _Shuffled] | None = None
        self._pool: tuple[tuple[int, int], list[_Stretches]] | None = None

    def __len__(self) -> int:
        return self._batches

    def batch(self, epoch: int, number: int) -> Batch[Ragged]:
        """One batch of an epoch."""
        pool, place = divmod(number, POOL_BATCHES)
        if self._pool is None or self._pool[0] != (epoch, pool):
            self._pool = (epoch, pool), self._filled(epoch, pool)
        return self._gathered(self._pool[1][place])

    def evaluation(self) -> Iterator[Batch[Ragged]]:
        """The whole corpus from short to long, documents cut every `length` tokens."""
        whole = _Stretches(self.corpus.starts, self._sizes)
        pieces = whole.cut(np.full(len(self.corpus), self.length), self.length)
        for index in sequential(pieces.sizes.tolist(), self.batch_tokens):
            yield self._gathered(_Stretches(pieces.starts[index], pieces.sizes[index]))

    def _filled(self, epoch: int, pool: int) -> list[_Stretches]:
        """The batches of a pool."""
        documents = self._shuffled(epoch)
        random = np.random.Generator(np.random.PCG64([self.seed % 2**64, epoch, pool]))
        first = pool * POOL_BATCHES
        count = min(POOL_BATCHES, len(self) - first)
        start = documents.skip + first * self.batch_tokens
        some = documents.between(start, start + count * self.batch_tokens)
        # Where a long document is cut changes, so that no token is always without a past.
        phases = random.integers(1, self.length + 1, size=len(some.sizes))
        phases = np.where(some.sizes > self.length, phases, self.length)
        pieces = some.cut(phases, self.length)
        shuffled = random.permutation(len(pieces.sizes))
        by_length = shuffled[np.argsort(pieces.sizes[shuffled], kind="stable")]
        line = _Shuffled(pieces.starts[by_length], pieces.sizes[by_length], 0)
        borders = random.permutation(count) * self.batch_tokens
        return [line.between(place, place + self.batch_tokens) for place in borders.tolist()]

    def _shuffled(self, epoch: int) -> _Shuffled:
        """The documents of an epoch in their order, and how many tokens are left out in front."""
        if self._epoch is None or self._epoch[0] != epoch:
            random = np.random.Generator(np.random.PCG64([self.seed % 2**64, epoch]))
            order = random.permutation(len(self.corpus))
            skip = int(random.integers(self._spare + 1))
            self._epoch = epoch, _Shuffled(self.corpus.starts[order], self._sizes[order], skip)
        return self._epoch[1]

    def _gathered(self, some: _Stretches) -> Batch[Ragged]:
        place = some.places()
        lengths = tuple(some.sizes.tolist())
        return Batch(
            Ragged(_tensor(self.corpus.ids[place]), lengths),
            Ragged(_tensor(self.corpus.ids[place + 1]), lengths),
            tuple(some.starts.tolist()),
        )


class Stream:
    """Rows from anywhere in the corpus, across the borders of documents (as in nanoGPT).

    There are as many batches in an epoch as would hold the corpus once, but each row begins at any
    token: some are seen twice, some not at all.

    Args:
        corpus: The documents.
        length: The tokens of a row.
        batch_tokens: The most tokens of a batch, which has as many rows as go into it.
        seed: Decides where rows begin.
    """

    def __init__(self, corpus: Corpus, *, length: int, batch_tokens: int, seed: int = 0) -> None:
        if corpus.tokens <= length:
            raise InputError(
                "the text is too short for one row",
                got=f"{corpus.tokens} tokens",
                expected=f"more than {length}",
                fix="give more text, or shorter rows",
            )
        self.corpus, self.length, self.seed = corpus, length, seed
        self.rows = max(1, batch_tokens // length)

    def __len__(self) -> int:
        return max(1, self.corpus.tokens // (self.rows * self.length))

    def batch(self, epoch: int, number: int) -> Batch[Ragged]:
        """One batch of an epoch."""
        random = np.random.Generator(np.random.PCG64([self.seed % 2**64, epoch, number]))
        starts = random.integers(self.corpus.tokens - self.length, size=self.rows)
        return self._gathered([(start, start + self.length) for start in starts.tolist()])

    def evaluation(self) -> Iterator[Batch[Ragged]]:
        """The whole corpus in rows one after another, the last of them shorter."""
        last = self.corpus.tokens - 1  # it is only predicted
        places = range(0, last, self.length)
        for first in range(0, len(places), self.rows):
            starts = places[first : first + self.rows]
            yield self._gathered([(start, min(start + self.length, last)) for start in starts])

    def _gathered(self, rows: list[tuple[int, int]]) -> Batch[Ragged]:
        parts = [self.corpus.between(start, stop + 1) for start, stop in rows]
        lengths = tuple(stop - start for start, stop in rows)
        return Batch(
            Ragged(_tensor(np.concatenate([part[:-1] for part in parts])), lengths),
            Ragged(_tensor(np.concatenate([part[1:] for part in parts])), lengths),
            tuple(self.corpus.place(start) for start, _ in rows),
        )


KINDS: dict[str, Callable[..., Rows]] = {"packed": Packed, "stream": Stream}


@dataclass(frozen=True, eq=False)
class _Stretches:
    """Stretches of the ids of a corpus."""

    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]

    def cut(self, firsts: NDArray[np.int64], length: int) -> _Stretches:
        """Each one cut after its first so many tokens, and from there on every `length`."""
        firsts = np.minimum(firsts, self.sizes)
        counts = 1 + -(-(self.sizes - firsts) // length)  # the quotient rounded up
        counts = np.where(self.sizes > 0, counts, 0)
        which = np.repeat(np.arange(len(counts)), counts)
        number = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
        # piece i > 0 of a stretch reaches from first + (i - 1) length to first + i length
        begins = np.where(number > 0, firsts[which] + (number - 1) * length, 0)
        finishes = np.minimum(firsts[which] + number * length, self.sizes[which])
        return _Stretches(self.starts[which] + begins, finishes - begins)

    def places(self) -> NDArray[np.int64]:
        """Where the tokens of all stretches stand: (tokens,)."""
        shifts = self.starts - (np.cumsum(self.sizes) - self.sizes)
        return np.arange(int(self.sizes.sum())) + np.repeat(shifts, self.sizes)


class _Shuffled:
    """Stretches end to end in some order, from which any part can be had."""

    def __init__(self, starts: NDArray[np.int64], sizes: NDArray[np.int64], skip: int) -> None:
        self._starts, self._sizes, self._ends, self.skip = starts, sizes, np.cumsum(sizes), skip

    def between(self, start: int, stop: int) -> _Stretches:
        """The stretches from one place of the line to another, the outer ones in part."""
        first, last = np.searchsorted(self._ends, [start, stop - 1], side="right").tolist()
        some = slice(first, last + 1)
        begins = self._ends[some] - self._sizes[some]  # places in the line
        over = np.maximum(start - begins, 0)
        sizes = np.minimum(self._ends[some], stop) - begins - over
        return _Stretches(self._starts[some] + over, sizes)


def _tensor(ids: NDArray[Any]) -> Tensor:
    return torch.from_numpy(ids.astype(np.int64))
