"""Computes the attention scores and weights that the fused kernel does not return.

Input: the queries, keys, bias and mask of a kernel call. Output: scores or weights
(batch, heads, query, key) of the requested heads and queries. Their size is quadratic in the
length, that of q and k is linear. So a record stores whichever is smaller: the scores or weights
themselves, or a copy of q and k, from which they are computed when they are read, a few queries at
a time. At 4,096 tokens a layer takes 16 MB that way instead of 537.
"""

from __future__ import annotations

from collections import UserDict
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from regard.errors import InputError, nearest
from regard.layers.layout import Layout
from regard.layers.masks import Mask
from regard.layers.scores import hardmax, masked_softmax

MAX_CELLS, MIN_QUERIES = 2**19, 128
"""Queries are computed in groups of at most MAX_CELLS (query, key) cells per head, but of at least
MIN_QUERIES queries, since smaller matrix products are slow."""
SCORES_PER_GROUP = 2**21
"""Heads are computed in groups of at most this many scores. Cores then work on different heads,
1.5 × as fast as one head after another, and the scores are still in the CPU cache for softmax."""


class ScoreLike(Protocol):
    """What a tap needs of a score function: the scores before the softmax."""

    @property
    def hard(self) -> bool:
        """Whether the largest weight of each query becomes 1 and all others 0."""
        ...

    def scores(self, q: Tensor, k: Tensor, heads: Sequence[int] | None = None) -> Tensor:
        """Scores (batch, heads, query, key); `heads` names the heads in q and k, if not all."""
        ...


