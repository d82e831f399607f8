"""Decoding: the loop (`engine`), greedy, sampling and beam search (`search`), and `filters`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.runtime.lazy import lazy_getattr

if TYPE_CHECKING:
    from regard.decode.config import DecodeConfig as DecodeConfig
    from regard.decode.engine import Generative as Generative
    from regard.decode.engine import Options as Options
    from regard.decode.engine import Partial as Partial
    from regard.decode.engine import Step as Step
    from regard.decode.engine import decode as decode
    from regard.decode.engine import stream as stream
    from regard.decode.filters import Symbols as Symbols
    from regard.decode.search import Hypothesis as Hypothesis

__getattr__ = lazy_getattr(
    __name__,
    {
        "DecodeConfig": "regard.decode.config",
        "Generative": "regard.decode.engine",
        "Options": "regard.decode.engine",
        "Partial": "regard.decode.engine",
        "Step": "regard.decode.engine",
        "decode": "regard.decode.engine",
        "stream": "regard.decode.engine",
        "Symbols": "regard.decode.filters",
        "Hypothesis": "regard.decode.search",
    },
)
