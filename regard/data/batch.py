"""Examples as tensors -> an endless sequence of micro-batches: the last step of `data`.

In: a plan (which examples form each batch of an epoch) and a function that makes a batch. Out:
`Batch`es. The position in the sequence is a `Cursor` of two numbers, so that a stopped run resumes
at exactly the next batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Generic, Self, TypeVar

import torch
from torch import Tensor

from regard.errors import InputError
from regard.inputs.arrays import Ragged, Source, to_device

T = TypeVar("T")
BatchT = TypeVar("BatchT")


@dataclass(frozen=True, eq=False)
class Batch(Generic[Source]):
    """One micro-batch. Tasks may add fields: tensors with one row per example, or inputs.

    Example:
        >>> batch = Batch(Ragged.of([[5, 6], [7]]), Ragged.of([[-1, 9], [8]]), index=(40, 2))
        >>> batch.target_positions.tolist(), batch.known_targets.tolist()
        ([1, 2], [9, 8])
    """

    source: Source
    """The model's input."""
    targets: Ragged
    """The labels of the loss: one for each token of the target or, without a target, of the source
    (-1: no loss at this token); or one or several for each example."""
    index: tuple[int, ...]
    """The indices of the examples in the dataset, used to name a bad batch in errors."""
    decoder_input: Ragged | None = None
    """The decoder's input: the begin symbol and the target tokens, without the end symbol."""
    labels: Tensor | None = None
    """(examples,) A class for each whole example, in addition to the labels in `targets`."""
    shares: Tensor | None = field(default=None, kw_only=True)
    """(examples, classes) Probabilities of the classes, in place of `targets`, of examples that are
    mixed from several."""

    @cached_property
    def target_positions(self) -> Tensor:
        """(labelled,) The indices of the tokens that have a label, in ascending order."""
        return (self.targets.values >= 0).nonzero()[:, 0]

    @cached_property
    def known_targets(self) -> Tensor:
        """(labelled,) The labels at `target_positions`."""
        return self.targets.values[self.target_positions]

    @property
    def sides(self) -> tuple[Source, Ragged]:
        """Source and target of a batch for an encoder-decoder."""
        if self.decoder_input is None:
            raise ValueError("a batch without a target, for a model that reads one")
        return self.source, self.decoder_input

    def take(self, rows: Sequence[int]) -> Self:
        """Select examples by index, in the order of `rows`."""

        def select_rows(value: Any) -> Any:
            if isinstance(value, tuple):
                return tuple(value[row] for row in rows)
            return value[list(rows)] if isinstance(value, Tensor) else value.take(rows)

        return self._map_fields(select_rows)

    def split(self, parts: int) -> list[Self]:
        """Split into at most `parts` batches, none empty: example i goes to batch i % parts."""
        count = len(self.index)
        return [self.take(range(part, count, parts)) for part in range(min(parts, count))]

    def to(self, device: torch.device | str) -> Self:
        """Return the same batch with its tensors on a device."""

        def move_tensors(value: Any) -> Any:
            if isinstance(value, tuple):
                return value
            return to_device(value, device) if isinstance(value, Tensor) else value.to(device)

        return self._map_fields(move_tensors)

    def _map_fields(self, change: Callable[[Any], Any]) -> Self:
        """Apply a function to all fields that are not None."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{k: change(v) for k, v in values.items() if v is not None})


@dataclass(frozen=True)
class Cursor:
    """A position in the training data: the next batch. `dataclasses.asdict` makes it JSON."""

    epoch: int = 0
    batch: int = 0


def epochs(
    plan: Callable[[int], Sequence[T]], make: Callable[[T, int], BatchT], start: Cursor
) -> Iterator[tuple[BatchT, Cursor]]:
    """Yield training batches endlessly from a position on, each with the position after it.

    Args:
        plan: Epoch -> one item per batch, such as the indices of its examples: a pure function.
        make: Item and epoch -> batch.
        start: The first batch to yield.

    Raises:
        InputError: If an epoch has no batch.

    Example:
        >>> batches = epochs(lambda _: "abc", lambda item, epoch: item * (epoch + 1), Cursor(0, 2))
        >>> [next(batches) for _ in range(2)]
        [('c', Cursor(epoch=1, batch=0)), ('aa', Cursor(epoch=1, batch=1))]
    """
    epoch, first = start.epoch, start.batch
    while True:
        items = plan(epoch)
        if not items:
            raise InputError("training", got="no examples", expected="some to learn from")
        for number in range(first, len(items)):
            last = number + 1 == len(items)
            next_cursor = Cursor(epoch + 1, 0) if last else Cursor(epoch, number + 1)
            yield make(items[number], epoch), next_cursor
        epoch, first = epoch + 1, 0
