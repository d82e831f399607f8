"""What is recorded while a model reads one text: the weights of every attention, and its words.

A tap records the weights beside the fast path; the words say what each row and column is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from regard.data.input import Input, Ragged
from regard.decode.config import DecodeConfig
from regard.errors import InputError
from regard.layers import Tap
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.mode import evaluating
from regard.tasks.task import BaseTask
from regard.tokens import Tokenizer

Words = tuple[Sequence[str], Sequence[int]]
"""The words of a text, and which of them each token is of."""
AsInput = Callable[[list[int], list[int]], Input]
"""Ids and their types as a model takes them."""


@dataclass(frozen=True, eq=False)
class Picture:
    """An image as a model reads it, and the patches that its tokens are."""

    pixels: NDArray[np.float32]
    """(channels, height, width) From 0 to 1."""
    grid: tuple[int, int]
    """Rows and columns of patches."""
    first: int
    """Tokens before the patches."""

    @property
    def names(self) -> list[str]:
        """Of the tokens: [CLS], then `row,column` of each patch, from 0."""
        rows, columns = self.grid
        patches = [f"{row},{column}" for row in range(rows) for column in range(columns)]
        return ["[CLS]"] * self.first + patches


@dataclass(frozen=True, eq=False)
class Trace:
    """One text or image, read by a model."""

    weights: Mapping[str, Tensor]
    """By site: (heads, query, key)."""
    words: Mapping[str, tuple[Words, Words]]
    """What queries and keys are, by the kind of attention, such as `decoder.cross`."""
    written: str | None = None
    """What came out or was given; None if nothing is written."""
    note: str = ""
    """What to know of it."""
    picture: Picture | None = None
    """What was read, if it was an image."""
    pieces: Mapping[str, tuple[Sequence[str], Sequence[str]]] = field(default_factory=dict)
    """The tokens that queries and keys were made of, by the kind of attention. In `words` a query
    of a decoder that translates is the word it writes; here it is the token it reads."""


class ReadsAndWrites(BaseTask, ABC):
    """A task whose models read a source and write a target."""

    @abstractmethod
    def source_ids(self, text: str, longest: int, *, allow_unknown: bool = True) -> list[int]:
        """The ids of a source, refused if the model cannot read them."""

    @abstractmethod
    def target_ids(self, text: str, longest: int) -> list[int]:
        """The ids of a given target, refused in the same way."""

    @abstractmethod
    def written(self, ids: Sequence[int]) -> str:
        """The text of a target's ids."""

    @abstractmethod
    def predict(
        self, model: Any, texts: Sequence[str], config: DecodeConfig, *, tap: Tap | None = None
    ) -> Any:
        """The best targets of each source."""

    def trace(
        self,
        model: EncoderDecoder,
        text: str,
        tap: Tap,
        *,
        decode: DecodeConfig,
        target: str | None = None,
        allow_unknown: bool = True,
    ) -> Trace:
        """A source that is read, and what is written of it.

        Args:
            model: What reads and writes.
            text: The source.
            tap: What records.
            decode: How to search, if no target is given; the weights are those of the winner.
            target: What to follow instead (forced decoding).
            allow_unknown: Whether the source may have unknown words.
        """
        longest, both, note = model.config.max_length, self.vocabulary, ""
        source = self.source_ids(text, longest, allow_unknown=allow_unknown)
        if target is None:
            [[best, *_]] = self.predict(model, [text], decode, tap=tap)
            ids, finished = list(best.hypothesis.ids), best.hypothesis.finished
            weights = firsts(tap) | tap.follow(best.hypothesis.rows)
            if not finished:
                note = "the translation did not end by itself: it was cut at its longest"
        else:
            ids, finished = self.target_ids(target, longest), True
            with evaluating(model):
                sides = Ragged.of([source]), Ragged.of([[both.target.begin, *ids]])
                model(*(side.to(model.device) for side in sides), tap)
            weights, note = firsts(tap), "the translation was given"
        # A translation cut short has no step that writes its end, and never reads its last token.
        out = [*ids, both.target.end] if finished else ids
        back = [both.target.begin, *ids][: len(out)]
        shown, queries = both.source.words(source), both.target.words(out)
        words = {
            "encoder.self": (shown, shown),
            "decoder.self": (queries, both.target.words(back)),
            "decoder.cross": (queries, shown),
        }
        read, given = both.source.tokens(source), both.target.tokens(back)
        pieces = {
            "encoder.self": (read, read),
            "decoder.self": (given, given),
            "decoder.cross": (given, read),
        }
        return Trace(weights, words, self.written(ids), note, pieces=pieces)


def read_alone(
    model: Any, tokenizer: Tokenizer, text: str, tap: Tap, stack: str, read: AsInput
) -> Trace:
    """A text that a model of one stack reads.

    Args:
        model: What reads it.
        tokenizer: How text becomes ids and back.
        text: The text.
        tap: What records.
        stack: The name of the stack.
        read: Ids and their types as the model takes them.
    """
    plain = tokenizer.encode(text)
    ids, most = tokenizer.template(plain), model.config.max_length
    if not 0 < len(ids) <= most:
        got = f"{len(ids)} tokens"
        raise InputError("the text to look at", got=got, expected=f"1 to {most}")
    with evaluating(model):
        model.hidden(read(ids, tokenizer.token_types(plain)).to(model.device), tap)
    words, pieces = tokenizer.words(ids), tokenizer.tokens(ids)
    kind = f"{stack}.self"
    return Trace(firsts(tap), {kind: (words, words)}, pieces={kind: (pieces, pieces)})


def firsts(tap: Tap) -> dict[str, Tensor]:
    """What was recorded of the first text of a batch, which is the only one."""
    return {site: value[0] for site, value in tap.records.items()}
