"""Families of models: configs of the same blocks."""

from __future__ import annotations

from regard.models.config import SIZES, TransformerConfig
from regard.models.families import FAMILIES, build, describe, rebuild
from regard.models.shapes import DecoderState, EncoderDecoder

__all__ = [
    "FAMILIES",
    "SIZES",
    "DecoderState",
    "EncoderDecoder",
    "TransformerConfig",
    "build",
    "describe",
    "rebuild",
]
