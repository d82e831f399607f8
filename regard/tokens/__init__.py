"""Tokenizers, text <-> token ids: the second step of the data path, built on `tokenizers`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.runtime.lazy import lazy_getattr
from regard.tokens.config import TokensConfig
from regard.tokens.learn import TaskSymbols, learn, learn_plain, sentinels_of
from regard.tokens.listing import Token
from regard.tokens.processor import Processor, Vocabulary
from regard.tokens.stream import StreamDecoder
from regard.tokens.tokenizer import Roles, Tokenizer

if TYPE_CHECKING:
    from regard.tokens.published.hub import read_file, read_folder

__all__ = [
    "Processor",
    "Roles",
    "StreamDecoder",
    "TaskSymbols",
    "Token",
    "Tokenizer",
    "TokensConfig",
    "Vocabulary",
    "learn",
    "learn_plain",
    "read_file",
    "read_folder",
    "sentinels_of",
]
__getattr__ = lazy_getattr(
    __name__, dict.fromkeys(("read_file", "read_folder"), "regard.tokens.published.hub")
)
