"""The captioner: an encoder of images, and a decoder that writes what they show.

Its two sides may be of different kinds and widths: a convolutional network and a recurrent decoder
with attention (Xu et al. 2015), or a Vision Transformer and a Transformer's decoder.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from regard.layers.config import TokenHead, WritingStack
from regard.layers.grid_config import GridStack, PlainConvolutions, ResidualConvolutions
from regard.layers.recurrent_config import AttentiveContext, RecurrentDecoderConfig
from regard.models.config import ModelConfig, Short, Sizes
from regard.models.families.family import Family, PublishedModel

CAPTION_TOKENS = 16
"""The usual number of tokens of a caption, for the sizes that `regard plan` knows by name."""


class CaptionerConfig(ModelConfig):
    """An image encoder of any kind, and a decoder of any kind that attends to its grid."""

    DEFAULTS: ClassVar[Short] = {
        "encoder": {
            "activation": "gelu",
            "norm_epsilon": 1e-6,
            "class_token": False,  # the decoder reads every patch, so none has to sum them up
            "dense": (),  # dense layers would make one vector of an image
        },
        "heads": 4,
    }
    SIZES: ClassVar[Sizes] = {
        "tiny": {
            "encoder": {"image": (32, 32), "patch": 4},
            "dim": 64, "heads": 4, "hidden": 128, "layers": 2,
        },
    }  # fmt: skip
    has_target: ClassVar[bool] = True
    reads: ClassVar[str] = "images"
    VOCABULARIES: ClassVar[tuple[str, ...]] = ("target_vocab",)
    SAME_FOR_BOTH: ClassVar[tuple[str, ...] | None] = (
        "dim", "layers", "heads", "hidden", "dropout", "norm", "bias",
    )  # fmt: skip
    family: Literal["captioner"] = "captioner"
    size: Literal["tiny"] | None = None
    encoder: Annotated[
        GridStack | PlainConvolutions | ResidualConvolutions, Field(discriminator="kind")
    ] = GridStack()
    decoder: Annotated[WritingStack | RecurrentDecoderConfig, Field(discriminator="kind")] = (
        WritingStack()
    )
    head: TokenHead = TokenHead()
    bridge: bool = False
    """Whether a linear layer takes the encoder's vectors to the decoder's width. Without it, the
    decoder attends to vectors of the encoder's width."""

    @property
    def memory_dim(self) -> int:
        """Width of the vectors that the decoder attends to."""
        width: int = self.decoder.dim if self.bridge else self.encoder.dim
        return width

    @property
    def max_length(self) -> int:
        """The number of tokens of an image: the cells of its grid, and those before them."""
        rows, columns = self.encoder.grid
        return rows * columns + self.encoder.front.tokens_before

    @property
    def output_length(self) -> int:
        """The maximum number of tokens of a caption, with its end."""
        length: int = self.decoder.front.max_length
        return length

    @property
    def bound(self) -> int | None:
        """The maximum number of tokens of a caption that have positions; None: unlimited."""
        return self.decoder.bound

    @model_validator(mode="after")
    def _check_grid(self) -> Self:
        """Refuses an encoder that leaves nothing to choose from, and scores of places it lacks."""
        rows, columns = self.encoder.grid
        if rows * columns == 1:
            why = "dense layers make one vector of an image; dense: [] leaves its grid"
            if not getattr(self.encoder, "dense", ()):
                why = "take a larger image, or fewer stages or smaller patches"
            raise ValueError(f"encoder: its output is a single cell, but words attend to a grid: "
                             f"{why}")  # fmt: skip
        attention = getattr(self.decoder, "attention", None)
        by_place = isinstance(attention, AttentiveContext) and attention.kind == "location"
        if by_place and self.max_length > self.decoder.front.max_length:
            raise ValueError(
                f"attention: location has vectors for max_length {self.decoder.front.max_length} "
                f"places, but an image has {self.max_length}"
            )
        return self


FAMILY = Family(
    CaptionerConfig,
    "regard.models.captioner.Captioner",
    task="caption",
    named={
        "captioner-tiny": PublishedModel(
            {"family": "captioner", "size": "tiny"}, lengths=(64, CAPTION_TOKENS)
        )
    },
)
