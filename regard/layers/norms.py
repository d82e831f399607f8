"""Normalisation over the features of one token.

layer:  (x - mean(x)) / √(var(x) + ε) · weight + bias     biased variance, as published models
rms:    x / √(mean(x²) + ε) · weight
"""

from __future__ import annotations

from torch import nn

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
