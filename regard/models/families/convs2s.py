"""The convolutional translation model of Gehring et al. (2017), ConvS2S."""

from __future__ import annotations

from typing import ClassVar, Literal

from regard.models.config import EncoderDecoderConfig, Short, Sizes
from regard.models.families.family import Family, PublishedModel


class ConvS2SConfig(EncoderDecoderConfig):
    """Gated convolutions over source and target, and attention in each layer of the decoder.

    Each layer sees k tokens, so n layers see n (k - 1) + 1: the path between two tokens grows with
    their distance, where that of attention does not. As in other models here, a norm precedes each
    sub-layer; the paper scales sums by √½ and normalises weights instead.
    """

    DEFAULTS: ClassVar[Short] = {
        "encoder": {"block": ("gated_convolution",)},
        "decoder": {"block": ("gated_convolution", "cross_attention")},
        "heads": 1,
        "kernel": 3,
        "positions": "learned",
    }
    SIZES: ClassVar[Sizes] = {
        "tiny": {"dim": 128, "layers": 2},
        "small": {"dim": 256, "encoder": {"layers": 4}, "decoder": {"layers": 3}, "dropout": 0.2},
    }
    """Sizes for a laptop."""
    family: Literal["convs2s"] = "convs2s"
    size: Literal["tiny", "small"] | None = None


FAMILY = Family(
    ConvS2SConfig,
    "regard.models.encoder_decoder.EncoderDecoder",
    task="translate",
    named={
        f"convs2s-{size}": PublishedModel({"family": "convs2s", "size": size}, lengths=(50, 50))
        for size in ConvS2SConfig.SIZES
    },
)
