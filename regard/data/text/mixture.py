"""Several datasets -> the examples of each epoch, in given proportions: multi-task training (T5).

In: the dataset that each example belongs to, and the weight of each dataset. Out: the indices of
the examples of an epoch, a pure function of (seed, epoch). Each dataset is an endless sequence of
passes, each shuffled anew; an epoch takes the next part of every sequence, as long as the dataset's
share. Small datasets are repeated within an epoch, large ones take several epochs, and within a
dataset the numbers of times that two examples were seen differ by at most one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from regard.data.order import generator
from regard.errors import InputError


def shares(weights: Sequence[float], total: int) -> list[int]:
    """Divide `total` examples by weight: at least one each, the largest remainders rounded up.

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
    """Datasets mixed by weight.

    Args:
        parts: (examples,) The number of the dataset that each example belongs to.
        weights: The weight of each dataset.
        seed: Seed of the order.

    Raises:
        InputError: If a dataset has no example.
    """

    def __init__(
        self, parts: Sequence[int] | NDArray[np.int64], weights: Sequence[float], *, seed: int = 0
    ) -> None:
        numbers = np.asarray(parts, dtype=np.int64)
        self._members = [np.flatnonzero(numbers == part) for part in range(len(weights))]
        empty = [part for part, members in enumerate(self._members) if not len(members)]
        if empty:
            raise InputError(f"data.parts, number {empty[0] + 1}", got="no example to train on")
        self.counts, self.seed = shares(weights, len(numbers)), seed

    def __len__(self) -> int:
        """The number of examples of an epoch."""
        return sum(self.counts)

    def epoch(self, number: int) -> NDArray[np.int64]:
        """The indices of an epoch's examples, epochs from 0; small datasets may be repeated."""
        return np.concatenate(
            [self._stretch(part, number * count, count) for part, count in enumerate(self.counts)]
        )

    def _stretch(self, part: int, start: int, count: int) -> NDArray[np.int64]:
        """Return `count` examples of one dataset's endless sequence, from `start` on."""
        members = self._members[part]
        first, last = start // len(members), (start + count - 1) // len(members)
        numbers = range(first, last + 1)
        passes = [generator(self.seed, part, number).permutation(members) for number in numbers]
        offset = start - first * len(members)
        return np.concatenate(passes)[offset : offset + count]