@dataclass(frozen=True)
class Product:
    """The inputs of one call of the attention kernel, from which a tap computes its records."""

    name: str  # the layer's name, such as decoder.2.cross
    score: ScoreLike
    q: Tensor  # (batch, heads, query, head_dim)
    k: Tensor  # (batch, kv_heads, key, head_dim)
    v: Tensor  # (batch, kv_heads, key, head_dim)
    mask: Mask
    bias: Tensor | None
    layout: Layout  # the layout of the rows of q
    record_layout: Layout  # the layout of the records: one row for each hypothesis

    def scores(self) -> tuple[Tensor, Tensor | None]:
        """All scores (batch, heads, query, key), -inf where masked, and the mask."""
        k = self.k.repeat_interleave(self.q.shape[1] // self.k.shape[1], dim=1)  # grouped heads
        scores = self.score.scores(self.q, k)
        scores = scores if self.bias is None else scores + self.bias
        mask = self.mask.dense(self.q.shape[2], k.shape[2], k.device)
        return (scores if mask is None else scores.masked_fill(~mask, float("-inf"))), mask

    def weights_of(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        """The weights of given scores: their softmax, or 1 at the highest if attention is hard."""
        weights = masked_softmax(scores, mask)
        return hardmax(weights) if self.score.hard else weights

    def weights(self) -> Tensor:
        """All weights, (batch, heads, query, key); differentiable in grad mode."""
        if torch.is_grad_enabled():
            return self.weights_of(*self.scores())
        return self.pattern().whole()

    def pattern(
        self, heads: Sequence[int] | None = None, queries: Sequence[int] | None = None
    ) -> Pattern:
        """The weights of some heads and queries (None: all), not yet computed."""
        count, group = self.q.shape[2], self.q.shape[1] // self.k.shape[1]
        all_heads = range(self.q.shape[1])
        full_pattern = Pattern(
            score=self.score,
            q=self.q.detach(),
            k=self.k.detach(),
            mask=self.mask,
            bias=None if self.bias is None else self.bias.detach(),
            heads=all_heads,
            key_heads=tuple(head // group for head in all_heads),
            queries=range(count),
            among=count,
        )
        return full_pattern.part(heads, queries)


@dataclass(frozen=True)
class Pattern:
    """Scores or weights of some heads and queries, computed on demand."""

    score: ScoreLike
    q: Tensor  # (batch, heads, query, head_dim) of these heads and queries
    k: Tensor  # (batch, kv_heads, key, head_dim)
    mask: Mask
    bias: Tensor | None  # (batch or 1, heads, query, key)
    heads: Sequence[int]  # which of the layer's heads these are
    key_heads: Sequence[int]  # for each of these heads, the index of its keys in k
    queries: Sequence[int]  # which of the layer's queries these are
    among: int  # how many queries the layer has
    softmax: bool = True  # True: weights; False: scores

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(batch, heads, query, key)."""
        batch, heads, queries, _ = self.q.shape
        return batch, heads, queries, self.k.shape[2]

    def part(self, heads: Sequence[int] | None, queries: Sequence[int] | None) -> Pattern:
        """Some of these heads and queries (None: all)."""
        if heads is None and queries is None:
            return self
        return replace(
            self,
            q=select(self.q, heads, queries),
            bias=None if self.bias is None else select(self.bias, heads, queries),
            heads=_select_items(self.heads, heads),
            key_heads=_select_items(self.key_heads, heads),
            queries=_select_items(self.queries, queries),
        )

    def smaller_form(self) -> Pattern | Tensor:
        """What to store: the scores or weights, or, if that is smaller, a copy of q and k.

        It shares no tensor with the model, so a later training step does not change it.
        """
        batch, heads, queries, keys = self.shape
        used_key_heads = sorted(set(self.key_heads))
        query_key_size = self.q.numel() + batch * len(used_key_heads) * keys * self.q.shape[3]
        if self.bias is not None or batch * heads * queries * keys <= query_key_size:
            return self.whole()
        return replace(
            self,
            score=deepcopy(self.score),
            q=self.q.clone(),
            k=self.k[:, used_key_heads].contiguous(),  # a copy; contiguous: products 1.2 × as fast
            key_heads=[used_key_heads.index(head) for head in self.key_heads],
        )

    @torch.no_grad()
    def whole(self) -> Tensor:
        """Computes all scores or weights: (batch, heads, query, key)."""
        out = self.q.new_empty(self.shape)
        for group in _query_slices(self.shape[2], self.shape[3]):
            self._write(group, out[:, :, group])
        return out

    def blocks(self) -> Iterator[tuple[slice, Tensor]]:
        """Computes a few queries at a time: their slice, and (batch, heads, some queries, key)."""
        batch, heads, queries, keys = self.shape
        for group in _query_slices(queries, keys):
            with torch.no_grad():
                out = self.q.new_empty(batch, heads, group.stop - group.start, keys)
                self._write(group, out)
            yield group, out

    def _write(self, group: slice, out: Tensor) -> None:
        """Computes some queries into out (batch, heads, some queries, key)."""
        queries, keys = self.queries[group], self.k.shape[2]
        key_range = self.mask.key_range(queries, self.among, keys)
        mask = self.mask.part(queries, key_range, self.among, keys, self.k.device)
        if key_range != slice(0, keys):
            empty = 0.0 if self.softmax else float("-inf")
            out[..., : key_range.start] = out[..., key_range.stop :] = empty
        heads_per_group = max(1, SCORES_PER_GROUP // max(1, out[:, 0].numel()))
        for first in range(0, len(self.heads), heads_per_group):
            head_slice = slice(first, first + heads_per_group)
            heads = self.heads[head_slice]
            k = self._keys(self.key_heads[head_slice])[:, :, key_range]
            scores = self.score.scores(self.q[:, head_slice, group], k, heads)
            if self.bias is not None:
                scores = scores + self.bias[:, head_slice, group, key_range]
            denied = None if mask is None else ~select(mask, heads)
            self._write_result(scores, denied, out[:, head_slice, :, key_range])

    def _write_result(self, scores: Tensor, denied: Tensor | None, out: Tensor) -> None:
        """Writes the masked scores, or their softmax if weights are wanted, into out."""
        if denied is not None:
            scores = scores.masked_fill_(denied, float("-inf"))
        if not self.softmax:
            out.copy_(scores)
            return
        torch.softmax(scores, -1, out=out)
        if denied is not None:
            out.masked_fill_(denied, 0.0)  # the NaN of a fully masked query becomes 0
        if self.score.hard:
            out.copy_(hardmax(out))

    def _keys(self, heads: Sequence[int]) -> Tensor:
        """The keys of some key heads, as a view if possible: (batch, heads, key, head_dim)."""
        first, *other_heads = heads
        if not other_heads:
            return self.k[:, first : first + 1]
        return self.k if list(heads) == list(range(self.k.shape[1])) else self.k[:, list(heads)]


class Records(UserDict[str, Any]):
    """The recorded tensors by site; scores and weights may be computed only when they are read.

    `records[site]` is the whole tensor. For long inputs, `part` computes some heads and queries
    alone, and `blocks` iterates over all queries, a few at a time.

    Example:
        >>> from regard.layers import Attention, Tap, plain_context
        >>> attend, tap = Attention(8, heads=2), Tap("*.weights")
        >>> _ = attend(torch.randn(200, 8), plain_context((200,), tap=tap))
        >>> tap.records.part("attention.weights", heads=[1], queries=[7, 9]).shape
        torch.Size([1, 1, 2, 200])
        >>> means = [some.mean(1) for _, some in tap.records.blocks("attention.weights")]
        >>> torch.cat(means, dim=1).shape                       # over heads: (batch, query, key)
        torch.Size([1, 200, 200])
    """

    data: dict[str, Tensor | Pattern]

    def keep(self, site: str, pattern: Pattern) -> None:
        """Stores scores or weights in the smaller of the two forms (see `Pattern.smaller_form`)."""
        self.data[site] = pattern.smaller_form()

    def part(
        self, site: str, heads: Sequence[int] | None = None, queries: Sequence[int] | None = None
    ) -> Tensor:
        """`records[site][:, heads][:, :, queries]`, without computing the rest (None: all)."""
        value = self._stored_form(site)
        if isinstance(value, Tensor):
            return select(value, heads, queries)
        return value.part(heads, queries).whole()

    def blocks(self, site: str) -> Iterator[tuple[slice, Tensor]]:
        """Iterates over groups of queries: their slice, and (batch, heads, some queries, key)."""
        value = self._stored_form(site)
        if not isinstance(value, Tensor):
            yield from value.blocks()
            return
        for group in _query_slices(value.shape[2], value.shape[3]):
            yield group, value[:, :, group]

    def _stored_form(self, site: str) -> Tensor | Pattern:
        """The record as it is stored; raises NoRecord if there is none."""
        if site not in self.data:
            raise NoRecord(site, self.data)
        return self.data[site]

    def __getitem__(self, site: str) -> Tensor:
        value = self._stored_form(site)
        if not isinstance(value, Tensor):
            value = self.data[site] = value.whole()
        return value


class NoRecord(InputError, KeyError):
    """A site was read that is not among the records; also a `KeyError`, as of any dict."""

    def __init__(self, site: str, records: Iterable[str]) -> None:
        names = list(records)
        fix = None if names else "pass the tap to a model or layer that has the sites it names"
        expected = "a recorded site"
        if names:
            expected = f"a site that was recorded, such as {(nearest(site, names) or names)[0]}"
        super().__init__("no such record", got=site, expected=expected, fix=fix)

    __str__ = Exception.__str__  # that of KeyError would quote the message


def select(x: Tensor, heads: Sequence[int] | None, queries: Sequence[int] | None = None) -> Tensor:
    """Some heads and queries (None: all) of (batch, heads, query, …); sizes of 1 stay."""
    x = x if heads is None or x.shape[1] == 1 else x[:, list(heads)]
    return x if queries is None or x.shape[2] == 1 else x[:, :, list(queries)]


def _query_slices(queries: int, keys: int) -> Iterator[slice]:
    """Splits the queries into slices of about MAX_CELLS (query, key) cells."""
    step = max(MIN_QUERIES, MAX_CELLS // max(1, keys))
    for first in range(0, queries, step):
        yield slice(first, min(first + step, queries))


def _select_items(items: Sequence[int], indices: Sequence[int] | None) -> Sequence[int]:
    """The items at the given indices (all if the indices are None, or if there is only one)."""
    if indices is None or len(items) == 1:
        return items
    return [items[index] for index in indices]
