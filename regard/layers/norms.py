"""Normalisation over the features of one token, and of one head's query or key.

layer:  (x - mean(x)) / √(var(x) + ε) · weight + bias     biased variance, as published models
rms:    x / √(mean(x²) + ε) · weight
unit:   x / |x| · e^scale                                 of queries and keys: cosine attention
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import InputError


def norm(kind: str, dim: int, epsilon: float | None = None) -> nn.Module:
    """Builds a norm of (…, dim): `layer`, `rms`, or `none` (to see what breaks without).

    Without an epsilon, layer norm has 1e-5 and RMS norm 1e-6, as most published models.

    Example:
        >>> norm("layer", 4)
        LayerNorm((4,), eps=1e-05, elementwise_affine=True, bias=True)
    """
    if kind == "layer":
        return nn.LayerNorm(dim, eps=epsilon or 1e-5)
    if kind == "rms":
        return nn.RMSNorm(dim, eps=epsilon or 1e-6)
    if kind == "none":
        return nn.Identity()
    raise InputError("norm", got=kind, expected="layer, rms or none")


class Unit(nn.Module):
    """Each head's vector at length 1, or at a length that the head learns, 100 at most.

    Cosine attention (Swin-V2) has it on its queries, with a length, and on its keys, without.

    Args:
        heads: How many learn a length; 0: none.
    """

    def __init__(self, heads: int = 0) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((heads, 1), math.log(10))) if heads else None

    def forward(self, x: Tensor) -> Tensor:
        """(…, heads, head_dim), the same shape; without a learned length (…, head_dim)."""
        x = F.normalize(x, dim=-1)
        return x if self.scale is None else x * self.scale.clamp(max=math.log(100)).exp()
