"""What the trainer asks of a task: batches, their losses, and metrics on the validation split."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from torch import Tensor

from regard.data.batch import Cursor


class Learnable(Protocol):
    """The methods that the trainer calls on a task.

    A task whose loss couples the examples of a batch sets `whole = True`: its batches are then
    never split. One that cannot learn from a single target sets `least` to the fewest targets of a
    part.
    """

    def batches(self, start: Cursor) -> Iterator[tuple[Any, Cursor]]:
        """Yields training micro-batches without end, each with the cursor that follows it.

        Args:
            start: The position in the data at which to begin or resume.
        """

    def targets(self, batch: Any) -> int:
        """The number of targets in a micro-batch; the summed loss of a step is divided by it."""

    def split(self, batch: Any, parts: int) -> Sequence[Any]:
        """Splits a micro-batch into at most `parts` similar parts whose losses add up to its."""

    def loss(self, model: Any, batch: Any) -> Tensor:
        """The training loss of one micro-batch, summed over its targets: a scalar."""

    def evaluate(self, model: Any) -> dict[str, float]:
        """Metrics on the validation split, by name; `loss` selects the best checkpoint."""

    def name(self, batch: Any) -> str:
        """Names the examples of a micro-batch, to log one whose loss is not finite."""
