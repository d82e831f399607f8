"""Pairs of sentences as token ids -> batches for an encoder-decoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.batch import Batch
from regard.data.input import Ragged


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

    def batch(self, index: Sequence[int]) -> Batch[Ragged]:
        """Make the batch of the examples at `index`, in that order."""
        chosen = np.asarray(index, dtype=np.int64)
        source, source_lengths = _slices(self._source_offsets, chosen)
        target, target_lengths = _slices(self._target_offsets, chosen, drop_last=1)
        lengths = tuple(target_lengths.tolist())
        return Batch(
            source=Ragged(_tensor(self._source[source]), tuple(source_lengths.tolist())),
            targets=Ragged(_tensor(self._target[target + 1]), lengths),
            index=tuple(chosen.tolist()),
            decoder_input=Ragged(_tensor(self._target[target]), lengths),
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


def _flatten(sequences: Sequence[Sequence[int]]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Concatenate sequences; sequence i is `flat[offsets[i] : offsets[i + 1]]`."""
    offsets = np.zeros(len(sequences) + 1, dtype=np.int64)
    np.cumsum([len(sequence) for sequence in sequences], out=offsets[1:])
    flat = np.fromiter(
        (token for sequence in sequences for token in sequence), np.int32, count=int(offsets[-1])
    )
    return flat, offsets


def _slices(
    offsets: NDArray[np.int64], index: NDArray[np.int64], drop_last: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the indices of the chosen sequences' tokens in the flat array, and their lengths."""
    starts = offsets[index]
    lengths = offsets[index + 1] - starts - drop_last
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    # sequence i begins at starts[i] in the flat array, at ends[i] - lengths[i] in the gathered one
    return np.arange(total) + np.repeat(starts - (ends - lengths), lengths), lengths


def _tensor(ids: NDArray[Any]) -> Tensor:
    return torch.from_numpy(ids.astype(np.int64))
