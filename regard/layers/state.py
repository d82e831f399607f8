"""What a model remembers between steps of decoding: passed along, never stored on a module."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor


class State(Protocol):
    """Memory of the rows that are being decoded; rows of one sentence stand together."""

    def reorder(self, rows: Tensor) -> None:
        """Row i becomes what row rows[i] was: for beams, samples, and sentences that are done.

        A row may be named several times, so that there are more rows than before. The numbers come
        on the CPU, where the search is; a state on another device takes them there once.
        """
        ...

    def mark(self) -> Any:
        """Where the rows stand now, for `rewind`."""
        ...

    def rewind(self, mark: Any) -> None:
        """The rows forget what came since the mark; there are as many as there were then."""
        ...


class KVCache:
    """The keys and values of every layer so far, in buffers that are allocated once.

    Row by row, the first `lengths[row]` places are filled. Rows may differ in length (prompts);
    while they do not, a step is a plain slice. What a row holds is one piece of memory, keys and
    values of a place side by side, so that beams change places by copying few long pieces, into a
    spare buffer that takes turns with those of the layers.

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
        shape = (rows, capacity, 2, kv_heads, head_dim)
        # Not filled: what is not written is not read, so pages of a long room stay untouched.
        self.layers = [torch.empty(shape, device=device, dtype=dtype) for _ in range(layers)]
        self.spare = torch.empty(shape, device=device, dtype=dtype)
        self.lengths = (0,) * rows
        self.held: list[tuple[Tensor, ...]] = []  # of sub-layers that are no attention

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
        held = self.layers[layer].permute(2, 0, 3, 1, 4)[:, :rows, :, : longest + new]
        keys, values = held.unbind(0)  # (rows, kv_heads, longest + new, head_dim) each
        if self.even:
            keys[:, :, longest:], values[:, :, longest:] = k, v
        else:
            # A kernel multiplies what is masked by 0, so even that must be a number.
            keys[:, :, longest:], values[:, :, longest:] = 0, 0
            where = k.device
            row = torch.arange(rows, device=where)[:, None]
            ends = torch.tensor(self.lengths, device=where)[:, None]
            place = ends + torch.arange(new, device=where)  # (rows, new)
            keys[row, :, place] = k.transpose(1, 2)
            values[row, :, place] = v.transpose(1, 2)
        return keys, values

    def advance(self, counts: tuple[int, ...]) -> None:
        """Each row has counts[row] tokens more."""
        self.lengths = tuple(old + more for old, more in zip(self.lengths, counts, strict=True))

    def mark(self) -> Any:
        """How many tokens each row holds now, for `rewind`."""
        return self.lengths

    def rewind(self, mark: Any) -> None:
        """Every row forgets what it holds behind the tokens that it had at the mark."""
        self.lengths = mark

    def reorder(self, rows: Tensor) -> None:
        """Row i becomes what row rows[i] was; fewer or more rows than before is fine."""
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
    """What recurrent and convolutional sub-layers hold of each row: a few tensors (rows, …) each.

    A sub-layer puts new tensors in the place of the old ones and never writes into them, so that a
    mark is no copy. Attention of the same stack has its keys and values beside them.

    Args:
        held: The tensors of every such sub-layer, before the first token.
        cache: Of the stack's attention; with no layers, if it has none.
    """

    def __init__(self, held: list[tuple[Tensor, ...]], cache: KVCache) -> None:
        self.held, self.layers, self.spare = held, cache.layers, cache.spare
        self.lengths = cache.lengths

    def mark(self) -> Any:
        """How many tokens each row holds now, and what follows from them."""
        return self.lengths, list(self.held)

    def rewind(self, mark: Any) -> None:
        """Every row is as it was at the mark."""
        self.lengths, self.held = mark[0], list(mark[1])

    def reorder(self, rows: Tensor) -> None:
        """Row i becomes what row rows[i] was; fewer or more rows than before is fine."""
        super().reorder(rows)
        rows = rows.to(self.spare.device)
        self.held = [tuple(each[rows] for each in one) for one in self.held]
