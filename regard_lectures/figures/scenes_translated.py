"""Scenes of the gallery that a translator shows: two equal words, and an alignment.

Each function takes a translator and a sentence, and returns a `Drawing`; what it says is computed
from its numbers in `scene_words.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard import Pipeline
from regard.draw import BLUE, ORANGE, LineStyle, positive_scale
from regard.errors import InputError
from regard.explain import Board, Drawing, Look
from regard.inputs import Ragged
from regard.layers import Positions, Tap
from regard_lectures.figures.scene_words import verdict_numbers, words_gallery
from regard_lectures.limits import model_line

MOST_TOKENS = 12
"""The most tokens of a row of weights."""


# Two words that are the same.


def dogs(pipeline: Pipeline, text: str) -> Drawing:
    """The vectors of a word that comes twice, layer by layer, with positions and without."""
    tokens = [token.token for token in pipeline.tokens(text)]
    word, indices = _twice(tokens)
    layers = pipeline.model.encoder.layers()
    sites = ["encoder.embedding", *(f"{layer.name}.residual" for layer in layers)]
    with_them = _vectors(pipeline, text, sites)
    with _without_positions(pipeline.model):
        without = _vectors(pipeline, text, sites)
    apart = [_apart(vectors, sites, indices) for vectors in (with_them, without)]
    plain = [token.replace("▁", "").strip() for token in tokens]
    numbers = {
        "scene": "dogs",
        "word": word,
        "tokens": plain,
        "apart_with_positions": apart[0],
        "apart_without": apart[1],
    }
    details = (
        f"{pipeline.name} reads “{text}” with positions and without them. Left: "
        f"|a − b| of the vectors of the two “{word}”s, in percent of their mean length, at the "
        "input and after each layer of the encoder. Right: where each of them looks in the first "
        "layer, mean over the heads. Two equal tokens differ only in their positions."
    )
    words, line = words_gallery(numbers), model_line(pipeline)
    with Board(words, (1.1, 1, 1), details, limits=line) as board:
        board.legend({"with positions": LineStyle(BLUE), "without": LineStyle(ORANGE)})
        axes = board.chart(0, "how different they are, %", "layer of the encoder", "")
        across = np.arange(len(sites))
        axes.bar(across - 0.2, apart[0], 0.38, color=BLUE)
        axes.bar(across + 0.2, apart[1], 0.38, color=ORANGE)
        for index, height in enumerate(apart[0]):
            axes.write((index - 0.2, height + 1.5), f"{height:.0f}", ha="center")
            axes.write((index + 0.2, 1.5), "0" if apart[1][index] < 0.05 else
                  f"{apart[1][index]:.1f}", ha="center")  # fmt: skip
        axes.set_xticks(across, ["input", *map(str, range(len(sites) - 1))])
        axes.set_ylim(0, 1.2 * max(apart[0]))
        rows = [v["encoder.0.self.weights"].mean(0)[list(indices)] for v in (with_them, without)]
        scale = positive_scale(max(float(table.max()) for table in rows))
        shown = plain[:MOST_TOKENS]
        below = f"the first {len(shown)} of {len(plain)} tokens" if len(plain) > len(shown) else ""
        for panel, (table, name) in enumerate(zip(rows, ("with", "without"), strict=True), 1):
            board.matrix(
                panel, f"layer 0 looks, {name}", table[:, : len(shown)], scale,
                (["1st", "2nd"], shown), ("", below or "key"), ".2f",
            )  # fmt: skip
        return board.drawing(**verdict_numbers(numbers))


def _twice(tokens: Sequence[str]) -> tuple[str, tuple[int, int]]:
    """The longest token that occurs twice, and its first two positions.

    Raises:
        InputError: If no word occurs twice.
    """
    words = [token for token in tokens if any(letter.isalpha() for letter in token)]
    repeated = sorted(
        {word for word in words if words.count(word) > 1}, key=lambda word: -len(word)
    )
    if not repeated:
        expected = "a sentence in which a word occurs twice"
        raise InputError("gallery: dogs", got="no word twice", expected=expected)
    first = tokens.index(repeated[0])
    return repeated[0].replace("▁", "").strip(), (first, tokens.index(repeated[0], first + 1))


def source_of(pipeline: Pipeline, text: str) -> Ragged:
    """A sentence as the input of a translator."""
    return Ragged.of([pipeline.vocabulary.source.encode(text)])


def _vectors(pipeline: Pipeline, text: str, sites: Sequence[str]) -> dict[str, Tensor]:
    """What the encoder computes at some sites, and its first layer's weights, of one sentence."""
    tap = Tap(*sites, "encoder.0.self.weights")
    with torch.inference_mode():
        pipeline.model.encode(source_of(pipeline, text), tap)
    return {site: record[0] for site, record in tap.records.items()}


@contextmanager
def _without_positions(model: Any) -> Iterator[None]:
    """The encoder without its position scheme, within this context."""
    before = model.encoder.positions
    model.encoder.positions = Positions()
    try:
        yield
    finally:
        model.encoder.positions = before


def _apart(
    vectors: dict[str, Tensor], sites: Sequence[str], indices: tuple[int, int]
) -> list[float]:
    """|a - b| in percent of the mean length of a and b, at each site."""
    shares = []
    for site in sites:
        a, b = (vectors[site][index] for index in indices)
        shares.append(100 * float((a - b).norm() / (0.5 * (a.norm() + b.norm()))))
    return shares


# A sentence and its translation.


def walk(pipeline: Pipeline, text: str) -> Drawing:
    """The alignment of a sentence and its translation, in the sharpest layer."""
    look: Look = pipeline.look(text)
    chosen = look.choose("alignment")
    weights = chosen.map.matrix()
    pairs = [
        (word, chosen.map.keys[int(row.argmax())], float(row.max()))
        for word, row in zip(chosen.map.queries, weights, strict=True)
        if word.isalpha()
    ]
    numbers = {
        "scene": "walk",
        "translation": look.target,
        "pairs": [list(pair) for pair in pairs],
    }
    details = (
        f"{pipeline.name}: “{text}” → “{look.target}” The layer of cross-attention whose rows are "
        f"sharpest, {chosen.name}: each German word as it is written, and the English words it "
        "looks at. The order is German's; what German says in two words (walk: gehe … spazieren) "
        "is looked at twice."
    )
    words, line = words_gallery(numbers), model_line(pipeline)
    with Board(words, (1,), details, limits=line) as board:
        board.lines([f"{text} → {look.target}"])
        board.matrix(
            0, chosen.name, weights, positive_scale(), (chosen.map.queries, chosen.map.keys),
            ("query: the German word being written", "key: the English words"), ".2f",
        )  # fmt: skip
        return board.drawing(**verdict_numbers(numbers))
