"""What figures that train small models share: first weights, gradient steps, a smooth curve."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from regard.data import Cursor
from regard.inputs import Ragged
from regard.models import Decoder
from regard.train import Adam
from regard_lectures.progress import OnStep


def draw_for_narrow(model: nn.Module) -> None:
    """Initialize every matrix again, with a standard deviation of 1/√(columns).

    Regard's decoders are initialized as GPT-2, with a standard deviation of 0.02, which is meant
    for a width of 768. Models that are ten times narrower learn several times faster from larger
    weights. Biases, norms and position tables stay as they are.
    """
    for name, weights in model.named_parameters():
        if weights.dim() == 2 and "positions" not in name:
            nn.init.normal_(weights, std=weights.shape[1] ** -0.5)


def descend(optimizer: torch.optim.Optimizer, loss: Tensor) -> float:
    """Take one optimizer step on a scalar loss; returns the loss before the step."""
    optimizer.zero_grad()
    torch.autograd.backward(loss)
    optimizer.step()
    return loss.item()


class Descent:
    """A training with Adam: its optimizer, its learning rates, and its losses so far.

    Args:
        parameters: What is trained.
        rate: The learning rate at its peak.
        on_step: Called after each step.
        course: The learning rate at a step, from 0, relative to its peak; constant by default.
        beta: Adam's β₂.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        rate: float,
        on_step: OnStep,
        course: Callable[[int], float] = lambda _: 1.0,
        beta: float = 0.999,
    ) -> None:
        self._optimizer = Adam(parameters, lr=rate, betas=(0.9, beta), fused=True)
        self._schedule = LambdaLR(self._optimizer, course)
        self._on_step = on_step
        self.losses: list[float] = []

    def step(self, loss: Tensor, tokens: int) -> None:
        """Take one step on the mean loss of so many tokens."""
        self.losses.append(descend(self._optimizer, loss))
        self._on_step(self.losses[-1], tokens)
        self._schedule.step()


def warming(warmup: int, steps: int | None = None) -> Callable[[int], float]:
    """A course with a linear warm-up and, with a number of steps, a last quarter down to 0."""

    def course(step: int) -> float:
        decay = 1.0 if steps is None else (steps - step) / (steps / 4)
        return min(1.0, (step + 1) / warmup, decay)

    return course


def train_on(task: Any, model: nn.Module, descent: Descent, steps: int) -> None:
    """Take so many steps on the batches of a task."""
    for _, (batch, _) in zip(range(steps), task.batches(Cursor()), strict=False):
        count = task.targets(batch)
        descent.step(task.loss(model, batch) / count, count)


def next_token_loss(model: Decoder, text: Tensor) -> Tensor:
    """The mean loss of each next token of some texts of equal length, (count, length + 1)."""
    ids = text[:, :-1]
    texts = Ragged(ids.flatten(), (ids.shape[1],) * len(ids))
    return model.loss(texts, text[:, 1:].flatten()) / ids.numel()


def running_median(line: Sequence[float], window: int = 9) -> list[float]:
    """The median of each value and those before it, to smooth a training curve."""
    return [float(np.median(line[max(0, end - window) : end])) for end in range(1, len(line) + 1)]
