"""Items -> what an image model reads: opened, scaled to its size, normalised.

A reader stands in a checkpoint where models of text have their tokenizer: as JSON, of numbers and
names alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from pydantic import Field, TypeAdapter, model_validator

from regard.config import Config, checked
from regard.data.images.ink import FRAME, framed
from regard.data.images.opening import check, name_of, opened
from regard.data.input import Dense

Numbers = tuple[float, ...]
Resample = Literal["nearest", "lanczos", "bilinear", "bicubic", "box", "hamming"]
RESAMPLES: tuple[Resample, ...] = ("nearest", "lanczos", "bilinear", "bicubic", "box", "hamming")
"""In the order of the numbers that Pillow, and with it transformers, gives them."""
LARGEST = 4096
"""Pixels of a side, of what a model reads."""


class ImageReader(Config):
    """How an image of any size and kind becomes (channels, height, width) of a model.

    Example:
        >>> reader = ImageReader(height=8, width=8, channels=1, mean=(0.5,), std=(0.5,))
        >>> reader.read([np.zeros((30, 20))]).values.shape
        torch.Size([1, 1, 8, 8])
        >>> ImageReader.from_spec(reader.model_dump(mode="json")) == reader
        True
    """

    reader: Literal["images"] = "images"
    height: int = Field(ge=1, le=LARGEST)
    width: int = Field(ge=1, le=LARGEST)
    channels: Literal[1, 3] = 3
    mean: Numbers = (0.5, 0.5, 0.5)
    """Of each channel, from 0 to 1: what is subtracted."""
    std: Numbers = (0.5, 0.5, 0.5)
    """Of each channel: what is divided by then."""
    scaling: Literal["whole", "ink"] = "whole"
    """`whole`: the image, scaled to height and width. `ink`: what is drawn in it, cut out, of one
    height and one amount of ink, light on dark, as the digits were made."""
    resample: Resample = "bilinear"
    """How `whole` scales."""

    @model_validator(mode="after")
    def _fits(self) -> ImageReader:
        if not len(self.mean) == len(self.std) == self.channels:
            raise ValueError(f"mean and std need {self.channels} numbers each")
        if not all(deviation > 0 for deviation in self.std):
            raise ValueError("std must be above 0")
        if self.scaling == "ink":
            side = self.height
            if self.channels != 1 or side != self.width or FRAME % side:
                raise ValueError(f"ink needs one channel and a square whose side divides {FRAME}")
        return self

    @staticmethod
    def from_spec(spec: Any) -> ImageReader:
        """The reader that its JSON object describes.

        Raises:
            InputError: It is damaged.
        """
        return checked(TypeAdapter(ImageReader), spec, "tokenizer.json")

    def to_json(self) -> str:
        """As a checkpoint keeps it."""
        return self.model_dump_json()

    def is_one(self, items: Any) -> bool:
        """Whether this is one item, not several: a list, or an array of several images."""
        return not isinstance(items, list | tuple) and getattr(items, "ndim", 0) != 4

    def check(self, item: Any) -> None:
        """Refuses a path or bytes that are no image, before anything is decoded."""
        check(item)

    def read(self, items: Sequence[Any]) -> Dense:
        """What the model reads: (images, channels, height, width).

        Args:
            items: As `opened` takes them.

        Raises:
            InputError: One cannot be read.
        """
        pixels = np.stack([self.pixels(item) for item in items])
        return Dense(self.normalised(torch.from_numpy(pixels)))

    def pixels(self, item: Any) -> NDArray[np.float32]:
        """The image at the model's size, from 0 to 1: (channels, height, width)."""
        image = opened(item)
        if self.scaling == "ink":
            return framed(image, self.height, name_of(item))[None]
        image = image.convert("RGB" if self.channels == 3 else "L")
        if image.size != (self.width, self.height):
            how = Image.Resampling(RESAMPLES.index(self.resample))
            image = image.resize((self.width, self.height), how)
        values: NDArray[np.float32] = np.asarray(image, dtype=np.float32) / np.float32(255)
        return values[None] if self.channels == 1 else values.transpose(2, 0, 1).copy()

    def normalised(self, pixels: torch.Tensor) -> torch.Tensor:
        """(x - mean) / std, by channel: (images, channels, height, width)."""
        mean, std = (torch.tensor(each).view(-1, 1, 1) for each in (self.mean, self.std))
        return (pixels.float() - mean) / std
