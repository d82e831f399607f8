"""Text -> text with holes, each to be filled where it is: how BERT and RoBERTa learn from text.

In: a `Batch` of stretches of text. Out: one of what a model is shown, where holes are asked for
alone; for BERT's second task, pairs of texts that belong together or do not.

    the chapel was warm and quiet     ->     the [MASK] was apple and quiet
                                                 chapel    warm

What is hidden is a pure function of (seed, epoch, place of the stretch in the corpus): the same on
every machine and after every resume, another in every epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.batch import Batch
from regard.data.input import Ragged
from regard.data.text.corpus import Corpus
from regard.data.text.packing import Rows
from regard.errors import InputError

Ids = NDArray[np.int64]
Corrupt = Callable[[Batch[Ragged], int], Batch[Ragged]]
"""Text for an epoch -> what a model is shown of it and should say."""

HIDDEN, CHANGED = 0.8, 0.1
"""The shares of the chosen tokens that become [MASK], and any token; the others stay."""


TRIES = 10
"""How many other documents are looked at for one that is long enough (as in BERT's code)."""


ALWAYS = 0
"""The epoch whose corruption is that of every evaluation."""


@dataclass(frozen=True, eq=False)
class CorruptedRows:
    """Rows of text, and how a batch of them becomes what a model is shown and should say."""

    rows: Rows
    corrupt: Corrupt

    @property
    def corpus(self) -> Corpus:
        """The text."""
        return self.rows.corpus

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, epoch: int, number: int) -> Batch[Ragged]:
        """One batch of an epoch, corrupted for it."""
        return self.corrupt(self.rows.batch(epoch, number), epoch)

    def evaluation(self) -> Iterator[Batch[Ragged]]:
        """All of the text once, always corrupted in the same way."""
        return (self.corrupt(batch, ALWAYS) for batch in self.rows.evaluation())


@dataclass(frozen=True, eq=False)
class Symbols:
    """What masking must know of a vocabulary."""

    vocab: int
    mask: int
    begin: int
    """What opens a sequence: [CLS], <s>."""
    end: int
    """What closes each text: [SEP], </s>."""
    special: frozenset[int]
    """Symbols that are never hidden, and never put in the place of a token."""
    continues: NDArray[np.bool_] | None = None
    """(vocab,) Which entries go on with the word before them: to hide whole words only."""

    @cached_property
    def free(self) -> NDArray[np.bool_]:
        """(vocab,) Which entries are not special."""
        free = np.ones(self.vocab, dtype=np.bool_)
        free[sorted(self.special)] = False
        return free

    @cached_property
    def ordinary(self) -> Ids:
        """All entries that are not special."""
        return np.flatnonzero(self.free)


def mask_tokens(
    ids: Ids, symbols: Symbols, random: np.random.Generator, rate: float = 0.15
) -> tuple[Ids, Ids]:
    """Hide a fixed share of the tokens of a text (Devlin et al. 2019, section 3.1).

    Args:
        ids: A text.
        symbols: Of the vocabulary. With `continues`, words are hidden as wholes; a word that
            would be too much is passed over.
        random: Decides.
        rate: The share of the tokens, special ones not counted; at least one is hidden.

    Returns:
        The text to show, and the places of the hidden tokens in ascending order.
    """
    free = symbols.free[ids]
    wanted = max(1, round(int(free.sum()) * rate))
    if symbols.continues is None:
        places = np.sort(random.permutation(np.flatnonzero(free))[:wanted])
    else:
        places = _whole_words(free, ~symbols.continues[ids], random, wanted)
    lots, others = (
        random.random(len(places)),
        random.integers(len(symbols.ordinary), size=len(places)),
    )
    shown = ids.copy()
    shown[places] = np.select(
        [lots < HIDDEN, lots < HIDDEN + CHANGED],
        [np.full(len(places), symbols.mask), symbols.ordinary[others]],
        ids[places],
    )
    return shown, places


