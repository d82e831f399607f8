"""Containers for a model's input: token ids, frames, images, columns of numbers, or two of these.

In: examples that a tokenizer or an image reader has turned into numbers. Out: containers of tensors
that know their number of examples, can select some of them and move to a device. A model's front
(its embedding) knows what the numbers mean.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Protocol, Self, TypeVar

import torch
from torch import Tensor


class Input(Protocol):
    """A collection of examples: the interface that training and decoding use."""

    def __len__(self) -> int:
        """The number of examples."""

    @property
    def device(self) -> torch.device:
        """The device of the tensors."""

    def take(self, rows: Sequence[int]) -> Self:
        """Select examples by index, in the order of `rows`."""

    def to(self, device: torch.device | str) -> Self:
        """Return the same examples on a device."""

    def keys(self) -> list[str]:
        """A string for each example, equal for equal examples, from which sampling is seeded."""


Source = TypeVar("Source", bound=Input)


@dataclass(frozen=True, eq=False)
class Ragged:
    """Sequences of different lengths, concatenated without padding.

    Example:
        >>> Ragged.of([[5, 6, 7], [8]]).ids.tolist()
        [5, 6, 7, 8]
    """

    values: Tensor
    """Token ids, (tokens,) int64; or frames, (frames, features)."""
    lengths: tuple[int, ...]
    types: Tensor | None = None
    """(tokens,) Segment of each token: 0 for the first sentence of a pair, 1 for the second.
    None: all 0."""

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def ids(self) -> Tensor:
        """The values, for sequences of token ids: (tokens,)."""
        return self.values

    @property
    def device(self) -> torch.device:
        """The device of the values."""
        return self.values.device

    def take(self, rows: Sequence[int]) -> Ragged:
        """Select sequences by index, in the order of `rows`."""
        types = None if self.types is None else self._take_values(self.types, rows)
        lengths = tuple(self.lengths[row] for row in rows)
        return Ragged(self._take_values(self.values, rows), lengths, types)

    def _take_values(self, values: Tensor, rows: Sequence[int]) -> Tensor:
        """The values (tokens, ...) of some sequences, concatenated in the order of `rows`."""
        parts = torch.split(values, list(self.lengths))
        return torch.cat([parts[row] for row in rows]) if rows else values[:0]

    def to(self, device: torch.device | str) -> Ragged:
        """Return the same sequences on a device."""
        types = None if self.types is None else to_device(self.types, device)
        return Ragged(to_device(self.values, device), self.lengths, types)

    def keys(self) -> list[str]:
        """For token ids, the list of ids of each sequence as a string; for frames, a digest."""
        if self.values.ndim == 1 and not self.values.is_floating_point():
            return [str(ids) for ids in self.split()]
        return [digest(part) for part in torch.split(self.values, list(self.lengths))]

    def typed(self, types: Tensor | None) -> Ragged:
        """Return the same sequences with these token types, (tokens,)."""
        return Ragged(self.values, self.lengths, types)

    @property
    def first_tokens(self) -> Tensor:
        """The index of each sequence's first token in `values`: (sequences,)."""
        lengths = torch.tensor(self.lengths)
        return (lengths.cumsum(0) - lengths).to(self.device)

    @staticmethod
    def of(sequences: Sequence[Sequence[int]]) -> Ragged:
        """Concatenate sequences of token ids."""
        flat = [token for sequence in sequences for token in sequence]
        return Ragged(torch.tensor(flat, dtype=torch.int64), tuple(map(len, sequences)))

    def split(self) -> list[list[int]]:
        """Return one list of ids per sequence: the inverse of `of`."""
        ends = list(accumulate(self.lengths, initial=0))
        ids: list[int] = self.values.tolist()
        return [ids[start:end] for start, end in pairwise(ends)]


