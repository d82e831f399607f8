"""The gradients of one training step, by one of two strategies.

In: a task, a model and the micro-batches of a step. Out: gradients in the parameters' `.grad`, the
sum of the losses and the number of targets.

`ThreadedGradients`, on the CPU: a micro-batch is split into parts, and each thread takes its parts
through the whole model. The threads wait for each other only when the gradients are added (see
`runtime/cores.py`). The sum is taken in the order of the parts, and each part has its own random
generator for dropout, seeded by (seed, step, micro-batch, part), so no bit depends on which thread
was first.

`PlainGradients`, everywhere else: PyTorch's `backward` through one module, the `Objective`, which
DDP and `fully_shard` can wrap. It is used on other devices, in several processes, and for losses
and layers in which the examples of a batch depend on each other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.kernels.dropout import drawing_from
from regard.models.mode import precision_of
from regard.runtime.cores import Cores
from regard.runtime.ranks import SINGLE_PROCESS, Ranks
from regard.train.task import Learnable

MOST_PARTS = 8
"""Most parts of a micro-batch. Each part's gradients take as much memory as the weights."""
LEAST_NUMBERS = 2**17
"""Least size of an activation (tokens × width) in a part. In smaller parts the overhead of Python's
calls outweighs the computation, and threads wait for the interpreter lock. Measured speed-up: none
at 1,024 × 128 on a quiet machine (some beside other programs, see `runtime/sharing.py`), 1.2 to
1.4 × at 1,600 × 256."""
LEAST_NUMBERS_BEFORE = 2**18
"""The same for runs of older versions, whose checkpoints do not store the number of parts."""
MOST_WEIGHTS = 2**26
"""Most parameters of a model whose batches are split. The matrix products of a larger model are
long enough to be shared by all threads, and separate gradients for each part cost memory and time:
0.95 × the speed at GPT-2's 124M, 1.00 × at 52M."""


