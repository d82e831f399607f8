"""Examples as tensors -> micro-batches without end: the last step of `data`.

In: what each batch of an epoch is made of, and how. Out: `Batch`es, one after another. The place in
their order is a `Cursor` of two numbers, so a run that stops goes on exactly where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Generic, Self, TypeVar

import torch
from torch import Tensor

from regard.data.input import Ragged, Source, moved
from regard.errors import InputError

T = TypeVar("T")
Made = TypeVar("Made")


@dataclass(frozen=True, eq=False)
class Batch(Generic[Source]):
    """One micro-batch of any task. A task may add fields: tensors with a row an example, or inputs.

    Example:
        >>> batch = Batch(Ragged.of([[5, 6], [7]]), Ragged.of([[-1, 9], [8]]), index=(40, 2))
        >>> batch.places.tolist(), batch.asked.tolist()
        ([1, 2], [9, 8])
    """

    source: Source
    """What is read."""
    wanted: Ragged
    """What should be said: along the tokens of the target or, without one, of the source (-1 where
    nothing is asked); or an entry or some for each example."""
    index: tuple[int, ...]
    """Which examples these are, so that a bad batch can be named."""
    target: Ragged | None = None
    """What a decoder reads beside the source: the begin symbol and what it has said so far."""
    labels: Tensor | None = None
    """(examples,) What is to be said of each as a whole, beside what is wanted of its tokens."""

    @cached_property
    def places(self) -> Tensor:
        """(asked,) Where something is asked, in ascending order."""
        return (self.wanted.values >= 0).nonzero()[:, 0]

    @cached_property
    def asked(self) -> Tensor:
        """(asked,) What should be said there."""
        return self.wanted.values[self.places]

    @property
    def sides(self) -> tuple[Source, Ragged]:
        """Source and target, of a batch for an encoder and a decoder."""
        if self.target is None:
            raise ValueError("a batch without a target, for a model that reads one")
        return self.source, self.target

    def take(self, rows: Sequence[int]) -> Self:
        """The batch of some of the examples, in the order in which they are named."""

        def some(value: Any) -> Any:
            if isinstance(value, tuple):
                return tuple(value[row] for row in rows)
            return value[list(rows)] if isinstance(value, Tensor) else value.take(rows)

        return self._with_each(some)

    def split(self, parts: int) -> list[Self]:
        """As many batches as are asked for and have an example, dealt out like cards."""
        count = len(self.index)
        return [self.take(range(part, count, parts)) for part in range(min(parts, count))]

    def to(self, device: torch.device | str) -> Self:
        """The same batch with its tensors on a device."""

        def there(value: Any) -> Any:
            if isinstance(value, tuple):
                return value
            return moved(value, device) if isinstance(value, Tensor) else value.to(device)

        return self._with_each(there)

    def _with_each(self, change: Callable[[Any], Any]) -> Self:
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{k: change(v) for k, v in found.items() if v is not None})


@dataclass(frozen=True)
class Cursor:
    """A place in the order of data: the next batch to give. `dataclasses.asdict` makes it JSON."""

    epoch: int = 0
    batch: int = 0


def epochs(
    plan: Callable[[int], Sequence[T]], make: Callable[[T, int], Made], start: Cursor
) -> Iterator[tuple[Made, Cursor]]:
    """Training batches without end from a place on, each with the place after it.

    Args:
        plan: What each batch of an epoch is made of: a pure function of the epoch.
        make: Makes a batch of that, for an epoch.
        start: Where to begin.

    Example:
        >>> found = epochs(lambda _: "abc", lambda item, epoch: item * (epoch + 1), Cursor(0, 2))
        >>> [next(found) for _ in range(2)]
        [('c', Cursor(epoch=1, batch=0)), ('aa', Cursor(epoch=1, batch=1))]
    """
    epoch, first = start.epoch, start.batch
    while True:
        items = plan(epoch)
        if not items:
            raise InputError("training", got="no examples", expected="some to learn from")
        for number in range(first, len(items)):
            last = number + 1 == len(items)
            after = Cursor(epoch + 1, 0) if last else Cursor(epoch, number + 1)
            yield make(items[number], epoch), after
        epoch, first = epoch + 1, 0
