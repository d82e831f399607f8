"""The convolutional translation model of Gehring et al. (2017), ConvS2S."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from regard.models.config import LONGEST, EncoderDecoderConfig, PositionKind, Sizes
from regard.models.families.family import Family, PublishedModel


class ConvS2SConfig(EncoderDecoderConfig):
    """Gated convolutions over source and target, and attention in each layer of the decoder.

    Each layer sees k tokens, so n layers see n (k - 1) + 1: the path between two tokens grows with
    their distance, where that of attention does not. As in other models here, a norm precedes each
    sub-layer; the paper scales sums by √½ and normalises weights instead.
    """

    SIZES: ClassVar[Sizes] = {
        "tiny": {"dim": 128, "encoder_layers": 2, "decoder_layers": 2},
        "small": {"dim": 256, "encoder_layers": 4, "decoder_layers": 3, "dropout": 0.2},
    }
    """Sizes for a laptop."""
    family: Literal["convs2s"] = "convs2s"
    size: Literal["tiny", "small"] | None = None
    sublayers: tuple[str, ...] = ("gated_convolution",)
    """The sub-layers of a block; cross-attention follows in the decoder."""
    heads: int = Field(default=1, ge=1)
    kernel: int = Field(default=3, ge=1, le=LONGEST)
    """Kernel size in tokens, the token itself included; odd."""
    positions: PositionKind = "learned"

    @property
    def summary(self) -> str:
        """A short description of the model's width, kernel and heads."""
        plural = "s" if self.heads > 1 else ""
        return f"{self.dim} wide, convolutions of {self.kernel}, {self.heads} head{plural}"

    def activation_floats(self, lengths: Sequence[int], targets: int) -> int:
        """Estimates how many numbers one example stores for the backward pass.

        A convolution stores its input, the normalised input, the k tokens of each window, the input
        of its gate and the dropout mask; attention stores the same as in other models.
        """
        (source, target), dim = lengths, self.dim
        inputs = dim if self.norm == "none" else 2 * dim
        noise = dim if self.dropout else 0
        convolution = inputs + (self.kernel + 2) * dim + noise
        attention = inputs + 3 * self.heads * self.head_width + noise + self.heads
        layers = self.encoder_layers * convolution * source
        layers += self.decoder_layers * (convolution + attention) * target
        memory = self.decoder_layers * 2 * self.heads * self.head_width * source
        return layers + memory + (noise + 2 * dim) * (source + target) + targets * dim

    def state_floats(self, rows: int, length: int, source: int) -> int:
        """How many numbers decoding stores: the last k - 1 inputs of each layer, keys and values.

        The number does not depend on the length of the translation.
        """
        del length
        windows = rows * (self.kernel - 1) * self.dim
        return self.decoder_layers * (windows + 2 * self.heads * self.head_width * source)


FAMILY = Family(
    ConvS2SConfig,
    "regard.models.encoder_decoder.EncoderDecoder",
    task="translate",
    named={
        f"convs2s-{size}": PublishedModel({"family": "convs2s", "size": size}, lengths=(50, 50))
        for size in ConvS2SConfig.SIZES
    },
)
