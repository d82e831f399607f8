"""Text <-> token ids: tokenizers, built on `tokenizers`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.inputs.text.config import TokensConfig
from regard.inputs.text.learn import TaskSymbols, learn, learn_plain, sentinels_of
from regard.inputs.text.listing import Token
from regard.inputs.text.stream import StreamDecoder
from regard.inputs.text.tokenizer import Roles, Tokenizer
from regard.runtime.lazy import lazy_getattr

if TYPE_CHECKING:
    from regard.inputs.processor import Processor, Vocabulary
    from regard.inputs.text.published.hub import read_file, read_folder

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
if not TYPE_CHECKING:  # else every name would pass the type checker
    _LAZY = dict.fromkeys(("read_file", "read_folder"), "regard.inputs.text.published.hub")
    # A processor needs tokenizers: it is imported on first use, lest the two wait for each other.
    _LAZY |= dict.fromkeys(("Processor", "Vocabulary"), "regard.inputs.processor")
    __getattr__ = lazy_getattr(__name__, _LAZY)
