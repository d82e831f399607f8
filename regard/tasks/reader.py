"""Predictions of an encoder: words for masks, vectors, classes.

Texts or pairs of texts come in, are encoded, batched by similar length and read by the model; words
with probabilities, vectors or classes go out, in the order of the texts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.input import Input, Ragged
from regard.data.order import equal_length_batches
from regard.errors import InputError
from regard.layers import Tap
from regard.models.encoder import Encoder
from regard.models.mode import evaluating
from regard.models.model import Model
from regard.runtime.cores import parallel_map
from regard.tasks.task import BaseTask, check_texts, warn_truncated
from regard.tasks.trace import Trace, trace_single_stack
from regard.tasks.verbs import Closeness
from regard.tokens import TaskSymbols

TOKENS_AT_ONCE = 1024
"""Tokens in one batch of a core: few enough that their hidden layers stay in its cache."""
MASKS = ("[MASK]", "<mask>", "___")
"""The ways to write a mask in a text, independent of the model's own mask symbol."""
POOLS = ("mean", "cls")
AROUND = 3
"""The maximal number of special tokens around a text or a pair of texts."""

READING = TaskSymbols("<s> $A </s>", "<s> $A </s> $B:1 </s>:1", holes="mask")
"""The special tokens around a text, for vocabularies learned for an encoder; as in BERT."""

Text = str | tuple[str, str]
"""One text, or a pair of texts that are read together."""


@dataclass(frozen=True)
class Filling:
    """A predicted word for one mask."""

    word: str
    probability: float


@dataclass(frozen=True)
class Labelled:
    """A class with its probability."""

    label: str
    probability: float


class EncoderTask(BaseTask, ABC):
    """Base class of the tasks of encoders: vectors and classes of texts or images."""

    @abstractmethod
    def inputs(self, model: Any, items: Sequence[Any]) -> Iterable[tuple[list[int], Input]]:
        """The items as batches of the model's input, each with the indices of its items."""

    def apply(
        self, model: Any, items: Sequence[Any], function: Callable[[Any], Tensor], width: int
    ) -> Tensor:
        """Applies a function to all items in batches: (items, width), in the order of the items.

        On the CPU each core computes batches of its own: 1.25 × as fast as if all cores shared each
        matrix product.

        Args:
            model: The encoder.
            items: Texts, pairs of texts, or images.
            function: Maps a batch of n items to a tensor (n, width).
            width: The number of columns of the result.
        """
        out = torch.empty(len(items), width)
        with evaluating(model):
            batches = list(self.inputs(model, items))
            each = parallel_map if model.device.type == "cpu" else map
            found = each(lambda batch: function(batch[1].to(model.device)).cpu(), batches)
            for (index, _), values in zip(batches, found, strict=True):
                out[index] = values
        return out

    def embed(
        self,
        model: Any,
        items: Sequence[Any],
        pool: str = "mean",
        normalise: bool = True,
        near: Any = None,
        **_: Any,
    ) -> Any:
        """A vector for each text or image, (items, dim); or the similarity of each to another.

        Args:
            model: The encoder.
            items: Texts, pairs of texts, or images.
            pool: `mean` averages the hidden states of an item, `cls` takes that of its first token.
            normalise: Whether to scale vectors to length 1, so that their dot product is the
                cosine.
            near: Another text or image; if given, the result is one `Closeness` per item, the dot
                product of its vector with that of `near`.
        """
        vectors = partial(vectors_of, model, pool=pool, normalise=normalise)
        found = self.apply(model, items, vectors, model.config.dim)
        if near is None:
            return found
        check_texts("embed", [near])
        [other] = self.apply(model, [near], vectors, model.config.dim)
        return list(map(Closeness, items, (found @ other).tolist()))

    def classify(
        self, model: Any, items: Sequence[Any], top: int | None = None
    ) -> list[list[Labelled]]:
        """The classes of each text or image, most probable first; at most `top` of them."""
        model.require_head("classes")
        classes = model.config.classes
        shares = self.apply(model, items, lambda x: model.classify(x).softmax(1), len(classes))
        return [
            sorted(map(Labelled, classes, row), key=lambda found: -found.probability)[:top]
            for row in shares.tolist()
        ]


