"""A set of hashes of bounded size: a Bloom filter (Bloom 1970).

In: 128-bit hashes. Out: for other hashes, whether they are in the set. Every hash that was added is
found; so is a small share of all others, which grows with the number of hashes per bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.uint64]
"""Hashes of 128 bits as two numbers of 64: (…, 2)."""

KEYS_AT_ONCE = 2**16
"""Keys that are computed together, so that little memory is taken beside the set."""


def keys_of(digests: Iterable[bytes]) -> Iterator[Keys]:
    """Yields digests of 16 bytes as keys, `KEYS_AT_ONCE` at a time: (digests, 2).

    Example:
        >>> next(keys_of([bytes(15) + b"a"])).tolist()
        [[0, 97]]
    """
    digests = iter(digests)
    while data := b"".join(islice(digests, KEYS_AT_ONCE)):
        yield as_keys(data)


def as_keys(data: bytes) -> Keys:
    """Digests of 16 bytes, one after the other, as keys: (digests, 2)."""
    return np.frombuffer(data, dtype=">u8").astype(np.uint64).reshape(-1, 2)


@dataclass(frozen=True, eq=False)
class Bloom:
    """A set of keys; empty at first, then filled with `add`.

    Example:
        >>> numbers = Bloom.empty(1000, bits_per_key=10)
        >>> numbers.add(np.array([[3, 5]], np.uint64))
        >>> numbers.holds(np.array([[3, 5], [3, 7]], np.uint64)).tolist()
        [True, False]
    """

    bits: NDArray[np.uint8]
    """Bit b of the set is bit b % 8 of byte b // 8."""
    hashes: int
    """The number of bits that are set for each key."""

    @classmethod
    def empty(cls, keys: int, bits_per_key: int) -> Bloom:
        """A filter for so many keys; ln 2 · `bits_per_key` bits of each give the fewest errors."""
        size = max(1, math.ceil(bits_per_key * keys / 8))
        return cls(np.zeros(size, np.uint8), max(1, round(math.log(2) * bits_per_key)))

    def add(self, keys: Keys) -> None:
        """Adds keys: (keys, 2)."""
        positions = self._positions(keys).ravel()
        np.bitwise_or.at(self.bits, positions >> 3, (1 << (positions & 7)).astype(np.uint8))

    def holds(self, keys: Keys) -> NDArray[np.bool_]:
        """(keys,) Whether each of the keys (keys, 2) is in the set."""
        positions = self._positions(keys)
        return (self.bits[positions >> 3] >> (positions & 7) & 1).all(axis=1)

    @property
    def false_share(self) -> float:
        """The share of keys that are found though they were not added."""
        return float(np.unpackbits(self.bits).mean() ** self.hashes)

    def _positions(self, keys: Keys) -> NDArray[np.int64]:
        """The bits of each key, (h₁ + i·h₂) mod size (Kirsch and Mitzenmacher 2006)."""
        size = np.uint64(8 * len(self.bits))
        first, step = keys[:, :1] % size, (keys[:, 1:] | np.uint64(1)) % size
        numbers = np.arange(self.hashes, dtype=np.uint64)
        return ((first + numbers * step) % size).astype(np.int64)
