"""Text -> text with hidden spans and a decoder's target: the pretraining of T5 and BART.

In: a `Batch` of sequences of text. Out: a `Batch` for an encoder-decoder.

    T5      the <0> was warm <1>            ->     <0> chapel <1> and quiet </s>
    BART    the [MASK] was warm [MASK]      ->     the chapel was warm and quiet </s>

The hidden spans are a pure function of (seed, epoch, position of the text in the corpus).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from regard.data.batch import Batch
from regard.data.order import generator
from regard.data.text.corruption import Ids, texts
from regard.data.text.encoded import make_batch
from regard.errors import InputError
from regard.inputs.arrays import Ragged


def span_mask(
    length: int, random: np.random.Generator, rate: float = 0.15, mean: float = 3.0
) -> NDArray[np.bool_]:
    """Draw the tokens to hide, in spans (Raffel et al. 2020; their `random_spans_noise_mask`).

    The numbers of hidden tokens and of spans are fixed by the length. Kept and hidden spans
    alternate, beginning with a kept one; all such divisions are equally likely.

    Args:
        length: Number of tokens of the text.
        random: Source of randomness.
        rate: The share of the tokens that is hidden.
        mean: The mean length of a hidden span.

    Returns:
        (length,) True for hidden tokens.
    """
    if length < 2:
        return np.zeros(length, dtype=np.bool_)
    hidden, spans = _hidden_counts(length, rate, mean)
    lengths = np.stack([_parts(length - hidden, spans, random), _parts(hidden, spans, random)], 1)
    return np.repeat(np.tile([False, True], spans), lengths.ravel())


def span_lengths(length: int, rate: float = 0.15, mean: float = 3.0) -> tuple[int, int]:
    """Compute how long a text may be so that its corrupted form fits into `length` tokens.

    The corrupted form includes the end symbol.

    Returns:
        The numbers of tokens of the text, and of its target with the end symbol.

    Example:
        >>> span_lengths(512)
        (568, 114)
    """
    text = max(2, length - 1)
    while _corrupted_length(text + 1, rate, mean) + 1 <= length:
        text += 1
    hidden, spans = _hidden_counts(text, rate, mean)
    return text, hidden + spans + 1


def cut_spans(ids: Ids, hidden: NDArray[np.bool_], sentinels: Sequence[int]) -> tuple[Ids, Ids]:
    """Replace each hidden span by a sentinel, and put the same sentinel before it in the target.

    Returns:
        The encoder's input, and the target without its end symbol.

    Raises:
        InputError: If there are more spans than sentinels.

    Example:
        >>> shown, target = cut_spans(np.array([5, 6, 7, 8]), np.array([0, 1, 1, 0]) > 0, [90, 91])
        >>> shown.tolist(), target.tolist()
        ([5, 90, 8], [90, 6, 7])
    """
    begins = hidden & ~np.concatenate([[False], hidden[:-1]])
    if begins.sum() > len(sentinels):
        raise InputError(
            "more spans than sentinels",
            got=f"{begins.sum()} spans in {len(ids)} tokens",
            expected=f"at most {len(sentinels)}",
            fix="shorten the rows, or add sentinels to the vocabulary",
        )
    names = np.asarray(sentinels, dtype=np.int64)[: int(begins.sum())]
    corrupted = ids.copy()
    corrupted[begins] = names
    hidden_index = hidden.nonzero()[0]
    target = np.insert(ids[hidden_index], np.flatnonzero(begins[hidden_index]), names)
    return corrupted[~hidden | begins], target


def fill_spans(corrupted: Ids, target: Ids, sentinels: Sequence[int]) -> Ids:
    """Undo `cut_spans`: replace each sentinel by the tokens that follow it in the target.

    Example:
        >>> fill_spans(np.array([5, 90, 8]), np.array([90, 6, 7]), [90, 91]).tolist()
        [5, 6, 7, 8]
    """
    borders = np.flatnonzero(np.isin(target, sentinels))
    spans = {int(part[0]): part[1:] for part in np.split(target, borders) if len(part)}
    parts = [spans.get(token, np.array([token])) for token in corrupted.tolist()]
    return np.concatenate(parts).astype(np.int64) if parts else corrupted.copy()


@dataclass(frozen=True, kw_only=True)
class _TextToText:
    """Batches of text -> batches for an encoder-decoder; a subclass corrupts each text."""

    begin: int
    """The id that the decoder starts with: for T5, the padding symbol."""
    end: int
    """The id that ends text and target."""
    rate: float = 0.15
    """The share of the tokens that is hidden."""
    mean: float = 3.0
    """The mean length of a hidden span."""
    seed: int = 0

    def __call__(self, batch: Batch[Ragged], epoch: int) -> Batch[Ragged]:
        """Hide spans of each sequence of a batch."""
        sources, targets = [], []
        for text, example in zip(texts(batch), batch.index, strict=True):
            source, target = self.corrupted(text, generator(self.seed, epoch, example))
            sources.append([*source.tolist(), self.end])
            targets.append(target.tolist())
        return make_batch(sources, targets, batch.index, self.begin, self.end)

    def corrupted(self, text: Ids, random: np.random.Generator) -> tuple[Ids, Ids]:
        """Return the encoder's input and the target, both without the end symbol."""
        raise NotImplementedError


