"""`EncoderTask`, the base class of the tasks of encoders: vectors, classes, attention.

Texts, pairs of texts or images come in, read once by the model's reader; they are batched by
length and read by the model; vectors or classes go out, in the order of the items.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.order import equal_length_batches
from regard.errors import InputError
from regard.inputs.arrays import Input
from regard.inputs.reader import Encoded
from regard.inputs.text import TaskSymbols
from regard.layers import Tap
from regard.models.mode import evaluating
from regard.models.model import Model
from regard.runtime.cores import parallel_map
from regard.tasks.base_task import BaseTask
from regard.tasks.trace import Trace, trace_single_stack
from regard.tasks.verbs import Closeness

TOKENS_AT_ONCE = 1024
"""Tokens in one batch of a core: few enough that their hidden layers stay in its cache."""
POOLS = ("mean", "cls")
MAX_SYMBOLS = 3
"""The maximal number of special tokens around a text or a pair of texts."""

ENCODER_SYMBOLS = TaskSymbols("<s> $A </s>", "<s> $A </s> $B:1 </s>:1", holes="mask")
"""The special tokens around a text, for vocabularies learned for an encoder; as in BERT."""


@dataclass(frozen=True)
class Labelled:
    """A class with its probability."""

    label: str
    probability: float


class EncoderTask(BaseTask, ABC):
    """Base class of the tasks of encoders: vectors and classes of items of any modality."""

    def lengths(self, model: Any, encoded: Sequence[Encoded]) -> list[int]:
        """The number of tokens of each item, by which items are batched."""
        del model
        return [len(item.values) for item in encoded]

    @staticmethod
    def max_text_tokens(model: Any) -> int:
        """The maximal number of tokens of a text, without the special tokens around it."""
        return int(model.config.max_length) - MAX_SYMBOLS

    def inputs(self, model: Any, encoded: Sequence[Encoded]) -> Iterator[tuple[list[int], Input]]:
        """Yields batches of items of similar length, each with the indices of its items."""
        for index in equal_length_batches(self.lengths(model, encoded), TOKENS_AT_ONCE):
            yield index, self.reader.collate([encoded[i] for i in index])

    def apply(
        self, model: Any, encoded: Sequence[Encoded], function: Callable[[Any], Tensor], width: int
    ) -> Tensor:
        """Applies a function to all items in batches: (items, width), in the order of the items.

        On the CPU each core computes batches of its own: 1.25 × as fast as if all cores shared each
        matrix product.

        Args:
            model: The encoder.
            encoded: Texts, pairs of texts, or images.
            function: Maps a batch of n items to a tensor (n, width).
            width: The number of columns of the result.
        """
        out, batches = torch.empty(len(encoded), width), list(self.inputs(model, encoded))
        with evaluating(model):
            map_batches = parallel_map if model.device.type == "cpu" else map
            rows = map_batches(lambda batch: function(batch[1].to(model.device)).cpu(), batches)
            for (index, _), values in zip(batches, rows, strict=True):
                out[index] = values
        return out

    def embed(
        self,
        model: Any,
        encoded: Sequence[Encoded],
        pool: str = "mean",
        normalise: bool = True,
        near: Any = None,
        **_: Any,
    ) -> Any:
        """A vector for each text or image, (items, dim); or the similarity of each to another.

        Args:
            model: The encoder.
            encoded: Texts, pairs of texts, or images.
            pool: `mean` averages the hidden states of an item, `cls` takes that of its first token.
            normalise: Whether to scale vectors to length 1, so that their dot product is the
                cosine.
            near: Another text or image; if given, the result is one `Closeness` per item, the dot
                product of its vector with that of `near`.
        """
        vectors_of_batch = partial(vectors_of, model, pool=pool, normalise=normalise)
        vectors = self.apply(model, encoded, vectors_of_batch, model.config.dim)
        if near is None:
            return vectors
        self.reader.check("embed", [near], lambda _: False)
        [vector] = self.apply(model, self.read(model, [near]), vectors_of_batch, model.config.dim)
        return list(map(Closeness, [item.item for item in encoded], (vectors @ vector).tolist()))

    def classify(
        self, model: Any, encoded: Sequence[Encoded], top: int | None = None
    ) -> list[list[Labelled]]:
        """The classes of each text or image, most probable first; at most `top` of them."""
        classes = model.config.head.classes
        rows = self.apply(model, encoded, lambda x: model.classify(x).softmax(1), len(classes))
        return [
            sorted(map(Labelled, classes, row), key=lambda label: -label.probability)[:top]
            for row in rows.tolist()
        ]

    def trace(self, model: Any, item: Any, tap: Tap, **_: Any) -> Trace:
        """Encodes one item and returns what the tap records in the forward pass."""
        return trace_single_stack(model, self.tokenizer, item, tap, "encoder")


def vectors_of(model: Model, source: Input, *, pool: str, normalise: bool) -> Tensor:
    """One vector for each item: (items, dim). See `EncoderTask.embed` for the options."""
    if pool not in POOLS:
        raise InputError("pool", got=pool, expected=" or ".join(POOLS))
    hidden = model.hidden(source)  # (tokens, dim)
    layout = model.embeds()[0].layout(source)
    if pool == "cls":
        vectors = hidden[layout.first_tokens]
    else:
        lengths = torch.tensor(layout.lengths, device=hidden.device)
        vectors = torch.segment_reduce(hidden, "mean", lengths=lengths)
    return F.normalize(vectors, dim=1) if normalise else vectors
