"""What a task is: (data, model) -> loss, metric, prediction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from torch import Tensor

from regard.data.batch import Cursor


class Task(Protocol):
    """What the trainer needs of a task."""

    def batches(self, start: Cursor) -> Iterator[tuple[Any, Cursor]]:
        """Training micro-batches without end from a place on, each with the place after it."""
        ...

    def targets(self, batch: Any) -> int:
        """How many targets a micro-batch has: what the sums of losses of a step are divided by."""
        ...

    def split(self, batch: Any, parts: int) -> Sequence[Any]:
        """A micro-batch in at most so many parts of like size, whose losses add up to its own."""
        ...

    def loss(self, model: Any, batch: Any) -> Tensor:
        """The training loss of one micro-batch, a sum over its targets."""
        ...

    def evaluate(self, model: Any) -> dict[str, float]:
        """Measures on the validation split; `loss` is the one that chooses."""
        ...

    def name(self, batch: Any) -> str:
        """Which examples a micro-batch holds, for the log of a bad one."""
        ...