class Masking:
    """Batches of text -> batches of text with holes; a new set of holes in each epoch.

    On stretches of documents (`Packed`) these are BERT's sequences without the second sentence; on
    full rows across documents (`Stream`) they are RoBERTa's FULL-SENTENCES (Liu et al. 2019).
    """

    def __init__(self, symbols: Symbols, *, rate: float = 0.15, seed: int = 0) -> None:
        self.symbols, self.rate, self.seed = symbols, rate, seed

    def __call__(self, batch: Batch[Ragged], epoch: int) -> Batch[Ragged]:
        """Hide tokens of each sequence, between a begin and an end symbol."""
        begin, end = [self.symbols.begin], [self.symbols.end]
        rows = [np.concatenate([begin, text, end]) for text in texts(batch)]
        return self.hide(rows, batch.index, epoch)

    def hide(self, rows: Sequence[Ids], index: tuple[int, ...], epoch: int) -> Batch[Ragged]:
        """Hide tokens of sequences that have their symbols."""
        shown, wanted = [], []
        for row, example in zip(rows, index, strict=True):
            holes, places = mask_tokens(
                row, self.symbols, generator(self.seed, epoch, example), self.rate
            )
            said = np.full_like(row, -1)
            said[places] = row[places]
            shown.append(holes)
            wanted.append(said)
        lengths = tuple(map(len, rows))
        ids, right = (torch.from_numpy(np.concatenate(each)) for each in (shown, wanted))
        return Batch(Ragged(ids, lengths), Ragged(right, lengths), index)


class SentencePairs:
    """Batches of text -> pairs of texts with holes, half of which belong together (BERT).

    A stretch of a document is cut in two at the end of a sentence. The second part stays, or is
    one of the same length from another document, if one is found: the length does not tell which.

    Args:
        masking: What hides tokens in the pairs.
        corpus: Where other second parts come from.
        stops: The ids that a sentence ends with; without them the cut is anywhere.
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
        """A pair from each sequence: begin, first text, end, second text, end.

        Its label is 1 if the second text goes on with the first, 0 if it is any other.
        """
        begin, end = [self.masking.symbols.begin], [self.masking.symbols.end]
        rows, types, follows = [], [], []
        for text, example in zip(texts(batch), batch.index, strict=True):
            first, second, follow = self._pair(text, example, epoch)
            rows.append(np.concatenate([begin, first, end, second, end]))
            types.append(np.repeat([0, 1], [len(first) + 2, len(second) + 1]))
            follows.append(int(follow))
        masked = self.masking.hide(rows, batch.index, epoch)
        typed = masked.source.typed(torch.from_numpy(np.concatenate(types)))
        return replace(masked, source=typed, labels=torch.tensor(follows))

    def _pair(self, text: Ids, example: int, epoch: int) -> tuple[Ids, Ids, bool]:
        random = generator(self.masking.seed, epoch, example, _PAIRS)
        if len(text) < 2:  # nothing of it can follow
            return text, self._other(example, 1, random), False
        cuts = 1 + np.flatnonzero(np.isin(text[:-1], self._stops))
        place = int(random.choice(cuts if len(cuts) else np.arange(1, len(text))))
        if random.random() < 0.5:
            return text[:place], text[place:], True
        return text[:place], self._other(example, len(text) - place, random), False

    def _other(self, example: int, length: int, random: np.random.Generator) -> Ids:
        """So many tokens of any other document, from the beginning of a sentence where it can."""
        own = int(np.searchsorted(self.corpus.starts, example, side="right")) - 1
        for _ in range(TRIES):
            number = int(random.integers(len(self.corpus) - 1))
            number += number >= own
            start, stop = int(self.corpus.starts[number]), int(self.corpus.stops[number]) - 1
            if stop - start >= length:
                break
        place = start + int(random.integers(max(1, stop - start - length + 1)))
        # The next sentence is looked for no further than that many tokens.
        ahead = self.corpus.ids[place : max(place, min(place + length, stop - length))]
        begins = 1 + np.flatnonzero(np.isin(ahead, self._stops))
        place += int(begins[0]) if len(begins) and place > start else 0
        return self.corpus.ids[place : min(place + length, stop)].astype(np.int64)


_PAIRS = 1
"""What tells the lots of pairs from those of holes."""


def generator(*numbers: int) -> np.random.Generator:
    """The lots of one text: the same wherever and whenever they are drawn."""
    return np.random.Generator(np.random.PCG64([number % 2**64 for number in numbers]))


def texts(batch: Batch[Ragged]) -> list[Ids]:
    """The sequences of a batch, one array each."""
    ends = np.cumsum(batch.source.lengths)
    return np.split(batch.source.ids.numpy(), ends[:-1])


def _whole_words(
    free: NDArray[np.bool_], begins: NDArray[np.bool_], random: np.random.Generator, wanted: int
) -> Ids:
    """Words in random order, as many as are not too much; one, if each is."""
    begins = begins | ~free | np.concatenate([[True], ~free[:-1]])  # a symbol is no part of a word
    number = np.cumsum(begins) - 1
    words = random.permutation(np.unique(number[free]))
    sizes = np.bincount(number)
    chosen, taken = [], 0
    for word in words.tolist():
        if taken + sizes[word] <= wanted:
            chosen.append(word)
            taken += int(sizes[word])
    return np.flatnonzero(free & np.isin(number, chosen or words[:1]))
