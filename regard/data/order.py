"""Lengths of examples -> which examples form each batch.

In: the number of tokens of each example, and the most tokens of a batch. Out: the indices of the
examples of each batch. For training they are a pure function of (lengths, budget, seed, epoch); for
evaluation they are always the same.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

POOL_BATCHES = 100
"""Examples are sorted by length within pools of about this many batches: enough for batches of
similar lengths, few enough that the examples of a batch change from epoch to epoch."""
BLOCK = 2**20
"""Examples whose lengths are added up at once, when an epoch is cut into batches."""
Lengths = Sequence[int] | NDArray[Any]
"""The number of tokens of each example."""


def generator(*numbers: int) -> np.random.Generator:
    """Return a random generator seeded with these numbers, the same on every machine."""
    return np.random.Generator(np.random.PCG64([number % 2**64 for number in numbers]))


def index_type(count: int) -> np.dtype[Any]:
    """Return the smallest type of the numbers below `count`."""
    return np.dtype(np.uint32 if count < 2**32 else np.int64)


def random_order(random: np.random.Generator, count: int) -> NDArray[Any]:
    """Return the numbers below `count` in random order: as `random.permutation`, in less memory."""
    numbers = np.arange(count, dtype=index_type(count))
    random.shuffle(numbers)
    return numbers


class Batches(Sequence[list[int]]):
    """The examples of each batch, as parts of one array: some bytes for each example.

    Args:
        examples: The indices of the examples, those of a batch side by side.
        ends: Where each part of `examples` ends.
        order: Which part is which batch.
    """

    def __init__(
        self, examples: NDArray[Any], ends: NDArray[np.int64], order: NDArray[Any]
    ) -> None:
        self.examples, self._ends, self._order = examples, ends, order

    def __len__(self) -> int:
        return len(self._order)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        part = int(self._order[index])
        start = int(self._ends[part - 1]) if part else 0
        return self.examples[start : self._ends[part]].tolist()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))

    def of(self, index: NDArray[Any]) -> Batches:
        """Return the same batches of other examples: `index[i]` in place of example i."""
        return Batches(index[self.examples], self._ends, self._order)

    def of_groups(self, firsts: NDArray[np.int64], counts: NDArray[np.int64]) -> Batches:
        """Return the same batches of groups: number g is `counts[g]` examples from `firsts[g]` on.

        Example:
            >>> batches = evaluation_batches([4, 6], budget=6)
            >>> batches, batches.of_groups(np.array([0, 3]), np.array([3, 2]))
            ([[0], [1]], [[0, 1, 2], [3, 4]])
        """
        sizes = counts[self.examples]
        ends = np.cumsum(sizes)
        within = np.arange(sizes.sum()) - np.repeat(ends - sizes, sizes)  # 0, 1, … of each group
        examples = np.repeat(firsts[self.examples], sizes) + within
        return Batches(examples, ends[self._ends - 1], self._order)


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
        state = mix_bits(state ^ np.uint64(number % 2**64))
    rows = mix_bits(state ^ np.asarray(index).astype(np.uint64))[:, None]
    columns = np.arange(1, count + 1, dtype=np.uint64)
    return (mix_bits(rows + columns * _GOLDEN) >> np.uint64(11)) / 2.0**53


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2^64 / the golden ratio: the step of SplitMix64."""


def mix_bits(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix the bits of 64-bit numbers: the output function of SplitMix64, one to one."""
    with np.errstate(over="ignore"):
        numbers = numbers + _GOLDEN
        numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def training_batches(
    lengths: Lengths, budget: int, seed: int, epoch: int, *, least: int = 1
) -> Batches:
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
    sizes = _as_integers(lengths)
    random = generator(seed, epoch)
    order = random_order(random, len(sizes))
    pool = max(1, int(POOL_BATCHES * budget / max(1.0, float(sizes.mean())))) if len(sizes) else 1
    for number, start in enumerate(range(0, len(sizes), pool)):
        examples = order[start : start + pool]
        # Every second pool is sorted from long to short: a batch across the border of two pools
        # then has similar lengths too, and no pool ends with a small batch.
        direction = -1 if number % 2 else 1
        # The sorting is stable: examples of equal length stay shuffled.
        by_length = np.argsort(sizes[examples].astype(np.int64) * direction, kind="stable")
        order[start : start + pool] = examples[by_length]
    ends = _cut_batches(order, sizes, budget)
    if len(ends) > 1 and ends[-1] - ends[-2] < least:
        ends = np.delete(ends, -2)
    return Batches(order, ends, random.permutation(len(ends)))


def evaluation_batches(lengths: Lengths, budget: int) -> Batches:
    """Compute the batches of an evaluation: from short to long, each example once."""
    sizes = _as_integers(lengths)
    order = np.argsort(sizes, kind="stable")
    ends = _cut_batches(order, sizes, budget)
    return Batches(order, ends, np.arange(len(ends)))


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
    for example in sorted(range(len(lengths)), key=lengths.__getitem__):
        size = lengths[example]
        longer = bool(batches) and size != lengths[batches[-1][-1]]
        if not batches or tokens + size > budget or (longer and 2 * tokens >= budget):
            batches.append([])
            tokens = 0
        batches[-1].append(example)
        tokens += size
    return batches


def _as_integers(lengths: Lengths) -> NDArray[Any]:
    """Return lengths as an array; one of whole numbers is not copied."""
    sizes = np.asarray(lengths)
    return sizes if np.issubdtype(sizes.dtype, np.integer) else sizes.astype(np.int64)


def _cut_batches(order: NDArray[Any], sizes: NDArray[Any], budget: int) -> NDArray[np.int64]:
    """Cut examples, in the given order, into the longest batches within the budget.

    Returns:
        Where each batch ends in `order`.
    """
    ends, start, block = array("q"), 0, BLOCK
    while start < len(order):
        filled = np.cumsum(sizes[order[start : start + block]], dtype=np.int64)
        is_last_block = start + len(filled) == len(order)
        stop = tokens_before = 0
        while stop < len(filled):
            end = int(np.searchsorted(filled, tokens_before + budget, side="right"))
            end = max(end, stop + 1)  # an example longer than the budget has its own batch
            if end == len(filled) and not is_last_block:
                break  # the batch may go on after this block
            ends.append(start + end)
            stop, tokens_before = end, int(filled[end - 1])
        start, block = start + stop, block if stop else 2 * block
    return np.array(ends, dtype=np.int64)
