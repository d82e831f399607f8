"""Who may look at whom, as rules; a tensor only when a kernel needs one.

True means "may look". Queries are the *last* positions of the keys (bottom-right aligned), so
that the same rule holds for a whole sentence and for one more token beside a cache. A query with
nothing to look at gets zeros: weights that sum to 0, never NaN.
"""

from __future__ import annotations

import torch
from torch import Tensor


class Mask:
    """A conjunction of rules.

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

    def query_places(self, queries: int, keys: int, device: torch.device | str = "cpu") -> Tensor:
        """The position of each query among the keys: (batch or 1, query)."""
        if self.key_lengths == self.query_lengths:  # every row starts at the same place
            first = 0 if self.key_lengths else keys - queries
            return torch.arange(first, first + queries, device=device)[None]
        ends = torch.tensor(self.key_lengths or (keys,), device=device)
        counts = torch.tensor(self.query_lengths or (queries,), device=device)
        return (ends - counts)[:, None] + torch.arange(queries, device=device)

    def dense(self, queries: int, keys: int, device: torch.device | str = "cpu") -> Tensor | None:
        """All rules as one (batch, heads, query, key), sizes of 1 broadcast; None: all may look."""
        sizes = (queries, keys, str(device))
        if sizes not in self._dense:
            self._dense[sizes] = self._build(queries, keys, device)
        return self._dense[sizes]

    def _build(self, queries: int, keys: int, device: torch.device | str) -> Tensor | None:
        rules: list[Tensor] = []
        key = torch.arange(keys, device=device)  # (key,)
        if self.causal or self.window is not None:
            ahead = key - self.query_places(queries, keys, device)[..., None]  # (batch, query, key)
            if self.causal:
                rules.append((ahead <= 0)[:, None])
            if self.window is not None:
                rules.append((ahead.abs() <= self.window)[:, None])
        if self.key_lengths is not None and min(self.key_lengths) < keys:
            lengths = torch.tensor(self.key_lengths, device=device)
            rules.append((key < lengths[:, None])[:, None, None])  # (batch, 1, 1, key)
        if self.segments is not None:
            of_query, of_key = self.segments
            rules.append((of_query[:, :, None] == of_key[:, None, :])[:, None])
        if self.extra is not None:
            rules.append(self.extra[(None,) * (4 - self.extra.dim())])
        if not rules:
            return None
        mask = rules[0]
        for rule in rules[1:]:
            mask = mask & rule
        return mask

    def kernel(
        self, queries: int, keys: int, device: torch.device | str = "cpu"
    ) -> tuple[Tensor | None, bool]:
        """What `scaled_dot_product_attention` needs: (attn_mask, is_causal).

        The kernel's own causal rule is several times faster than a dense mask. It aligns top-left,
        so it serves only when there are as many queries as keys. Padding stands behind the real
        keys, where a causal query never looks, so it needs no mask of its own then.
        """
        plain = self.window is None and self.segments is None and self.extra is None
        same = self.query_lengths == self.key_lengths
        if self.causal and plain and same and queries == keys:
            return None, queries > 1
        if self.causal and plain and queries == 1 and self.key_lengths is None:
            return None, False  # one new token may look at all that a cache holds
        return self.dense(queries, keys, device), False


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
