"""A small convolutional network: LeNet's shape, as in most introductions to deep learning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field, PositiveInt, model_validator

from regard.models.config import Sizes
from regard.models.families.family import Family, PublishedModel
from regard.models.families.images import IMAGE_TOKENS, ConvolutionalConfig


class CNNConfig(ConvolutionalConfig):
    """Convolutions with ReLU and max-pooling, then dense layers with ReLU (LeCun et al. 1998)."""

    SIZES: ClassVar[Sizes] = {"lenet": {}}
    family: Literal["cnn"] = "cnn"
    size: Literal["lenet"] | None = None
    image: tuple[PositiveInt, PositiveInt] = (32, 32)
    """Height and width of the images, in pixels; images are scaled to it."""
    filters: tuple[PositiveInt, ...] = Field(default=(6, 16), min_length=1)
    """Number of channels after each convolution."""
    kernel: int = Field(default=5, ge=1, le=31)
    """Side of the convolutions' kernels; they are not padded."""
    dense: tuple[PositiveInt, ...] = Field(default=(120, 84), min_length=1)
    """Widths of the dense layers after the convolutions."""
    dim: int = Field(default=0, ge=0)
    """Width of the last dense layer; leave it out: it follows from `dense`."""

    @model_validator(mode="after")
    def _check_image(self) -> CNNConfig:
        """Refuses an image too small for the convolutions, and sets `dim`."""
        if min(self.map_sizes[-1]) < 1:
            height, width = self.image
            raise ValueError(
                f"an image of {height} x {width} is too small for {len(self.filters)} "
                f"convolutions of {self.kernel} x {self.kernel}, each halved"
            )
        if self.dim not in (0, self.dense[-1]):
            raise ValueError(f"dim {self.dim}: dense ends in {self.dense[-1]}; leave dim out")
        object.__setattr__(self, "dim", self.dense[-1])  # the instance is frozen already
        return self

    @property
    def map_sizes(self) -> list[tuple[int, int]]:
        """Height and width after each convolution and its pooling."""
        sizes, (height, width) = [], self.image
        for _ in self.filters:
            height, width = ((side - self.kernel + 1) // 2 for side in (height, width))
            sizes.append((height, width))
        return sizes

    @property
    def grid(self) -> tuple[int, int]:
        """The dense layers make one vector of an image."""
        return 1, 1

    @property
    def stacks(self) -> dict[str, int]:
        """The number of layers: convolutions and dense ones."""
        return {"encoder": len(self.filters) + len(self.dense)}

    @property
    def summary(self) -> str:
        """A short description of the widths."""
        return f"{'-'.join(map(str, self.filters))} channels, then {'-'.join(map(str, self.dense))}"

    def activation_floats(self, lengths: Sequence[int], targets: int) -> int:
        """Estimates how many numbers one image stores for the backward pass."""
        del lengths, targets
        # the output of each convolution before and after ReLU is 4 x as large as after pooling
        maps = zip(self.filters, self.map_sizes, strict=True)
        return sum(10 * width * rows * columns for width, (rows, columns) in maps) + 2 * sum(
            self.dense
        )


FAMILY = Family(
    CNNConfig,
    "regard.models.convolutional.SmallCNN",
    task="classify",
    named={
        "cnn-lenet": PublishedModel(
            {"family": "cnn", "size": "lenet", "classes": tuple("0123456789")},
            lengths=(IMAGE_TOKENS,),
        )
    },
)
