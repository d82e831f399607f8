"""What each head does, in a few numbers, and what breaks without it.

In come a model and what it reads: sentences with their translations, or texts to go on with. Each
head's weights are summarised: how much it looks at the token before, at the first token, at any one
fixed distance; how spread out it is; and how much the loss rises when it is taken away. The first
four describe, the last one tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.batch import Ragged
from regard.data.pair import Pair
from regard.explain.maps import Weights, row_entropy
from regard.layers import Tap, knock_out
from regard.models import Decoder, EncoderDecoder, Model
from regard.models.mode import evaluating
from regard.tasks.translate import Translate

AT_ONCE = 16
"""Texts that are read together: logits of all of them are held."""


@dataclass(frozen=True)
class HeadSummary:
    """One head over a set of sentences."""

    head: str
    previous: float
    """Mean weight on the token before the query (in cross-attention: the same place, less one)."""
    first: float
    """Mean weight on the first token."""
    positional: float
    """The largest mean weight on any one distance: 1 if position alone decides."""
    offset: int
    """That distance, key - query."""
    entropy: float
    """Mean entropy of a row, in nats."""
    effect: float
    """Rise of the loss, in nats per target token, when the head is knocked out."""


@dataclass(frozen=True, eq=False)
class Passages:
    """Texts that a model reads, with a tap if one is given, and what it should say."""

    read: Callable[[Tap | None], Tensor]
    """-> logits (targets, vocab)"""
    targets: Tensor
    lengths: Callable[[str], tuple[Sequence[int], Sequence[int]]]
    """Of a layer, how many queries and keys each text has there."""


def pairs_for(model: EncoderDecoder, task: Translate, pairs: Sequence[Pair]) -> list[Passages]:
    """Sentences with the translations to follow; some dozens are enough."""
    batch = task.readable(pairs, model.config.max_length).batch(range(len(pairs)))
    source, target = batch.source, batch.target_in

    def lengths(layer: str) -> tuple[Sequence[int], Sequence[int]]:
        queries = source if layer.startswith("encoder") else target
        keys = target if layer.startswith("decoder") and layer.endswith("self") else source
        return queries.lengths, keys.lengths

    return [Passages(lambda tap: model(source, target, tap), batch.target_out, lengths)]


def texts_for(model: Decoder, texts: Sequence[Sequence[int]]) -> list[Passages]:
    """Texts to go on with, as ids, of at least two tokens each; some at a time."""
    return [
        _written(model, texts[first : first + AT_ONCE]) for first in range(0, len(texts), AT_ONCE)
    ]


def _written(model: Decoder, texts: Sequence[Sequence[int]]) -> Passages:
    read = Ragged.of([ids[:-1] for ids in texts])
    targets = torch.tensor([token for ids in texts for token in ids[1:]])
    return Passages(lambda tap: model(read, tap), targets, lambda _: (read.lengths, read.lengths))


def summarise(
    model: Model,
    passages: Sequence[Passages],
    *,
    progress: Callable[[int, int], None] | None = None,
) -> list[HeadSummary]:
    """Every head of the model, from the input up.

    Args:
        model: Whose heads.
        passages: What it reads, some texts at a time.
        progress: Told how many heads of how many are done.
    """
    maps: dict[str, list[Weights]] = {}
    for site, weights in (record for some in passages for record in _recorded(model, some)):
        for number in range(weights.shape[0]):
            maps.setdefault(f"{site}.{number}", []).append(weights[number])
    loss = _loss(model, passages)
    found = []
    for done, head in enumerate(model.heads()):
        effect = _loss(model, passages, Tap(edits=[knock_out(head)])) - loss
        found.append(_summary(head, maps[head], effect))
        if progress is not None:
            progress(done + 1, len(maps))
    return found


def _summary(head: str, maps: Sequence[Weights], effect: float) -> HeadSummary:
    """Numbers of one head from its maps, (query, key) each."""
    rows = sum(len(weights) for weights in maps)
    by_offset: dict[int, float] = {}
    for weights in maps:
        queries, keys = weights.shape
        for offset in range(1 - queries, keys):
            by_offset[offset] = by_offset.get(offset, 0.0) + float(np.trace(weights, offset))
    strongest = max(by_offset, key=lambda offset: by_offset[offset])
    with_previous = sum(len(weights) - 1 for weights in maps)
    return HeadSummary(
        head=head,
        previous=by_offset.get(-1, 0.0) / max(1, with_previous),
        first=sum(float(weights[:, 0].sum()) for weights in maps) / rows,
        positional=by_offset[strongest] / rows,
        offset=strongest,
        entropy=float(np.nanmean(np.concatenate([row_entropy(weights) for weights in maps]))),
        effect=effect,
    )


def _recorded(model: Model, passages: Passages) -> Iterator[tuple[str, Weights]]:
    """The weights of each layer for each text: (heads, query, key), padding cut off."""
    tap = Tap("*.weights")
    with evaluating(model):
        passages.read(tap)
    for site, weights in tap.records.items():
        layer = site.removesuffix(".weights")
        for row, (rows, columns) in enumerate(zip(*passages.lengths(layer), strict=True)):
            yield layer, weights[row, :, :rows, :columns].double().numpy()


def _loss(model: Model, passages: Sequence[Passages], tap: Tap | None = None) -> float:
    """Mean negative log-likelihood of the targets, perhaps with an edit in place."""
    with evaluating(model):
        total = sum(
            float(F.cross_entropy(some.read(tap), some.targets, reduction="sum"))
            for some in passages
        )
    return total / sum(some.targets.numel() for some in passages)
