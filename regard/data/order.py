"""Lengths of examples -> which examples form each batch.

In: the number of tokens of each example, and the most tokens of a batch. Out: the indices of the
examples of each batch. For training they are a pure function of (lengths, budget, seed, epoch); for
evaluation they are always the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

POOL_BATCHES = 100
"""Examples are sorted by length within pools of about this many batches: enough for batches of
similar lengths, few enough that the examples of a batch change from epoch to epoch."""


def generator(*numbers: int) -> np.random.Generator:
    """Return a random generator seeded with these numbers, the same on every machine."""
    return np.random.Generator(np.random.PCG64([number % 2**64 for number in numbers]))


def training_batches(lengths: Sequence[int], budget: int, seed: int, epoch: int) -> list[list[int]]:
    """Compute the batches of one training epoch; every example is in exactly one of them.

    Shuffle the examples; sort them by length within pools, so that the rows of a batch are about
    equally long; cut into batches of at most `budget` tokens; shuffle the batches.

    Args:
        lengths: Number of tokens of each example.
        budget: The most tokens in a batch. A longer example has a batch of its own.
        seed: Seed of the run.
        epoch: Counted from 0; each epoch has another order.

    Returns:
        The indices of the examples of each batch.
    """
    sizes = np.asarray(lengths, dtype=np.int64)
    if not len(sizes):
        return []
    random = generator(seed, epoch)
    shuffled = random.permutation(len(sizes))
    pool = max(1, int(POOL_BATCHES * budget / max(1.0, float(sizes.mean()))))
    pools = np.arange(len(sizes)) // pool
    # Every second pool is sorted from long to short: a batch across the border of two pools then
    # has similar lengths too, and no pool ends with a small batch.
    direction = 1 - 2 * (pools % 2)
    # lexsort is stable: examples of equal length stay shuffled
    batches = _cut(shuffled[np.lexsort((sizes[shuffled] * direction, pools))], sizes, budget)
    return [batches[place] for place in random.permutation(len(batches)).tolist()]


def evaluation_batches(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Compute the batches of an evaluation: from short to long, each example once."""
    sizes = np.asarray(lengths, dtype=np.int64)
    return _cut(np.argsort(sizes, kind="stable"), sizes, budget)


def equal_length_batches(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Compute batches from short to long, of equal lengths where these fill half the budget.

    A batch that is at least half full is closed when the length changes: rows of equal length need
    no padding and no mask.

    Example:
        >>> equal_length_batches([2, 9, 2, 2, 9, 5], budget=12)
        [[0, 2, 3], [5], [1], [4]]
    """
    batches: list[list[int]] = []
    tokens = 0  # in the last batch
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        size = lengths[place]
        longer = bool(batches) and size != lengths[batches[-1][-1]]
        if not batches or tokens + size > budget or (longer and 2 * tokens >= budget):
            batches.append([])
            tokens = 0
        batches[-1].append(place)
        tokens += size
    return batches


def _cut(sorted_index: NDArray[np.int64], sizes: NDArray[np.int64], budget: int) -> list[list[int]]:
    """Cut examples, in the given order, into the longest batches within the budget."""
    filled = np.cumsum(sizes[sorted_index])
    batches, start, before = [], 0, 0
    while start < len(sorted_index):
        stop = int(np.searchsorted(filled, before + budget, side="right"))
        stop = max(stop, start + 1)  # an example longer than the budget has its own batch
        batches.append(sorted_index[start:stop].tolist())
        start, before = stop, int(filled[stop - 1])
    return batches
