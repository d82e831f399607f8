"""Labelled token sequences for an encoder -> micro-batches; and windows of long texts.

In: `LabelledRow`s, one for each text or window. Out: `Batch`es of rows concatenated without
padding, in an order that is a pure function of (lengths, budget, seed, epoch), as with pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, overload

from numpy.typing import NDArray

from regard.data.batch import Batch, Cursor, epochs
from regard.data.order import evaluation_batches, training_batches
from regard.data.text.id_rows import IdRows
from regard.inputs.arrays import Ragged

OnShare = Callable[[float], None]
"""Called with the share of the work that is done, from 0 to 1."""


@dataclass(frozen=True)
class LabelledRow:
    """One text, pair of texts, or window of a long text, with its labels."""

    ids: list[int]
    types: list[int]
    """Segment of each id: 0 for the first text, 1 for the second."""
    targets: list[int]
    """The labels: one class, one tag for each id, or the two positions of an answer."""


class LabelledRows(Sequence[LabelledRow]):
    """Rows as columns of flat arrays, in memory or in files.

    Args:
        ids: The ids of each row.
        types: The segment of each id.
        targets: The labels of each row.
    """

    def __init__(self, ids: IdRows, types: IdRows, targets: IdRows) -> None:
        self._columns = ids, types, targets
        self.lengths = ids.sizes

    def __len__(self) -> int:
        return len(self.lengths)

    @overload
    def __getitem__(self, index: int) -> LabelledRow: ...
    @overload
    def __getitem__(self, index: slice) -> list[LabelledRow]: ...
    def __getitem__(self, index: int | slice) -> LabelledRow | list[LabelledRow]:
        if isinstance(index, slice):
            return [self[number] for number in range(len(self))[index]]
        number = range(len(self))[index]
        return LabelledRow(*(column[number] for column in self._columns))


def batch_of(rows: Sequence[LabelledRow], index: Sequence[int]) -> Batch[Ragged]:
    """Make the batch of the rows at `index`, in that order.

    Example:
        >>> rows = [LabelledRow([1, 5, 2], [0, 0, 0], [3]), LabelledRow([1, 2], [0, 0], [4])]
        >>> batch_of(rows, [1, 0]).source.split(), batch_of(rows, [1, 0]).targets.split()
        ([[1, 2], [1, 5, 2]], [[4], [3]])
    """
    batch_rows = [rows[i] for i in index]
    types = Ragged.of([row.types for row in batch_rows]).ids
    source = Ragged.of([row.ids for row in batch_rows]).typed(types)
    return Batch(source, Ragged.of([row.targets for row in batch_rows]), tuple(index))


def lengths_of(rows: Sequence[LabelledRow]) -> Sequence[int] | NDArray[Any]:
    """Return the number of tokens of each row; stored rows know theirs without being read."""
    return rows.lengths if isinstance(rows, LabelledRows) else [len(row.ids) for row in rows]


def training(
    rows: Sequence[LabelledRow], budget: int, seed: int, start: Cursor
) -> Iterator[tuple[Batch[Ragged], Cursor]]:
    """Yield training batches endlessly from a position on, each with the position after it.

    Args:
        rows: The training split.
        budget: The most tokens in a batch.
        seed: Seed of the run.
        start: The first batch to yield.
    """
    plan = partial(training_batches, lengths_of(rows), budget, seed)
    return epochs(plan, lambda index, _: batch_of(rows, index), start)


def evaluation(
    rows: Sequence[LabelledRow], budget: int, on_progress: OnShare | None = None
) -> Iterator[Batch[Ragged]]:
    """Yield each row once, in batches of similar lengths.

    Args:
        rows: The rows.
        budget: The most tokens of a batch.
        on_progress: Called after each batch with the share of the tokens that are done.
    """
    lengths = lengths_of(rows)
    done, total = 0, int(sum(lengths))
    for index in evaluation_batches(lengths, budget):
        yield batch_of(rows, index)
        done += int(sum(lengths[number] for number in index))
        if on_progress is not None:
            on_progress(done / total)


@dataclass(frozen=True)
class Window:
    """A part of a text that is longer than a model's input: tokens `start` to `stop`."""

    start: int
    stop: int
    own_tokens: range
    """The tokens for which this window has the most context; each token is in one of these."""


def windows(tokens: int, max_tokens: int, overlap: int) -> list[Window]:
    """Cut a text into overlapping windows.

    Args:
        tokens: Number of tokens of the text.
        max_tokens: The most tokens of a window.
        overlap: How many tokens two neighbouring windows share; at most half of `max_tokens`.

    Example:
        >>> first, second = windows(10, max_tokens=6, overlap=2)
        >>> first.own_tokens, second.own_tokens
        (range(0, 5), range(5, 10))
        >>> windows(3, max_tokens=6, overlap=2)
        [Window(start=0, stop=3, own_tokens=range(0, 3))]
    """
    if tokens <= max_tokens:
        return [Window(0, tokens, range(tokens))]
    step = max_tokens - min(overlap, max_tokens // 2)
    starts = [*range(0, tokens - max_tokens, step), tokens - max_tokens]
    # the border of two windows is the middle of what they share
    middles = [(start + before + max_tokens) // 2 for before, start in pairwise(starts)]
    borders = pairwise([0, *middles, tokens])
    return [
        Window(start, start + max_tokens, range(*ends))
        for start, ends in zip(starts, borders, strict=True)
    ]
