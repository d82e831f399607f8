"""Families of models: configs of the same blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.lazy import lazily

if TYPE_CHECKING:
    from regard.models.config import SIZES as SIZES
    from regard.models.config import BertConfig as BertConfig
    from regard.models.config import BlocksConfig as BlocksConfig
    from regard.models.config import GPTConfig as GPTConfig
    from regard.models.config import T5Config as T5Config
    from regard.models.config import TransformerConfig as TransformerConfig
    from regard.models.decoder import Decoder as Decoder
    from regard.models.encoder import Encoder as Encoder
    from regard.models.encoder import Texts as Texts
    from regard.models.encoder_decoder import DecoderState as DecoderState
    from regard.models.encoder_decoder import EncoderDecoder as EncoderDecoder
    from regard.models.families import FAMILIES as FAMILIES
    from regard.models.families import Model as Model
    from regard.models.families import build as build
    from regard.models.families import describe as describe
    from regard.models.families import rebuild as rebuild
    from regard.models.families import understood as understood
    from regard.models.families import vocabularies_in as vocabularies_in

_HOMES = {
    "config": ("SIZES", "BertConfig", "BlocksConfig", "GPTConfig", "T5Config", "TransformerConfig"),
    "decoder": ("Decoder",),
    "encoder": ("Encoder", "Texts"),
    "encoder_decoder": ("DecoderState", "EncoderDecoder"),
    "families": (
        "FAMILIES",
        "Model",
        "build",
        "describe",
        "rebuild",
        "understood",
        "vocabularies_in",
    ),
}
__getattr__ = lazily(
    __name__,
    {name: f"regard.models.{home}" for home, names in _HOMES.items() for name in names},
)
