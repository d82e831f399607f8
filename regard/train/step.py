"""The gradients of one step, by one of two strategies.

**Threads** (`Shards`), on the CPU: each core takes some sentences of a micro-batch through the
whole model. The cores meet once a step, when their gradients are added (see `cores`). The sum is
taken in the order of the parts, and the dropout of a part has dice of its own, thrown from (seed,
step, part): no bit depends on which thread was first.

**Backward**, everywhere else: PyTorch's own `backward` through one module, the `Objective`, which
DDP and `fully_shard` can wrap. On other devices, in several processes, and for losses and layers
that couple the examples of a batch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.layers.kernels.dropout import drawing_from
from regard.models.mode import precision_of
from regard.runtime.cores import Cores
from regard.runtime.ranks import ALONE, Ranks
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


class Strategy(Protocol):
    """A way to find gradients."""

    def gradients(
        self, task: Task, model: nn.Module, batches: Sequence[Any], seed: str
    ) -> tuple[float, int]:
        """Adds the gradients of (sum of losses) / (targets of all) to the parameters.

        Args:
            task: Whose loss it is.
            model: What learns.
            batches: The micro-batches of one step.
            seed: What the random numbers of dropout are made from.

        Returns:
            The sum of the losses, and the targets.
        """
        ...


def strategy(
    task: Task, model: nn.Module, *, threads: int, parts: int, ranks: Ranks = ALONE
) -> Strategy:
    """How to find the gradients of a step: by threads where the cores of one CPU share the work.

    Args:
        task: Whose loss it is.
        model: What learns, where it is to compute.
        threads: How many compute.
        parts: Into how many parts micro-batches are cut.
        ranks: The processes that share each micro-batch.

    Raises:
        InputError: Several processes, and a loss that couples its batch.
    """
    whole = bool(getattr(task, "whole", False))
    if ranks.world > 1:
        if whole:
            raise InputError(
                f"{ranks.world} processes",
                got="a task whose loss couples the examples of a batch",
                expected="one process: no batch can be cut",
            )
        return Backward(max(parts, ranks.world), ranks)
    alone = _device_of(model).type == "cpu" and not whole and not has_batch_norm(model)
    return Shards(threads, parts) if alone else Backward()


def has_batch_norm(model: nn.Module) -> bool:
    """Whether what a layer gives depends on the other examples; threads would race for that."""
    return any(isinstance(each, nn.modules.batchnorm._BatchNorm) for each in model.modules())


class Objective(nn.Module):
    """What is made small, as one module: what DDP and `fully_shard` wrap is called as a whole.

    They do their work when the module that they wrapped is called; a task calls whichever method
    of the model it needs.

    Args:
        task: Whose loss it is.
        model: What learns.
    """

    def __init__(self, task: Task, model: nn.Module) -> None:
        super().__init__()
        self.task, self.model = task, model

    def forward(self, batch: Any) -> Tensor:
        """The loss of a micro-batch, a sum over its targets."""
        with precision_of(self.model):
            return self.task.loss(self.model, batch)


Wrap = Callable[[Objective], nn.Module]
"""Makes of an objective what is called in its place."""


class Backward:
    """Finds gradients by PyTorch's own `backward`: on any device, in one process or in several.

    Of several processes each computes some parts of each micro-batch; their gradients are added
    while they are found (DDP).

    Args:
        parts: Into how many parts a micro-batch is cut; process r has the parts r, r + world, ….
        ranks: The processes.
        wrap: What wraps the objective; by default DDP where there are several processes.
    """

    def __init__(self, parts: int = 1, ranks: Ranks = ALONE, wrap: Wrap | None = None) -> None:
        self.parts, self.ranks, self._wrap = parts, ranks, wrap
        self._called: nn.Module | None = None
        self._reached: set[str] = set()

    def gradients(
        self, task: Task, model: nn.Module, batches: Sequence[Any], seed: str
    ) -> tuple[float, int]:
        """See `Strategy`; the sum of the losses is that of all processes.

        Raises:
            RuntimeError: A parameter that the loss depends on got no gradient.
        """
        targets = sum(task.targets(batch) for batch in batches)
        device, world = _device_of(model), self.ranks.world
        own = list(self._own(task, batches, seed))
        if self._called is None:  # all processes look at the same part
            self._called = self._prepared(
                task, model, _there(self._cut(task, batches[0])[0], device)
            )
        losses = []
        for place, (piece, name, share) in enumerate(own):
            with self._alone() if place + 1 < len(own) else nullcontext():
                with drawing_from(_dice(name, device)):
                    loss = self._called(_there(piece, device))
                # DDP takes the mean over the processes; what is wanted is the sum.
                (loss * (share * world) / targets).backward()
            losses.append(share * loss.detach())
        self._check(model)
        return self.ranks.total(sum(map(float, losses))), targets

    def _own(
        self, task: Task, batches: Sequence[Any], seed: str
    ) -> Iterator[tuple[Any, str, float]]:
        """The parts that this process computes, the name of the dice of each, and its share.

        Where a batch has fewer parts than there are processes, one without takes part with a share
        of 0: all have to meet.
        """
        rank, world = self.ranks.rank, self.ranks.world
        for number, batch in enumerate(batches):
            pieces = self._cut(task, batch)
            for place in range(rank, len(pieces), world) or (0,):
                share = float(rank < len(pieces))
                yield pieces[place], f"{seed} {number} {place}", share

    def _cut(self, task: Task, batch: Any) -> Sequence[Any]:
        return task.split(batch, self.parts) if self.parts > 1 else [batch]

    def _prepared(self, task: Task, model: nn.Module, piece: Any) -> nn.Module:
        """The objective, wrapped; before that, what the loss of a part depends on is found."""
        objective = Objective(task, model)
        self._reached = reached(objective, piece)
        learning = {name for name, each in model.named_parameters() if each.requires_grad}
        if self._wrap is not None:
            return self._wrap(objective)
        if self.ranks.world > 1:
            return _distributed(objective, unused=bool(learning - self._reached))
        return objective

    def _alone(self) -> AbstractContextManager[Any]:
        """Inside, gradients stay in this process: the last part of a step sends them all."""
        return self._called.no_sync() if hasattr(self._called, "no_sync") else nullcontext()  # type: ignore[union-attr, operator]

    def _check(self, model: nn.Module) -> None:
        """Refuses to go on where a gradient is missing: nothing would be learned, silently."""
        for name, parameter in model.named_parameters():
            if name in self._reached and parameter.grad is None:
                raise RuntimeError(f"the loss depends on {name}, but no gradient came to it")


def _distributed(objective: Objective, *, unused: bool) -> nn.Module:
    """The objective under DDP.

    Args:
        objective: On the device of this process.
        unused: Whether it has parameters that the loss does not depend on.
    """
    from torch.nn.parallel import DistributedDataParallel

    device = _device_of(objective)
    # Buffers are tables that are computed, and grow with the texts of a process.
    return DistributedDataParallel(
        objective,
        device_ids=[device.index] if device.type == "cuda" else None,
        forward_sync_buffers=False,
        find_unused_parameters=unused,
    )


def reached(objective: Objective, batch: Any) -> set[str]:
    """The names of the model's parameters that the loss of a batch depends on.

    They are the leaves of its graph; nothing is computed backwards. The model is in eval mode
    meanwhile, so that no statistics and no random numbers move.
    """
    model, training = objective.model, objective.model.training
    model.eval()
    try:
        loss = objective(batch)
    finally:
        model.train(training)
    leaves, seen, waiting = set(), set(), [loss.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            leaves.add(id(node.variable))
        waiting += [before for before, _ in node.next_functions]
    return {name for name, each in model.named_parameters() if id(each) in leaves}


def _device_of(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


def _there(batch: Any, device: torch.device) -> Any:
    """A batch on the device that computes."""
    return batch if device.type == "cpu" else batch.to(device)


def _dice(name: str, device: torch.device | None = None) -> torch.Generator:
    """A generator whose numbers are a pure function of a name and the kind of device."""
    number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
    own = device is not None and device.type in ("cuda", "mps")
    return torch.Generator(device if own else "cpu").manual_seed(number)
