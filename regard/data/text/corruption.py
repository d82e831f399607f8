"""Text -> masked text with labels at the masked tokens: the pretraining of BERT and RoBERTa.

In: a `Batch` of sequences of text. Out: a `Batch` of masked sequences whose labels are the original
tokens, at the masked positions only; for BERT's next-sentence task, pairs of texts, of which the
second does or does not follow the first.

    the chapel was warm and quiet     ->     the [MASK] was apple and quiet
                                                 chapel    warm

The masked tokens are a pure function of (seed, epoch, position of the sequence in the corpus): the
same on every machine and in a resumed run, different in every epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.batch import Batch
from regard.data.order import generator
from regard.data.text.corpus import Corpus
from regard.data.text.packing import BatchedCorpus
from regard.errors import InputError
from regard.inputs.arrays import Ragged

Ids = NDArray[np.int64]
Corrupt = Callable[[Batch[Ragged], int], Batch[Ragged]]
"""A batch of text and an epoch -> the corrupted input with its labels."""

HIDDEN, CHANGED = 0.8, 0.1
"""Of the chosen tokens, the share replaced by [MASK] and the share replaced by a random token; the
others are unchanged."""


RATE = 0.15
"""The share of the tokens that are masked, as published."""
TRIES = 10
"""How many other documents are tried to find one that is long enough (as in BERT's code)."""


EVALUATION_EPOCH = 0
"""Every evaluation uses the corruption of this epoch."""


@dataclass(frozen=True, eq=False)
class CorruptedCorpus:
    """Batches of text, corrupted."""

    rows: BatchedCorpus
    corrupt: Corrupt

    @property
    def corpus(self) -> Corpus:
        """The corpus that the text is from."""
        return self.rows.corpus

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, epoch: int, number: int) -> Batch[Ragged]:
        """Return one batch of an epoch, with that epoch's corruption."""
        return self.corrupt(self.rows.batch(epoch, number), epoch)

    @property
    def passages(self) -> int:
        """The number of sequences of an evaluation, before pairs of them are formed."""
        return self.rows.passages

    def limited(self, indices: Sequence[int]) -> CorruptedCorpus:
        """Return only some of the sequences of an evaluation, corrupted as in the whole."""
        return replace(self, rows=self.rows.limited(indices))

    def evaluation(self) -> Iterator[Batch[Ragged]]:
        """Yield the whole text once, always corrupted in the same way."""
        return (self.corrupt(batch, EVALUATION_EPOCH) for batch in self.rows.evaluation())


@dataclass(frozen=True, eq=False)
class Symbols:
    """The properties of a vocabulary that masking needs."""

    vocab: int
    mask: int
    begin: int
    """The id that begins a sequence: [CLS], <s>."""
    end: int
    """The id that ends each text: [SEP], </s>."""
    special: frozenset[int]
    """Symbols that are never masked, and that never replace a token."""
    continues: NDArray[np.bool_] | None = None
    """(vocab,) True for entries that continue a word. If given, whole words are masked."""

    @cached_property
    def free(self) -> NDArray[np.bool_]:
        """(vocab,) True for entries that are not special."""
        free = np.ones(self.vocab, dtype=np.bool_)
        free[sorted(self.special)] = False
        return free

    @cached_property
    def ordinary(self) -> Ids:
        """The ids of all entries that are not special."""
        return np.flatnonzero(self.free)


def mask_tokens(
    ids: Ids, symbols: Symbols, random: np.random.Generator, rate: float = RATE
) -> tuple[Ids, Ids]:
    """Mask a fixed share of the tokens of a text (Devlin et al. 2019, section 3.1).

    Args:
        ids: The tokens of a text.
        symbols: Properties of the vocabulary. With `continues`, whole words are masked; a word
            that would exceed the share is skipped.
        random: Source of randomness.
        rate: The share of the tokens, not counting special ones; at least one is masked.

    Returns:
        The masked text, and the positions of the chosen tokens in ascending order.
    """
    free = symbols.free[ids]
    count = max(1, round(int(free.sum()) * rate))
    if symbols.continues is None:
        positions = np.sort(random.permutation(np.flatnonzero(free))[:count])
    else:
        positions = _choose_words(free, ~symbols.continues[ids], random, count)
    numbers = random.random(len(positions))
    replacements = random.integers(len(symbols.ordinary), size=len(positions))
    masked = ids.copy()
    masked[positions] = np.select(
        [numbers < HIDDEN, numbers < HIDDEN + CHANGED],
        [np.full(len(positions), symbols.mask), symbols.ordinary[replacements]],
        ids[positions],
    )
    return masked, positions


