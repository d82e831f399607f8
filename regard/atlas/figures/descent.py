"""One step of a small training, as the figures that learn something take it."""

from __future__ import annotations

import torch
from torch import Tensor


def descend(optimizer: torch.optim.Optimizer, loss: Tensor) -> float:
    """Moves the optimizer's parameters down the gradient of a loss; returns the loss before."""
    optimizer.zero_grad()
    torch.autograd.backward(loss)
    optimizer.step()
    return loss.item()
