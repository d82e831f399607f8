"""Text <-> ids: the second step of the data path, a thin layer over the `tokenizers` library."""

from __future__ import annotations

from regard.tokens.config import TokensConfig
from regard.tokens.foreign import Foreign, Roles
from regard.tokens.hub import read_file, read_folder
from regard.tokens.listing import Token
from regard.tokens.tokenizer import Tokenizer, Vocabulary, learn, only_foreign
from regard.tokens.writer import Writer

__all__ = [
    "Foreign",
    "Roles",
    "Token",
    "Tokenizer",
    "TokensConfig",
    "Vocabulary",
    "Writer",
    "learn",
    "only_foreign",
    "read_file",
    "read_folder",
]
