"""The attention weights recorded while a model reads one text or image, with the words they are of.

A task's `trace` runs the model with a `Tap` and returns a `Trace`; `regard/explain/look.py` draws
it. The words label the rows (queries) and columns (keys) of the weights.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from regard.data.input import Input, Ragged
from regard.decode.config import DecodeConfig
from regard.errors import InputError
from regard.layers import Tap
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.mode import evaluating
from regard.tasks.writer import WritesText
from regard.tokens import Tokenizer

Words = tuple[Sequence[str], Sequence[int]]
"""The words of a text, and for each token the index of its word."""
AsInput = Callable[[list[int], list[int]], Input]
"""Converts token ids and token types to the input of a model."""


@dataclass(frozen=True, eq=False)
class Picture:
    """An image as the model reads it, and the grid of patches that are its tokens."""

    pixels: NDArray[np.float32]
    """(channels, height, width) Values from 0 to 1."""
    grid: tuple[int, int]
    """The number of rows and columns of patches."""
    first: int
    """The number of tokens before the patches."""
    pool: Literal["first", "mean"] = "first"
    """Whether the class is computed from the first token, or from the mean of the patches."""
    original: Callable[[], NDArray[np.uint8]] | None = None
    """Opens the image as it was before it was cropped and scaled: (height, width), or (height,
    width, channels)."""

    @property
    def names(self) -> list[str]:
        """The names of the tokens: [CLS], then `row,column` of each patch, counted from 0.

        A second token before the patches is DeiT's, [DIST]; further ones are registers.
        """
        rows, columns = self.grid
        patches = [f"{row},{column}" for row in range(rows) for column in range(columns)]
        registers = [f"[REG{number}]" for number in range(1, self.first)]
        before = ["[CLS]", "[DIST]"] if self.first == 2 else ["[CLS]", *registers]
        return before[: self.first] + patches

    @property
    def patches(self) -> int:
        """The number of patches."""
        return self.grid[0] * self.grid[1]

    @property
    def class_row(self) -> int | None:
        """The token whose attention shows what the class is computed from.

        That is the first token; None if it is the mean of the patches.
        """
        return 0 if self.pool == "first" and self.first else None


@dataclass(frozen=True, eq=False)
class Classified:
    """An image as a classifier reads it, and the classifier for changed versions of the image."""

    values: Tensor
    """(channels, height, width) Normalised pixels, as the model reads them."""
    classes: tuple[str, ...]
    shares: Callable[[Tensor], Tensor]
    """Normalised images (images, channels, height, width) -> probabilities (images, classes)."""


@dataclass(frozen=True, eq=False)
class Trace:
    """What was recorded while a model read one text or image."""

    weights: Mapping[str, Tensor]
    """Attention weights by site: (heads, query, key)."""
    words: Mapping[str, tuple[Words, Words]]
    """The words of queries and keys, by the kind of attention, such as `decoder.cross`."""
    written: str | None = None
    """The output text or class, decoded or given; None if the model has no output."""
    note: str = ""
    """A remark for the reader, such as that the output was given."""
    picture: Picture | None = None
    """The image, if an image was read."""
    classified: Classified | None = None
    """The image and its classifier, if an image was classified."""
    pieces: Mapping[str, tuple[Sequence[str], Sequence[str]]] = field(default_factory=dict)
    """The input tokens of queries and keys, by the kind of attention. In `words` the query of a
    translating decoder is the word that it writes; here it is the token that it reads."""


class SequenceToSequence(WritesText, ABC):
    """Base class of the tasks whose models read a source and write a target."""

    @abstractmethod
    def source_ids(self, text: str, longest: int, *, allow_unknown: bool = True) -> list[int]:
        """Encodes a source; raises an error if the model cannot read it."""

    @abstractmethod
    def target_ids(self, text: str, longest: int) -> list[int]:
        """Encodes a given target; raises an error if the model cannot write it."""

    @abstractmethod
    def predict(
        self, model: Any, texts: Sequence[str], config: DecodeConfig, *, tap: Tap | None = None
    ) -> Any:
        """The best targets of each source, best first."""

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
        """Reads a source, decodes or forces its target, and returns the recorded attention.

        Args:
            model: The encoder-decoder.
            text: The source.
            tap: Records the attention weights.
            decode: The decoding settings, if no target is given; the recorded weights are then
                those of the best hypothesis.
            target: A target to force instead of decoding one.
            allow_unknown: Whether the source may contain unknown words.
        """
        longest, both, note = model.config.max_length, self.vocabulary, ""
        source = self.source_ids(text, longest, allow_unknown=allow_unknown)
        if target is None:
            [[best, *_]] = self.predict(model, [text], decode, tap=tap)
            ids, finished = list(best.hypothesis.ids), best.hypothesis.finished
            weights = first_records(tap) | tap.follow(best.hypothesis.rows)
            if not finished:
                note = "the output did not end by itself: it was cut at the maximal length"
        else:
            ids, finished = self.target_ids(target, longest), True
            with evaluating(model):
                sides = Ragged.of([source]), Ragged.of([[both.target.begin, *ids]])
                model(*(side.to(model.device) for side in sides), tap)
            weights, note = first_records(tap), "the output was given"
        # An output cut at its maximal length has no step that writes the end symbol, so its
        # last token is never read.
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


def trace_single_stack(
    model: Any, tokenizer: Tokenizer, text: str, tap: Tap, stack: str, read: AsInput
) -> Trace:
    """Reads one text with a model of a single stack, and returns the recorded attention.

    Args:
        model: The encoder or decoder.
        tokenizer: The model's tokenizer.
        text: The text.
        tap: Records the attention weights.
        stack: The name of the stack: `encoder` or `decoder`.
        read: Converts token ids and token types to the input of the model.

    Raises:
        InputError: The text has no tokens or more than the model can read.
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
    return Trace(first_records(tap), {kind: (words, words)}, pieces={kind: (pieces, pieces)})


def first_records(tap: Tap) -> dict[str, Tensor]:
    """The records of the first example of a batch, which is the only one, by site."""
    return {site: value[0] for site, value in tap.records.items()}
