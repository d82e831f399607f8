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


def uniforms(
    seed: int, epoch: int, index: Sequence[int] | NDArray[np.int64], count: int
) -> NDArray[np.float64]:
    """Draw random numbers from 0 to 1 for each example: a pure function of (seed, epoch, example).

    The numbers of example i and column k are a hash of (seed, epoch, i, k), by the generator
    SplitMix64 (Steele et al. 2014), so that those of a whole batch are computed at once.

    Args:
        seed: Seed of the run.
        epoch: Counted from 0.
        index: The numbers of the examples.
        count: How many numbers each example needs.

    Returns:
        (examples, count) Uniform in [0, 1).
    """
    state = np.zeros((), np.uint64)
    for number in (seed, epoch):
        state = mixed(state ^ np.uint64(number % 2**64))
    rows = mixed(state ^ np.asarray(index).astype(np.uint64))[:, None]
    columns = np.arange(1, count + 1, dtype=np.uint64)
    return (mixed(rows + columns * _GOLDEN) >> np.uint64(11)) / 2.0**53


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2^64 / the golden ratio: the step of SplitMix64."""


def mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix the bits of 64-bit numbers: the output function of SplitMix64, one to one."""
    with np.errstate(over="ignore"):
        numbers = numbers + _GOLDEN
        numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def training_batches(
    lengths: Sequence[int], budget: int, seed: int, epoch: int, *, least: int = 1
) -> list[list[int]]:
    """Compute the batches of one training epoch; every example is in exactly one of them.

    Shuffle the examples; sort them by length within pools, so that the rows of a batch are about
    equally long; cut into batches of at most `budget` tokens; shuffle the batches.

    Args:
        lengths: Number of tokens of each example.
        budget: The most tokens in a batch. A longer example has a batch of its own.
        seed: Seed of the run.
        epoch: Counted from 0; each epoch has another order.
        least: The fewest examples of a batch: if the last one to be cut has fewer, they join the
            batch before it, which may then exceed the budget.

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
    if len(batches) > 1 and len(batches[-1]) < least:
        batches[-2:] = [batches[-2] + batches[-1]]
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
