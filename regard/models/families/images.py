"""What families that encode images share: heads on a pooled vector, and their configs."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from regard.layers.config import LONGEST
from regard.layers.grid_config import Convolutions, GridStack
from regard.models.config import ModelConfig, NumbersHead


class ClassHead(NumbersHead):
    """A linear head for classes on the pooled vector of an image, and a head for numbers."""

    classes: tuple[str, ...] = ()
    """Names of the classes of an input, for a head on the pooled vector; empty: no such head."""
    widths: tuple[PositiveInt, ...] = ()
    """Widths of the hidden layers of the head of the numbers, each with batch norm, ReLU and
    dropout; none: that head is linear."""
    head_dropout: float = Field(default=0.2, ge=0, lt=1)
    """Dropout rate after each of these hidden layers."""

    @property
    def has_batch_norm(self) -> bool:
        """Whether the head normalises over the examples of a batch."""
        return bool(self.numbers and self.widths)


class ImageHead(ClassHead):
    """A head on the pooled vector of an image's patches, with the ways to pool them."""

    pool: Literal["first", "mean", "both", "attention"] = "first"
    """The pooled vector: that of the first token, the mean of all patches', both of them end to end
    (DINOv2), or the patches' mean with weights softmax(w·x), learned (CCT's sequence pooling)."""
    pooled_norm: bool = False
    """A norm on the pooled vector (timm, with `pool: mean` and `final_norm: false`)."""
    pooling_layer: bool = False
    """tanh(W x) on the pooled vector (Hugging Face's ViTModel)."""
    head_hidden: int | None = Field(default=None, ge=1, le=LONGEST)
    """Width of a hidden layer, with GELU, in the head of the classes. None: the head is linear."""

    @model_validator(mode="after")
    def _check_pool(self) -> Self:
        if self.pool == "both" and (self.pooled_norm or self.pooling_layer):
            raise ValueError("pool: both takes neither pooled_norm nor pooling_layer")
        return self


class ImageEncoderConfig(ModelConfig):
    """The settings of families that encode images cut into patches."""

    HEADS: ClassVar[tuple[str, ...]] = ("classes", "numbers")
    VOCABULARIES: ClassVar[tuple[str, ...]] = ()
    reads: ClassVar[str] = "images"
    encoder: GridStack = GridStack()
    head: ImageHead = ImageHead()

    @property
    def least_examples(self) -> int:
        """Two if the head has batch norms, which learn nothing from one image."""
        return 2 if self.head.has_batch_norm else 1

    @property
    def pooled_width(self) -> int:
        """Width of the pooled vector."""
        return 2 * self.encoder.dim if self.head.pool == "both" else self.encoder.dim

    @model_validator(mode="after")
    def _check_tokens(self) -> Self:
        """Refuses ways to pool and to distil that need tokens which the front does not add."""
        front = self.encoder.front
        if self.head.pool in ("first", "both") and not front.class_token:
            raise ValueError(f"pool: {self.head.pool} needs class_token: true")
        if front.distillation == "head" and self.head.pool != "first":
            raise ValueError("distillation: head needs pool: first, a head for each of two tokens")
        return self


class ConvolutionalConfig(ModelConfig):
    """The settings that all families of convolutional networks share."""

    HEADS: ClassVar[tuple[str, ...]] = ("classes", "numbers")
    VOCABULARIES: ClassVar[tuple[str, ...]] = ()
    reads: ClassVar[str] = "images"
    encoder: Convolutions = Convolutions()
    head: ClassHead = ClassHead()

    @property
    def least_examples(self) -> int:
        """Two if the head has batch norms, which learn nothing from one image."""
        return 2 if self.head.has_batch_norm else 1