@dataclass(frozen=True)
class Masking:
    """Batches of text -> batches of masked text, masked differently in each epoch.

    With sequences within documents (`Packed`) these are BERT's inputs without a second sentence;
    with full rows across documents (`Stream`), RoBERTa's FULL-SENTENCES (Liu et al. 2019).
    """

    symbols: Symbols
    rate: float = RATE
    seed: int = 0

    def __call__(self, batch: Batch[Ragged], epoch: int) -> Batch[Ragged]:
        """Put each sequence between a begin and an end symbol, and mask tokens of it."""
        begin, end = [self.symbols.begin], [self.symbols.end]
        rows = [np.concatenate([begin, text, end]) for text in texts(batch)]
        return self.hide(rows, batch.index, epoch)

    def hide(self, rows: Sequence[Ids], index: tuple[int, ...], epoch: int) -> Batch[Ragged]:
        """Mask tokens of sequences that already have their begin and end symbols."""
        inputs, label_rows = [], []
        for row, example in zip(rows, index, strict=True):
            random = generator(self.seed, epoch, example)
            masked, positions = mask_tokens(row, self.symbols, random, self.rate)
            labels = np.full_like(row, -1)
            labels[positions] = row[positions]
            inputs.append(masked)
            label_rows.append(labels)
        lengths = tuple(map(len, rows))
        ids, targets = (torch.from_numpy(np.concatenate(parts)) for parts in (inputs, label_rows))
        return Batch(Ragged(ids, lengths), Ragged(targets, lengths), index)


class SentencePairs:
    """Batches of text -> masked pairs of texts for next-sentence prediction (BERT).

    Each sequence is cut in two at the end of a sentence. With probability 1/2 the second part is
    replaced by text from another document, of the same length if a document is long enough, so
    that the length does not reveal the label.

    Args:
        masking: Masks tokens of the pairs.
        corpus: Where the replaced second parts come from.
        stops: The ids that end a sentence; a sequence without one is cut anywhere.

    Raises:
        InputError: If the corpus has only one document.
    """

    def __init__(self, masking: Masking, corpus: Corpus, stops: frozenset[int]) -> None:
        if len(corpus) < 2:
            raise InputError(
                "the text",
                got="one document",
                expected="at least 2, to draw other sentences from",
                fix=r'data.separator="\n\n" cuts a text into documents at empty lines',
            )
        self.masking, self.corpus = masking, corpus
        self._stops = np.array(sorted(stops), dtype=np.int64)

    def __call__(self, batch: Batch[Ragged], epoch: int) -> Batch[Ragged]:
        """Make a pair from each sequence: begin, first text, end, second text, end.

        The label is 1 if the second text follows the first, and 0 if not.
        """
        begin, end = [self.masking.symbols.begin], [self.masking.symbols.end]
        rows, types, follows = [], [], []
        for text, example in zip(texts(batch), batch.index, strict=True):
            first, second, follow = self._make_pair(text, example, epoch)
            rows.append(np.concatenate([begin, first, end, second, end]))
            types.append(np.repeat([0, 1], [len(first) + 2, len(second) + 1]))
            follows.append(int(follow))
        masked = self.masking.hide(rows, batch.index, epoch)
        typed = masked.source.typed(torch.from_numpy(np.concatenate(types)))
        return replace(masked, source=typed, labels=torch.tensor(follows))

    def _make_pair(self, text: Ids, example: int, epoch: int) -> tuple[Ids, Ids, bool]:
        """Cut a text in two; the second part is its own, or from another document."""
        random = generator(self.masking.seed, epoch, example, _PAIRS)
        if len(text) < 2:  # too short to cut in two
            return text, self._other_text(example, 1, random), False
        cuts = 1 + np.flatnonzero(np.isin(text[:-1], self._stops))
        cut = int(random.choice(cuts if len(cuts) else np.arange(1, len(text))))
        if random.random() < 0.5:
            return text[:cut], text[cut:], True
        return text[:cut], self._other_text(example, len(text) - cut, random), False

    def _other_text(self, example: int, length: int, random: np.random.Generator) -> Ids:
        """Return `length` tokens of another document, from a sentence's beginning if possible."""
        own_document = int(np.searchsorted(self.corpus.starts, example, side="right")) - 1
        for _ in range(TRIES):
            number = int(random.integers(len(self.corpus) - 1))
            number += number >= own_document
            start, stop = int(self.corpus.starts[number]), int(self.corpus.stops[number]) - 1
            if stop - start >= length:
                break
        begin = start + int(random.integers(max(1, stop - start - length + 1)))
        # The beginning of a sentence is searched within the next `length` tokens only.
        ahead = self.corpus.ids[begin : max(begin, min(begin + length, stop - length))]
        begins = 1 + np.flatnonzero(np.isin(ahead, self._stops))
        begin += int(begins[0]) if len(begins) and begin > start else 0
        return self.corpus.ids[begin : min(begin + length, stop)].astype(np.int64)


_PAIRS = 1
"""Part of the seed of sentence pairs, so that they are independent of the masking."""


def texts(batch: Batch[Ragged]) -> list[Ids]:
    """Return the sequences of a batch's source, one array each."""
    ends = np.cumsum(batch.source.lengths)
    return np.split(batch.source.ids.numpy(), ends[:-1])


def _choose_words(
    free: NDArray[np.bool_], begins: NDArray[np.bool_], random: np.random.Generator, count: int
) -> Ids:
    """Choose random words of at most `count` tokens together; one word if each is longer.

    Returns:
        The positions of the tokens of the chosen words.
    """
    # a special symbol is not part of a word
    begins = begins | ~free | np.concatenate([[True], ~free[:-1]])
    word_of_token = np.cumsum(begins) - 1
    words = random.permutation(np.unique(word_of_token[free]))
    sizes = np.bincount(word_of_token)
    chosen_words, token_count = [], 0
    for word in words.tolist():
        if token_count + sizes[word] <= count:
            chosen_words.append(word)
            token_count += int(sizes[word])
    return np.flatnonzero(free & np.isin(word_of_token, chosen_words or words[:1]))
