"""Text <-> ids: the second step of the data path, a thin layer over the `tokenizers` library."""

from __future__ import annotations

from regard.tokens.config import TokensConfig
from regard.tokens.tokenizer import Tokenizer, Vocabulary, learn

__all__ = ["Tokenizer", "TokensConfig", "Vocabulary", "learn"]
