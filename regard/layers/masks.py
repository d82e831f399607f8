"""Attention masks, kept as rules and turned into tensors only where the kernel needs one.

In a mask tensor True means "the query may attend to the key". Queries are the *last* positions of
the keys (bottom-right aligned), so that the same rule holds for a whole sequence and for one new
token with a cache. A query whose keys are all masked gets weights 0 and output 0, never NaN.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

LARGEST_WHOLE_MASK = 2**20
"""Up to this many (query, key) cells, the mask is built as one tensor, shared by all layers."""
QUERIES_PER_CALL = 256
"""For larger masks, tensors are built for this many queries at a time, so that memory grows
linearly with the length, not quadratically."""


class KernelCall(NamedTuple):
    """One call of the attention kernel: a range of queries, the keys they may need, their mask."""

    queries: slice
    keys: slice
    allowed: Tensor | None  # the mask tensor; None: every key is allowed
    causal: bool  # whether the kernel applies its own causal mask


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

    def _starts(self, queries: int, keys: int) -> tuple[int, ...]:
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
        first_start, *other_starts = starts = self._starts(queries, keys)
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
            self._counts[sizes] = self._compute_first_counts(batch, queries, keys)
        return self._counts[sizes]

    def _compute_first_counts(self, batch: int, queries: int, keys: int) -> tuple[int, ...] | None:
        """Computes `first_counts`, which stores the result."""
        if self.segments is not None or self.extra is not None:
            return None
        if self.causal:
            counts = tuple(start + 1 for start in self._starts(queries, keys))
        elif self.window is not None:
            return None
        else:
            counts = self.key_lengths or (keys,)
        return counts * (batch // len(counts))

    def key_range(self, indices: Sequence[int], queries: int, keys: int) -> slice:
        """The range of keys that these queries can need by causality, window and key lengths.

        Args:
            indices: Indices of the queries.
            queries: Total number of queries.
            keys: Total number of keys.
        """
        starts = self._starts(queries, keys)
        nearest, farthest = min(starts) + min(indices), max(starts) + max(indices)
        first, last = 0, keys
        if self.window is not None:
            first, last = nearest - self.window, farthest + self.window + 1
        if self.causal:
            last = min(last, farthest + 1)
        if self.key_lengths is not None:
            last = min(last, max(self.key_lengths))
        last = min(max(last, 1), keys)  # keep one key, so that a fully masked row has one to mask
        return slice(min(max(first, 0), max(last - 1, 0)), last)

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
        if self._causal_flag(queries, keys) is False:
            return None
        if queries * keys > LARGEST_WHOLE_MASK:
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
        causal = self._causal_flag(queries, keys)
        if causal is not None:
            return None, causal
        return self.dense(queries, keys, device), False

    def _causal_flag(self, queries: int, keys: int) -> bool | None:
        """The kernel's `is_causal` flag if it needs no mask tensor; None if it needs one.

        The kernel's own causal mask is several times faster than a mask tensor. It is aligned
        top-left, so it is right only with as many queries as keys. Padding comes after the real
        keys, where a causal query never attends, so it needs no mask in that case.
        """
        no_other_rule = self.window is None and self.segments is None and self.extra is None
        same_lengths = self.query_lengths == self.key_lengths
        if self.causal and no_other_rule and same_lengths and queries == keys:
            return queries > 1
        if self.causal and no_other_rule and queries == 1 and self.key_lengths is None:
            return False  # one new token may attend to everything in the cache
        return None

    def kernel_calls(
        self, queries: int, keys: int, device: torch.device | str = "cpu"
    ) -> Iterator[KernelCall]:
        """Splits attention into kernel calls whose masks need little memory.

        One call is enough if the mask is small, if the kernel needs no mask tensor, or if the mask
        is padding alone, (batch, 1, 1, key). A long input with a window, segments, an extra mask,
        or several new tokens after a cache is split by queries; each call gets only the keys that
        it can need, so that with a window time is linear in the length, too.
        """
        by_query = self.causal or self.window is not None
        by_query = by_query or self.segments is not None or self.extra is not None
        small = queries * keys <= LARGEST_WHOLE_MASK
        if small or not by_query or self._causal_flag(queries, keys) is not None:
            yield KernelCall(slice(0, queries), slice(0, keys), *self.kernel(queries, keys, device))
            return
        for first in range(0, queries, QUERIES_PER_CALL):
            indices = range(first, min(first + QUERIES_PER_CALL, queries))
            key_range = self.key_range(indices, queries, keys)
            allowed = self.part(indices, key_range, queries, keys, device)
            yield KernelCall(slice(indices.start, indices.stop), key_range, allowed, causal=False)


def _select_cells(x: Tensor, indices: Sequence[int], key_range: slice) -> Tensor:
    """x[:, :, indices, key_range] of a mask (batch, heads, query, key); sizes of 1 stay."""
    x = x if x.shape[3] == 1 else x[..., key_range]
    if x.shape[2] == 1:
        return x
    if isinstance(indices, range):  # a view
        return x[:, :, indices.start : indices.stop : indices.step]
    return x[:, :, list(indices)]


def hardmax(weights: Tensor) -> Tensor:
    """Hard attention: 1 at the largest weight of each query, 0 elsewhere; the same shape.

    The gradient is straight-through: that of the weights, as if attention were soft. A row of zeros
    stays zeros.

    Example:
        >>> hardmax(torch.tensor([[0.2, 0.5, 0.3], [0.0, 0.0, 0.0]]))
        tensor([[0., 1., 0.],
                [0., 0., 0.]])
    """
    best_key = weights.argmax(-1, keepdim=True)
    one_hot = torch.zeros_like(weights).scatter(
        -1, best_key, (weights.gather(-1, best_key) > 0).to(weights)
    )
    # The value is exactly `one_hot`; the gradient is that of `weights`.
    return one_hot + (weights - weights.detach())


def masked_softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Softmax over the allowed keys of each query: (batch, heads, query, key).

    Rows without an allowed key become zeros.

    Example:
        >>> nothing = torch.tensor([[True, True], [False, False]])
        >>> masked_softmax(torch.zeros(2, 2), nothing)
        tensor([[0.5000, 0.5000],
                [0.0000, 0.0000]])
    """
    if mask is None:
        return scores.softmax(-1)
    weights = scores.masked_fill(~mask, float("-inf")).softmax(-1)
    return weights.masked_fill(~mask, 0.0)  # the NaN of a fully masked row becomes 0
