"""The measurements of a translator that stands beside others in a comparison."""

from __future__ import annotations

from regard.config import Config

BIN = 10
"""Sentences are grouped by their length in steps of this many words."""


class Result(Config):
    """The measurements of one trained model."""

    parameters: int
    minutes: float
    """The time of the training."""
    targets_per_second: float
    """The speed of the training, in target tokens; the median over its logged steps."""
    sentences_per_second: float
    """The speed of decoding the test sentences."""
    bleu: float
    by_length: list[tuple[int, int, float]]
    """For each group of lengths: its most words, its number of sentences, and its BLEU."""
    curve: list[tuple[int, float]]
    """The validation loss by step."""
