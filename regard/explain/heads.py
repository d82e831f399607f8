"""What each head does, in a few numbers, and what breaks without it.

In come a model and what it reads: sentences with their translations, texts to go on with, texts
with hidden tokens, examples with their labels. Each head's weights are summarised: how much it
looks at the token before, at the first token, at any one fixed distance; how spread out it is; and
how much the loss rises when it is taken away. The first four describe, the last one tests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.batch import Batch, Ragged
from regard.data.corruption import MaskedBatch, Masking
from regard.data.packing import TextBatch
from regard.data.pair import Pair
from regard.data.rows import RowBatch, evaluation
from regard.explain.maps import Weights, row_entropy
from regard.layers import Tap
from regard.layers.without import without
from regard.models import Decoder, Encoder, EncoderDecoder, Model, Texts
from regard.models.mode import evaluating
from regard.tasks.fill import symbols_of
from regard.tasks.reader import TOKENS_AT_ONCE, Reader, vectors_of
from regard.tasks.restore import Restore
from regard.tasks.supervised import Supervised, texts_of
from regard.tasks.translate import Translate
from regard.tokens import Foreign

T = TypeVar("T")
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
    """Rise of the loss, in nats per target, when the head is knocked out; of an encoder without a
    head of its own, 1 - cosine by which the vectors of texts move."""


@dataclass(frozen=True, eq=False)
class Passages:
    """Texts that a model reads, and how well it then says what it should."""

    read: Callable[[Tap], object]
    """Reads them with a tap."""
    loss: Callable[[Any], Tensor]
    """Of a model, perhaps of one without a head: a sum over targets."""
    targets: int
    lengths: Callable[[str], tuple[Sequence[int], Sequence[int]]]
    """Of a layer, how many queries and keys each text has there."""


def pairs_for(model: EncoderDecoder, task: Translate, pairs: Sequence[Pair]) -> list[Passages]:
    """Sentences with the translations to follow; some dozens are enough."""
    return [_paired(model, task.readable(pairs, model.config.max_length).batch(range(len(pairs))))]


def holes_for(
    model: EncoderDecoder, task: Restore, texts: Sequence[Sequence[int]]
) -> list[Passages]:
    """Texts, as ids, of which pieces are cut out, which are to be said; some at a time."""
    return [_paired(model, task.corrupt(_batch(some), 0)) for some in _parts(texts)]


def _paired(model: EncoderDecoder, batch: Batch) -> Passages:
    source, target, wanted = batch.source, batch.target_in, batch.target_out

    def lengths(layer: str) -> tuple[Sequence[int], Sequence[int]]:
        queries = source if layer.startswith("encoder") else target
        keys = target if layer.startswith("decoder") and layer.endswith("self") else source
        return queries.lengths, keys.lengths

    def loss(twin: EncoderDecoder) -> Tensor:
        return F.cross_entropy(twin(source, target), wanted, reduction="sum")

    return Passages(lambda tap: model(source, target, tap), loss, wanted.numel(), lengths)


def texts_for(model: Decoder, texts: Sequence[Sequence[int]]) -> list[Passages]:
    """Texts to go on with, as ids, of at least two tokens each; some at a time."""
    return [_written(model, some) for some in _parts(texts)]


def _written(model: Decoder, texts: Sequence[Sequence[int]]) -> Passages:
    batch = _batch(texts)

    def loss(twin: Decoder) -> Tensor:
        return F.cross_entropy(twin(batch.ids), batch.wanted, reduction="sum")

    lengths = batch.ids.lengths, batch.ids.lengths
    return Passages(
        lambda tap: model(batch.ids, tap), loss, batch.wanted.numel(), lambda _: lengths
    )


def _batch(texts: Sequence[Sequence[int]]) -> TextBatch:
    """Texts without their last tokens, and what follows each token."""
    wanted = torch.tensor([token for ids in texts for token in ids[1:]])
    return TextBatch(Ragged.of([ids[:-1] for ids in texts]), wanted, tuple(range(len(texts))))


def _parts(texts: Sequence[T]) -> list[Sequence[T]]:
    return [texts[first : first + AT_ONCE] for first in range(0, len(texts), AT_ONCE)]


def masks_for(model: Encoder, tokenizer: Foreign, texts: Sequence[Sequence[int]]) -> list[Passages]:
    """Texts, as ids, of which some tokens are hidden and to be said, as BERT learns it."""
    masking = Masking(symbols_of(tokenizer))
    found = []
    for some in _parts(texts):
        rows = [np.array(tokenizer.template(ids)) for ids in some]
        batch = masking.hide(rows, tuple(range(len(some))), 0)

        def loss(twin: Encoder, batch: MaskedBatch = batch) -> Tensor:
            head: Any = twin.need("masked")
            return F.cross_entropy(
                head(twin.hidden(Texts(batch.ids))[batch.places]), batch.wanted, reduction="sum"
            )

        found.append(_encoded(model, Texts(batch.ids), loss, batch.wanted.numel()))
    return found


def labels_for(model: Encoder, task: Supervised[Any], examples: Sequence[Any]) -> list[Passages]:
    """Examples with the classes, tags or answers that are to be said; some at a time."""
    config = model.config
    rows = task.rows(examples, config.classes or config.tags, config.max_length)
    return [
        _encoded(model, texts_of(batch), partial(_task_loss, task, batch), task.targets(batch))
        for batch in evaluation(rows, TOKENS_AT_ONCE)
    ]


def _task_loss(task: Supervised[Any], batch: RowBatch, twin: Encoder) -> Tensor:
    return task.loss(twin, batch)


def vectors_for(model: Encoder, task: Reader, texts: Sequence[Sequence[int]]) -> list[Passages]:
    """Texts, as ids, of an encoder without a head: its loss is how far their vectors move."""
    found = []
    for some in _parts(texts):
        read = Texts(Ragged.of([task.tokenizer.template(ids) for ids in some]))
        with evaluating(model):
            usual = vectors_of(model, read, pool="mean", normalise=True)

        def loss(twin: Encoder, read: Texts = read, usual: Tensor = usual) -> Tensor:
            moved = vectors_of(twin, read, pool="mean", normalise=True)
            return (1 - (moved * usual).sum(1)).sum()

        found.append(_encoded(model, read, loss, len(some)))
    return found


def _encoded(model: Encoder, texts: Texts, loss: Callable[[Any], Tensor], targets: int) -> Passages:
    lengths = texts.ids.lengths, texts.ids.lengths
    return Passages(lambda tap: model.hidden(texts, tap), loss, targets, lambda _: lengths)


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
    gazes: dict[str, _Gaze] = {}
    for site, weights in (record for some in passages for record in _recorded(model, some)):
        for number in range(weights.shape[0]):
            gazes.setdefault(f"{site}.{number}", _Gaze()).add(weights[number])
    loss = _loss(model, passages)
    found = []
    for done, head in enumerate(model.heads()):
        effect = _loss(without(model, [head]), passages) - loss
        found.append(gazes[head].summary(head, effect))
        if progress is not None:
            progress(done + 1, len(gazes))
    return found


class _Gaze:
    """Sums over the maps of one head, (query, key) each."""

    def __init__(self) -> None:
        self.rows, self.with_previous, self.first = 0, 0, 0.0
        self.by_offset: Counter[int] = Counter()
        self.entropies: list[float] = []

    def add(self, weights: Weights) -> None:
        """One more text."""
        queries, keys = weights.shape
        offsets = np.arange(keys)[None, :] - np.arange(queries)[:, None]  # key - query
        sums = np.bincount((offsets + queries - 1).ravel(), weights.ravel())
        for place, total in enumerate(sums.tolist()):
            self.by_offset[place + 1 - queries] += total
        self.rows += queries
        self.with_previous += queries - 1
        self.first += float(weights[:, 0].sum())
        self.entropies += row_entropy(weights).tolist()

    def summary(self, head: str, effect: float) -> HeadSummary:
        """The numbers of the head."""
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


def _recorded(model: Model, passages: Passages) -> Iterator[tuple[str, Weights]]:
    """The weights of each layer for each text: (heads, query, key), padding cut off."""
    tap = Tap("*.weights")
    with evaluating(model):
        passages.read(tap)
    for site, weights in tap.records.items():
        layer = site.removesuffix(".weights")
        for row, (rows, columns) in enumerate(zip(*passages.lengths(layer), strict=True)):
            yield layer, weights[row, :, :rows, :columns].double().numpy()


def _loss(model: Model, passages: Sequence[Passages]) -> float:
    """Mean loss of a target, perhaps of a model without a head."""
    with evaluating(model):
        total = sum(float(some.loss(model)) for some in passages)
    return total / sum(some.targets for some in passages)
