"""Ranges of a flat array of token ids: sentences of pairs, documents of a corpus, parts of both."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Ranges:
    """The start and size of each range. In their concatenation, one range follows the other.

    Example:
        >>> ranges = Ranges(np.array([10, 30]), np.array([3, 4]))
        >>> ranges.indices().tolist(), ranges.between(2, 5).indices().tolist()
        ([10, 11, 12, 30, 31, 32, 33], [12, 30, 31])
    """

    starts: NDArray[np.int64]
    sizes: NDArray[Any]

    def __getitem__(self, index: Any) -> Ranges:
        return Ranges(self.starts[index], self.sizes[index])

    @property
    def lengths(self) -> tuple[int, ...]:
        """The sizes."""
        return tuple(self.sizes.tolist())

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        """(ranges,) The end of each range in the concatenation."""
        return np.cumsum(self.sizes)

    def indices(self) -> NDArray[np.int64]:
        """(tokens,) The index in the array of each token of the concatenation."""
        shifts = self.starts - (self.ends - self.sizes)
        return np.arange(int(self.sizes.sum())) + np.repeat(shifts, self.sizes)

    def between(self, start: int, stop: int) -> Ranges:
        """Return the ranges from `start` to `stop` of the concatenation; the ends may be cut."""
        first, last = np.searchsorted(self.ends, [start, stop - 1], side="right").tolist()
        touched, ends = self[first : last + 1], self.ends[first : last + 1]
        begins = ends - touched.sizes
        over = np.maximum(start - begins, 0)
        return Ranges(touched.starts + over, np.minimum(ends, stop) - begins - over)

    def cut(self, firsts: NDArray[np.int64], length: int) -> Ranges:
        """Cut range i after its first `firsts[i]` tokens, and then every `length` tokens."""
        firsts = np.minimum(firsts, self.sizes)
        counts = 1 + -(-(self.sizes - firsts) // length)  # the quotient rounded up
        counts = np.where(self.sizes > 0, counts, 0)
        which = np.repeat(np.arange(len(counts)), counts)
        number = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
        # piece i > 0 of a range is from first + (i - 1) * length to first + i * length
        begins = np.where(number > 0, firsts[which] + (number - 1) * length, 0)
        finishes = np.minimum(firsts[which] + number * length, self.sizes[which])
        return Ranges(self.starts[which] + begins, finishes - begins)


def as_tensor(ids: NDArray[Any]) -> Tensor:
    """Copy ids of any integer type into a tensor of int64."""
    return torch.from_numpy(ids.astype(np.int64))
