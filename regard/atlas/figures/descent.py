"""One gradient descent step, shared by the figures that train small models."""

from __future__ import annotations

import torch
from torch import Tensor


def descend(optimizer: torch.optim.Optimizer, loss: Tensor) -> float:
    """Take one optimizer step on a scalar loss; returns the loss before the step."""
    optimizer.zero_grad()
    torch.autograd.backward(loss)
    optimizer.step()
    return loss.item()
