"""The Transformer of Vaswani et al. (2017)."""

from __future__ import annotations

from typing import ClassVar, Literal

from regard.models.config import EncoderDecoderConfig, Sizes
from regard.models.families.family import Family


class TransformerConfig(EncoderDecoderConfig):
    """The encoder-decoder Transformer (Vaswani et al. 2017) and its usual variations."""

    SIZES: ClassVar[Sizes] = {
        "tiny": {"dim": 128, "heads": 8, "hidden": 256, "layers": 2},
        "small": {"dim": 256, "heads": 8, "hidden": 512, "layers": 3},
        "base": {"dim": 512, "heads": 8, "hidden": 2048, "layers": 6, "norm_place": "post"},
        "big": {"dim": 1024, "heads": 16, "hidden": 4096, "layers": 6, "norm_place": "post",
                "dropout": 0.3},
    }  # fmt: skip
    """The paper's base and big, post-norm as published; two smaller ones for a laptop."""
    family: Literal["transformer"] = "transformer"
    size: Literal["tiny", "small", "base", "big"] | None = None


FAMILY = Family(TransformerConfig, "regard.models.encoder_decoder.EncoderDecoder", task="translate")
SIZES = TransformerConfig.SIZES
