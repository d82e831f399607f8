"""The attention weights recorded while a model reads one text or image, with the words they are of.

A task's `trace` runs the model with a `Tap` and returns a `Trace`; `regard/explain/look.py` draws
it. The words label the rows (queries) and columns (keys) of the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from regard.errors import InputError
from regard.inputs.text import Tokenizer
from regard.layers import Tap
from regard.models.mode import evaluating

Words = tuple[Sequence[str], Sequence[int]]
"""The words of a text, and for each token the index of its word."""


@dataclass(frozen=True, eq=False)
class ImageGrid:
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
    unfamiliar: str = ""
    """What the image is unlike the images that the model learned from; mostly nothing."""
    grids: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Rows and columns of the cells of each layer whose grid is another one, such as those of
    `encoder.0.self` between the stages of a ResNet."""

    merged: bool = False
    """Whether 2 x 2 cells of a layer are one cell of the next if their grids differ (Swin), so that
    a row can be followed through all layers."""

    def at(self, layer: str) -> ImageGrid:
        """The image with the grid of a layer, such as `encoder.0.self`."""
        return replace(self, grid=self.grids.get(layer, self.grid), grids={})

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
class Captioned:
    """An image as a captioner reads it, and the probabilities of the words of its caption."""

    values: Tensor
    """(channels, height, width) Normalised pixels, as the model reads them."""
    shares: Callable[[Tensor], Tensor]
    """Normalised images (images, channels, height, width) -> the probability of each word of the
    caption after those before it (images, words)."""


@dataclass(frozen=True, eq=False)
class Trace:
    """What was recorded while a model read one text or image."""

    weights: Mapping[str, Tensor]
    """Attention weights by site: (heads, query, key)."""
    words: Mapping[str, tuple[Words, Words]]
    """The words of queries and keys, by the kind of attention, such as `decoder.cross`; by the
    layer if they are others there."""
    output: str | None = None
    """The output text or class, decoded or given; None if the model has no output."""
    note: str = ""
    """A remark for the reader, such as that the output was given."""
    picture: ImageGrid | None = None
    """The image, if an image was read."""
    classified: Classified | None = None
    """The image and its classifier, if an image was classified."""
    captioned: Captioned | None = None
    """The image and the words of its caption, if an image was captioned."""
    pieces: Mapping[str, tuple[Sequence[str], Sequence[str]]] = field(default_factory=dict)
    """The input tokens of queries and keys, by the kind of attention. In `words` the query of a
    translating decoder is the word that it writes; here it is the token that it reads."""


def trace_single_stack(model: Any, tokenizer: Tokenizer, text: str, tap: Tap, stack: str) -> Trace:
    """Reads one text with a model of a single stack, and returns the recorded attention.

    Args:
        model: The encoder or decoder.
        tokenizer: The model's tokenizer.
        text: The text.
        tap: Records the attention weights.
        stack: The name of the stack: `encoder` or `decoder`.

    Raises:
        InputError: The text has no tokens or more than the model can read.
    """
    [encoded] = tokenizer.read([text])
    ids, longest = encoded.values, model.config.max_length
    if not 0 < len(ids) <= longest:
        got = f"{len(ids)} tokens"
        raise InputError("the text to look at", got=got, expected=f"1 to {longest}")
    with evaluating(model):
        model.hidden(tokenizer.collate([encoded]).to(model.device), tap)
    words, pieces = tokenizer.words(ids), tokenizer.tokens(ids)
    kind = f"{stack}.self"
    return Trace(first_records(tap), {kind: (words, words)}, pieces={kind: (pieces, pieces)})


def first_records(tap: Tap) -> dict[str, Tensor]:
    """The records of the first example of a batch, which is the only one, by site."""
    return {site: value[0] for site, value in tap.records.items()}
