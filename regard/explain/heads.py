"""What each head does, in a few numbers, and what breaks without it.

In come a model and sentences with their translations. Each head's weights are summarised: how much
it looks at the token before, at the first token, at any one fixed distance; how spread out it is;
and how much the loss rises when it is taken away. The first four describe, the last one tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch.nn.functional as F

from regard.data.batch import Batch
from regard.data.pair import Pair
from regard.explain.maps import Weights, row_entropy
from regard.layers import Tap, knock_out
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.mode import evaluating
from regard.tasks.translate import Translate


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


def summarise(
    model: EncoderDecoder,
    task: Translate,
    pairs: Sequence[Pair],
    *,
    progress: Callable[[int, int], None] | None = None,
) -> list[HeadSummary]:
    """Every head of the model, from the input up.

    Args:
        model: Whose heads.
        task: How text becomes ids.
        pairs: Sentences with the translations to follow; some dozens are enough.
        progress: Told how many heads of how many are done.
    """
    batch = task.readable(pairs, model.config.max_length).batch(range(len(pairs)))
    maps: dict[str, list[Weights]] = {}
    for site, weights in _recorded(model, batch):
        for number in range(weights.shape[0]):
            maps.setdefault(f"{site}.{number}", []).append(weights[number])
    loss = _loss(model, batch)
    found = []
    for done, head in enumerate(model.heads()):
        effect = _loss(model, batch, Tap(edits=[knock_out(head)])) - loss
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


def _recorded(model: EncoderDecoder, batch: Batch) -> Iterator[tuple[str, Weights]]:
    """The weights of each layer for each pair: (heads, query, key), padding cut off."""
    tap, source, target = Tap("*.weights"), batch.source, batch.target_in
    with evaluating(model):
        model(source, target, tap)
    for site, weights in tap.records.items():
        layer = site.removesuffix(".weights")
        queries = source if layer.startswith("encoder") else target
        keys = target if layer.startswith("decoder") and layer.endswith("self") else source
        for row, (rows, columns) in enumerate(zip(queries.lengths, keys.lengths, strict=True)):
            yield layer, weights[row, :, :rows, :columns].double().numpy()


def _loss(model: EncoderDecoder, batch: Batch, tap: Tap | None = None) -> float:
    """Mean negative log-likelihood of the targets, perhaps with an edit in place."""
    with evaluating(model):
        logits = model(batch.source, batch.target_in, tap)
        return float(F.cross_entropy(logits, batch.target_out))
