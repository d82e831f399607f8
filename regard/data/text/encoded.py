"""Pairs of sentences as token ids -> batches for an encoder-decoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.batch import Batch
from regard.data.text.id_rows import IdRows, Lists
from regard.data.text.ranges import as_tensor
from regard.inputs.arrays import Ragged


class EncodedPairs:
    """All pairs of a split as token ids, in flat arrays: small, and fast to gather from.

    Args:
        source: The ids of each source sentence, without begin and end.
        target: The ids of each target sentence, without begin and end.
        begin: Id of the begin symbol.
        end: Id of the end symbol.
    """

    lengths: NDArray[np.int32]
    """(examples,) Number of tokens of each pair: source, begin symbol, target."""
    longest: int
    """The most tokens on one side of any pair."""

    def __init__(
        self, source: IdRows | Lists, target: IdRows | Lists, *, begin: int, end: int
    ) -> None:
        if len(source) != len(target):
            raise ValueError(f"{len(source)} sources but {len(target)} targets")
        self._source, self._target = (
            side if isinstance(side, IdRows) else IdRows.of(side) for side in (source, target)
        )
        self._begin, self._end = begin, end
        sizes = self._source.sizes, self._target.sizes
        self.longest = int(max(sizes[0].max(initial=0), sizes[1].max(initial=-1) + 1))
        self.lengths = sizes[0] + sizes[1]
        self.lengths += 1

    def __len__(self) -> int:
        return len(self.lengths)

    def batch(self, index: Sequence[int]) -> Batch[Ragged]:
        """Make the batch of the examples at `index`, in that order."""
        rows = np.asarray(index, dtype=np.int64)
        source, target = self._source.ranges(rows), self._target.ranges(rows)
        ids = self._target.values[target.indices()]
        lengths = tuple((target.sizes + 1).tolist())
        # Every target before a token has one more symbol, in the labels its end.
        positions = np.arange(len(ids)) + np.repeat(np.arange(len(rows)), target.sizes)
        labels = np.full(sum(lengths), self._end)
        labels[positions] = ids
        decoder_ids = np.full(sum(lengths), self._begin)
        decoder_ids[positions + 1] = ids
        return Batch(
            source=Ragged(as_tensor(self._source.values[source.indices()]), source.lengths),
            targets=Ragged(torch.from_numpy(labels), lengths),
            index=tuple(rows.tolist()),
            decoder_input=Ragged(torch.from_numpy(decoder_ids), lengths),
        )


def make_batch(
    source_ids: Lists, target_ids: Lists, index: Sequence[int], begin: int, end: int
) -> Batch[Ragged]:
    """Make a batch of pairs that belong to no dataset, such as typed sentences.

    Args:
        source_ids: The ids of each source sentence, without begin and end.
        target_ids: The ids of each target sentence, without begin and end.
        index: A number for each example, to name it in errors.
        begin: Id of the begin symbol.
        end: Id of the end symbol.

    Example:
        >>> batch = make_batch([[5, 6]], [[7, 8]], index=[0], begin=1, end=2)
        >>> batch.decoder_input.split(), batch.targets.split()
        ([[1, 7, 8]], [[7, 8, 2]])
    """
    pairs = EncodedPairs(source_ids, target_ids, begin=begin, end=end)
    return replace(pairs.batch(range(len(pairs))), index=tuple(index))
