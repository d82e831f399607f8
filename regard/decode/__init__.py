"""Model -> tokens: one loop (`engine`), ways to choose (`search`), adjustments (`filters`)."""

from __future__ import annotations

from regard.decode.config import DecodeConfig
from regard.decode.engine import Generative, Options, Partial, Step, decode, stream
from regard.decode.filters import Symbols
from regard.decode.search import Hypothesis

__all__ = [
    "DecodeConfig",
    "Generative",
    "Hypothesis",
    "Options",
    "Partial",
    "Step",
    "Symbols",
    "decode",
    "stream",
]
