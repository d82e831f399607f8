"""Residual networks: ResNet-18 to ResNet-101."""

from __future__ import annotations

from typing import ClassVar, Literal

from regard.layers.grid_config import IMAGE_TOKENS, ResidualConvolutions
from regard.models.config import Sizes
from regard.models.families.family import Family, PublishedModel
from regard.models.families.images import ConvolutionalConfig
from regard.models.families.vit import CLASSES

_BASIC = {"unit": "basic", "filters": (64, 128, 256, 512)}
_BOTTLENECK = {"unit": "bottleneck", "filters": (256, 512, 1024, 2048)}
_GENES = {
    "family": "resnet",
    "size": "50",
    "numbers": tuple(f"gene {number}" for number in range(1, 307)),
    "widths": (2048, 1024, 512, 256),
}
"""A ResNet-50 whose head predicts the activity of 306 genes from a slice of tissue."""


class ResNetConfig(ConvolutionalConfig):
    """Stages of residual units, each stage with half the height and width (He et al. 2016)."""

    SIZES: ClassVar[Sizes] = {
        "18": {**_BASIC, "depths": (2, 2, 2, 2)},
        "34": {**_BASIC, "depths": (3, 4, 6, 3)},
        "50": {**_BOTTLENECK, "depths": (3, 4, 6, 3)},
        "101": {**_BOTTLENECK, "depths": (3, 4, 23, 3)},
    }
    family: Literal["resnet"] = "resnet"
    size: Literal["18", "34", "50", "101"] | None = None
    encoder: ResidualConvolutions = ResidualConvolutions()

    @property
    def least_examples(self) -> int:
        """Two if batch norms would see a single number of each channel of one image."""
        return 2 if self.encoder.grid == (1, 1) else super().least_examples


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
    named={
        **{f"resnet-{size}": _published_model(size) for size in ResNetConfig.SIZES},
        "resnet-50-genes": PublishedModel(_GENES, lengths=(IMAGE_TOKENS,)),
    },
)
