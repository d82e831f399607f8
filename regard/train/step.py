"""One micro-batch on all cores: each takes some of its sentences through the whole model.

The cores meet once a step, when their gradients are added (see `cores`). The sum is taken in the
order of the parts, and the dropout of a part has dice of its own, thrown from (seed, step, part):
no bit depends on which thread was first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard.layers.kernels.dropout import drawing_from
from regard.runtime.cores import Cores
from regard.tasks.task import Task

MOST_PARTS = 8
"""Each part has gradients of its own: as much memory as the weights."""
LEAST_NUMBERS = 2**17
"""Of an activation (tokens × width) in a part. With less, the calls take longer than what they
compute, and the threads wait for each other to make them: level at 1,024 × 128 on a quiet machine
(and better beside other programs, see `sharing`), 1.2 to 1.4 × at 1,600 × 256."""
LEAST_BEFORE = 2**18
"""The same for runs whose checkpoints do not say how their batches were cut."""
MOST_WEIGHTS = 2**26
"""Of a model whose batches are cut. The products of a larger one are long enough to share, and
gradients of each part's own cost memory and time: 0.95 × at GPT-2's 124M, 1.00 × at 52M."""


def parts_for(
    threads: int, batch_tokens: int, dim: int, weights: int, *, before: bool = False
) -> int:
    """Into how many parts to cut a micro-batch.

    Args:
        threads: How many compute.
        batch_tokens: Of a micro-batch.
        dim: The model's width.
        weights: How many numbers the model has.
        before: As it was when checkpoints did not say it.

    Example:
        >>> parts_for(2, 1024, 128, weights=10**6), parts_for(16, 4096, 128, weights=10**7)
        (1, 4)
    """
    if weights > MOST_WEIGHTS:
        return 1
    least = LEAST_BEFORE if before else LEAST_NUMBERS
    return max(1, min(threads, batch_tokens * dim // least, MOST_PARTS))


class Shards:
    """Finds the gradients of micro-batches, some parts of each at a time.

    Args:
        threads: How many threads compute, in all.
        parts: Into how many parts to cut a micro-batch; each has threads / parts of them.
    """

    def __init__(self, threads: int, parts: int) -> None:
        self.threads, self.parts = threads, parts
        self._cores: Cores | None = None

    def gradients(
        self, task: Task, model: nn.Module, batches: Sequence[Any], seed: str
    ) -> tuple[float, int]:
        """Adds the gradients of (sum of losses) / (targets of all) to the parameters.

        Returns:
            The sum of the losses, and the targets.
        """
        targets = sum(task.targets(batch) for batch in batches)
        weights = [p for p in model.parameters() if p.requires_grad]
        total = 0.0

        def one(batch: Any, name: str) -> tuple[float, tuple[Tensor | None, ...]]:
            with drawing_from(_dice(name)):
                loss = task.loss(model, batch)
            found = torch.autograd.grad(loss / targets, weights, allow_unused=True)
            return float(loss.detach()), found

        for number, batch in enumerate(batches):
            pieces = task.split(batch, self.parts) if self.parts > 1 else [batch]
            names = [f"{seed} {number} {place}" for place in range(len(pieces))]
            for loss, gradients in self._run(one, pieces, names):
                total += loss
                for weight, gradient in zip(weights, gradients, strict=True):
                    if gradient is not None:
                        weight.grad = (
                            gradient if weight.grad is None else weight.grad.add_(gradient)
                        )
        return total, targets

    def _run(self, one: Any, pieces: Sequence[Any], names: Sequence[str]) -> list[Any]:
        if len(pieces) == 1:
            return [one(pieces[0], names[0])]
        if self._cores is None:
            self._cores = Cores(self.parts, self.threads)
        return self._cores.map(one, pieces, names)


def _dice(name: str) -> torch.Generator:
    """A generator whose numbers are a pure function of a name."""
    number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
    return torch.Generator().manual_seed(number)
