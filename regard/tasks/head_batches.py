"""Batches of texts on which attention heads are measured, with the loss of a model on them.

A task's `head_batches` makes them; `regard/explain/heads.py` records the attention on them, and
compares the loss with and without each head.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import torch.nn.functional as F
from torch import Tensor

from regard.data.batch import Batch
from regard.inputs.arrays import Input, Ragged
from regard.layers import Layout, Tap

T = TypeVar("T")
TEXTS_AT_ONCE = 16
"""Texts per batch; few, because the logits of all of them are held in memory."""


@dataclass(frozen=True, eq=False)
class HeadBatch:
    """One batch of texts, with functions to read it and to compute its loss."""

    read: Callable[[Tap], object]
    """Runs the model on the texts with a tap."""
    loss: Callable[[Any], Tensor]
    """The loss of a given model, such as a copy without a head, summed over the targets."""
    targets: int
    lengths: Callable[[str], tuple[Sequence[int], Sequence[int]]]
    """For the name of a layer, the numbers of queries and of keys of each text in that layer; of
    images, a layer's own layout counts."""
    grid: tuple[int, int] | None = None
    """Rows and columns of the output's patches, if these are images."""
    first: int = 0
    """The number of tokens before the patches."""
    height: int = 0
    """The height of the images, in pixels."""
    spread: Callable[[Layout, str, Tensor], Tensor] = lambda *args: args[-1]
    """For the layout and name of a layer, its recorded weights with a column for each token of an
    image."""


def of_tokens(model: Any, batch: Batch[Ragged]) -> HeadBatch:
    """Wraps texts, or sources with their targets; the loss is that of the target tokens."""
    inputs, targets = inputs_of(batch), batch.targets.ids
    source, target = inputs[0], inputs[-1]  # the same for a model of a single stack

    def lengths(layer: str) -> tuple[Sequence[int], Sequence[int]]:
        queries = source if layer.startswith("encoder") else target
        keys = target if layer.startswith("decoder") and layer.endswith("self") else source
        return queries.lengths, keys.lengths

    def loss(twin: Any) -> Tensor:
        return F.cross_entropy(twin(*inputs), targets, reduction="sum")

    return HeadBatch(lambda tap: model(*inputs, tap), loss, targets.numel(), lengths)


def inputs_of(batch: Batch[Ragged]) -> tuple[Ragged, ...]:
    """What a model that writes reads: source and target, or without an encoder the texts alone."""
    return (batch.source,) if batch.decoder_input is None else batch.sides


def of_texts(model: Any, texts: Input, loss: Callable[[Any], Tensor], targets: int) -> HeadBatch:
    """Wraps texts or images for a model of a single stack, with a loss and its target count."""
    layout = model.embeds()[0].layout(texts)
    pair = layout.lengths, layout.lengths  # of queries and of keys
    read = partial(model.hidden, texts)
    if layout.grid is None:
        return HeadBatch(read, loss, targets, lambda _: pair)
    images: Any = texts  # only images have a grid
    height, spread = images.values.shape[-2], partial(over_all_tokens, model)
    return HeadBatch(
        read, loss, targets, lambda _: pair, layout.grid, layout.prefix, height, spread
    )


def over_all_tokens(model: Any, layout: Layout, layer: str, weights: Tensor) -> Tensor:
    """Recorded weights with a column for each token of an image, also if a layer has windows.

    Args:
        model: The model.
        layout: The layout of the layer's tokens.
        layer: The layer's name, or that of one of its sites.
        weights: The weights of its queries, with a column for each key.
    """
    windows = model.encoder.windows(layout, int(layer.split(".")[1]))
    return weights if windows is None else windows.spread(weights)


def batch_of_ids(texts: Sequence[Sequence[int]]) -> Batch[Ragged]:
    """A batch for next-token prediction: texts without their last token, and the next tokens."""
    next_tokens = Ragged.of([ids[1:] for ids in texts])
    return Batch(Ragged.of([ids[:-1] for ids in texts]), next_tokens, tuple(range(len(texts))))


def in_batches(texts: Sequence[T]) -> list[Sequence[T]]:
    """Splits texts into parts of at most `TEXTS_AT_ONCE`."""
    return [texts[first : first + TEXTS_AT_ONCE] for first in range(0, len(texts), TEXTS_AT_ONCE)]
