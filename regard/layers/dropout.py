"""Dropout, with random numbers eight at a time.

PyTorch draws one random number for each element, on one thread; at a laptop's sizes that is a
fifth of a training step. One 64-bit number has eight bytes, and a byte compared with a threshold is
random enough to drop with probability round(256 p) / 256.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Dropout(nn.Module):
    """Sets elements to zero while training and scales the others, so that the mean stays.

    Args:
        p: The probability to drop, to the nearest 1/256.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p
        self.kept = max(1, 256 - round(256 * p))  # of 256 values of a byte

    def forward(self, x: Tensor) -> Tensor:
        """Any shape; the same shape."""
        if not self.training or self.kept == 256:
            return x
        words = torch.empty((x.numel() + 7) // 8, dtype=torch.int64, device=x.device)
        words.random_(-(2**63), None)  # all 64 bits: the default range leaves out the sign
        keep = words.view(torch.uint8)[: x.numel()].view(x.shape) < self.kept
        return x * (keep.to(x.dtype) * (256 / self.kept))

    def extra_repr(self) -> str:
        """For printing a model."""
        return f"p={self.p}"
