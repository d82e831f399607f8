"""A small convolutional network: LeNet's shape, as in most introductions to deep learning."""

from __future__ import annotations

from typing import ClassVar, Literal

from regard.layers.grid_config import IMAGE_TOKENS, PlainConvolutions
from regard.models.config import Sizes
from regard.models.families.family import Family, PublishedModel
from regard.models.families.images import ConvolutionalConfig


class CNNConfig(ConvolutionalConfig):
    """Convolutions with ReLU and max-pooling, then dense layers with ReLU (LeCun et al. 1998)."""

    SIZES: ClassVar[Sizes] = {"lenet": {}}
    family: Literal["cnn"] = "cnn"
    size: Literal["lenet"] | None = None
    encoder: PlainConvolutions = PlainConvolutions()


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
