"""T5's relative positions: positions of queries come in, a bias on the scores goes out."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from regard.layers.positions.base import Positions


class Buckets(Positions):
    """T5's relative positions: a learned bias per head and bucket of distances on the scores.

    Short distances have a bucket each; longer ones share logarithmically wider buckets. As in T5,
    the layers of a stack share the table.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        max_length: int,
        *,
        both_sides: bool = True,
        buckets: int = 32,
        farthest: int = 128,
    ) -> None:
        super().__init__()
        del max_length
        self.both_sides, self.buckets, self.farthest = both_sides, buckets, farthest
        self.table = nn.Parameter(torch.empty(buckets, heads))
        nn.init.normal_(self.table, std=dim**-0.5)

    def bucket(self, offset: Tensor) -> Tensor:
        """The bucket of an offset (key position - query position)."""
        buckets, start = self.buckets, torch.zeros_like(offset)
        if self.both_sides:  # half of the buckets for keys that come later
            buckets //= 2
            start = (offset > 0).long() * buckets
            distance = offset.abs()
        else:
            distance = (-offset).clamp(min=0)
        exact = buckets // 2
        scale = (buckets - exact) / math.log(self.farthest / exact)
        far = exact + ((distance.clamp(min=1).float() / exact).log() * scale).long()
        return start + torch.where(distance < exact, distance, far.clamp(max=buckets - 1))

    def bias(self, query: Tensor, keys: int) -> Tensor:
        """table[bucket(key - query)]: (batch or 1, heads, query, key)."""
        offset = torch.arange(keys, device=query.device) - query[..., None]  # (batch, query, key)
        return self.table[self.bucket(offset)].permute(0, 3, 1, 2)
