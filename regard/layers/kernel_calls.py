"""What the fused attention kernel needs of a mask: its flags, and calls that need little memory.

In: a `Mask` and the numbers of queries and keys. Out: the `KernelCall`s that together compute the
attention, the keys that some queries can need, and the number of keys of each row's first query.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

if TYPE_CHECKING:
    from regard.layers.masks import Mask

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


def is_large(queries: int, keys: int) -> bool:
    """Whether a mask of this size is built in parts."""
    return queries * keys > LARGEST_WHOLE_MASK


def causal_flag(mask: Mask, queries: int, keys: int) -> bool | None:
    """The kernel's `is_causal` flag if it needs no mask tensor; None if it needs one.

    The kernel's own causal mask is several times faster than a mask tensor. It is aligned
    top-left, so it is right only with as many queries as keys. Padding comes after the real
    keys, where a causal query never attends, so it needs no mask in that case.
    """
    no_other_rule = mask.window is None and mask.segments is None and mask.extra is None
    same_lengths = mask.query_lengths == mask.key_lengths
    if mask.causal and no_other_rule and same_lengths and queries == keys:
        return queries > 1
    if mask.causal and no_other_rule and queries == 1 and mask.key_lengths is None:
        return False  # one new token may attend to everything in the cache
    return None


def first_counts(mask: Mask, batch: int, queries: int, keys: int) -> tuple[int, ...] | None:
    """Computes `Mask.first_counts`, which stores the result."""
    if mask.segments is not None or mask.extra is not None:
        return None
    if mask.causal:
        counts = tuple(start + 1 for start in mask.starts(queries, keys))
    elif mask.window is not None:
        return None
    else:
        counts = mask.key_lengths or (keys,)
    return counts * (batch // len(counts))


def key_range(mask: Mask, indices: Sequence[int], queries: int, keys: int) -> slice:
    """The range of keys that these queries can need: `Mask.key_range`."""
    starts = mask.starts(queries, keys)
    nearest, farthest = min(starts) + min(indices), max(starts) + max(indices)
    first, last = 0, keys
    if mask.window is not None:
        first, last = nearest - mask.window, farthest + mask.window + 1
    if mask.causal:
        last = min(last, farthest + 1)
    if mask.key_lengths is not None:
        last = min(last, max(mask.key_lengths))
    last = min(max(last, 1), keys)  # keep one key, so that a fully masked row has one to mask
    return slice(min(max(first, 0), max(last - 1, 0)), last)


def kernel_calls(
    mask: Mask, queries: int, keys: int, device: torch.device | str = "cpu"
) -> Iterator[KernelCall]:
    """Splits attention into kernel calls whose masks need little memory.

    One call is enough if the mask is small, if the kernel needs no mask tensor, or if the mask
    is padding alone, (batch, 1, 1, key). A long input with a window, segments, an extra mask,
    or several new tokens after a cache is split by queries; each call gets only the keys that
    it can need, so that with a window time is linear in the length, too.
    """
    by_query = mask.causal or mask.window is not None
    by_query = by_query or mask.segments is not None or mask.extra is not None
    if not is_large(queries, keys) or not by_query or causal_flag(mask, queries, keys) is not None:
        yield KernelCall(slice(0, queries), slice(0, keys), *mask.kernel(queries, keys, device))
        return
    for first in range(0, queries, QUERIES_PER_CALL):
        indices = range(first, min(first + QUERIES_PER_CALL, queries))
        needed = key_range(mask, indices, queries, keys)
        allowed = mask.part(indices, needed, queries, keys, device)
        yield KernelCall(slice(indices.start, indices.stop), needed, allowed, causal=False)
