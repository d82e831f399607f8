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
from typing import Any

import numpy as np

from regard.draw.labels import Weights
from regard.explain.images.patches import mean_distance
from regard.explain.maps import row_entropy
from regard.explain.names import COUNTED, in_words
from regard.layers import Layout, Tap
from regard.layers.tap.without_head import without_head
from regard.models import Model
from regard.models.mode import evaluating
from regard.tasks.head_batches import HeadBatch

TEXT_LEGEND = """\
previous, first  mean weight on the token before, and on the first token
positional, at   the most weight on any one distance, and which it is (key - query)
entropy          how spread out the weights are, in nats: 0 for a single token"""
IMAGE_LEGEND = """\
distance         mean distance from a patch to those it attends to, by their weights
before           mean weight of a patch on [CLS] and other tokens before the patches
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


@dataclass(frozen=True)
class ImageHeadSummary:
    """The statistics of one head over a set of images."""

    head: str
    distance: float
    """Mean attention distance in pixels: the mean distance from a patch to all others, by their
    weights."""
    patches: float
    """The same in patches."""
    before: float
    """Mean weight of a patch on the tokens before the patches, such as [CLS]."""
    entropy: float
    """Mean entropy of a row, in nats."""
    effect: float
    """Rise of the loss, in nats per image, when the head is knocked out; without an output head,
    1 - cosine between the image vectors with and without it."""


Summary = HeadSummary | ImageHeadSummary


def summarise(
    model: Model,
    batches: Sequence[HeadBatch],
    *,
    progress: Callable[[int, int], None] | None = None,
) -> list[Any]:
    """Summarise every head of the model, from the first layer to the last.

    Args:
        model: The model to examine.
        batches: The evaluation texts, in batches.
        progress: Called after each head with the number done and the total.

    Returns:
        A `HeadSummary` for each head; an `ImageHeadSummary` if the model reads images.
    """
    statistics: dict[str, Any] = {}
    for batch in batches:
        for site, weights, layout in _head_weights(model, batch):
            for number in range(weights.shape[0]):
                head = f"{site}.{number}"
                if head not in statistics:
                    statistics[head] = _new_statistics(batch, layout)
                statistics[head].add(weights[number])
    loss = _mean_loss(model, batches)
    summaries = []
    for done, head in enumerate(model.heads()):
        effect = _mean_loss(without_head(model, [head]), batches) - loss
        summaries.append(statistics[head].summary(head, effect))
        if progress is not None:
            progress(done + 1, len(statistics))
    return summaries


def heads_table(heads: Sequence[Summary], over: str, effect: str) -> str:
    """A text table with one line per head, largest effect first, and a legend of the columns.

    Args:
        heads: The summaries of all heads.
        over: The data they were computed on, such as `100 texts`.
        effect: A description of the `effect` column for the legend.
    """
    columns = _columns(heads[0])
    names = "".join(f"{name:>{width}}" for name, _, width in columns)
    lines = [f"{'head':<32}{'effect':>7}{names}  to type"]
    for summary in sorted(heads, key=lambda head: -head.effect):
        cells = (f"{number_format.format(getattr(summary, FIELDS.get(name, name))):>{width}}"
                 for name, number_format, width in columns)  # fmt: skip
        lines.append(
            f"{in_words(summary.head):<32}{summary.effect:>7.3f}{''.join(cells)}  {summary.head}"
        )
    legend = IMAGE_LEGEND if isinstance(heads[0], ImageHeadSummary) else TEXT_LEGEND
    lines += [f"over {over}", f"{'effect':<17}{effect}", legend, f"{COUNTED}."]
    return "\n".join(lines)


FIELDS = {"at": "offset", "pixels": "distance"}
"""Column -> field of the summary, where their names differ."""


def _columns(summary: Summary) -> list[tuple[str, str, int]]:
    """The columns of the table: name, format and width."""
    if isinstance(summary, ImageHeadSummary):
        return [("pixels", "{:.1f}", 9), ("patches", "{:.2f}", 9), ("before", "{:.2f}", 8),
                ("entropy", "{:.2f}", 9)]  # fmt: skip
    return [("previous", "{:.2f}", 9), ("first", "{:.2f}", 6), ("positional", "{:.2f}", 11),
            ("at", "{}", 4), ("entropy", "{:.2f}", 8)]  # fmt: skip


def _new_statistics(batch: HeadBatch, layout: Layout) -> _HeadStatistics | _ImageStatistics:
    """Empty statistics of a head of a layer with this layout: of a text, or of a grid of cells."""
    if batch.grid is None or layout.grid is None:
        return _HeadStatistics()
    return _ImageStatistics(layout.grid, layout.prefix, batch.height / layout.grid[0])


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
        for index, total in enumerate(sums.tolist()):
            self.by_offset[index + 1 - queries] += total
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


class _ImageStatistics:
    """Running sums over the maps (query, key) of one head, whose tokens are those of images."""

    def __init__(self, grid: tuple[int, int], first: int, patch: float) -> None:
        self.grid, self.first, self.patch = grid, first, patch
        self.distances: list[float] = []
        self.entropies: list[float] = []
        self.before: list[float] = []

    def add(self, weights: Weights) -> None:
        """Add the weights (query, key) of one image."""
        self.distances += mean_distance(weights, self.grid, self.first).tolist()
        self.entropies += row_entropy(weights).tolist()
        self.before += weights[self.first :, : self.first].sum(axis=1).tolist()

    def summary(self, head: str, effect: float) -> ImageHeadSummary:
        """The summary of all images added so far."""
        patch_distance = float(np.nanmean(self.distances))
        return ImageHeadSummary(
            head=head,
            distance=self.patch * patch_distance,
            patches=patch_distance,
            before=float(np.mean(self.before)),
            entropy=float(np.nanmean(self.entropies)),
            effect=effect,
        )


def _head_weights(model: Model, batch: HeadBatch) -> Iterator[tuple[str, Weights, Layout]]:
    """The weights of each layer for each text, (heads, query, key), and the layer's layout.

    Padding is cut off.
    """
    tap = Tap("*.weights")
    with evaluating(model):
        batch.read(tap)
    for site, weights in tap.records.items():
        layer = site.removesuffix(".weights")
        layout = tap.layouts[layer]
        weights = batch.spread(layout, layer, weights)
        lengths = batch.lengths(layer) if layout.grid is None else [layout.lengths] * 2
        for row, (rows, columns) in enumerate(zip(*lengths, strict=True)):
            yield layer, weights[row, :, :rows, :columns].cpu().double().numpy(), layout


def _mean_loss(model: Model, batches: Sequence[HeadBatch]) -> float:
    """Mean loss per target over all batches."""
    with evaluating(model):
        total = sum(float(batch.loss(model)) for batch in batches)
    return total / sum(batch.targets for batch in batches)
