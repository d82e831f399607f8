"""Families of models: configs of the same blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.lazy import lazily

if TYPE_CHECKING:
    from regard.models.config import SIZES as SIZES
    from regard.models.config import TransformerConfig as TransformerConfig
    from regard.models.families import FAMILIES as FAMILIES
    from regard.models.families import build as build
    from regard.models.families import describe as describe
    from regard.models.families import rebuild as rebuild
    from regard.models.shapes import DecoderState as DecoderState
    from regard.models.shapes import EncoderDecoder as EncoderDecoder

__getattr__ = lazily(
    __name__,
    {
        "SIZES": "regard.models.config",
        "TransformerConfig": "regard.models.config",
        "FAMILIES": "regard.models.families",
        "build": "regard.models.families",
        "describe": "regard.models.families",
        "rebuild": "regard.models.families",
        "DecoderState": "regard.models.shapes",
        "EncoderDecoder": "regard.models.shapes",
    },
)
