"""The `decode:` section of a recipe: the settings of greedy decoding, sampling and beam search."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from regard.config import Config

MAX_LENGTH_PENALTY = 40
"""The largest length penalty: the longest length to this power still fits into a float64."""
MIN_TEMPERATURE = 1e-20
"""The lowest temperature: logits divided by it still fit into a float32."""

SAMPLING_SETTINGS = ("temperature", "top_k", "top_p", "min_p")
"""The settings that only sampling uses."""


class DecodeConfig(Config):
    """Decoding settings: greedy (`beam: 1`), beam search (`beam: 4`), sampling (`sample: true`)."""

    beam: int = Field(default=1, ge=1, le=1000, description="Beam width; 1 is greedy.")
    n_best: int = Field(
        default=1, ge=1, le=10_000, description="Hypotheses, or samples, to return for each input."
    )
    sample: bool = Field(default=False, description="Sample instead of searching.")
    temperature: float = Field(
        default=1.0, ge=MIN_TEMPERATURE, le=1 / MIN_TEMPERATURE, description="Sampling temperature."
    )
    top_k: int = Field(default=0, ge=0, description="Sample from the k most likely tokens; 0: all.")
    top_p: float = Field(
        default=1.0, gt=0, le=1, description="Sample from the top tokens of this total probability."
    )
    min_p: float = Field(
        default=0.0, ge=0, lt=1, description="Sample from tokens above this share of the best."
    )
    min_length: int = Field(default=0, ge=0, description="Minimum tokens before the end symbol.")
    max_length: int | None = Field(default=None, ge=1, description="Maximum number of tokens.")
    """Maximum number of tokens, end symbol included; default: twice the source's length plus 10."""
    length_penalty: float = Field(
        default=1.0,
        ge=-MAX_LENGTH_PENALTY,
        le=MAX_LENGTH_PENALTY,
        description="Exponent α of beam search's length penalty.",
    )
    """alpha in: sum of log-probabilities / (generated length including the end) ** alpha."""
    stop: Literal["first", "bound", "never"] = "bound"
    """When beam search may stop: `first` = as soon as `beam` hypotheses are finished
    (transformers' early_stopping=True), `bound` = when the best running beam, at its present
    length, cannot beat the worst kept hypothesis (early_stopping=False), `never` = when no
    continuation of any length can (exact; early_stopping="never")."""
    repetition_penalty: float = Field(
        default=1.0, ge=1e-6, le=1e6, description="Above 1 penalises tokens that occurred before."
    )
    no_repeat_ngram: int = Field(
        default=0, ge=0, description="Forbid repeated n-grams of this size."
    )
    no_copy: int = Field(
        default=0,
        ge=0,
        le=1000,
        description="Never write this many consecutive words of the training text.",
    )
    """Never complete a sequence of this many words that occurs in the training text; 0: no limit.
    A model knows the sequences of the length that its recipe was trained with."""
    banned: tuple[int, ...] = ()
    """Ids of tokens that are never generated."""
    forced_begin: int | None = Field(default=None, ge=0)
    """The id of a token that every output begins with (BART); it counts as an output token."""
    forced_end: int | None = Field(default=None, ge=0)
    """The id of the token that is forced as the last one at the maximum length (BART)."""
    begin: int | None = Field(default=None, ge=0)
    """The id of the begin symbol, if the model's publisher gives another than the tokenizer's."""
    ends: tuple[int, ...] = ()
    """The ids of the end symbols, if the model's publisher gives others than the tokenizer's."""
    seed: int = Field(default=0, description="Random seed.")
