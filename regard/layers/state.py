"""The state of a model between decoding steps: cached keys and values, recurrent states.

It is passed to each step as an argument and never stored on a module.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor


class State(Protocol):
    """The state of the rows that are being decoded; the rows of one sequence are adjacent."""

    def reorder(self, rows: Tensor) -> None:
        """Replaces row i by the former row rows[i]: for beams, samples, and finished sequences.

        A row may be named several times, so the number of rows may grow. `rows` is a CPU tensor,
        since the search runs there; a state on another device copies it once.
        """
        ...

    def mark(self) -> Any:
        """Returns a mark of the present state, for `rewind`."""
        ...

    def rewind(self, mark: Any) -> None:
        """Restores the state at the mark; the number of rows must be the same as then."""
        ...


class KVCache:
    """The keys and values of every layer so far, in preallocated buffers.

    The first `lengths[row]` positions of each row are filled. Rows may differ in length (prompts);
    if all are equally long, a step writes a plain slice. A row is contiguous in memory, with the
    keys and values of a position next to each other, so that reordering beams copies few long
    pieces. It copies each layer into a spare buffer; the layer's old buffer is the next spare one.

    Args:
        layers: Number of attention layers that write to the cache.
        rows: Number of rows being decoded.
        capacity: Maximum number of tokens of a row.
        kv_heads: Number of key and value heads of a layer.
        head_dim: Width of a head.
        device: Device of the buffers.
        dtype: Dtype of the keys and values.
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
        shape = (rows, capacity, 2, kv_heads, head_dim)
        # Left uninitialized: only written positions are read, and unused memory pages stay
        # unallocated if the capacity is large.
        self.layers = [torch.empty(shape, device=device, dtype=dtype) for _ in range(layers)]
        self.spare = torch.empty(shape, device=device, dtype=dtype)
        self.lengths = (0,) * rows
        self.states: list[tuple[Tensor, ...]] = []  # states of sub-layers other than attention

    @property
    def even(self) -> bool:
        """Whether all rows hold the same number of tokens."""
        return len(set(self.lengths)) <= 1

    def append(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Writes new keys and values after the old ones and returns all of them.

        k, v: (rows, kv_heads, new, head_dim) -> (rows, kv_heads, longest + new, head_dim).
        `lengths` stays as it is until `advance` is called, once for all layers.
        """
        rows, new, longest = k.shape[0], k.shape[2], max(self.lengths, default=0)
        both = self.layers[layer].permute(2, 0, 3, 1, 4)[:, :rows, :, : longest + new]
        keys, values = both.unbind(0)  # (rows, kv_heads, longest + new, head_dim) each
        if self.even:
            keys.narrow(2, longest, new).copy_(k)
            values.narrow(2, longest, new).copy_(v)
        else:
            # The kernel multiplies masked values by 0, so they must not be NaN.
            keys[:, :, longest:], values[:, :, longest:] = 0, 0
            where = k.device
            row = torch.arange(rows, device=where)[:, None]
            ends = torch.tensor(self.lengths, device=where)[:, None]
            place = ends + torch.arange(new, device=where)  # (rows, new)
            keys[row, :, place] = k.transpose(1, 2)
            values[row, :, place] = v.transpose(1, 2)
        return keys, values

    def advance(self, counts: tuple[int, ...]) -> None:
        """Adds counts[row] to the length of each row."""
        self.lengths = tuple(old + more for old, more in zip(self.lengths, counts, strict=True))

    def mark(self) -> Any:
        """The present number of tokens of each row, for `rewind`."""
        return self.lengths

    def rewind(self, mark: Any) -> None:
        """Drops the tokens that were added after the mark."""
        self.lengths = mark

    def reorder(self, rows: Tensor) -> None:
        """Replaces row i by the former row rows[i]; the number of rows may change."""
        order, filled = rows.tolist(), max(self.lengths, default=0)
        if order != list(range(len(order))):
            rows = rows.to(self.spare.device)
            for layer, buffer in enumerate(self.layers):
                if len(self.spare) < len(order):
                    self.spare = buffer.new_empty(len(order), *buffer.shape[1:])
                moved = self.spare[: len(order), :filled]
                torch.index_select(buffer[:, :filled], 0, rows, out=moved)
                self.layers[layer], self.spare = self.spare, buffer
        self.lengths = tuple(self.lengths[row] for row in order)


class RecurrentState(KVCache):
    """The states of recurrent and convolutional sub-layers, each a few tensors (rows, …).

    A sub-layer replaces its tensors and never writes into them, so that a mark needs no copy. The
    keys and values of attention layers in the same stack are kept as well.

    Args:
        states: The initial tensors of every such sub-layer.
        cache: The cache of the stack's attention layers; it has no layers if there are none.
    """

    def __init__(self, states: list[tuple[Tensor, ...]], cache: KVCache) -> None:
        self.states, self.layers, self.spare = states, cache.layers, cache.spare
        self.lengths = cache.lengths

    def mark(self) -> Any:
        """The present lengths and states, for `rewind`."""
        return self.lengths, list(self.states)

    def rewind(self, mark: Any) -> None:
        """Restores the lengths and states at the mark."""
        self.lengths, self.states = mark[0], list(mark[1])

    def reorder(self, rows: Tensor) -> None:
        """Replaces row i by the former row rows[i]; the number of rows may change."""
        super().reorder(rows)
        rows = rows.to(self.spare.device)
        self.states = [tuple(each[rows] for each in one) for one in self.states]
