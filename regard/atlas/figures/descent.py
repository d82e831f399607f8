"""What figures that train small models share: first weights, a gradient step, a smooth curve."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn


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


def running_median(line: Sequence[float], window: int = 9) -> list[float]:
    """The median of each value and those before it, to smooth a training curve."""
    return [float(np.median(line[max(0, end - window) : end])) for end in range(1, len(line) + 1)]
