"""Each attention head summarised in a few numbers, and the effect of knocking it out.

Input: a model and evaluation data for its task: sentences with translations, texts to continue,
texts with masked tokens, or labelled examples. Output, for each head: the mean weight on the
previous token, on the first token and on the strongest fixed distance; the mean entropy of a row;
and the rise of the loss when the head is knocked out. The first four describe the attention
pattern; the last one is a causal test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from regard.explain.maps import Weights, row_entropy
from regard.explain.names import in_words
from regard.layers import Tap
from regard.layers.tap.without import without
from regard.models import Model
from regard.models.mode import evaluating
from regard.tasks.head_batches import HeadBatch

LEGEND = """\
previous, first  mean weight on the token before, and on the first token
positional, at   the most weight on any one distance, and which it is (key - query)
entropy          how spread out the weights are, in nats: 0 for a single token"""


@dataclass(frozen=True)
class HeadSummary:
    """The statistics of one head over a set of texts."""

    head: str
    previous: float
    """Mean weight on the key before the query's position (in cross-attention: key = query - 1)."""
    first: float
    """Mean weight on the first token."""
    positional: float
    """The largest mean weight on any one distance: 1 if attention depends on position only."""
    offset: int
    """The distance of that largest mean weight, key - query."""
    entropy: float
    """Mean entropy of a row, in nats."""
    effect: float
    """Rise of the loss, in nats per target, when the head is knocked out; for an encoder without
    an output head, 1 - cosine between the text vectors with and without it."""


def summarise(
    model: Model,
    batches: Sequence[HeadBatch],
    *,
    progress: Callable[[int, int], None] | None = None,
) -> list[HeadSummary]:
    """Summarise every head of the model, from the first layer to the last.

    Args:
        model: The model to examine.
        batches: The evaluation texts, in batches.
        progress: Called after each head with the number done and the total.
    """
    statistics: dict[str, _HeadStatistics] = {}
    for site, weights in (record for some in batches for record in _recorded(model, some)):
        for number in range(weights.shape[0]):
            statistics.setdefault(f"{site}.{number}", _HeadStatistics()).add(weights[number])
    loss = _loss(model, batches)
    found = []
    for done, head in enumerate(model.heads()):
        effect = _loss(without(model, [head]), batches) - loss
        found.append(statistics[head].summary(head, effect))
        if progress is not None:
            progress(done + 1, len(statistics))
    return found


def heads_table(heads: Sequence[HeadSummary], over: str, effect: str) -> str:
    """A text table with one line per head, largest effect first, and a legend of the columns.

    Args:
        heads: The summaries of all heads.
        over: The data they were computed on, such as `100 texts`.
        effect: A description of the `effect` column for the legend.
    """
    lines = [
        f"{'head':<32}{'effect':>7}{'previous':>9}{'first':>6}{'positional':>11}{'at':>4}"
        f"{'entropy':>8}  to type"
    ]
    lines += [
        f"{in_words(each.head):<32}{each.effect:>7.3f}{each.previous:>9.2f}{each.first:>6.2f}"
        f"{each.positional:>11.2f}{each.offset:>4}{each.entropy:>8.2f}  {each.head}"
        for each in sorted(heads, key=lambda head: -head.effect)
    ]
    lines += [f"over {over}", f"{'effect':<17}{effect}", LEGEND]
    return "\n".join(lines)


class _HeadStatistics:
    """Running sums over the maps (query, key) of one head."""

    def __init__(self) -> None:
        self.rows, self.with_previous, self.first = 0, 0, 0.0
        self.by_offset: Counter[int] = Counter()
        self.entropies: list[float] = []

    def add(self, weights: Weights) -> None:
        """Add the weights (query, key) of one text."""
        queries, keys = weights.shape
        offsets = np.arange(keys)[None, :] - np.arange(queries)[:, None]  # key - query
        sums = np.bincount((offsets + queries - 1).ravel(), weights.ravel())
        for place, total in enumerate(sums.tolist()):
            self.by_offset[place + 1 - queries] += total
        self.rows += queries
        self.with_previous += min(queries - 1, keys)  # cross-attention may have fewer keys
        self.first += float(weights[:, 0].sum())
        self.entropies += row_entropy(weights).tolist()

    def summary(self, head: str, effect: float) -> HeadSummary:
        """The summary of all texts added so far."""
        strongest = max(self.by_offset, key=lambda offset: self.by_offset[offset])
        return HeadSummary(
            head=head,
            previous=self.by_offset.get(-1, 0.0) / max(1, self.with_previous),
            first=self.first / self.rows,
            positional=self.by_offset[strongest] / self.rows,
            offset=strongest,
            entropy=float(np.nanmean(self.entropies)),
            effect=effect,
        )


def _recorded(model: Model, batch: HeadBatch) -> Iterator[tuple[str, Weights]]:
    """The weights of each layer for each text: (heads, query, key), padding cut off."""
    tap = Tap("*.weights")
    with evaluating(model):
        batch.read(tap)
    for site, weights in tap.records.items():
        layer = site.removesuffix(".weights")
        for row, (rows, columns) in enumerate(zip(*batch.lengths(layer), strict=True)):
            yield layer, weights[row, :, :rows, :columns].cpu().double().numpy()


def _loss(model: Model, batches: Sequence[HeadBatch]) -> float:
    """Mean loss per target over all batches."""
    with evaluating(model):
        total = sum(float(some.loss(model)) for some in batches)
    return total / sum(some.targets for some in batches)
