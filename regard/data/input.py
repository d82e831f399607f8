"""What a model reads, as tensors: ids, frames, pictures, numbers, or two of these.

In: examples that a reader has made into numbers. Out: containers that know how many examples they
hold and can take some of them; what the numbers mean, a model's front knows.
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
    """Some examples, as whoever trains or decodes sees them."""

    def __len__(self) -> int:
        """How many examples there are."""
        ...

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        ...

    def take(self, rows: Sequence[int]) -> Self:
        """Some of the examples, in the order in which they are named."""
        ...

    def to(self, device: torch.device | str) -> Self:
        """The same examples on a device."""
        ...

    def keys(self) -> list[str]:
        """What each example says, in letters: equal examples get equal samples from it."""
        ...


Source = TypeVar("Source", bound=Input)


@dataclass(frozen=True, eq=False)
class Ragged:
    """Sequences of different lengths, end to end.

    Example:
        >>> Ragged.of([[5, 6, 7], [8]]).ids.tolist()
        [5, 6, 7, 8]
    """

    values: Tensor
    """Ids (tokens,) int64; or frames (frames, numbers)."""
    lengths: tuple[int, ...]
    types: Tensor | None = None
    """(tokens,) 0 for tokens of the first sentence of a pair, 1 for the second; None: all 0."""

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def ids(self) -> Tensor:
        """The values, where they are ids: (tokens,)."""
        return self.values

    @property
    def device(self) -> torch.device:
        """Where the values are."""
        return self.values.device

    def take(self, rows: Sequence[int]) -> Ragged:
        """Some of the sequences, in the order in which they are named."""
        types = None if self.types is None else self._taken(self.types, rows)
        lengths = tuple(self.lengths[row] for row in rows)
        return Ragged(self._taken(self.values, rows), lengths, types)

    def _taken(self, values: Tensor, rows: Sequence[int]) -> Tensor:
        parts = torch.split(values, list(self.lengths))
        return torch.cat([parts[row] for row in rows]) if rows else values[:0]

    def to(self, device: torch.device | str) -> Ragged:
        """The same sequences on a device."""
        types = None if self.types is None else moved(self.types, device)
        return Ragged(moved(self.values, device), self.lengths, types)

    def keys(self) -> list[str]:
        """The ids of each sequence, written out; of frames a digest."""
        if self.values.ndim == 1 and not self.values.is_floating_point():
            return [str(ids) for ids in self.split()]
        return [digest(part) for part in torch.split(self.values, list(self.lengths))]

    def typed(self, types: Tensor | None) -> Ragged:
        """The same sequences with the type of each token."""
        return Ragged(self.values, self.lengths, types)

    @property
    def firsts(self) -> Tensor:
        """The place of each sequence's first token: (sequences,)."""
        lengths = torch.tensor(self.lengths)
        return (lengths.cumsum(0) - lengths).to(self.device)

    @staticmethod
    def of(sequences: Sequence[Sequence[int]]) -> Ragged:
        """Put sequences end to end."""
        flat = [token for sequence in sequences for token in sequence]
        return Ragged(torch.tensor(flat, dtype=torch.int64), tuple(map(len, sequences)))

    def split(self) -> list[list[int]]:
        """The sequences, one list each: undoes `of`."""
        ends = list(accumulate(self.lengths, initial=0))
        ids: list[int] = self.values.tolist()
        return [ids[start:end] for start, end in pairwise(ends)]


@dataclass(frozen=True, eq=False)
class Dense:
    """Examples of one shape: pictures (n, channels, height, width), numbers (n, columns).

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
        """Where the values are."""
        return self.values.device

    def take(self, rows: Sequence[int]) -> Dense:
        """Some of the examples, in the order in which they are named."""
        return Dense(self.values[list(rows)])

    def to(self, device: torch.device | str) -> Dense:
        """The same examples on a device."""
        return Dense(moved(self.values, device))

    def keys(self) -> list[str]:
        """A digest of each example."""
        return [digest(row) for row in self.values]


@dataclass(frozen=True, eq=False)
class Paired:
    """Two inputs of the same examples: picture and text, or two views of a picture."""

    first: Input
    second: Input

    def __post_init__(self) -> None:
        if len(self.first) != len(self.second):
            raise ValueError(f"{len(self.first)} first inputs but {len(self.second)} second ones")

    def __len__(self) -> int:
        return len(self.first)

    @property
    def device(self) -> torch.device:
        """Where the values of both are."""
        return self.first.device

    def take(self, rows: Sequence[int]) -> Paired:
        """Some of the examples, in the order in which they are named."""
        return Paired(self.first.take(rows), self.second.take(rows))

    def to(self, device: torch.device | str) -> Paired:
        """The same examples on a device."""
        return Paired(self.first.to(device), self.second.to(device))

    def keys(self) -> list[str]:
        """What both say."""
        return [
            f"{one} {two}" for one, two in zip(self.first.keys(), self.second.keys(), strict=True)
        ]


def moved(values: Tensor, device: torch.device | str) -> Tensor:
    """The same numbers on a device; to a GPU they travel while the CPU goes on.

    Only memory that the system does not move about (pinned) can be read by a GPU on its own.
    """
    if torch.device(device).type == "cuda" and values.is_cpu:
        return values.pin_memory().to(device, non_blocking=True)
    return values.to(device)


def digest(values: Tensor) -> str:
    """What tells numbers of one kind and shape from others, the same on every machine.

    Example:
        >>> digest(torch.tensor([1.5, 2.0]))[:8]
        '17211b59'
    """
    numbers = values.detach().cpu().contiguous().flatten().view(torch.uint8)
    named = f"{values.dtype} {tuple(values.shape)} ".encode()
    return hashlib.sha256(named + numbers.numpy().tobytes()).hexdigest()
