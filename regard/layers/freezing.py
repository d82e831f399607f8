"""What it means to freeze a part of a model."""

from __future__ import annotations

from torch import nn

from regard.kernels.dropout import Dropout
from regard.layers.attention import Attention
from regard.layers.convolution_2d import BatchNorm


def freeze(part: nn.Module) -> None:
    """Freezes a part of a model: no gradients, no dropout, and batch norms keep their statistics.

    Dropout regularizes weights that are trained; in frozen layers it would only add noise.
    """
    part.requires_grad_(requires_grad=False)
    for module in part.modules():
        if isinstance(module, Dropout):
            module.p = 0.0
        elif isinstance(module, Attention):
            module.dropout = 0.0
        elif isinstance(module, BatchNorm):
            module.freeze()