class Reader(EncoderTask):
    """Base class of the tasks of encoders of text: encodes texts and computes predictions.

    Args:
        vocabulary: The tokenizers of the model.
    """

    def inputs(self, model: Encoder, items: Sequence[Text]) -> Iterator[tuple[list[int], Ragged]]:
        """The texts in batches of similar length; warns about texts that are truncated."""
        return self.parts(self._encode(items, model.config.max_length))

    @staticmethod
    def max_text_tokens(model: Encoder) -> int:
        """The maximal number of tokens of a text, leaving room for the special tokens around it."""
        return model.config.max_length - AROUND

    def read(
        self, texts: Sequence[Text], longest: int, *, symbols: bool = False
    ) -> list[EncodedText]:
        """Encodes each text with the special tokens around it, truncated to `longest` tokens.

        Args:
            texts: Texts or pairs of texts.
            longest: The maximal number of tokens that the model can read, special tokens included.
            symbols: Whether to read special tokens written in a text, such as `[MASK]`, as such.
        """
        tokenizer = self.tokenizer
        pairs = [(text, None) if isinstance(text, str) else text for text in texts]
        flat = [side for pair in pairs for side in pair if side is not None]
        with_symbols = tokenizer.encode_with_specials
        encoded = iter([*map(with_symbols, flat)] if symbols else tokenizer.encode_batch(flat))
        found = []
        for _, second in pairs:
            ids, pair = next(encoded), None if second is None else next(encoded)
            limit = longest - len(tokenizer.template([], None if pair is None else []))
            whole = len(ids) + len(pair or ())
            ids, pair = _shortened(ids, pair, limit)
            types = tokenizer.token_types(ids, pair)
            left_out = whole - len(ids) - len(pair or ())
            found.append(EncodedText(tokenizer.template(ids, pair), types, left_out))
        return found

    def _encode(
        self, texts: Sequence[Text], longest: int, *, symbols: bool = False
    ) -> list[EncodedText]:
        """Encodes texts as `read` does, and warns about those that were truncated."""
        read = self.read(texts, longest, symbols=symbols)
        cut = [len(each.ids) for each in read if each.left_out]
        warn_truncated(texts, [each.left_out for each in read], max(cut, default=longest))
        return read

    def parts(self, read: Sequence[EncodedText]) -> Iterator[tuple[list[int], Ragged]]:
        """Yields batches of texts of similar length, each with the indices of its texts."""
        for index in equal_length_batches([len(each.ids) for each in read], TOKENS_AT_ONCE):
            types = [kind for i in index for kind in read[i].types]
            ids = Ragged.of([read[i].ids for i in index])
            yield index, ids.typed(torch.tensor(types) if any(types) else None)

    def fill(self, model: Encoder, texts: Sequence[str], top: int = 5) -> list[list[list[Filling]]]:
        """The `top` most probable words for each mask of each text: (texts, masks, top)."""
        mask = self.tokenizer.specials.mask
        if mask is None:
            raise InputError(
                "fill", got="a vocabulary without a mask token", expected="one with it"
            )
        [symbol] = self.tokenizer.tokens([mask])
        for written in MASKS:
            texts = [text.replace(written, symbol) for text in texts]
        read = self._encode(texts, model.config.max_length, symbols=True)
        if not all(mask in each.ids for each in read):
            raise InputError("fill", got="no mask in the text", expected=f"{MASKS[0]} for a word")
        found: list[list[list[Filling]]] = [[] for _ in read]
        with evaluating(model):
            for index, made in self.parts(read):
                part = made.to(model.device)
                places = (part.ids == mask).nonzero()[:, 0]
                logits = model.require_head("masked")(model.hidden(part)[places])  # (masks, vocab)
                fillings = iter(self._likeliest(logits.softmax(dim=1), top))
                for i in index:
                    found[i] = [next(fillings) for _ in range(read[i].ids.count(mask))]
        return found

    def _likeliest(self, probabilities: Tensor, count: int) -> list[list[Filling]]:
        """The `count` most probable words of each row of probabilities (rows, vocab)."""

        def word(token: int) -> str:
            return self.tokenizer.decode([token]).strip() or self.tokenizer.tokens([token])[0]

        best, tokens = probabilities.topk(min(count, probabilities.shape[1]))
        return [
            [
                Filling(word(token), probability)
                for token, probability in zip(row, values, strict=True)
            ]
            for row, values in zip(tokens.tolist(), best.tolist(), strict=True)
        ]

    def trace(self, model: Encoder, text: str, tap: Tap, **_: Any) -> Trace:
        """Encodes one text and returns what the tap records in the forward pass."""

        def read(ids: list[int], types: list[int]) -> Ragged:
            return Ragged.of([ids]).typed(torch.tensor(types))

        return trace_single_stack(model, self.tokenizer, text, tap, "encoder", read)


def vectors_of(model: Model, source: Input, *, pool: str, normalise: bool) -> Tensor:
    """One vector for each text or image: (examples, dim). See `Reader.embed` for the options."""
    if pool not in POOLS:
        raise InputError("pool", got=pool, expected=" or ".join(POOLS))
    hidden = model.hidden(source)  # (tokens, dim)
    layout = model.embeds()[0].layout(source)
    if pool == "cls":
        vectors = hidden[layout.firsts]
    else:
        lengths = torch.tensor(layout.lengths, device=hidden.device)
        vectors = torch.segment_reduce(hidden, "mean", lengths=lengths)
    return F.normalize(vectors, dim=1) if normalise else vectors


@dataclass(frozen=True)
class EncodedText:
    """An encoded text: token ids and token types, special tokens included."""

    ids: list[int]
    types: list[int]
    left_out: int = 0
    """How many tokens of the text were cut off because the model cannot read them."""


def _shortened(
    ids: list[int], pair: list[int] | None, limit: int
) -> tuple[list[int], list[int] | None]:
    """Truncates a text or a pair to `limit` tokens in all; the longer text is shortened first."""
    if pair is None:
        return ids[:limit], None
    while len(ids) + len(pair) > limit:
        if len(ids) >= len(pair):
            ids = ids[:-1]
        else:
            pair = pair[:-1]
    return ids, pair
