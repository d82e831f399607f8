"""One gradient descent step and a smoothed curve, for the figures that train small models."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor


def descend(optimizer: torch.optim.Optimizer, loss: Tensor) -> float:
    """Take one optimizer step on a scalar loss; returns the loss before the step."""
    optimizer.zero_grad()
    torch.autograd.backward(loss)
    optimizer.step()
    return loss.item()


def running_median(line: Sequence[float], window: int = 9) -> list[float]:
    """The median of each value and those before it, to smooth a training curve."""
    return [float(np.median(line[max(0, end - window) : end])) for end in range(1, len(line) + 1)]