@dataclass(frozen=True)
class SpanCorruption(_TextToText):
    """The decoder writes the hidden spans (T5)."""

    sentinels: Sequence[int]
    """The ids of the sentinels, from `<extra_id_0>` on."""

    def corrupted(self, text: Ids, random: np.random.Generator) -> tuple[Ids, Ids]:
        """Replace each hidden span by a sentinel."""
        hidden = span_mask(len(text), random, self.rate, self.mean)
        return cut_spans(text, hidden, self.sentinels)


def infill(
    ids: Ids, mask: int, random: np.random.Generator, rate: float = 0.3, mean: float = 3.0
) -> Ids:
    """Replace random spans by one mask symbol each (BART; Lewis et al. 2020, section 2.2).

    The lengths are drawn from a Poisson distribution; a span of length 0 inserts a mask. No two
    spans are adjacent.

    Args:
        ids: The tokens of a text.
        mask: The id of the mask symbol.
        random: Source of randomness.
        rate: The share of the tokens that is hidden.
        mean: The mean length of a span.

    Returns:
        The text with masks.
    """
    budget = round(len(ids) * rate)
    draws = random.poisson(mean, size=2 * budget + 8)
    lengths = draws[: 1 + int(np.searchsorted(np.cumsum(draws), budget))] if budget else draws[:0]
    lengths = lengths[: len(ids) - budget + 1]
    if len(lengths):
        lengths[-1] = max(0, budget - int(lengths[:-1].sum()))
    visible = len(ids) - int(lengths.sum())
    gaps = np.sort(random.permutation(visible + 1)[: len(lengths)])  # among the visible tokens
    begins = gaps + np.cumsum(lengths) - lengths  # the same positions in the whole text
    hidden = np.zeros(len(ids), dtype=np.bool_)
    for begin, length in zip(begins.tolist(), lengths.tolist(), strict=True):
        hidden[begin : begin + length] = True
    return np.insert(ids[~hidden], gaps, mask)


@dataclass(frozen=True)
class Infilling(_TextToText):
    """The decoder writes the whole text (BART)."""

    mask: int
    """The id that replaces a span."""
    rate: float = field(default=0.3, kw_only=True)

    def corrupted(self, text: Ids, random: np.random.Generator) -> tuple[Ids, Ids]:
        """Replace each hidden span by one mask."""
        return infill(text, self.mask, random, self.rate, self.mean), text


def _hidden_counts(length: int, rate: float, mean: float) -> tuple[int, int]:
    """Compute how many tokens of a text are hidden, and in how many spans."""
    hidden = min(max(round(length * rate), 1), length - 1)
    spans = max(round(hidden / mean), 1)
    return hidden, min(spans, hidden, length - hidden)


def _corrupted_length(length: int, rate: float, mean: float) -> int:
    """Compute the length of a text with a sentinel in place of each hidden span."""
    hidden, spans = _hidden_counts(length, rate, mean)
    return length - hidden + spans


def _parts(items: int, parts: int, random: np.random.Generator) -> Ids:
    """Divide items at random into `parts` non-empty parts, all ways equally likely: the sizes."""
    borders = np.sort(random.permutation(items - 1)[: parts - 1]) + 1
    return np.diff(np.concatenate([[0], borders, [items]]))
