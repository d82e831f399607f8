"""Examples as ids -> micro-batches: the last step of `data`, and what every model is fed.

In: the ids of source and target sentences. Out: `Batch`, whose sentences stand end to end without
padding, in an order that is a pure function of (lengths, budget, seed, epoch). The place in that
order is a `Cursor` of two numbers, so a run that stops goes on exactly where it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

POOL_BATCHES = 100
"""Sentences are sorted by length within pools of about this many batches: enough for batches of
like lengths, few enough that neighbours change from epoch to epoch."""


@dataclass(frozen=True, eq=False)
class Ragged:
    """Sequences of different lengths, end to end.

    Example:
        >>> Ragged.of([[5, 6, 7], [8]]).ids.tolist()
        [5, 6, 7, 8]
    """

    ids: Tensor
    """(tokens,) int64"""
    lengths: tuple[int, ...]

    def to(self, device: torch.device | str) -> Ragged:
        """The same sequences with the ids on a device."""
        return Ragged(self.ids.to(device), self.lengths)

    @staticmethod
    def of(sequences: Sequence[Sequence[int]]) -> Ragged:
        """Put sequences end to end."""
        flat = [token for sequence in sequences for token in sequence]
        return Ragged(torch.tensor(flat, dtype=torch.int64), tuple(map(len, sequences)))

    def split(self) -> list[list[int]]:
        """The sequences, one list each: undoes `of`."""
        ends = list(accumulate(self.lengths, initial=0))
        ids: list[int] = self.ids.tolist()
        return [ids[start:end] for start, end in pairwise(ends)]


@dataclass(frozen=True, eq=False)
class Batch:
    """One micro-batch of a sequence-to-sequence task."""

    source: Ragged
    target_in: Ragged
    """The begin symbol and the target: what the decoder reads."""
    target_out: Tensor
    """(tokens,) The target and the end symbol: what it should say, aligned with `target_in`."""
    index: tuple[int, ...]
    """Which examples these are, so that a bad batch can be named."""

    def split(self, parts: int) -> list[Batch]:
        """As many batches as are asked for and have a sentence, dealt out like cards."""
        sources = torch.split(self.source.ids, list(self.source.lengths))
        targets = torch.split(self.target_in.ids, list(self.target_in.lengths))
        wanted = torch.split(self.target_out, list(self.target_in.lengths))
        return [
            Batch(
                Ragged(torch.cat(sources[part::parts]), self.source.lengths[part::parts]),
                Ragged(torch.cat(targets[part::parts]), self.target_in.lengths[part::parts]),
                torch.cat(wanted[part::parts]),
                self.index[part::parts],
            )
            for part in range(min(parts, len(self.index)))
        ]

    def to(self, device: torch.device | str) -> Batch:
        """The same batch with its tensors on a device."""
        return Batch(
            self.source.to(device),
            self.target_in.to(device),
            self.target_out.to(device),
            self.index,
        )


@dataclass(frozen=True)
class Cursor:
    """A place in the order of data: the next batch to give. `dataclasses.asdict` makes it JSON."""

    epoch: int = 0
    batch: int = 0


class EncodedPairs:
    """All pairs of a split as ids, in flat 32-bit arrays: small to hold, quick to gather from.

    Each target is kept as `begin target end`; all but the last of it is `target_in`, all but the
    first is `target_out`.

    Args:
        source: The ids of each source sentence, without begin and end.
        target: The ids of each target sentence, without begin and end.
        begin: Id of the begin symbol.
        end: Id of the end symbol.
    """

    lengths: NDArray[np.int64]
    """(examples,) Tokens of each pair as a model sees them: source, begin symbol, target."""
    longest: int
    """The most tokens on one side of any pair."""

    def __init__(
        self,
        source: Sequence[Sequence[int]],
        target: Sequence[Sequence[int]],
        *,
        begin: int,
        end: int,
    ) -> None:
        if len(source) != len(target):
            raise ValueError(f"{len(source)} sources but {len(target)} targets")
        self._source, self._source_offsets = _flatten(source)
        self._target, self._target_offsets = _flatten([[begin, *ids, end] for ids in target])
        source_lengths, target_lengths = (
            np.diff(self._source_offsets),
            np.diff(self._target_offsets) - 1,
        )
        self.lengths = source_lengths + target_lengths
        self.longest = int(max(source_lengths.max(initial=0), target_lengths.max(initial=0)))

    def __len__(self) -> int:
        return len(self.lengths)

    def batch(self, index: Sequence[int]) -> Batch:
        """The batch of the examples at `index`, in that order."""
        chosen = np.asarray(index, dtype=np.int64)
        source, source_lengths = _slices(self._source_offsets, chosen)
        target, target_lengths = _slices(self._target_offsets, chosen, drop_last=1)
        return Batch(
            source=Ragged(_tensor(self._source[source]), tuple(source_lengths.tolist())),
            target_in=Ragged(_tensor(self._target[target]), tuple(target_lengths.tolist())),
            target_out=_tensor(self._target[target + 1]),
            index=tuple(chosen.tolist()),
        )


def make_batch(
    source_ids: Sequence[Sequence[int]],
    target_ids: Sequence[Sequence[int]],
    index: Sequence[int],
    begin: int,
    end: int,
) -> Batch:
    """A batch of loose sentences, such as those a person typed.

    Args:
        source_ids: The ids of each source sentence, without begin and end.
        target_ids: The ids of each target sentence, without begin and end.
        index: What to call the examples.
        begin: Id of the begin symbol.
        end: Id of the end symbol.

    Example:
        >>> batch = make_batch([[5, 6]], [[7, 8]], index=[0], begin=1, end=2)
        >>> batch.target_in.split(), batch.target_out.tolist()
        ([[1, 7, 8]], [7, 8, 2])
    """
    pairs = EncodedPairs(source_ids, target_ids, begin=begin, end=end)
    batch = pairs.batch(range(len(pairs)))
    return Batch(batch.source, batch.target_in, batch.target_out, tuple(index))


def order(lengths: Sequence[int], budget: int, seed: int, epoch: int) -> list[list[int]]:
    """The batches of one epoch, every example in exactly one: a pure function of its arguments.

    Shuffle; within pools sort by length, so that the rows of a batch are about equally long; cut
    into batches of at most `budget` tokens; shuffle the batches.

    Args:
        lengths: Tokens of each example.
        budget: The most tokens in a batch. An example longer than that has a batch of its own.
        seed: Of the run.
        epoch: Counted from 0; each has another order.

    Returns:
        For each batch the indices of its examples.
    """
    sizes = np.asarray(lengths, dtype=np.int64)
    if not len(sizes):
        return []
    random = np.random.Generator(np.random.PCG64([seed % 2**64, epoch]))
    shuffled = random.permutation(len(sizes))
    pool = max(1, int(POOL_BATCHES * budget / max(1.0, float(sizes.mean()))))
    pools = np.arange(len(sizes)) // pool
    # Every second pool runs from long to short: a batch across the border of two pools then
    # also holds like lengths, and no pool leaves a small batch behind.
    direction = 1 - 2 * (pools % 2)
    # lexsort is stable: examples of equal length stay shuffled
    batches = _cut(shuffled[np.lexsort((sizes[shuffled] * direction, pools))], sizes, budget)
    return [batches[place] for place in random.permutation(len(batches)).tolist()]


def sequential(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Batches for evaluation: from short to long, always the same; each example once."""
    sizes = np.asarray(lengths, dtype=np.int64)
    return _cut(np.argsort(sizes, kind="stable"), sizes, budget)


