"""The `tokens:` section of a recipe: which vocabulary to learn."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from regard.config import Config

BYTES_AND_SPECIAL = 256 + 4
"""The least entries of a byte-level vocabulary: all bytes, and the special symbols."""


class TokensConfig(Config):
    """The kind and size of the vocabulary that is learned from the training split."""

    kind: Literal["words", "characters", "bytes", "bpe", "wordpiece", "unigram"] = "bpe"
    vocab: int = Field(default=8000, ge=8)
    """The largest number of entries, special symbols included (`bytes` always has 260)."""
    shared: bool = True
    """Whether source and target share one vocabulary, or have one each."""
    lowercase: bool = False

    @model_validator(mode="after")
    def _check_vocab(self) -> TokensConfig:
        """Checks that a byte-level vocabulary has room for every byte."""
        if self.kind == "bpe" and self.vocab < BYTES_AND_SPECIAL:
            needed = f"256 bytes and 4 special symbols need {BYTES_AND_SPECIAL}"
            raise ValueError(f"vocab {self.vocab} is too small for bpe: {needed}")
        return self