def parts_for(
    threads: int, batch_tokens: int, dim: int, weights: int, *, before: bool = False
) -> int:
    """The number of parts to split a micro-batch into.

    Args:
        threads: Number of threads that compute.
        batch_tokens: Token budget of a micro-batch.
        dim: The model's width.
        weights: Number of the model's parameters.
        before: Use the threshold of older versions, whose checkpoints do not store the number.

    Example:
        >>> parts_for(2, 1024, 128, weights=10**6), parts_for(16, 4096, 128, weights=10**7)
        (1, 4)
    """
    if weights > MOST_WEIGHTS:
        return 1
    least = LEAST_NUMBERS_BEFORE if before else LEAST_NUMBERS
    return max(1, min(threads, batch_tokens * dim // least, MOST_PARTS))


class ThreadedGradients:
    """Computes gradients on the CPU, the parts of a micro-batch in parallel threads.

    Args:
        threads: Number of threads that compute, in total.
        parts: Number of parts of a micro-batch; each is computed by threads / parts threads.
    """

    def __init__(self, threads: int, parts: int) -> None:
        self.threads, self.parts = threads, parts
        self._cores: Cores | None = None

    def gradients(
        self, task: Learnable, model: nn.Module, batches: Sequence[Any], seed: str
    ) -> tuple[float, int]:
        """Adds the gradients of (sum of losses) / (number of targets) to the parameters.

        Args:
            task: Computes the loss.
            model: The model to train.
            batches: The micro-batches of one step.
            seed: Text that dropout's random generators are seeded with.

        Returns:
            The sum of the losses, and the number of targets, both over all micro-batches.
        """
        targets = sum(task.targets(batch) for batch in batches)
        weights = [p for p in model.parameters() if p.requires_grad]
        total = 0.0

        def part_gradients(batch: Any, name: str) -> tuple[float, tuple[Tensor | None, ...]]:
            with drawing_from(_make_generator(name)), precision_of(model):
                loss = task.loss(model, batch)
            grads = torch.autograd.grad(loss / targets, weights, allow_unused=True)
            return float(loss.detach()), grads

        for number, batch in enumerate(batches):
            pieces = task.split(batch, self.parts) if self.parts > 1 else [batch]
            names = [f"{seed} {number} {part}" for part in range(len(pieces))]
            for loss, gradients in self._run(part_gradients, pieces, names):
                total += loss
                for weight, gradient in zip(weights, gradients, strict=True):
                    if gradient is not None:
                        weight.grad = (
                            gradient if weight.grad is None else weight.grad.add_(gradient)
                        )
        return total, targets

    def _run(self, compute: Any, pieces: Sequence[Any], names: Sequence[str]) -> list[Any]:
        """compute(piece, name) of each piece; several pieces are computed in parallel."""
        if len(pieces) == 1:
            return [compute(pieces[0], names[0])]
        if self._cores is None:
            self._cores = Cores(self.parts, self.threads)
        return self._cores.map(compute, pieces, names)


def choose_strategy(
    task: Learnable, model: nn.Module, *, threads: int, parts: int, ranks: Ranks = SINGLE_PROCESS
) -> ThreadedGradients | PlainGradients:
    """Chooses the strategy: `ThreadedGradients` on the CPU in one process if batches can be split.

    Args:
        task: Computes the loss.
        model: The model to train, already on its device.
        threads: Number of threads that compute.
        parts: Number of parts that a micro-batch is split into.
        ranks: The processes that share each micro-batch.

    Raises:
        InputError: There are several processes, and a loss in which the examples of a batch depend
            on each other.
    """
    couples_examples = bool(getattr(task, "whole", False))
    if ranks.world > 1:
        if couples_examples:
            got = "a task whose loss couples the examples of a batch"
            expected = "one process, since its batches cannot be split"
            raise InputError(f"{ranks.world} processes", got=got, expected=expected)
        return PlainGradients(max(parts, ranks.world), ranks)
    on_cpu = _device_of(model).type == "cpu"
    if on_cpu and not couples_examples and not has_batch_norm(model):
        return ThreadedGradients(threads, parts)
    return PlainGradients()


def has_batch_norm(model: nn.Module) -> bool:
    """Whether a model has batch norm, whose running statistics parallel threads would race for."""
    return any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in model.modules())


class Objective(nn.Module):
    """The loss as one module: batch in, loss out.

    DDP and `fully_shard` work when the module that they wrap is called as a whole, whereas a task
    calls whichever methods of the model it needs. So they wrap this module.

    Args:
        task: Computes the loss.
        model: The model to train.
    """

    def __init__(self, task: Learnable, model: nn.Module) -> None:
        super().__init__()
        self.task, self.model = task, model

    def forward(self, batch: Any | None) -> Tensor:
        """Returns the loss of a micro-batch: a scalar, summed over its targets.

        Without a batch it is the sum of the parameters, whose gradients come in a known order: from
        the last parameter to the first.
        """
        if batch is None:
            learning = [parameter for parameter in self.parameters() if parameter.requires_grad]
            return torch.stack([parameter.sum() for parameter in learning]).sum()
        with precision_of(self.model):
            return self.task.loss(self.model, batch)


Wrap = Callable[[Objective], nn.Module]
"""Wraps an objective, such as in DDP; the result is called in its place."""


class PlainGradients:
    """Computes gradients by PyTorch's `backward`, on any device, in one process or several.

    Of several processes each computes some parts of each micro-batch; DDP adds their gradients
    during the backward pass.

    Args:
        parts: Number of parts of a micro-batch; process r computes the parts r, r + world, ….
        ranks: The processes.
        wrap: Wraps the objective; by default DDP if there are several processes.
    """

    def __init__(
        self, parts: int = 1, ranks: Ranks = SINGLE_PROCESS, wrap: Wrap | None = None
    ) -> None:
        self.parts, self.ranks, self._wrap = parts, ranks, wrap
        self._called: nn.Module | None = None
        self._reached: set[str] = set()

    def gradients(
        self, task: Learnable, model: nn.Module, batches: Sequence[Any], seed: str
    ) -> tuple[float, int]:
        """See `ThreadedGradients.gradients`; the sum of the losses is over all processes.

        Raises:
            RuntimeError: A parameter that the loss depends on got no gradient.
        """
        targets = sum(task.targets(batch) for batch in batches)
        device, world = _device_of(model), self.ranks.world
        parts = list(self._parts_of_process(task, batches, seed))
        if self._called is None:  # prepared with the same part in all processes
            first = self._split_batch(task, batches[0])[0]
            self._called = self._wrap_objective(task, model, _to_device(first, device))
        losses = []
        for i, (piece, name, share) in enumerate(parts):
            with self._without_sync() if i + 1 < len(parts) else nullcontext():
                with drawing_from(_make_generator(name, device)):
                    loss = self._called(_to_device(piece, device))
                # DDP averages over the processes; times world, that is the sum.
                (loss * (share * world) / targets).backward()
            losses.append(share * loss.detach())
        self._check_gradients(model)
        return self.ranks.total(sum(map(float, losses))), targets

    def _parts_of_process(
        self, task: Learnable, batches: Sequence[Any], seed: str
    ) -> Iterator[tuple[Any, str, float]]:
        """Yields the parts that this process computes.

        With DDP all processes must run the same number of backward passes. So if a batch has fewer
        parts than there are processes, a process without a part computes part 0 with weight 0.

        Yields:
            The part, the name that its random generator is seeded with, and the weight of its loss
            (1.0 or 0.0).
        """
        rank, world = self.ranks.rank, self.ranks.world
        for number, batch in enumerate(batches):
            pieces = self._split_batch(task, batch)
            for part in range(rank, len(pieces), world) or (0,):
                share = float(rank < len(pieces))
                yield pieces[part], f"{seed} {number} {part}", share

    def _split_batch(self, task: Learnable, batch: Any) -> Sequence[Any]:
        """The parts of a micro-batch, each with at least as many targets as the task needs."""
        least: int = getattr(task, "least", 1)
        parts = self.parts if least == 1 else min(self.parts, task.targets(batch) // least)
        return task.split(batch, parts) if parts > 1 else [batch]

    def _wrap_objective(self, task: Learnable, model: nn.Module, piece: Any) -> nn.Module:
        """Returns the wrapped objective, after finding which parameters the loss depends on."""
        objective = Objective(task, model)
        self._reached = parameters_reached(objective, piece)
        learning = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
        if self._wrap is not None:
            return self._wrap(objective)
        if self.ranks.world > 1:
            return _wrap_in_ddp(objective, unused=bool(learning - self._reached))
        return objective

    def _without_sync(self) -> AbstractContextManager[Any]:
        """A context in which DDP does not exchange gradients; the last part of a step does."""
        return self._called.no_sync() if hasattr(self._called, "no_sync") else nullcontext()  # type: ignore[union-attr, operator]

    def _check_gradients(self, model: nn.Module) -> None:
        """Raises an error if a gradient is missing: that weight would silently never learn."""
        for name, parameter in model.named_parameters():
            if name in self._reached and parameter.grad is None:
                raise RuntimeError(f"the loss depends on {name}, but it got no gradient")


def _wrap_in_ddp(objective: Objective, *, unused: bool) -> nn.Module:
    """Wraps the objective in DDP, and settles where each gradient is in its buckets.

    The place of a gradient decides in which order the processes' numbers are added. DDP settles the
    places after its first backward pass, by the order in which the gradients came. So that pass is
    made here: else the first step of a resumed run would add in another order than the same step of
    a run without a break.

    Args:
        objective: On the device of this process; no parameter has a gradient yet.
        unused: Whether the model has parameters that the loss does not depend on.
    """
    from torch.nn.parallel import DistributedDataParallel

    device = _device_of(objective)
    # Buffers are not synchronized: they are computed tables whose size depends on the longest
    # text that a process has met.
    wrapped = DistributedDataParallel(
        objective,
        device_ids=[device.index] if device.type == "cuda" else None,
        forward_sync_buffers=False,
        find_unused_parameters=unused,
    )
    wrapped(None).backward()
    objective.zero_grad(set_to_none=True)
    return wrapped


def parameters_reached(objective: Objective, batch: Any) -> set[str]:
    """The names of the model's parameters that the loss of a batch depends on.

    They are the leaves of the autograd graph, which is walked without a backward pass. The forward
    pass runs in eval mode, so that running statistics and the random state do not change.
    """
    model, training = objective.model, objective.model.training
    model.eval()
    try:
        loss = objective(batch)
    finally:
        model.train(training)
    leaves, visited, waiting = set(), set(), [loss.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in visited:
            continue
        visited.add(node)
        if hasattr(node, "variable"):
            leaves.add(id(node.variable))
        waiting += [before for before, _ in node.next_functions]
    return {name for name, parameter in model.named_parameters() if id(parameter) in leaves}


def _device_of(model: nn.Module) -> torch.device:
    """The device of a model's parameters."""
    return next(model.parameters()).device


def _to_device(batch: Any, device: torch.device) -> Any:
    """Moves a batch to a device."""
    return batch if device.type == "cpu" else batch.to(device)


def _make_generator(name: str, device: torch.device | None = None) -> torch.Generator:
    """A random generator seeded by a hash of a name; it lives on the device if that is a GPU."""
    number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
    on_gpu = device is not None and device.type in ("cuda", "mps")
    return torch.Generator(device if on_gpu else "cpu").manual_seed(number)