def alike(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """The same with texts of one length together where these fill half the budget.

    Rows of equal length need no padding and no mask.

    Example:
        >>> alike([2, 9, 2, 2, 9, 5], budget=12)
        [[0, 2, 3], [5], [1], [4]]
    """
    batches: list[list[int]] = []
    tokens = 0  # of the last batch
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
    """Cut a row of examples into the longest batches that keep to the budget."""
    filled = np.cumsum(sizes[sorted_index])
    batches, start, before = [], 0, 0
    while start < len(sorted_index):
        stop = int(np.searchsorted(filled, before + budget, side="right"))
        stop = max(stop, start + 1)  # an example longer than the budget stands alone
        batches.append(sorted_index[start:stop].tolist())
        start, before = stop, int(filled[stop - 1])
    return batches


def _flatten(sequences: Sequence[Sequence[int]]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Put sequences end to end; sequence i is `flat[offsets[i] : offsets[i + 1]]`."""
    offsets = np.zeros(len(sequences) + 1, dtype=np.int64)
    np.cumsum([len(sequence) for sequence in sequences], out=offsets[1:])
    flat = np.fromiter(
        (token for sequence in sequences for token in sequence), np.int32, count=int(offsets[-1])
    )
    return flat, offsets


def _slices(
    offsets: NDArray[np.int64], index: NDArray[np.int64], drop_last: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the tokens of the chosen sequences stand in the flat array, and their lengths."""
    starts = offsets[index]
    lengths = offsets[index + 1] - starts - drop_last
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    # sequence i begins at starts[i] in the flat array, at ends[i] - lengths[i] in the gathered one
    return np.arange(total) + np.repeat(starts - (ends - lengths), lengths), lengths


def _tensor(ids: NDArray[Any]) -> Tensor:
    return torch.from_numpy(ids.astype(np.int64))
