"""Who may look at whom, as rules; a tensor only when a kernel needs one, and only as large.

True means "may look". Queries are the *last* positions of the keys (bottom-right aligned), so
that the same rule holds for a whole sentence and for one more token beside a cache. A query with
nothing to look at gets zeros: weights that sum to 0, never NaN.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

WHOLE = 2**20
"""Up to so many (query, key) cells, rules become one tensor, which then serves every layer."""
AT_A_TIME = 256
"""Beyond, a tensor is made for so many queries at a time: memory grows with the length, and not
with its square."""


class Piece(NamedTuple):
    """One call of the kernel: some queries, the keys within their reach, which of them allowed."""

    queries: slice
    keys: slice
    allowed: Tensor | None
    causal: bool


class Mask:
    """A conjunction of rules. Its tensors are not copied: leave them as they are while it is used.

    Args:
        causal: A query looks at no later position.
        window: A query looks at most this many positions away.
        key_lengths: How many keys of each row are real; those behind are padding.
        query_lengths: How many queries of each row are real (all of them by default).
        segments: Ids of (batch, query) and (batch, key); only equal segments see each other.
        extra: Any boolean tensor that broadcasts to (batch, heads, query, key).

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
        self._dense: dict[tuple[int, int, str], Tensor | None] = {}  # one serves every layer

    def _starts(self, queries: int, keys: int) -> tuple[int, ...]:
        """The position of each row's first query among its keys; one number if all agree."""
        if self.key_lengths == self.query_lengths:
            return (0 if self.key_lengths else keys - queries,)
        ends, counts = self.key_lengths or (keys,), self.query_lengths or (queries,)
        batch = max(len(ends), len(counts))
        ends, counts = ends * (batch // len(ends)), counts * (batch // len(counts))
        return tuple(end - count for end, count in zip(ends, counts, strict=True))

    def query_places(self, queries: int, keys: int, device: torch.device | str = "cpu") -> Tensor:
        """The position of each query among the keys: (batch or 1, query)."""
        first, *others = starts = self._starts(queries, keys)
        if not others:  # every row starts at the same place
            return torch.arange(first, first + queries, device=device)[None]
        return torch.tensor(starts, device=device)[:, None] + torch.arange(queries, device=device)

    def dense(self, queries: int, keys: int, device: torch.device | str = "cpu") -> Tensor | None:
        """All rules as one (batch, heads, query, key), sizes of 1 broadcast; None: all may look."""
        sizes = (queries, keys, str(device))
        if sizes not in self._dense:
            places = self.query_places(queries, keys, device)
            self._dense[sizes] = self._build(range(queries), slice(0, keys), places)
        return self._dense[sizes]

    def reach(self, some: Sequence[int], queries: int, keys: int) -> slice:
        """The keys that some of the queries may look at, as far as their places decide."""
        starts = self._starts(queries, keys)
        nearest, farthest = min(starts) + min(some), max(starts) + max(some)
        first, last = 0, keys
        if self.window is not None:
            first, last = nearest - self.window, farthest + self.window + 1
        if self.causal:
            last = min(last, farthest + 1)
        if self.key_lengths is not None:
            last = min(last, max(self.key_lengths))
        last = min(max(last, 1), keys)  # who may look at nothing is given a key to be denied
        return slice(min(max(first, 0), max(last - 1, 0)), last)

    def rows(
        self, some: Sequence[int], reach: slice, queries: int, keys: int, device: torch.device | str
    ) -> Tensor | None:
        """What `dense` holds for some of the queries and a range of the keys, and not the rest."""
        if self._known(queries, keys) is False:
            return None
        if queries * keys > WHOLE:
            places = self.query_places(queries, keys, device)
            return self._build(some, reach, places[:, list(some)])
        whole = self.dense(queries, keys, device)
        return None if whole is None else _cut(whole, some, reach)

    def _build(self, some: Sequence[int], reach: slice, places: Tensor) -> Tensor | None:
        """The rules for some queries, which stand at places (batch or 1, query), and some keys."""
        rules: list[Tensor] = []
        key = torch.arange(reach.start, reach.stop, device=places.device)  # (key,)
        place = places[:, None, :, None]  # (batch, 1, query, 1)
        if self.causal:
            rules.append(key <= place)
        if self.window is not None:
            rules += [key >= place - self.window, key <= place + self.window]
        if self.key_lengths is not None and min(self.key_lengths) < reach.stop:
            lengths = torch.tensor(self.key_lengths, device=places.device)
            rules.append((key < lengths[:, None])[:, None, None])  # (batch, 1, 1, key)
        if self.segments is not None:
            of_query, of_key = self.segments
            same = of_query[:, list(some), None] == of_key[:, None, reach]  # (batch, query, key)
            rules.append(same[:, None])
        if self.extra is not None:
            rules.append(_cut(self.extra[(None,) * (4 - self.extra.dim())], some, reach))
        if not rules:
            return None
        mask = rules[0]
        for rule in rules[1:]:
            mask = mask & rule
        return mask

    def kernel(
        self, queries: int, keys: int, device: torch.device | str = "cpu"
    ) -> tuple[Tensor | None, bool]:
        """What `scaled_dot_product_attention` needs: (attn_mask, is_causal)."""
        causal = self._known(queries, keys)
        if causal is not None:
            return None, causal
        return self.dense(queries, keys, device), False

    def _known(self, queries: int, keys: int) -> bool | None:
        """Where the kernel needs no tensor: whether it is to be causal by itself. Else None.

        Its own causal rule is several times faster than a dense mask. It aligns top-left, so it
        serves only when there are as many queries as keys. Padding stands behind the real keys,
        where a causal query never looks, so it needs no mask of its own then.
        """
        plain = self.window is None and self.segments is None and self.extra is None
        same = self.query_lengths == self.key_lengths
        if self.causal and plain and same and queries == keys:
            return queries > 1
        if self.causal and plain and queries == 1 and self.key_lengths is None:
            return False  # one new token may look at all that a cache holds
        return None

    def pieces(
        self, queries: int, keys: int, device: torch.device | str = "cpu"
    ) -> Iterator[Piece]:
        """The kernel's calls that together attend, so few that each needs but little memory.

        One serves for all that the kernel knows by itself, and for padding, (batch, 1, 1, key).
        A long window, segment, or chunk behind a cache goes through it in parts; each part has
        only the keys within reach, so that a window's time is linear too.
        """
        by_query = self.causal or self.window is not None
        by_query = by_query or self.segments is not None or self.extra is not None
        small = queries * keys <= WHOLE
        if small or not by_query or self._known(queries, keys) is not None:
            yield Piece(slice(0, queries), slice(0, keys), *self.kernel(queries, keys, device))
            return
        for first in range(0, queries, AT_A_TIME):
            some = range(first, min(first + AT_A_TIME, queries))
            reach = self.reach(some, queries, keys)
            allowed = self.rows(some, reach, queries, keys, device)
            yield Piece(slice(some.start, some.stop), reach, allowed, causal=False)


def _cut(x: Tensor, some: Sequence[int], reach: slice) -> Tensor:
    """Some queries and keys of (batch, heads, query, key); a size of 1 serves any."""
    x = x if x.shape[3] == 1 else x[..., reach]
    if x.shape[2] == 1:
        return x
    if isinstance(some, range):  # a view
        return x[:, :, some.start : some.stop : some.step]
    return x[:, :, list(some)]


def masked_softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    """softmax over the keys that a query may look at: (batch, heads, query, key).

    Example:
        >>> nothing = torch.tensor([[True, True], [False, False]])
        >>> masked_softmax(torch.zeros(2, 2), nothing)
        tensor([[0.5000, 0.5000],
                [0.0000, 0.0000]])
    """
    if mask is None:
        return scores.softmax(-1)
    weights = scores.masked_fill(~mask, float("-inf")).softmax(-1)
    return weights.masked_fill(~mask, 0.0)  # a wholly masked row: 0/0 becomes 0
