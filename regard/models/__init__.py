"""Families of models: configs of the same blocks."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.models.config import SIZES as SIZES
    from regard.models.config import TransformerConfig as TransformerConfig
    from regard.models.families import FAMILIES as FAMILIES
    from regard.models.families import build as build
    from regard.models.families import describe as describe
    from regard.models.families import rebuild as rebuild
    from regard.models.shapes import DecoderState as DecoderState
    from regard.models.shapes import EncoderDecoder as EncoderDecoder

_HOME = {
    "SIZES": "config",
    "TransformerConfig": "config",
    "FAMILIES": "families",
    "build": "families",
    "describe": "families",
    "rebuild": "families",
    "DecoderState": "shapes",
    "EncoderDecoder": "shapes",
}


def __getattr__(name: str) -> Any:
    """Imports a public name on first use: a recipe needs the config, not torch."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
