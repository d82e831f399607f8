"""The `decode:` section of a recipe: how tokens are chosen."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from regard.config import Config

STEEPEST = 40
"""The largest length penalty: the longest text to this power is still a number of 64 bits."""
SHARPEST = 1e-20
"""The least temperature: logits divided by it are still numbers of 32 bits."""

DRAWING = ("temperature", "top_k", "top_p", "min_p")
"""The settings that only sampling heeds."""


class DecodeConfig(Config):
    """One decoding: greedy (`beam: 1`), beam search (`beam: 4`) or sampling (`sample: true`)."""

    beam: int = Field(default=1, ge=1, le=1000, description="Beam width; 1 is greedy.")
    n_best: int = Field(default=1, ge=1, le=10_000, description="How many texts for each.")
    """How many hypotheses to return for each input; with `sample`, how many samples."""
    sample: bool = Field(default=False, description="Draw instead of search.")
    temperature: float = Field(
        default=1.0, ge=SHARPEST, le=1 / SHARPEST, description="Of drawing; 1 is the model's."
    )
    top_k: int = Field(default=0, ge=0, description="Draw from the k likeliest.")
    """Keep the k likeliest tokens; 0 keeps all."""
    top_p: float = Field(default=1.0, gt=0, le=1, description="Draw from this much probability.")
    min_p: float = Field(
        default=0.0, ge=0, lt=1, description="Draw from those this close to the best."
    )
    min_length: int = Field(default=0, ge=0, description="Fewest tokens.")
    """The fewest tokens before the end symbol."""
    max_length: int | None = Field(default=None, ge=1, description="Most tokens.")
    """The most tokens, end symbol included; by default twice the source and 10 more."""
    length_penalty: float = Field(
        default=1.0, ge=-STEEPEST, le=STEEPEST, description="Of beam search: exponent α."
    )
    """alpha in: sum of log-probabilities / (generated length including the end) ** alpha."""
    stop: Literal["first", "bound", "never"] = "bound"
    """When beam search may stop: `first` = as soon as `beam` hypotheses are finished
    (transformers' early_stopping=True), `bound` = when the best running beam, at its present
    length, cannot beat the worst kept hypothesis (early_stopping=False), `never` = when no
    continuation of any length can (exact; early_stopping="never")."""
    repetition_penalty: float = Field(
        default=1.0, ge=1e-6, le=1e6, description="Above 1: tokens that are there get less."
    )
    no_repeat_ngram: int = Field(
        default=0, ge=0, description="So many tokens in a row are written once only."
    )
    banned: tuple[int, ...] = ()
    """Ids of tokens that are never written."""
    forced_begin: int | None = Field(default=None, ge=0)
    """The id of a token that every text begins with (BART); it counts as one of its tokens."""
    forced_end: int | None = Field(default=None, ge=0)
    """The id of the token that a text ends with where there is room for one more (BART)."""
    begin: int | None = Field(default=None, ge=0)
    """The id to start a text from, where the model's maker names another than the tokenizer."""
    ends: tuple[int, ...] = ()
    """Ids each of which ends a text, where the model's maker names others than the tokenizer."""
    seed: int = Field(default=0, description="Where random numbers start.")
