"""Pairs of sentences as token ids -> batches for an encoder-decoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from regard.data.batch import Batch
from regard.data.input import Ragged
from regard.data.text.ranges import Ranges, as_tensor


class EncodedPairs:
    """All pairs of a split as token ids, in flat 32-bit arrays: small, and fast to gather from.

    Each target is kept as `begin target end`; the decoder reads all but its last token, and the
    labels are all but its first.

    Args:
        source: The ids of each source sentence, without begin and end.
        target: The ids of each target sentence, without begin and end.
        begin: Id of the begin symbol.
        end: Id of the end symbol.
    """

    lengths: NDArray[np.int64]
    """(examples,) Number of tokens of each pair: source, begin symbol, target."""
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
        self._source, self._sources = _flatten(source)
        self._target, targets = _flatten([[begin, *ids, end] for ids in target])
        self._targets = Ranges(targets.starts, targets.sizes - 1)  # without the last token
        self.lengths = self._sources.sizes + self._targets.sizes
        longest = [each.sizes.max(initial=0) for each in (self._sources, self._targets)]
        self.longest = int(max(longest))

    def __len__(self) -> int:
        return len(self.lengths)

    def batch(self, index: Sequence[int]) -> Batch[Ragged]:
        """Make the batch of the examples at `index`, in that order."""
        chosen = np.asarray(index, dtype=np.int64)
        source, target = self._sources[chosen], self._targets[chosen]
        places = target.places()
        return Batch(
            source=Ragged(as_tensor(self._source[source.places()]), source.lengths),
            targets=Ragged(as_tensor(self._target[places + 1]), target.lengths),
            index=tuple(chosen.tolist()),
            decoder_input=Ragged(as_tensor(self._target[places]), target.lengths),
        )


def make_batch(
    source_ids: Sequence[Sequence[int]],
    target_ids: Sequence[Sequence[int]],
    index: Sequence[int],
    begin: int,
    end: int,
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


def _flatten(sequences: Sequence[Sequence[int]]) -> tuple[NDArray[np.int32], Ranges]:
    """Concatenate sequences: the flat array, and the range of each sequence."""
    sizes = np.array([len(sequence) for sequence in sequences], dtype=np.int64)
    flat = np.fromiter(chain.from_iterable(sequences), np.int32, count=int(sizes.sum()))
    return flat, Ranges(np.cumsum(sizes) - sizes, sizes)
