"""Normalisation over the features of a token, or of a head's query or key.

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
    """Builds a norm of (…, dim): `layer`, `rms`, or `none` (to train without one).

    The default epsilon is 1e-5 for layer norm and 1e-6 for RMS norm, as in most published models.

    Example:
        >>> norm("layer", 4)
        LayerNorm((4,), eps=1e-05, elementwise_affine=True, bias=True)
    """
    if kind == "layer":
        return LayerNorm(dim, eps=epsilon or 1e-5)
    if kind == "rms":
        return nn.RMSNorm(dim, eps=epsilon or 1e-6)
    if kind == "none":
        return nn.Identity()
    raise InputError("norm", got=kind, expected="layer, rms or none")


class LayerNorm(nn.LayerNorm):
    """`nn.LayerNorm` without its checks, which take as long as the norm of one token."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalises (…, dim); the shape stays."""
        p = self._parameters  # looking up `self.weight` takes a tenth of the norm of one token
        return torch.layer_norm(x, self.normalized_shape, p["weight"], p["bias"], self.eps)


class UnitNorm(nn.Module):
    """Scales each head's vector to length 1, or to a length that the head learns, at most 100.

    Cosine attention (Swin-V2) applies it to queries with a learned length, and to keys with
    length 1.

    Args:
        heads: Number of heads, each of which learns a length; 0: length 1.
    """

    def __init__(self, heads: int = 0) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((heads, 1), math.log(10))) if heads else None

    def forward(self, x: Tensor) -> Tensor:
        """Scales (…, heads, head_dim), or (…, head_dim) without a learned length; shape stays."""
        x = F.normalize(x, dim=-1)
        return x if self.scale is None else x * self.scale.clamp(max=math.log(100)).exp()


def query_key_norms(
    score: str, heads: int, head_dim: int, epsilon: float
) -> tuple[nn.Module | None, nn.Module | None]:
    """The norms of each head's queries and of its keys; None where there is none.

    Args:
        score: The score of attention; `cosine` is the product of vectors of length 1.
        heads: Number of heads of the queries.
        head_dim: Width of a head.
        epsilon: ε of an RMS norm for the other scores; 0: no norm.
    """
    if score == "cosine":
        return UnitNorm(heads), UnitNorm()
    if not epsilon:
        return None, None
    query, key = (norm("rms", head_dim, epsilon) for _ in range(2))
    return query, key


def apply_norm(norm: nn.Module | None, x: Tensor) -> Tensor:
    """Applies the norm to queries or keys (…, head_dim); x itself if the norm is None."""
    return x if norm is None else norm(x)
