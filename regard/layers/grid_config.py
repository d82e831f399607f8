"""The configs of parts that read images: patches, stacks over a grid, convolutional networks."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from regard.config import Config
from regard.layers.config import (
    LONGEST,
    AnyAttention,
    AttentionConfig,
    BucketsConfig,
    ConvolutionConfig,
    FeedForwardConfig,
    LearnedConfig,
    NoPositionsConfig,
    RotaryConfig,
    Sinusoidal2DConfig,
    SinusoidalConfig,
    StackConfig,
)

IMAGE_TOKENS = 64
"""What an image of a CNN, which has no tokens, counts in a batch: as much as 8 x 8 patches."""
ANY_SIZE = ("learned", "sinusoidal_2d", "buckets", "none")
"""Position schemes of models that read images of any size; others stop at the model's own."""


class ImageSize(Config):
    """The size of the images that a part reads."""

    reads: ClassVar[str] = "images"
    image: tuple[PositiveInt, PositiveInt] = (224, 224)
    """Height and width of the images, in pixels; images are scaled to it."""
    channels: Literal[1, 3] = 3
    """Number of channels: 1 for grey, 3 for red, green and blue."""


class PatchFront(ImageSize):
    """An image cut into patches, each of which becomes a token."""

    kind: Literal["patches"] = "patches"
    patch: int = Field(default=16, ge=1, le=LONGEST)
    """The side of a patch, in pixels; it must divide height and width. Each patch is a token."""
    stem: Literal["patches", "convolution"] = "patches"
    """`patches`: a patch becomes a token by one matrix. `convolution`: by convolutions of 3 x 3,
    each with ReLU and max-pooling that halves height and width, until `patch` pixels are one place
    (Compact Convolutional Transformer); `patch` is then a power of two."""
    stem_width: int = Field(default=64, ge=1, le=LONGEST)
    """Number of channels of the stem: between its convolutions, or after the first of a ResNet."""
    class_token: bool = True
    """Whether a learned [CLS] token precedes the patches."""
    distillation: Literal["none", "token", "head"] = "none"
    """`token`: a second learned token follows [CLS] (DeiT). `head`: and it has a second head for
    the classes, which learns from `train.teacher`; the answer is the mean of both heads' logits."""

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        return self.image[0] // self.patch, self.image[1] // self.patch

    @property
    def tokens_before(self) -> int:
        """Number of learned tokens before the patches: [CLS] and the distillation token."""
        return int(self.class_token) + int(self.distillation != "none")

    @property
    def max_length(self) -> int:
        """Number of tokens of an image: its patches, and the learned tokens before them."""
        return self.grid[0] * self.grid[1] + self.tokens_before

    @property
    def image_summary(self) -> str:
        """A short description of how images are read."""
        by = "patches of" if self.stem == "patches" else "convolutions to places of"
        return f"{self.image[0]} x {self.image[1]} in {by} {self.patch} x {self.patch}"

    @model_validator(mode="after")
    def _check_patches(self) -> Self:
        """Refuses patches that do not fit the image."""
        height, width = self.image
        if height % self.patch or width % self.patch:
            raise ValueError(
                f"an image of {height} x {width} has no whole patches of {self.patch}; "
                f"{nearest_image_size(self.image, self.patch)} would fit"
            )
        if self.max_length > LONGEST:
            raise ValueError(f"{self.max_length} patches are more than any model reads")
        if self.distillation != "none" and not self.class_token:
            raise ValueError("distillation needs class_token: true")
        if self.stem == "convolution" and self.patch & (self.patch - 1):
            raise ValueError(f"stem: convolution needs a patch of 2, 4, 8, …, got {self.patch}")
        return self


def nearest_image_size(image: tuple[int, int], patch: int) -> str:
    """The nearest height and width, as `H x W`, that are whole patches.

    Example:
        >>> nearest_image_size((225, 10), 16)
        '224 x 16'
    """
    return " x ".join(str(max(1, round(side / patch)) * patch) for side in image)


class GridAttentionConfig(AnyAttention):
    """Self-attention within square windows of an image (Swin)."""

    kind: Literal["grid_attention"] = "grid_attention"
    grid_window: int = Field(default=7, ge=1, le=LONGEST)
    """The side of the square windows of an image within which attention stays; every other block
    shifts them by half of it."""
    grid_bias: Literal["none", "table", "net"] = "none"
    """The bias added to attention scores by offset within a window: a learned table (Swin), or the
    output of a small network (Swin-V2)."""
    bias_window: int | None = Field(default=None, ge=1, le=LONGEST)
    """The side of the windows by which a `net` scales offsets, if not `grid_window`: those that it
    was first trained with."""
    window_padding: Literal["masked", "zeros"] = "masked"
    """What fills the windows at the border of an image: cells that nothing attends to, or, as in
    the published Swins, tokens whose x is 0."""


