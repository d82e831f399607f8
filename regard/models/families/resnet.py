"""Residual networks: ResNet-18 to ResNet-101."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field, PositiveInt, model_validator

from regard.models.config import Sizes
from regard.models.families.family import Family, PublishedModel
from regard.models.families.images import IMAGE_TOKENS, ConvolutionalConfig
from regard.models.families.vit import CLASSES

_BASIC = {"block": "basic", "filters": (64, 128, 256, 512)}
_BOTTLENECK = {"block": "bottleneck", "filters": (256, 512, 1024, 2048)}


class ResNetConfig(ConvolutionalConfig):
    """Stages of residual blocks, each stage with half the height and width (He et al. 2016)."""

    SIZES: ClassVar[Sizes] = {
        "18": {**_BASIC, "depths": (2, 2, 2, 2)},
        "34": {**_BASIC, "depths": (3, 4, 6, 3)},
        "50": {**_BOTTLENECK, "depths": (3, 4, 6, 3)},
        "101": {**_BOTTLENECK, "depths": (3, 4, 23, 3)},
    }
    family: Literal["resnet"] = "resnet"
    size: Literal["18", "34", "50", "101"] | None = None
    block: Literal["basic", "bottleneck"] = "bottleneck"
    """`basic`: two convolutions of 3 x 3. `bottleneck`: 1 x 1 to a quarter of the width, 3 x 3, and
    1 x 1 back."""
    depths: tuple[PositiveInt, ...] = Field(default=(3, 4, 6, 3), min_length=1)
    """Number of blocks of each stage."""
    filters: tuple[PositiveInt, ...] = Field(default=(256, 512, 1024, 2048), min_length=1)
    """Number of channels of each stage."""
    stem_width: int = Field(default=64, ge=1)
    """Number of channels after the first convolution, of 7 x 7, and max-pooling."""
    stride_first: bool = False
    """Whether the first stage halves height and width, too."""
    stride_in_first: bool = False
    """Whether a bottleneck that halves does so in its first convolution (the paper), not in the
    second (torchvision's version 1.5)."""
    dim: int = Field(default=0, ge=0)
    """Width of the last stage; leave it out: it follows from `filters`."""

    @model_validator(mode="after")
    def _check_stages(self) -> ResNetConfig:
        """Refuses depths and filters that do not fit together, and sets `dim`."""
        if len(self.depths) != len(self.filters):
            raise ValueError(f"{len(self.depths)} depths, but {len(self.filters)} filters")
        if self.block == "bottleneck" and any(width % 4 for width in self.filters):
            raise ValueError(f"filters {self.filters}: a bottleneck needs multiples of 4")
        if self.dim not in (0, self.filters[-1]):
            raise ValueError(f"dim {self.dim}: filters end in {self.filters[-1]}; leave dim out")
        object.__setattr__(self, "dim", self.filters[-1])  # the instance is frozen already
        return self

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
    def grid(self) -> tuple[int, int]:
        """Rows and columns of the last stage's output."""
        return self.map_sizes[-1]

    @property
    def least_examples(self) -> int:
        """Two if the last batch norms would see a single number of each channel of one image."""
        return 2 if self.grid == (1, 1) else 1

    @property
    def stacks(self) -> dict[str, int]:
        """The number of stages."""
        return {"encoder": len(self.depths)}

    @property
    def summary(self) -> str:
        """A short description of the stages."""
        blocks = "-".join(map(str, self.depths))
        return f"{blocks} {self.block} blocks, {self.filters[-1]} wide in the end"

    def activation_floats(self, lengths: Sequence[int], targets: int) -> int:
        """Estimates how many numbers one image stores for the backward pass.

        Each convolution stores its output before its norm, and the norm's output.
        """
        del lengths, targets
        total = 2 * self.stem_width * 5 * self.map_sizes[0][0] * self.map_sizes[0][1]
        parts = 2.0 if self.block == "basic" else 1.5  # in widths: 1 + 1, or 1/4 + 1/4 + 1
        stages = zip(self.depths, self.filters, self.map_sizes[1:], strict=True)
        for depth, width, (height, columns) in stages:
            total += int(2 * parts * depth * width * height * columns)
        return total


def half_side(side: int) -> int:
    """The side of an image after a padded convolution or pooling with stride 2.

    Example:
        >>> half_side(224), half_side(7)
        (112, 4)
    """
    return (side + 1) // 2


def _published_model(size: str) -> PublishedModel:
    """The entry of a size in the list of models that `regard plan` knows by name."""
    return PublishedModel(
        {"family": "resnet", "size": size, "classes": CLASSES},
        lengths=(IMAGE_TOKENS,),
        step_tokens=256 * IMAGE_TOKENS,
        steps=600_000,
        source="He et al. 2016: 600,000 steps of 256 images",
    )


FAMILY = Family(
    ResNetConfig,
    "regard.models.convolutional.ResNet",
    task="classify",
    named={f"resnet-{size}": _published_model(size) for size in ResNetConfig.SIZES},
)
