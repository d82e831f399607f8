"""The `model:` section of a recipe for models that read images: encoders of patches, and CNNs."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, PositiveInt, model_validator

from regard.models.config import DEEPEST, LONGEST, BlocksConfig, ModelConfig, Shape

IMAGE_TOKENS = 64
"""What an image of a CNN, which has no tokens, counts in a batch: as much as 8 x 8 patches."""
ANY_SIZE = ("learned", "sinusoidal_2d", "buckets", "none")
"""Position schemes of models that read images of any size; others stop at the model's own."""


class ImageEncoderConfig(BlocksConfig):
    """The settings of families that encode images cut into patches."""

    HEADS: ClassVar[tuple[str, ...]] = ("classes",)
    COMPUTED: ClassVar[tuple[str, ...]] = ("max_length",)
    VOCABULARIES: ClassVar[tuple[str, ...]] = ()
    shape: ClassVar[Shape] = "encoder"
    reads: ClassVar[str] = "images"
    has_grid: ClassVar[bool] = True
    layers: int = Field(default=4, ge=1, le=DEEPEST)
    image: tuple[PositiveInt, PositiveInt] = (224, 224)
    """Height and width of the images, in pixels; images are scaled to it."""
    patch: int = Field(default=16, ge=1, le=LONGEST)
    """The side of a patch, in pixels; it must divide height and width. Each patch is a token."""
    channels: Literal[1, 3] = 3
    """Number of channels: 1 for grey, 3 for red, green and blue."""
    stem: Literal["patches", "convolution"] = "patches"
    """`patches`: a patch becomes a token by one matrix. `convolution`: by convolutions of 3 x 3,
    each with ReLU and max-pooling that halves height and width, until `patch` pixels are one place
    (Compact Convolutional Transformer); `patch` is then a power of two."""
    stem_width: int = Field(default=64, ge=1, le=LONGEST)
    """Number of channels between the convolutions of the stem."""
    class_token: bool = True
    """Whether a learned [CLS] token precedes the patches."""
    distillation: Literal["none", "token", "head"] = "none"
    """`token`: a second learned token follows [CLS] (DeiT). `head`: and it has a second head for
    the classes, which learns from `train.teacher`; the answer is the mean of both heads' logits."""
    pool: Literal["first", "mean", "both", "attention"] = "first"
    """The pooled vector: that of the first token, the mean of all patches', both of them end to end
    (DINOv2), or the patches' mean with weights softmax(w·x), learned (CCT's sequence pooling)."""
    pooled_norm: bool = False
    """A norm on the pooled vector (timm, with `pool: mean` and `final_norm: false`)."""
    pooling_layer: bool = False
    """tanh(W x) on the pooled vector (Hugging Face's ViTModel)."""
    head_hidden: int | None = Field(default=None, ge=1, le=LONGEST)
    """Width of a hidden layer, with GELU, in the head of the classes. None: the head is linear."""
    layer_scale: float | None = Field(default=None, gt=0)
    """First value of a learned factor for each feature of a sub-layer's output (CaiT, DINOv2).
    None: no such factors."""
    classes: tuple[str, ...] = ()
    """Names of the classes of an image, for a head on the pooled vector; empty: no such head."""
    max_length: int = Field(default=0, ge=0, le=LONGEST)
    """Number of tokens of an image; leave it out: it follows from `image`, `patch`, `class_token`
    and `distillation`."""
    embedding_norm: Literal[False] = False
    scaled_embedding: Literal[False] = False
    scaled_output: Literal[False] = False
    output_bias: Literal[True] = True
    """The head always has a bias."""

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        return self.image[0] // self.patch, self.image[1] // self.patch

    @property
    def tokens_before(self) -> int:
        """Number of learned tokens before the patches: [CLS] and the distillation token."""
        return int(self.class_token) + int(self.distillation != "none")

    @property
    def tokens(self) -> int:
        """Number of tokens of an image: its patches, and the learned tokens before them."""
        return self.grid[0] * self.grid[1] + self.tokens_before

    @property
    def pooled_width(self) -> int:
        """Width of the pooled vector."""
        return 2 * self.dim if self.pool == "both" else self.dim

    @property
    def image_summary(self) -> str:
        """A short description of how images are read."""
        by = "patches of" if self.stem == "patches" else "convolutions to places of"
        return f"{self.image[0]} x {self.image[1]} in {by} {self.patch} x {self.patch}"

    @model_validator(mode="after")
    def _check_patches(self) -> ImageEncoderConfig:
        """Refuses settings of patches, pooling and distillation that do not fit together.

        Sets `max_length`.
        """
        height, width = self.image
        if height % self.patch or width % self.patch:
            raise ValueError(
                f"an image of {height} x {width} has no whole patches of {self.patch}; "
                f"{nearest_image_size(self.image, self.patch)} would fit"
            )
        if self.tokens > LONGEST:
            raise ValueError(f"{self.tokens} patches are more than any model reads")
        if self.pool in ("first", "both") and not self.class_token:
            raise ValueError(f"pool: {self.pool} needs class_token: true")
        if self.pool == "both" and (self.pooled_norm or self.pooling_layer):
            raise ValueError("pool: both takes neither pooled_norm nor pooling_layer")
        if self.distillation != "none" and not self.class_token:
            raise ValueError("distillation needs class_token: true")
        if self.distillation == "head" and self.pool != "first":
            raise ValueError("distillation: head needs pool: first, a head for each of two tokens")
        if self.stem == "convolution" and self.patch & (self.patch - 1):
            raise ValueError(f"stem: convolution needs a patch of 2, 4, 8, …, got {self.patch}")
        if self.max_length not in (0, self.tokens):
            raise ValueError(
                f"max_length {self.max_length}: an image of {height} x {width} in patches of "
                f"{self.patch} has {self.tokens} tokens; leave max_length out"
            )
        object.__setattr__(self, "max_length", self.tokens)  # the instance is frozen already
        return self

    @property
    def stacks(self) -> dict[str, int]:
        """The number of layers of the encoder."""
        return {"encoder": self.layers}