GridSublayer = Annotated[
    AttentionConfig | GridAttentionConfig | FeedForwardConfig | ConvolutionConfig,
    Field(discriminator="kind"),
]
GridPositions = Annotated[
    SinusoidalConfig
    | Sinusoidal2DConfig
    | LearnedConfig
    | RotaryConfig
    | BucketsConfig
    | NoPositionsConfig,
    Field(discriminator="kind"),
]


class GridStack(StackConfig):
    """A stack over the patches of an image."""

    front: PatchFront = PatchFront()
    block: tuple[GridSublayer, ...] = (AttentionConfig(), FeedForwardConfig())
    positions: GridPositions = LearnedConfig()

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        return self.front.grid

    @model_validator(mode="after")
    def _check_positions(self) -> Self:
        if self.positions.kind == "sinusoidal_2d" and self.dim % 4:
            raise ValueError(f"positions: sinusoidal_2d needs dim / 4 whole, got dim {self.dim}")
        return self


class Convolutions(ImageSize):
    """The settings that all convolutional networks share."""

    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout rate on embedding plus position, and on each sub-layer's output; in a convolutional
    network, on the input of the head."""
    max_length: ClassVar[int] = IMAGE_TOKENS
    """What an image counts in `train.batch_tokens`, whatever its size."""
    tokens_before: ClassVar[int] = 0
    """No learned tokens precede the cells of the last feature map."""

    @property
    def dim(self) -> int:
        """Width of the output."""
        raise NotImplementedError

    @property
    def front(self) -> Self:
        """The part that reads images: the network itself."""
        return self

    @property
    def bound(self) -> int:
        """What an image counts in a batch."""
        return self.max_length

    @property
    def image_summary(self) -> str:
        """A short description of how images are read."""
        return f"{self.image[0]} x {self.image[1]} by convolutions"


class PlainConvolutions(Convolutions):
    """Convolutions with ReLU and max-pooling, then dense layers with ReLU (LeCun et al. 1998)."""

    kind: Literal["cnn"] = "cnn"
    image: tuple[PositiveInt, PositiveInt] = (32, 32)
    """Height and width of the images, in pixels; images are scaled to it."""
    filters: tuple[PositiveInt, ...] = Field(default=(6, 16), min_length=1)
    """Number of channels after each convolution, or of each stage of a ResNet."""
    filter_side: int = Field(default=5, ge=1, le=31)
    """Side of the convolutions' kernels in pixels; they are not padded."""
    dense: tuple[PositiveInt, ...] = (120, 84)
    """Widths of the dense layers after the convolutions; none: the output is the last feature map,
    a vector for each of its cells."""

    @model_validator(mode="after")
    def _check_image(self) -> Self:
        """Refuses an image too small for the convolutions."""
        if min(self.map_sizes[-1]) < 1:
            height, width = self.image
            raise ValueError(
                f"an image of {height} x {width} is too small for {len(self.filters)} "
                f"convolutions of {self.filter_side} x {self.filter_side}, each halved"
            )
        return self

    @property
    def map_sizes(self) -> list[tuple[int, int]]:
        """Height and width after each convolution and its pooling."""
        sizes, (height, width) = [], self.image
        for _ in self.filters:
            height, width = ((side - self.filter_side + 1) // 2 for side in (height, width))
            sizes.append((height, width))
        return sizes

    @property
    def dim(self) -> int:
        """Width of the output: of the last dense layer, or of the last feature map."""
        return (self.dense or self.filters)[-1]

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of the output: dense layers make one vector of an image."""
        return (1, 1) if self.dense else self.map_sizes[-1]

    @property
    def layers(self) -> int:
        """The number of layers: convolutions and dense ones."""
        return len(self.filters) + len(self.dense)

    @property
    def summary(self) -> str:
        """A short description of the widths."""
        then = f", then {'-'.join(map(str, self.dense))}" if self.dense else ""
        return f"{'-'.join(map(str, self.filters))} channels{then}"


class StageAttention(Config):
    """Self-attention over the cells of a ResNet's feature maps, between its stages.

    x + γ · attention(norm(x) + positions), with a learned number γ that begins at 0: at first the
    network is the one without attention.
    """

    after: tuple[NonNegativeInt, ...] | None = Field(default=None, min_length=1)
    """The stages that attention follows, counted from 0. None: every stage but the last."""
    heads: int = Field(default=8, ge=1)
    positions: Annotated[Sinusoidal2DConfig | NoPositionsConfig, Field(discriminator="kind")] = (
        Sinusoidal2DConfig()
    )
    """How the row and the column of a cell enter attention."""


class ResidualConvolutions(Convolutions):
    """Stages of residual units, each stage with half the height and width (He et al. 2016)."""

    kind: Literal["resnet"] = "resnet"
    unit: Literal["basic", "bottleneck"] = "bottleneck"
    """`basic`: two convolutions of 3 x 3. `bottleneck`: 1 x 1 to a quarter of the width, 3 x 3, and
    1 x 1 back."""
    depths: tuple[PositiveInt, ...] = Field(default=(3, 4, 6, 3), min_length=1)
    """Number of units of each stage."""
    filters: tuple[PositiveInt, ...] = Field(default=(256, 512, 1024, 2048), min_length=1)
    """Number of channels after each convolution, or of each stage of a ResNet."""
    stem_width: int = Field(default=64, ge=1, le=LONGEST)
    """Number of channels of the stem: between its convolutions, or after the first of a ResNet."""
    stride_first: bool = False
    """Whether the first stage halves height and width, too."""
    stride_in_first: bool = False
    """Whether a bottleneck that halves does so in its first convolution (the paper), not in the
    second (torchvision's version 1.5)."""
    stage_attention: StageAttention | None = None
    """Self-attention between the stages. null: none, convolutions alone."""

    @model_validator(mode="after")
    def _check_stages(self) -> Self:
        """Refuses depths and filters that do not fit together, and attention that fits neither."""
        if len(self.depths) != len(self.filters):
            raise ValueError(f"{len(self.depths)} depths, but {len(self.filters)} filters")
        if self.unit == "bottleneck" and any(width % 4 for width in self.filters):
            raise ValueError(f"filters {self.filters}: a bottleneck needs multiples of 4")
        self._check_attention()
        return self

    def _check_attention(self) -> None:
        """Refuses attention after stages that are not there, or whose width it cannot divide."""
        attention, stages = self.stage_attention, self.attention_stages
        if attention is None:
            return
        if not stages or stages[-1] >= self.layers or len(set(stages)) < len(attention.after or ()):
            raise ValueError(
                f"stage_attention: after {list(attention.after or ())} of {self.layers} stages; "
                f"it takes different ones of 0 to {self.layers - 1}"
            )
        for stage in stages:
            width = self.filters[stage]
            if width % attention.heads:
                raise ValueError(
                    f"stage_attention: {width} channels of stage {stage} are not a multiple of "
                    f"heads {attention.heads}"
                )
            if attention.positions.kind == "sinusoidal_2d" and width % 4:
                raise ValueError(
                    f"positions: sinusoidal_2d needs multiples of 4 channels, got {width} in stage "
                    f"{stage}; positions: none would fit"
                )

    @property
    def attention_stages(self) -> tuple[int, ...]:
        """The stages that attention follows, in order."""
        if self.stage_attention is None:
            return ()
        after = self.stage_attention.after
        return tuple(range(self.layers - 1)) if after is None else tuple(sorted(after))

    @property
    def strides(self) -> tuple[int, ...]:
        """By how much each stage divides height and width."""
        return (2 if self.stride_first else 1, *[2] * (len(self.depths) - 1))

    @property
    def map_sizes(self) -> list[tuple[int, int]]:
        """Height and width after the stem and after each stage."""
        sizes = [(half_side(half_side(self.image[0])), half_side(half_side(self.image[1])))]
        for stride in self.strides:
            height, width = sizes[-1]
            sizes.append((half_side(height), half_side(width)) if stride == 2 else (height, width))
        return sizes

    @property
    def dim(self) -> int:
        """Width of the last stage."""
        return self.filters[-1]

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of the last stage's output."""
        return self.map_sizes[-1]

    @property
    def layers(self) -> int:
        """The number of stages."""
        return len(self.depths)

    @property
    def summary(self) -> str:
        """A short description of the stages."""
        units = "-".join(map(str, self.depths))
        summary = f"{units} {self.unit} blocks, {self.filters[-1]} wide in the end"
        if self.stage_attention is None:
            return summary
        stages = ", ".join(map(str, self.attention_stages))
        return f"{summary}, attention of {self.stage_attention.heads} heads after stage {stages}"


def half_side(side: int) -> int:
    """The side of an image after a padded convolution or pooling with stride 2.

    Example:
        >>> half_side(224), half_side(7)
        (112, 4)
    """
    return (side + 1) // 2
