"""Attention weights with labelled rows and columns, and the computations on them.

Input: the weights recorded in a run, one array per attention layer, and their tokens. Output:
maps between words, the entropy of their rows, and the mean weight by distance. `look` chooses
which of the maps of one input to show.

A layer is named by its site as in `--knock-out`: stack, layer, kind, such as `decoder.2.cross`;
a head has one more number, `decoder.2.cross.3`. Layers and heads count from 0.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from regard.draw.labels import Weights


@dataclass(frozen=True, eq=False)
class AttentionMap:
    """The attention weights of one layer for one input.

    Attributes:
        site: The layer's name, such as `decoder.2.cross` or `encoder.0.self`.
        weights: Attention weights (heads, query, key). A row sums to 1, or to 0 if all keys of
            the query were masked.
        queries: The label of each row: in the decoder of an encoder-decoder the token that the
            step *predicts*, otherwise the token at the query's position.
        keys: The label of each column: the token at the key's position.
    """

    site: str
    weights: Weights
    queries: tuple[str, ...]
    keys: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.site.split(".")) != 3 or not self.site.split(".")[1].isdigit():
            raise ValueError(f"site {self.site!r}: expected stack.layer.kind, as decoder.2.cross")
        if self.weights.ndim != 3 or self.weights.shape[1:] != (len(self.queries), len(self.keys)):
            raise ValueError(
                f"{self.site}: weights {self.weights.shape} do not fit {len(self.queries)} queries "
                f"and {len(self.keys)} keys; expected (heads, query, key)"
            )
        if 0 in self.weights.shape:
            raise ValueError(f"{self.site}: weights {self.weights.shape} are empty")

    @property
    def stack(self) -> str:
        """The site without its layer, such as `decoder.cross`."""
        name, _, kind = self.site.split(".")
        return f"{name}.{kind}"

    @property
    def layer(self) -> int:
        """The layer's number, from 0."""
        return int(self.site.split(".")[1])

    @property
    def heads(self) -> int:
        """The number of recorded heads."""
        return int(self.weights.shape[0])

    @property
    def writes(self) -> bool:
        """Whether rows are predicted words: a decoder whose query and key labels differ."""
        return self.stack.startswith("decoder.") and self.queries != self.keys

    def __repr__(self) -> str:
        heads, queries, keys = self.weights.shape
        return f"AttentionMap({self.site!r}, {heads} heads, {queries} queries, {keys} keys)"

    def matrix(self, head: int | None = None, knocked_out: Collection[int] = ()) -> Weights:
        """The weights of one head, or the mean over heads: (query, key).

        Args:
            head: The head's number; None for the mean.
            knocked_out: Heads that were knocked out. Their weights have no effect on the output,
                so they are left out of the mean, and the map of such a head is all NaN.
        """
        active = [index for index in range(self.heads) if index not in knocked_out]
        if head in knocked_out or not active:
            return np.full(self.weights.shape[1:], np.nan)
        return self.weights[active].mean(axis=0) if head is None else self.weights[head]

    def _repr_html_(self) -> str:
        from regard.explain.look import Look  # imported here: look imports this module

        return Look(maps=(self,), title=self.site)._repr_html_()


def row_entropy(weights: Weights) -> Weights:
    """How spread out each row is, in nats: H = -Σ p ln p, with p the row scaled to sum to 1.

    Args:
        weights: Any shape that ends in (query, key).

    Returns:
        (…, query); NaN for a row that sums to 0.

    Example:
        >>> row_entropy(np.array([[1.0, 0.0], [0.5, 0.5]])).round(3).tolist()
        [0.0, 0.693]
    """
    totals = weights.sum(axis=-1, keepdims=True)
    share = np.divide(weights, totals, out=np.zeros_like(weights, dtype=float), where=totals > 0)
    logs = np.log(share, out=np.zeros_like(share), where=share > 0)  # 0 ln 0 counts as 0
    entropy = np.maximum(-(share * logs).sum(axis=-1), 0.0)  # -0.0 would print a minus
    return np.where(totals[..., 0] > 0, entropy, np.nan)


def merge_words(
    piece_map: AttentionMap,
    query_words: Sequence[int],
    key_words: Sequence[int],
    query_labels: Sequence[str],
    key_labels: Sequence[str],
) -> AttentionMap:
    """Merge sub-words into words: sum over the keys of a word, mean over its queries.

    The weight on a word is the sum of the weights on its sub-words. A word of several queries
    gets the mean of their rows, so that rows still sum to 1.

    Args:
        piece_map: The map between sub-words.
        query_words: For each query, the number of its word, from 0.
        key_words: For each key, the number of its word, from 0.
        query_labels: The words of the queries.
        key_labels: The words of the keys.

    Returns:
        The map between words, at the same site.
    """
    _, queries, keys = piece_map.weights.shape
    sides = (query_words, query_labels, queries), (key_words, key_labels, keys)
    if all(list(w) == list(range(n)) and len(labels) == n for w, labels, n in sides):
        # nothing to merge, as for the patches of an image
        return replace(piece_map, queries=tuple(query_labels), keys=tuple(key_labels))
    gather = _members(query_words, len(piece_map.queries), len(query_labels), "query")
    gather = gather / gather.sum(axis=1, keepdims=True)
    collect = _members(key_words, len(piece_map.keys), len(key_labels), "key")
    # (words, query) @ (heads, query, key) @ (key, words) -> (heads, words, words)
    weights = gather @ piece_map.weights @ collect.T
    return AttentionMap(piece_map.site, weights, tuple(query_labels), tuple(key_labels))


def _members(words: Sequence[int], pieces: int, count: int, side: str) -> Weights:
    """The membership matrix (words, pieces): 1 where a sub-word belongs to a word, else 0."""
    if len(words) != pieces or set(words) != set(range(count)):
        raise ValueError(
            f"{side} words: expected {pieces} numbers that use each of 0 to {count - 1}, "
            f"got {len(words)} numbers for {len(set(words))} words"
        )
    return (np.arange(count)[:, None] == np.asarray(words)[None, :]).astype(float)


def mean_by_offset(weights: Weights, window: int) -> Weights:
    """The mean weight at each distance key - query from -window to window.

    The mean is over the rows that have a key at that distance; rows that sum to 0 are left out.
    A distance that no row has is NaN.

    Args:
        weights: (heads, query, key).
        window: The largest distance.

    Returns:
        (heads, 2 window + 1)
    """
    heads, queries, keys = weights.shape
    alive = weights.sum(axis=(0, 2)) > 0
    means = np.full((heads, 2 * window + 1), np.nan)
    for column, offset in enumerate(range(-window, window + 1)):
        rows = np.arange(max(0, -offset), min(queries, keys - offset))
        rows = rows[alive[rows]]
        if rows.size:
            means[:, column] = weights[:, rows, rows + offset].mean(axis=1)
    return means


def shortened(text: str, longest: int = 140) -> str:
    """The text cut to `longest` characters, with an ellipsis if something was cut."""
    return text if len(text) <= longest else f"{text[:longest]}…"
