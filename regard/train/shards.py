"""One micro-batch on all cores: each takes some of its sentences through the whole model.

A matrix product that is cut in two for two cores waits for the slower half, hundreds of times a
step, and what is too small to be cut leaves one of them idle. Here the cores meet once a step, when
their gradients are added. The sum is taken in the order of the parts, and the dropout of a part
has dice of its own, thrown from (seed, step, part): no bit depends on which thread was first.
"""

from __future__ import annotations

import hashlib
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor, nn

from regard.layers.dropout import drawing_from
from regard.tasks.task import Task

MOST_PARTS = 8
"""Each part has gradients of its own: as much memory as the weights."""
LEAST_NUMBERS = 2**18
"""Of an activation (tokens × width) in a part. With less, the calls take longer than what they
compute, and the threads wait for each other to make them: no gain at 1,024 × 128, 1.2 to 1.4 ×
at 1,600 × 256."""
SWITCH_SECONDS = 1e-4
"""How long a thread may keep Python from the others; it needs it only to start the next call."""


def parts_for(threads: int, batch_tokens: int, dim: int) -> int:
    """Into how many parts to cut a micro-batch.

    Example:
        >>> parts_for(2, batch_tokens=2048, dim=128), parts_for(16, batch_tokens=4096, dim=256)
        (1, 4)
    """
    return max(1, min(threads, batch_tokens * dim // LEAST_NUMBERS, MOST_PARTS))


class Shards:
    """Finds the gradients of micro-batches, some parts of each at a time.

    Args:
        threads: How many threads compute, in all.
        parts: Into how many parts to cut a micro-batch; each has threads / parts of them.
    """

    def __init__(self, threads: int, parts: int) -> None:
        self.threads, self.parts = threads, parts
        self._pool: ThreadPoolExecutor | None = None

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
        if self._pool is None:
            self._pool = self._start()
        before = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_SECONDS)
        try:
            return list(self._pool.map(one, pieces, names))
        finally:
            sys.setswitchinterval(before)

    def _start(self) -> ThreadPoolExecutor:
        """Threads that compute with their share of the cores; this one goes on with all."""
        all_there = threading.Barrier(self.parts)
        pool = ThreadPoolExecutor(self.parts, thread_name_prefix="shard")

        def prepare(_: int) -> None:
            torch.get_num_threads()  # a new thread takes the default when first asked; not later
            torch.set_num_threads(max(1, self.threads // self.parts))
            all_there.wait()

        list(pool.map(prepare, range(self.parts)))
        torch.set_num_threads(self.threads)  # a thread's own, but the last to say it is the default
        return pool


def _dice(name: str) -> torch.Generator:
    """A generator whose numbers are a pure function of a name."""
    number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
    return torch.Generator().manual_seed(number)
