"""Texts as an encoder reads them, with what it should say of them -> micro-batches.

In: `Row`s, one a text or window. Out: `Batch`es, whose rows stand end to end without padding, in
an order that is a pure function of (lengths, budget, seed, epoch), as with pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from regard.data.batch import Batch, Cursor, epochs
from regard.data.input import Ragged
from regard.data.order import order, sequential


@dataclass(frozen=True)
class Row:
    """One text, pair, or window of a long text."""

    ids: list[int]
    types: list[int]
    """For each id, 0 or 1: which of two texts it is of."""
    targets: list[int]
    """What the task wants to hear: one class, a tag for each id, or two places."""


def batch_of(rows: Sequence[Row], index: Sequence[int]) -> Batch[Ragged]:
    """The batch of the rows at `index`, in that order.

    Example:
        >>> rows = [Row([1, 5, 2], [0, 0, 0], [3]), Row([1, 2], [0, 0], [4])]
        >>> batch_of(rows, [1, 0]).source.split(), batch_of(rows, [1, 0]).wanted.split()
        ([[1, 2], [1, 5, 2]], [[4], [3]])
    """
    chosen = [rows[place] for place in index]
    types = Ragged.of([row.types for row in chosen]).ids
    return Batch(
        Ragged.of([row.ids for row in chosen]).typed(types),
        Ragged.of([row.targets for row in chosen]),
        tuple(index),
    )


def training(
    rows: Sequence[Row], budget: int, seed: int, start: Cursor
) -> Iterator[tuple[Batch[Ragged], Cursor]]:
    """Batches without end from a place on, each with the place after it.

    Args:
        rows: All that is to be trained on.
        budget: The most tokens in a batch.
        seed: Of the run.
        start: Where to begin.
    """
    lengths = [len(row.ids) for row in rows]
    return epochs(
        lambda epoch: order(lengths, budget, seed, epoch),
        lambda index, _: batch_of(rows, index),
        start,
    )


def evaluation(rows: Sequence[Row], budget: int) -> Iterator[Batch[Ragged]]:
    """Each row once, rows of like length together."""
    for index in sequential([len(row.ids) for row in rows], budget):
        yield batch_of(rows, index)


@dataclass(frozen=True)
class Window:
    """Some tokens of a text that is too long to be read at once."""

    start: int
    stop: int
    own: range
    """Those that no other window shows with more around them: every token is own to one window."""


def windows(tokens: int, room: int, overlap: int) -> list[Window]:
    """Cuts a text into windows that overlap.

    Args:
        tokens: How many the text has.
        room: The most tokens of a window.
        overlap: How many tokens two neighbours share; at most half the room is taken for it.

    Example:
        >>> [(each.start, each.stop, each.own) for each in windows(10, room=6, overlap=2)]
        [(0, 6, range(0, 5)), (4, 10, range(5, 10))]
        >>> windows(3, room=6, overlap=2)
        [Window(start=0, stop=3, own=range(0, 3))]
    """
    if tokens <= room:
        return [Window(0, tokens, range(tokens))]
    step = room - min(overlap, room // 2)
    starts = [*range(0, tokens - room, step), tokens - room]
    borders = [0]
    for before, after in pairwise(starts):
        borders.append((after + before + room) // 2)  # the middle of what the two share
    borders.append(tokens)
    return [
        Window(start, start + room, range(borders[place], borders[place + 1]))
        for place, start in enumerate(starts)
    ]
