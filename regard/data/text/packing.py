"""A corpus -> batches for a language model: full, without padding, in a resumable order.

In: a `Corpus`, documents as concatenated token ids. Out: `Batch`es with the same number of tokens
each; the label of each token is the next token. There are two ways:

    packed    a b c | d e | f g h i j     each document is a sequence of its own: no token sees
                                          another document, and positions restart in each
    stream    a b c d | e f g h           sequences start anywhere and cross documents

The order is a pure function of (seed, epoch), and any batch can be made without those before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Protocol, Self

import numpy as np

from regard.data.batch import Batch, Cursor, epochs
from regard.data.order import POOL_BATCHES, evaluation_batches, generator, random_order
from regard.data.text.corpus import Corpus
from regard.data.text.ranges import Ranges, as_tensor
from regard.errors import InputError
from regard.inputs.arrays import Ragged


class BatchedCorpus(Protocol):
    """The batches of a corpus, `Packed` or `Stream`."""

    @property
    def corpus(self) -> Corpus:
        """The corpus that the batches are from."""

    def __len__(self) -> int:
        """The number of batches of an epoch."""

    def batch(self, epoch: int, number: int) -> Batch[Ragged]:
        """Return one batch of an epoch."""

    def evaluation(self) -> Iterator[Batch[Ragged]]:
        """Yield the whole corpus once, always in the same order: each token is predicted once."""

    @property
    def passages(self) -> int:
        """The number of sequences of an evaluation."""

    def limited(self, indices: Sequence[int]) -> Self:
        """Return only some of the sequences of an evaluation, by their numbers in the text."""


def batches(rows: BatchedCorpus, start: Cursor) -> Iterator[tuple[Batch[Ragged], Cursor]]:
    """Yield training batches endlessly from a position on, each with the position after it."""
    return epochs(lambda _: range(len(rows)), lambda index, epoch: rows.batch(epoch, index), start)


class Packed:
    """Equally full batches of sequences of similar lengths, none of which crosses documents.

    The documents of an epoch are shuffled and concatenated. The concatenation is processed in pools
    of `POOL_BATCHES` batches: within a pool, documents longer than `length` are cut, the pieces are
    sorted by length (so that attention, which works on rows of equal length, needs little padding),
    concatenated again and cut into batches. So a document is cut only if it is longer than `length`
    or at the border of two batches. Less than one batch of tokens is left out in each epoch; which
    tokens, changes from epoch to epoch.

    Args:
        corpus: The documents.
        length: The most tokens of a sequence.
        batch_tokens: The number of tokens of a batch.
        seed: Seed of the order.

    Raises:
        InputError: If there is no token to predict.
    """

    def __init__(self, corpus: Corpus, *, length: int, batch_tokens: int, seed: int = 0) -> None:
        self.corpus, self.length, self.seed = corpus, length, seed
        # the last token of a document is only a label
        sizes = corpus.stops - corpus.starts - 1
        if sizes.max(initial=0) < 2**31:  # half the memory
            sizes = sizes.astype(np.int32)
        self._documents = Ranges(corpus.starts, sizes)
        tokens = int(sizes.sum())
        if tokens < 1:
            raise InputError("the text", got="no token to learn from", expected="at least one")
        self.batch_tokens = min(batch_tokens, tokens)
        self._batches, self._spare = divmod(tokens, self.batch_tokens)
        self._epoch: tuple[int, tuple[Ranges, int]] | None = None
        self._pool: tuple[tuple[int, int], list[Ranges]] | None = None

    def __len__(self) -> int:
        return self._batches

    def batch(self, epoch: int, number: int) -> Batch[Ragged]:
        """Return one batch of an epoch."""
        pool, index = divmod(number, POOL_BATCHES)
        if self._pool is None or self._pool[0] != (epoch, pool):
            self._pool = (epoch, pool), self._pool_batches(epoch, pool)
        return self._make_batch(self._pool[1][index])

    def evaluation(self) -> Iterator[Batch[Ragged]]:
        """Yield the whole corpus from short to long, documents cut every `length` tokens."""
        pieces = self._pieces()
        for index in evaluation_batches(pieces.sizes, self.batch_tokens):
            yield self._make_batch(pieces[index])

    @property
    def passages(self) -> int:
        """The number of sequences of an evaluation."""
        return len(self._pieces().sizes)

    def limited(self, indices: Sequence[int]) -> Packed:
        """Return only some of the sequences of an evaluation, each as a document."""
        pieces = self._pieces()[np.array(indices, dtype=np.int64)]
        corpus = self.corpus.part(pieces.starts, pieces.starts + pieces.sizes + 1)
        return Packed(corpus, length=self.length, batch_tokens=self.batch_tokens, seed=self.seed)

    def _pieces(self) -> Ranges:
        """The documents, cut every `length` tokens."""
        return self._documents.cut(np.full(len(self.corpus), self.length), self.length)

    def _pool_batches(self, epoch: int, pool: int) -> list[Ranges]:
        """Compute the batches of a pool."""
        documents, skip = self._shuffled_documents(epoch)
        random = generator(self.seed, epoch, pool)
        first = pool * POOL_BATCHES
        count = min(POOL_BATCHES, len(self) - first)
        start = skip + first * self.batch_tokens
        ranges = documents.between(start, start + count * self.batch_tokens)
        # Long documents are cut at random offsets, so that no token always begins a sequence.
        phases = random.integers(1, self.length + 1, size=len(ranges.sizes))
        phases = np.where(ranges.sizes > self.length, phases, self.length)
        pieces = ranges.cut(phases, self.length)
        order = random.permutation(len(pieces.sizes))
        by_length = order[np.argsort(pieces.sizes[order], kind="stable")]
        ordered = pieces[by_length]
        borders = random.permutation(count) * self.batch_tokens
        return [ordered.between(border, border + self.batch_tokens) for border in borders.tolist()]

    def _shuffled_documents(self, epoch: int) -> tuple[Ranges, int]:
        """Return the documents in the epoch's order, and how many tokens are skipped in front."""
        if self._epoch is None or self._epoch[0] != epoch:
            random = generator(self.seed, epoch)
            order = random_order(random, len(self.corpus))
            self._epoch = epoch, (self._documents[order], int(random.integers(self._spare + 1)))
        return self._epoch[1]

    def _make_batch(self, ranges: Ranges) -> Batch[Ragged]:
        """Make a batch of ranges of tokens; the label of a token is the next one."""
        indices, lengths = ranges.indices(), ranges.lengths
        inputs, following = (as_tensor(self.corpus.ids[indices + shift]) for shift in (0, 1))
        starts = tuple(ranges.starts.tolist())
        return Batch(Ragged(inputs, lengths), Ragged(following, lengths), starts)


