"""What heads are looked at on: texts that a model reads, and what it loses by them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch.nn.functional as F
from torch import Tensor

from regard.data.batch import Batch
from regard.data.input import Input, Ragged
from regard.layers import Tap
from regard.models.encoder import BaseEncoder
from regard.models.encoder_decoder import EncoderDecoder

T = TypeVar("T")
AT_ONCE = 16
"""Texts that are read together: logits of all of them are held."""


@dataclass(frozen=True, eq=False)
class Passages:
    """Some texts, read together."""

    read: Callable[[Tap], object]
    """Reads them with a tap."""
    loss: Callable[[Any], Tensor]
    """Of a model, perhaps of one without a head: a sum over targets."""
    targets: int
    lengths: Callable[[str], tuple[Sequence[int], Sequence[int]]]
    """Of a layer, how many queries and keys each text has there."""


def of_pairs(model: EncoderDecoder, batch: Batch[Ragged]) -> Passages:
    """Sources with what is to be written."""
    (source, target), wanted = batch.sides, batch.wanted.ids

    def lengths(layer: str) -> tuple[Sequence[int], Sequence[int]]:
        queries = source if layer.startswith("encoder") else target
        keys = target if layer.startswith("decoder") and layer.endswith("self") else source
        return queries.lengths, keys.lengths

    def loss(twin: EncoderDecoder) -> Tensor:
        return F.cross_entropy(twin(source, target), wanted, reduction="sum")

    return Passages(lambda tap: model(source, target, tap), loss, wanted.numel(), lengths)


def of_texts(
    model: BaseEncoder, texts: Input, loss: Callable[[Any], Tensor], targets: int
) -> Passages:
    """Texts or images that an encoder reads, with what their loss is."""
    lengths = model.embed.layout(texts).lengths
    both = lengths, lengths
    return Passages(lambda tap: model.hidden(texts, tap), loss, targets, lambda _: both)


def batch_of_ids(texts: Sequence[Sequence[int]]) -> Batch[Ragged]:
    """Texts without their last tokens, and what follows each token."""
    wanted = Ragged.of([ids[1:] for ids in texts])
    return Batch(Ragged.of([ids[:-1] for ids in texts]), wanted, tuple(range(len(texts))))


def some_at_a_time(texts: Sequence[T]) -> list[Sequence[T]]:
    """Texts in parts of `AT_ONCE`."""
    return [texts[first : first + AT_ONCE] for first in range(0, len(texts), AT_ONCE)]
