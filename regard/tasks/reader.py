"""What an encoder can be asked: masked words, vectors, classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.input import Input, Ragged
from regard.data.order import alike
from regard.errors import InputError
from regard.layers import Tap
from regard.models.encoder import Encoder
from regard.models.mode import evaluating
from regard.models.model import Model
from regard.runtime.cores import spread
from regard.tasks.task import BaseTask, check_texts, warn_cut
from regard.tasks.trace import Trace, read_alone
from regard.tasks.verbs import Closeness
from regard.tokens import Around

TOKENS_AT_ONCE = 1024
"""Tokens that a core reads together: their hidden layers stay in its cache."""
MASKS = ("[MASK]", "<mask>", "___")
"""What a person may write for a word to be filled, whatever the model's own symbol is."""
POOLS = ("mean", "cls")
AROUND = 3
"""Symbols that stand around a text, at most."""

READING = Around("<s> $A </s>", "<s> $A </s> $B:1 </s>:1", holes="mask")
"""What stands around a text in a vocabulary that is learned for an encoder, as BERT's."""

Text = str | tuple[str, str]
"""One text, or two of which the second is about the first."""


@dataclass(frozen=True)
class Filling:
    """One word for one mask."""

    word: str
    probability: float


@dataclass(frozen=True)
class Labelled:
    """A class and how likely it is."""

    label: str
    probability: float