class Stream:
    """Rows that start at random tokens of the corpus and cross documents (as in nanoGPT).

    An epoch has about as many tokens as the corpus, but as the starts are random, some tokens are
    seen several times and some not at all.

    Args:
        corpus: The documents.
        length: The number of tokens of a row.
        batch_tokens: The most tokens of a batch; it has as many rows as fit, at least one.
        seed: Seed of the rows' starts.

    Raises:
        InputError: If the corpus is too short for one row.
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
        self._last = corpus.tokens - 1  # the last token is only a label
        self._text = corpus
        self._starts: Sequence[int] = range(0, self._last, length)  # of the evaluation's sequences

    def __len__(self) -> int:
        return max(1, self.corpus.tokens // (self.rows * self.length))

    def batch(self, epoch: int, number: int) -> Batch[Ragged]:
        """Return one batch of an epoch."""
        random = generator(self.seed, epoch, number)
        starts = random.integers(self.corpus.tokens - self.length, size=self.rows)
        return self._make_batch([(start, start + self.length) for start in starts.tolist()])

    def evaluation(self) -> Iterator[Batch[Ragged]]:
        """Yield the whole corpus in consecutive rows, of which the last may be shorter."""
        for first in range(0, len(self._starts), self.rows):
            starts = self._starts[first : first + self.rows]
            yield self._make_batch([(start, self._stop(start)) for start in starts])

    @property
    def passages(self) -> int:
        """The number of sequences of an evaluation."""
        return len(self._starts)

    def limited(self, indices: Sequence[int]) -> Stream:
        """Return only some of the sequences of an evaluation."""
        twin = copy(self)
        twin._starts = [self._starts[i] for i in indices]
        parts = [self._text.documents.between(at, self._stop(at) + 1) for at in twin._starts]
        starts = np.concatenate([part.starts for part in parts])
        sizes = np.concatenate([part.sizes for part in parts])
        twin.corpus = self._text.part(starts, starts + sizes)
        return twin

    def _stop(self, start: int) -> int:
        """The end of a sequence of an evaluation."""
        return min(start + self.length, self._last)

    def _make_batch(self, rows: list[tuple[int, int]]) -> Batch[Ragged]:
        """Make a batch of rows from `start` to `stop`; the label of a token is the next one."""
        parts = [self._text.between(start, stop + 1) for start, stop in rows]
        lengths = tuple(stop - start for start, stop in rows)
        return Batch(
            Ragged(as_tensor(np.concatenate([part[:-1] for part in parts])), lengths),
            Ragged(as_tensor(np.concatenate([part[1:] for part in parts])), lengths),
            tuple(self._text.index_of(start) for start, _ in rows),
        )


KINDS: dict[str, Callable[..., BatchedCorpus]] = {"packed": Packed, "stream": Stream}
