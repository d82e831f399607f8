"""Attention masks, kept as rules and turned into tensors only where the kernel needs one.

In a mask tensor True means "the query may attend to the key". Queries are the *last* positions of
the keys (bottom-right aligned), so that the same rule holds for a whole sequence and for one new
token with a cache. A query whose keys are all masked gets weights 0 and output 0, never NaN.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from regard.layers.kernel_calls import (
    KernelCall,
    causal_flag,
    first_counts,
    is_large,
    kernel_calls,
    key_range,
)


class Mask:
    """A conjunction of rules: a key is allowed if every rule allows it.

    The given tensors are not copied and must not be changed while the mask is in use.

    Args:
        causal: A query attends to no later position.
        window: A query attends to positions at most this far away, on either side.
        key_lengths: Number of real keys of each row; the keys after them are padding.
        query_lengths: Number of real queries of each row (default: all).
        segments: Segment ids (batch, query) and (batch, key); a query attends only to keys of its
            own segment.
        extra: A boolean tensor that broadcasts to (batch, heads, query, key).

    Example:
        >>> Mask(causal=True).dense(2, 3)[0, 0].int()   # two queries: the last of three positions
        tensor([[1, 1, 0],
                [1, 1, 1]], dtype=torch.int32)
    """

    def __init__(
        self,
        *,
        causal: bool = False,
        window: int | None = None,
        key_lengths: tuple[int, ...] | None = None,
        query_lengths: tuple[int, ...] | None = None,
        segments: tuple[Tensor, Tensor] | None = None,
        extra: Tensor | None = None,
    ) -> None:
        self.causal, self.window, self.segments, self.extra = causal, window, segments, extra
        self.key_lengths, self.query_lengths = key_lengths, query_lengths
        self._dense: dict[tuple[int, int, str], Tensor | None] = {}  # shared by all layers
        self._counts: dict[tuple[int, int, int], tuple[int, ...] | None] = {}  # shared as well

    def starts(self, queries: int, keys: int) -> tuple[int, ...]:
        """The position of each row's first query among its keys; one number if all are equal."""
        if self.key_lengths == self.query_lengths:
            return (0 if self.key_lengths else keys - queries,)
        ends, counts = self.key_lengths or (keys,), self.query_lengths or (queries,)
        batch = max(len(ends), len(counts))
        ends, counts = ends * (batch // len(ends)), counts * (batch // len(counts))
        return tuple(end - count for end, count in zip(ends, counts, strict=True))

    def query_positions(
        self, queries: int, keys: int, device: torch.device | str = "cpu"
    ) -> Tensor:
        """The position of each query among the keys: (batch or 1, query)."""
        first_start, *other_starts = starts = self.starts(queries, keys)
        if not other_starts:  # every row starts at the same position
            return torch.arange(first_start, first_start + queries, device=device)[None]
        return torch.tensor(starts, device=device)[:, None] + torch.arange(queries, device=device)

    def dense(self, queries: int, keys: int, device: torch.device | str = "cpu") -> Tensor | None:
        """All rules as one tensor that broadcasts to (batch, heads, query, key).

        None if every key is allowed.
        """
        sizes = (queries, keys, str(device))
        if sizes not in self._dense:
            positions = self.query_positions(queries, keys, device)
            self._dense[sizes] = self._build_tensor(range(queries), slice(0, keys), positions)
        return self._dense[sizes]

    def first_counts(self, batch: int, queries: int, keys: int) -> tuple[int, ...] | None:
        """How many keys, from the first on, the first query of each row attends to.

        Each further query attends to one more if the mask is causal, else to the same. None if
        other rules than causality, a window before a causal query, and lengths are set.
        """
        sizes = (batch, queries, keys)
        if sizes not in self._counts:
            self._counts[sizes] = first_counts(self, batch, queries, keys)
        return self._counts[sizes]

    def key_range(self, indices: Sequence[int], queries: int, keys: int) -> slice:
        """The range of keys that these queries can need by causality, window and key lengths.

        Args:
            indices: Indices of the queries.
            queries: Total number of queries.
            keys: Total number of keys.
        """
        return key_range(self, indices, queries, keys)

    def part(
        self,
        indices: Sequence[int],
        key_range: slice,
        queries: int,
        keys: int,
        device: torch.device | str,
    ) -> Tensor | None:
        """The part of `dense` for these queries and this range of keys (`key_range`).

        None if every key is allowed. A large mask is not built as a whole.
        """
        if causal_flag(self, queries, keys) is False:
            return None
        if is_large(queries, keys):
            positions = self.query_positions(queries, keys, device)
            return self._build_tensor(indices, key_range, positions[:, list(indices)])
        dense_mask = self.dense(queries, keys, device)
        return None if dense_mask is None else _select_cells(dense_mask, indices, key_range)

    def _build_tensor(
        self, indices: Sequence[int], key_range: slice, positions: Tensor
    ) -> Tensor | None:
        """All rules for some queries, at positions `positions` (batch or 1, query), and some keys.

        Returns:
            A tensor that broadcasts to (batch, heads, query, key), or None if there is no rule.
        """
        rules: list[Tensor] = []
        key = torch.arange(key_range.start, key_range.stop, device=positions.device)  # (key,)
        position = positions[:, None, :, None]  # (batch, 1, query, 1)
        if self.causal:
            rules.append(key <= position)
        if self.window is not None:
            rules += [key >= position - self.window, key <= position + self.window]
        if self.key_lengths is not None and min(self.key_lengths) < key_range.stop:
            lengths = torch.tensor(self.key_lengths, device=positions.device)
            rules.append((key < lengths[:, None])[:, None, None])  # (batch, 1, 1, key)
        if self.segments is not None:
            query_segments, key_segments = self.segments
            same_segment = (
                query_segments[:, list(indices), None] == key_segments[:, None, key_range]
            )  # (batch, query, key)
            rules.append(same_segment[:, None])
        if self.extra is not None:
            rules.append(
                _select_cells(self.extra[(None,) * (4 - self.extra.dim())], indices, key_range)
            )
        if not rules:
            return None
        mask = rules[0]
        for rule in rules[1:]:
            mask = mask & rule
        return mask

    def kernel(
        self, queries: int, keys: int, device: torch.device | str = "cpu"
    ) -> tuple[Tensor | None, bool]:
        """The arguments (attn_mask, is_causal) of `scaled_dot_product_attention`."""
        causal = causal_flag(self, queries, keys)
        if causal is not None:
            return None, causal
        return self.dense(queries, keys, device), False

    def kernel_calls(
        self, queries: int, keys: int, device: torch.device | str = "cpu"
    ) -> Iterator[KernelCall]:
        """Splits attention into kernel calls whose masks need little memory."""
        return kernel_calls(self, queries, keys, device)


def _select_cells(x: Tensor, indices: Sequence[int], key_range: slice) -> Tensor:
    """x[:, :, indices, key_range] of a mask (batch, heads, query, key); sizes of 1 stay."""
    x = x if x.shape[3] == 1 else x[..., key_range]
    if x.shape[2] == 1:
        return x
    if isinstance(indices, range):  # a view
        return x[:, :, indices.start : indices.stop : indices.step]
    return x[:, :, list(indices)]