class ConvolutionalConfig(ModelConfig):
    """The settings that all convolutional networks share."""

    HEADS: ClassVar[tuple[str, ...]] = ("classes",)
    COMPUTED: ClassVar[tuple[str, ...]] = ("dim", "max_length")
    VOCABULARIES: ClassVar[tuple[str, ...]] = ()
    shape: ClassVar[Shape] = "encoder"
    reads: ClassVar[str] = "images"
    has_grid: ClassVar[bool] = True
    image: tuple[PositiveInt, PositiveInt] = (224, 224)
    """Height and width of the images, in pixels; images are scaled to it."""
    channels: Literal[1, 3] = 3
    """Number of channels: 1 for grey, 3 for red, green and blue."""
    classes: tuple[str, ...] = ()
    """Names of the classes of an image, for a head on the pooled vector; empty: no such head."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout rate on the input of the head."""
    max_length: int = Field(default=0, ge=0, le=LONGEST)
    """What an image counts in `train.batch_tokens`; leave it out."""

    @model_validator(mode="after")
    def _set_max_length(self) -> ConvolutionalConfig:
        """Sets `max_length`; refuses another value."""
        if self.max_length not in (0, self.tokens):
            raise ValueError(
                f"max_length {self.max_length}: an image counts {self.tokens} tokens; leave it out"
            )
        object.__setattr__(self, "max_length", self.tokens)  # the instance is frozen already
        return self

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of the places that an image has in the end."""
        raise NotImplementedError

    @property
    def tokens(self) -> int:
        """What an image counts in `train.batch_tokens`, whatever its size."""
        return IMAGE_TOKENS

    @property
    def image_summary(self) -> str:
        """A short description of how images are read."""
        return f"{self.image[0]} x {self.image[1]} by convolutions"

    def state_floats(self, rows: int, length: int, source: int) -> int:
        """Nothing is stored between steps: these models do not write."""
        del rows, length, source
        return 0


def nearest_image_size(image: tuple[int, int], patch: int) -> str:
    """The nearest height and width, as `H x W`, that are whole patches.

    Example:
        >>> nearest_image_size((225, 10), 16)
        '224 x 16'
    """
    return " x ".join(str(max(1, round(side / patch)) * patch) for side in image)
