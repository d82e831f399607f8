"""What a model remembers between steps of decoding: passed along, never stored on a module."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor


class State(Protocol):
    """Memory of the rows that are being decoded; rows of one sentence stand together."""

    def reorder(self, rows: Tensor) -> None:
        """Row i becomes what row rows[i] was: for beams, samples, and sentences that are done."""
        ...


class KVCache:
    """The keys and values of every layer so far, in buffers that are allocated once.

    Row by row, the first `lengths[row]` places are filled. Rows may differ in length (prompts);
    while they do not, a step is a plain slice.

    Args:
        layers: How many attention layers write to it.
        rows: Rows being decoded.
        capacity: The most tokens a row will hold.
        kv_heads: Key and value heads of a layer.
        head_dim: Width of a head.
        device: Where the buffers live.
        dtype: Of the keys and values.
    """

    def __init__(
        self,
        layers: int,
        rows: int,
        capacity: int,
        kv_heads: int,
        head_dim: int,
        device: torch.device | str = "cpu",
        dtype: torch.dtype | None = None,
    ) -> None:
        shape = (layers, rows, kv_heads, capacity, head_dim)
        self.keys = torch.zeros(shape, device=device, dtype=dtype)
        self.values = torch.zeros(shape, device=device, dtype=dtype)
        self.lengths = (0,) * rows

    @property
    def even(self) -> bool:
        """Whether all rows hold equally many tokens."""
        return len(set(self.lengths)) <= 1

    def append(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Writes new keys and values behind the old ones; returns all of them.

        k, v: (rows, kv_heads, new, head_dim) -> (rows, kv_heads, longest + new, head_dim). The
        lengths grow only by `advance`, once for all layers.
        """
        rows, new, longest = k.shape[0], k.shape[2], max(self.lengths, default=0)
        keys, values = self.keys[layer, :rows], self.values[layer, :rows]
        if self.even:
            keys[:, :, longest : longest + new] = k
            values[:, :, longest : longest + new] = v
        else:
            row = torch.arange(rows)[:, None]
            place = torch.tensor(self.lengths)[:, None] + torch.arange(new)  # (rows, new)
            keys[row, :, place] = k.transpose(1, 2)
            values[row, :, place] = v.transpose(1, 2)
        return keys[:, :, : longest + new], values[:, :, : longest + new]

    def advance(self, counts: tuple[int, ...]) -> None:
        """Each row has counts[row] tokens more."""
        self.lengths = tuple(old + more for old, more in zip(self.lengths, counts, strict=True))

    def reorder(self, rows: Tensor) -> None:
        """Row i becomes what row rows[i] was; fewer rows than before is fine."""
        count, filled = rows.numel(), max(self.lengths, default=0)
        order = rows.tolist()
        if order != list(range(count)):
            for buffer in (self.keys, self.values):
                chosen = buffer[:, :, :, :filled].index_select(1, rows)  # a copy: rows may cross
                buffer[:, :count, :, :filled] = chosen
        self.lengths = tuple(self.lengths[row] for row in order)
