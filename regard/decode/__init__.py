"""Decoding: the loop (`engine`), greedy, sampling and beam search (`search`), and `filters`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.runtime.lazy import lazy_getattr

if TYPE_CHECKING:
    from regard.decode.config import DecodeConfig as DecodeConfig
    from regard.decode.engine import decode as decode
    from regard.decode.filters import Symbols as Symbols
    from regard.decode.search import Hypothesis as Hypothesis

if not TYPE_CHECKING:  # else every name would pass the type checker
    __getattr__ = lazy_getattr(
        __name__,
        {
            "DecodeConfig": "regard.decode.config",
            "decode": "regard.decode.engine",
            "Symbols": "regard.decode.filters",
            "Hypothesis": "regard.decode.search",
        },
    )