class Reader(BaseTask):
    """How texts become what an encoder reads, and what it gives becomes an answer.

    Args:
        vocabulary: Text <-> ids.
    """

    @staticmethod
    def room_in(model: Encoder) -> int:
        """The most tokens of a text, with what stands around it."""
        return model.config.max_length - AROUND

    def read(self, texts: Sequence[Text], longest: int, *, symbols: bool = False) -> list[Read]:
        """Each text as ids with what the model wants around them, cut where it is too long.

        Args:
            texts: Ragged, or pairs of them.
            longest: The most tokens the model can read.
            symbols: Whether symbols such as `[MASK]` in a text are meant.
        """
        tokenizer = self.tokenizer
        encode = tokenizer.encode_with_specials if symbols else tokenizer.encode
        found = []
        for text in texts:
            first, second = (text, None) if isinstance(text, str) else text
            ids, pair = encode(first), None if second is None else encode(second)
            room = longest - len(tokenizer.template([], None if pair is None else []))
            whole = len(ids) + len(pair or ())
            ids, pair = _shortened(ids, pair, room)
            types = tokenizer.token_types(ids, pair)
            left_out = whole - len(ids) - len(pair or ())
            found.append(Read(tokenizer.template(ids, pair), types, left_out))
        return found

    def _asked(self, texts: Sequence[Text], longest: int, *, symbols: bool = False) -> list[Read]:
        """The same for texts that somebody asks about, who is told what is not read of them."""
        read = self.read(texts, longest, symbols=symbols)
        cut = [len(each.ids) for each in read if each.left_out]
        warn_cut(texts, [each.left_out for each in read], max(cut, default=longest))
        return read

    def parts(self, read: Sequence[Read]) -> Iterator[tuple[list[int], Ragged]]:
        """Texts of like length together, each with its place among all of them."""
        for index in alike([len(each.ids) for each in read], TOKENS_AT_ONCE):
            types = [kind for i in index for kind in read[i].types]
            ids = Ragged.of([read[i].ids for i in index])
            yield index, ids.typed(torch.tensor(types) if any(types) else None)

    def embed(
        self,
        model: Encoder,
        texts: Sequence[Text],
        pool: str = "mean",
        normalise: bool = True,
        near: str | None = None,
        **_: Any,
    ) -> Any:
        """A vector for each text, (texts, dim); or how near each is to another.

        Args:
            model: The encoder.
            texts: Texts.
            pool: `mean` of all its tokens, or `cls`: its first.
            normalise: Whether vectors have length 1, so that their product is their cosine.
            near: The other text.
        """
        vectors = partial(vectors_of, model, pool=pool, normalise=normalise)
        found = self._each(model, texts, vectors, model.config.dim)
        if near is None:
            return found
        check_texts("embed", near)
        [other] = self._each(model, [near], vectors, model.config.dim)
        closeness = (found @ other).tolist()
        return [Closeness(text, each) for text, each in zip(texts, closeness, strict=True)]

    def _each(
        self,
        model: Encoder,
        texts: Sequence[Text],
        answer: Callable[[Ragged], Tensor],
        width: int,
    ) -> Tensor:
        """What `answer` makes of all texts, in their order: (texts, width).

        On the CPU each core takes texts of its own: 1.25 × as fast as if all shared each product.
        """
        out = torch.empty(len(texts), width)
        with evaluating(model):
            parts = list(self.parts(self._asked(texts, model.config.max_length)))
            each = spread if model.device.type == "cpu" else map
            answers = each(lambda part: answer(part[1].to(model.device)).cpu(), parts)
            for (index, _), values in zip(parts, answers, strict=True):
                out[index] = values
        return out

    def fill(self, model: Encoder, texts: Sequence[str], top: int = 5) -> list[list[list[Filling]]]:
        """For each mask of each text, the likeliest words."""
        mask = self.tokenizer.specials.mask
        if mask is None:
            raise InputError("fill", got="a vocabulary without a mask", expected="one with it")
        [symbol] = self.tokenizer.tokens([mask])
        for written in MASKS:
            texts = [text.replace(written, symbol) for text in texts]
        read = self._asked(texts, model.config.max_length, symbols=True)
        if not all(mask in each.ids for each in read):
            raise InputError("fill", got="no mask in the text", expected=f"{MASKS[0]} for a word")
        found: list[list[list[Filling]]] = [[] for _ in read]
        with evaluating(model):
            for index, made in self.parts(read):
                part = made.to(model.device)
                places = (part.ids == mask).nonzero()[:, 0]
                logits = model.need("masked")(model.hidden(part)[places])  # (masks, vocab)
                fillings = iter(self._likeliest(logits.softmax(dim=1), top))
                for i in index:
                    found[i] = [next(fillings) for _ in range(read[i].ids.count(mask))]
        return found

    def _likeliest(self, probabilities: Tensor, count: int) -> list[list[Filling]]:
        """The best of each row, (rows, vocab)."""
        best, tokens = probabilities.topk(min(count, probabilities.shape[1]))
        return [
            [
                Filling(self.tokenizer.decode([token]).strip(), probability)
                for token, probability in zip(row, values, strict=True)
            ]
            for row, values in zip(tokens.tolist(), best.tolist(), strict=True)
        ]

    def trace(self, model: Encoder, text: str, tap: Tap, **_: Any) -> Trace:
        """What a tap records of a text that is read; nothing is searched for."""

        def read(ids: list[int], types: list[int]) -> Ragged:
            return Ragged.of([ids]).typed(torch.tensor(types))

        return read_alone(model, self.tokenizer, text, tap, "encoder", read)

    def classify(
        self, model: Encoder, texts: Sequence[Text], top: int | None = None
    ) -> list[list[Labelled]]:
        """The classes of each text, likeliest first; at most `top` of them."""
        model.need("classes")
        classes = len(model.config.classes)
        out = self._each(model, texts, lambda part: model.classify(part).softmax(dim=1), classes)
        return likeliest(model.config.classes, out, top)


def likeliest(classes: Sequence[str], shares: Tensor, top: int | None) -> list[list[Labelled]]:
    """The classes of each row of probabilities (rows, classes), likeliest first."""
    return [
        sorted(map(Labelled, classes, row), key=lambda found: -found.probability)[:top]
        for row in shares.tolist()
    ]


def vectors_of(model: Model, source: Input, *, pool: str, normalise: bool) -> Tensor:
    """A vector for each text or image: (examples, dim). See `Reader.embed`."""
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
class Read:
    """A text as a model reads it."""

    ids: list[int]
    types: list[int]
    left_out: int = 0
    """The tokens of the text that are more than the model reads."""


def _shortened(
    ids: list[int], pair: list[int] | None, room: int
) -> tuple[list[int], list[int] | None]:
    """Both within the room, the longer one cut first."""
    if pair is None:
        return ids[:room], None
    while len(ids) + len(pair) > room:
        if len(ids) >= len(pair):
            ids = ids[:-1]
        else:
            pair = pair[:-1]
    return ids, pair
