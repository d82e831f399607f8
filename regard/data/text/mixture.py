"""Several sets of examples -> one order, in given proportions: many tasks for one model (T5).

In: how many examples each set has, and its weight. Out: which examples an epoch has, a pure
function of (seed, epoch). Each set is an endless line of its own, shuffled anew in each pass; an
epoch takes the next stretch of every line, as long as its share. So small sets are repeated and
large ones take several epochs, but within a set no example is seen more than once more often than
another.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from regard.data.text.corruption import generator
from regard.errors import InputError


def shares(weights: Sequence[float], total: int) -> list[int]:
    """How many of `total` examples each set has: at least one, the largest remainders rounded up.

    Example:
        >>> shares([2, 1, 1], 10)
        [5, 3, 2]
    """
    exact = np.array(weights, dtype=np.float64)
    exact *= total / exact.sum()
    counts = np.maximum(1, np.floor(exact).astype(np.int64))
    missing = max(0, total - int(counts.sum()))
    counts[np.argsort(-(exact - counts), kind="stable")[:missing]] += 1
    return [int(count) for count in counts]


class Mixture:
    """Sets of examples, mixed by weight.

    Args:
        parts: (examples,) The number of the set that each example belongs to.
        weights: The weight of each set.
        seed: Decides the order.
    """

    def __init__(self, parts: Sequence[int], weights: Sequence[float], *, seed: int = 0) -> None:
        numbers = np.asarray(parts, dtype=np.int64)
        self._members = [np.flatnonzero(numbers == part) for part in range(len(weights))]
        empty = [part for part, members in enumerate(self._members) if not len(members)]
        if empty:
            raise InputError(f"data.parts, number {empty[0] + 1}", got="no example to train on")
        self.counts, self.seed = shares(weights, len(numbers)), seed

    def __len__(self) -> int:
        """How many examples an epoch has."""
        return sum(self.counts)

    def epoch(self, number: int) -> NDArray[np.int64]:
        """The examples of an epoch, counted from 0; small sets may be in it more than once."""
        return np.concatenate(
            [self._stretch(part, number * count, count) for part, count in enumerate(self.counts)]
        )

    def _stretch(self, part: int, start: int, count: int) -> NDArray[np.int64]:
        """So many examples of the endless line of one set, from a place on."""
        members = self._members[part]
        first, last = start // len(members), (start + count - 1) // len(members)
        passes = [
            generator(self.seed, part, number).permutation(members)
            for number in range(first, last + 1)
        ]
        place = start - first * len(members)
        return np.concatenate(passes)[place : place + count]