@dataclass(frozen=True, eq=False)
class Dense:
    """Examples of equal shape: images (n, channels, height, width), or numbers (n, columns).

    Example:
        >>> pictures = Dense(torch.zeros(3, 1, 28, 28))
        >>> len(pictures), pictures.take([2, 0]).values.shape
        (3, torch.Size([2, 1, 28, 28]))
    """

    values: Tensor

    def __len__(self) -> int:
        return len(self.values)

    @property
    def device(self) -> torch.device:
        """The device of the values."""
        return self.values.device

    def take(self, rows: Sequence[int]) -> Dense:
        """Select examples by index, in the order of `rows`."""
        return Dense(self.values[list(rows)])

    def to(self, device: torch.device | str) -> Dense:
        """Return the same examples on a device."""
        return Dense(to_device(self.values, device))

    def keys(self) -> list[str]:
        """A digest of each example."""
        return [digest(row) for row in self.values]


@dataclass(frozen=True, eq=False)
class Shared:
    """Examples of which several have the same input, such as the captions of one image.

    A model computes what depends on the input alone once for all of them.

    Example:
        >>> two_captions_each = Shared(Dense(torch.zeros(2, 3, 8, 8)), rows=(0, 0, 1, 1))
        >>> len(two_captions_each), len(two_captions_each.take([1, 0]).inputs)
        (4, 1)
    """

    inputs: Input
    rows: tuple[int, ...]
    """The index of each example's input."""

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def device(self) -> torch.device:
        """The device of the inputs."""
        return self.inputs.device

    def take(self, rows: Sequence[int]) -> Shared:
        """Select examples by index, in the order of `rows`; no input is left that none has."""
        selected = [self.rows[row] for row in rows]
        remaining = list(dict.fromkeys(selected))
        index = {row: number for number, row in enumerate(remaining)}
        return Shared(self.inputs.take(remaining), tuple(index[row] for row in selected))

    def to(self, device: torch.device | str) -> Shared:
        """Return the same examples on a device."""
        return Shared(self.inputs.to(device), self.rows)

    def keys(self) -> list[str]:
        """The key of each example's input."""
        keys = self.inputs.keys()
        return [keys[row] for row in self.rows]


@dataclass(frozen=True, eq=False)
class Paired:
    """Two inputs per example: an image and a text, or two views of an image."""

    first: Input
    second: Input

    def __post_init__(self) -> None:
        if len(self.first) != len(self.second):
            raise ValueError(f"{len(self.first)} first inputs but {len(self.second)} second ones")

    def __len__(self) -> int:
        return len(self.first)

    @property
    def device(self) -> torch.device:
        """The device of both inputs."""
        return self.first.device

    def take(self, rows: Sequence[int]) -> Paired:
        """Select examples by index, in the order of `rows`."""
        return Paired(self.first.take(rows), self.second.take(rows))

    def to(self, device: torch.device | str) -> Paired:
        """Return the same examples on a device."""
        return Paired(self.first.to(device), self.second.to(device))

    def keys(self) -> list[str]:
        """The keys of both inputs, joined."""
        pairs = zip(self.first.keys(), self.second.keys(), strict=True)
        return [f"{first} {second}" for first, second in pairs]


def to_device(values: Tensor, device: torch.device | str) -> Tensor:
    """Return a tensor on a device; a copy to a GPU does not block the CPU.

    An asynchronous copy needs pinned memory.
    """
    if torch.device(device).type == "cuda" and values.is_cpu:
        return values.pin_memory().to(device, non_blocking=True)
    return values.to(device)


def digest(values: Tensor) -> str:
    """SHA-256 of a tensor's dtype, shape and values, in hexadecimal.

    Example:
        >>> digest(torch.tensor([1.5, 2.0]))[:8]
        '17211b59'
    """
    numbers = values.detach().cpu().contiguous().flatten().view(torch.uint8)
    header = f"{values.dtype} {tuple(values.shape)} ".encode()
    return hashlib.sha256(header + numbers.numpy().tobytes()).hexdigest()
