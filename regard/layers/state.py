"""The state of a model between decoding steps: cached keys and values, recurrent states.

It is passed to each step as an argument and never stored on a module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch
from torch import Tensor

if TYPE_CHECKING:
    from regard.layers.context import Memory


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
        shape = (layers + 1, rows, capacity, 2, kv_heads, head_dim)
        # Left uninitialized: only written positions are read, and unused memory pages stay
        # unallocated if the capacity is large.
        self.buffers = torch.empty(shape, device=device, dtype=dtype)
        self.order = list(range(layers + 1))  # the buffer of each layer, then the spare one
        self.lengths = (0,) * rows
        self.states: list[tuple[Tensor, ...]] = []  # states of sub-layers other than attention
        self._views: Views | None = None

    @property
    def layers(self) -> list[Tensor]:
        """The buffer of each layer: (rows, capacity, 2, kv_heads, head_dim)."""
        return [self.buffers[number] for number in self.order[:-1]]

    @property
    def spare(self) -> Tensor:
        """The buffer into which `reorder` copies the next layer."""
        return self.buffers[self.order[-1]]

    @property
    def even(self) -> bool:
        """Whether all rows hold the same number of tokens."""
        return len(set(self.lengths)) <= 1

    def append(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Writes new keys and values after the old ones and returns all of them.

        k, v: (rows, kv_heads, new, head_dim) -> (rows, kv_heads, longest + new, head_dim).
        `lengths` stays as it is until `advance` is called, once for all layers.
        """
        views, rows, new = self._views, k.shape[0], k.shape[2]
        if views is None or views.made_for != (self.lengths, rows, new):
            self._views = views = self._make_views(rows, new)
        number = self.order[layer]
        keys, values = views.keys[number], views.values[number]
        new_keys, new_values = views.new_keys[number], views.new_values[number]
        if views.new_positions is None:
            new_keys.copy_(k)
            new_values.copy_(v)
        else:
            # The kernel multiplies masked values by 0, so they must not be NaN.
            new_keys.zero_()
            new_values.zero_()
            row, position = views.new_positions
            keys[row, :, position] = k.transpose(1, 2)
            values[row, :, position] = v.transpose(1, 2)
        return keys, values

    def _make_views(self, rows: int, new: int) -> Views:
        """Views of all buffers for a step that appends `new` tokens to each row."""
        longest, device = max(self.lengths, default=0), self.buffers.device
        # Keys and values first: (2, buffers, rows, kv_heads, longest + new, head_dim).
        keys_values = self.buffers[:, :rows, : longest + new].permute(3, 0, 1, 4, 2, 5)
        new_keys_values = keys_values.narrow(4, longest, new)
        new_positions = None
        if not self.even:
            ends = torch.tensor(self.lengths, device=device)[:, None]
            row = torch.arange(rows, device=device)[:, None]
            new_positions = row, ends + torch.arange(new, device=device)  # (rows, 1), (rows, new)
        keys, values = (part.unbind(0) for part in keys_values)
        new_keys, new_values = (part.unbind(0) for part in new_keys_values)
        made_for = self.lengths, rows, new
        return Views(made_for, keys, values, new_keys, new_values, new_positions)

    def advance(self, counts: tuple[int, ...]) -> None:
        """Adds counts[row] to the length of each row."""
        self.lengths = tuple(map(sum, zip(self.lengths, counts, strict=True)))

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
            rows, before = rows.to(self.buffers.device), self.buffers
            grows = len(order) > before.shape[1]
            if grows:  # into new buffers
                self.buffers = before.new_empty(len(before), len(order), *before.shape[2:])
                self._views = None
            for layer, old_buffer in enumerate(self.order[:-1]):
                new_buffer = old_buffer if grows else self.order[-1]
                moved = self.buffers[new_buffer, : len(order), :filled]
                torch.index_select(before[old_buffer, :, :filled], 0, rows, out=moved)
                if not grows:
                    self.order[layer], self.order[-1] = new_buffer, old_buffer
        self.lengths = tuple(self.lengths[row] for row in order)


class Views(NamedTuple):
    """Views of a cache's buffers for one step; lists have an item for each buffer."""

    made_for: tuple[tuple[int, ...], int, int]
    """The lengths of the rows, the number of rows, and of new tokens."""
    keys: tuple[Tensor, ...]
    """(rows, kv_heads, longest + new, head_dim) each."""
    values: tuple[Tensor, ...]
    new_keys: tuple[Tensor, ...]
    """The last positions, (rows, kv_heads, new, head_dim) each."""
    new_values: tuple[Tensor, ...]
    new_positions: tuple[Tensor, Tensor] | None
    """If the rows are not equally long: the row and position of each new token."""


class RecurrentState(KVCache):
    """The states of recurrent and convolutional sub-layers, each a few tensors (rows, …).

    A sub-layer replaces its tensors and never writes into them, so that a mark needs no copy. The
    keys and values of attention layers in the same stack are kept as well.

    Args:
        states: The initial tensors of every such sub-layer.
        cache: The cache of the stack's attention layers; it has no layers if there are none.
    """

    def __init__(self, states: list[tuple[Tensor, ...]], cache: KVCache) -> None:
        vars(self).update(vars(cache), states=states)  # the buffers are shared

    def mark(self) -> Any:
        """The present lengths and states, for `rewind`."""
        return self.lengths, list(self.states)

    def rewind(self, mark: Any) -> None:
        """Restores the lengths and states at the mark."""
        self.lengths, self.states = mark[0], list(mark[1])

    def reorder(self, rows: Tensor) -> None:
        """Replaces row i by the former row rows[i]; the number of rows may change."""
        super().reorder(rows)
        rows = rows.to(self.buffers.device)
        self.states = [tuple(tensor[rows] for tensor in states) for states in self.states]


class DecoderState:
    """The decoding state of the decoder: its cache, and the memory that it attends to.

    Args:
        cache: Keys and values (or recurrent states) of the rows so far.
        memory: The encoder's output; `beams` adjacent rows share that of one sequence.
        beams: Number of rows per sequence.
    """

    def __init__(self, cache: KVCache, memory: Memory, beams: int) -> None:
        self.cache, self.memory, self.beams = cache, memory, beams

    def reorder(self, rows: Tensor) -> None:
        """Replaces row i by the former row rows[i]; drops sequences of which no row is named."""
        order = rows.tolist()
        if order == list(range(len(self.cache.lengths))):
            return  # every row stays, as in most steps of greedy decoding
        self.cache.reorder(rows)
        sentences = [*dict.fromkeys(row // self.beams for row in order)]
        self.beams = len(order) // max(1, len(sentences))
        if len(sentences) < self.memory.layout.batch:
            self.memory = self.memory.select(torch.tensor(sentences, dtype=torch.int64))

    def mark(self) -> Any:
        """Returns a mark of the present state, for `rewind`."""
        return self.cache.mark()

    def rewind(self, mark: Any) -> None:
        """Restores the state at the mark."""
        self.cache.rewind(mark)
