"""Image files or arrays -> an image model's input: opened, scaled to the model's size, normalised.

A checkpoint keeps the reader's settings as JSON in the place where text models keep their
tokenizer.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydantic import Field, TypeAdapter, model_validator

from regard.config import Config, checked
from regard.errors import InputError
from regard.inputs.images.ink import FRAME, frame_ink, frame_object
from regard.inputs.images.opening import MOST_BYTES, SUFFIXES, name_of, on_white, open_image
from regard.inputs.reader import Encoded

if TYPE_CHECKING:  # a list of models reads their settings, and need not wait for torch
    import torch

    from regard.inputs.arrays import Dense

_logger = logging.getLogger(__name__)
Numbers = tuple[float, ...]
Resample = Literal["nearest", "lanczos", "bilinear", "bicubic", "box", "hamming"]
RESAMPLES: tuple[Resample, ...] = ("nearest", "lanczos", "bilinear", "bicubic", "box", "hamming")
"""In the order of Pillow's numbering, which transformers uses, too."""
DECODED_TIMES = 2
"""A JPEG of training data is decoded at no less than this many times the model's size."""
MAX_LONG_SIDE = 2**16
"""The most pixels of the longer side of an image that is scaled by its shorter side."""
MAX_SIDE = 4096
"""The most pixels of a side of a model's input."""


class ImageReader(Config):
    """Turns images of any size and mode into a model's input, (channels, height, width) each.

    Example:
        >>> reader = ImageReader(height=8, width=8, channels=1, mean=(0.5,), std=(0.5,))
        >>> reader.collate(reader.read([np.zeros((30, 20))])).values.shape
        torch.Size([1, 1, 8, 8])
        >>> ImageReader.from_spec(reader.model_dump(mode="json")) == reader
        True
    """

    modality: ClassVar[str] = "images"
    nouns: ClassVar[str] = "images"
    key: ClassVar[str | None] = "file"
    has_grid: ClassVar[bool] = True
    dash_is_item: ClassVar[bool] = True

    reader: Literal["images"] = "images"
    height: int = Field(ge=1, le=MAX_SIDE)
    width: int = Field(ge=1, le=MAX_SIDE)
    channels: Literal[1, 3] = 3
    mean: Numbers = (0.5, 0.5, 0.5)
    """Mean of each channel, from 0 to 1, which is subtracted."""
    std: Numbers = (0.5, 0.5, 0.5)
    """Standard deviation of each channel, by which the difference is divided."""
    scaling: Literal["whole", "ink", "object"] = "whole"
    """`whole`: the image is scaled to height and width. `ink`: the drawing in it is cropped, scaled
    to a fixed height and amount of ink, light on dark, as the digits were made. `object`: what
    stands on a plain background is cropped, scaled to the frame, light on dark, as Fashion-MNIST
    was made; an image of the model's own size is left as it is."""
    resample: Resample = "bilinear"
    """The interpolation that `whole` scales with."""
    resize: int | tuple[int, int] | None = None
    """`whole`: what the image is scaled to before its middle, of height x width, is cut out: the
    length of its shorter side, or height and width. None: height and width of the model."""
    few_colours: float = Field(default=0.0, ge=0, le=1)
    """The least share of a training image that its four commonest colours have, as in drawings
    (`few_colours_of`). An image with less is read, with a warning; 0: no warning."""
    ground: float = Field(default=0.0, ge=0, le=1)
    """With `few_colours`, how bright the commonest colour of a training image is at least; of
    drawings on paper that is the ground."""

    @model_validator(mode="after")
    def _check_settings(self) -> ImageReader:
        """Checks the settings that depend on each other."""
        if not len(self.mean) == len(self.std) == self.channels:
            raise ValueError(f"mean and std need {self.channels} numbers each")
        if not all(deviation > 0 for deviation in self.std):
            raise ValueError("std must be above 0")
        sides = (self.resize,) if isinstance(self.resize, int) else self.resize or ()
        if not all(1 <= side <= MAX_SIDE for side in sides):
            raise ValueError(f"resize must be from 1 to {MAX_SIDE}")
        if self.scaling == "object" and self.channels != 1:
            raise ValueError("scaling: object needs one channel")
        if self.scaling == "ink":
            side = self.height
            if self.channels != 1 or side != self.width or FRAME % side:
                raise ValueError(f"ink needs one channel and a square whose side divides {FRAME}")
        return self

    @classmethod
    def from_spec(cls, spec: Any) -> ImageReader:
        """Build a reader from its parsed JSON.

        Raises:
            InputError: The JSON is damaged.
        """
        return checked(TypeAdapter(ImageReader), spec, "tokenizer.json")

    def to_json(self) -> str:
        """Return the settings as JSON, as a checkpoint keeps them."""
        return self.model_dump_json()

    @classmethod
    def are_ids(cls, items: Any) -> bool:
        """False: an array of whole numbers is an image."""
        del items
        return False

    @classmethod
    def is_one(cls, what: str, items: Any, is_single: Callable[[Any], bool]) -> bool:
        """Whether this is one image, not several: a list, or an array of four dimensions."""
        del what, is_single
        return not isinstance(items, list | tuple) and getattr(items, "ndim", 0) != 4

    @classmethod
    def check(cls, what: str, items: Any, takes: Callable[[Any], bool]) -> None:
        """Nothing: images are checked when they are read."""

    @classmethod
    def item(cls, line: str, parse: Callable[[str], Any]) -> Any:
        """An argument or a line as the path of an image; `-` is the image on standard input."""
        del parse
        if line != "-":
            return line
        return b"" if sys.stdin is None else sys.stdin.buffer.read(MOST_BYTES + 1)

    @classmethod
    def prepared_input(cls, values: Any) -> Dense:
        """Normalised pixels (images, channels, height, width) as a model's input."""
        import torch

        from regard.inputs.arrays import Dense

        pixels = torch.as_tensor(values)
        if pixels.ndim != 4 or not pixels.is_floating_point():
            shape = " x ".join(map(str, pixels.shape)) or "a number"
            expected = "real numbers, batch x channels x height x width"
            raise InputError("logits", got=f"{shape} of {pixels.dtype}", expected=expected)
        return Dense(pixels.float())

    def files_in(self, arguments: list[str], skip: Callable[[str], None]) -> list[str]:
        """The arguments, with the images in a folder in its place.

        Files that are no whole images are left out, and `skip` is told why.

        Raises:
            InputError: A folder has no images.
        """
        paths: list[str] = []
        for argument in arguments:
            if not Path(argument).is_dir():
                paths.append(argument)
                continue
            files = sorted(path for path in Path(argument).rglob("*") if path.is_file())
            images = [str(path) for path in files if path.name.lower().endswith(SUFFIXES)]
            for image in images:
                try:
                    self.pixels(image)  # decoded to the end: it may be cut short
                except InputError as error:
                    skip(f"skipped: {error}".partition("\n")[0])
                else:
                    paths.append(image)
            if not images:
                raise InputError(argument, got="a folder without images", expected="some in it")
        return paths

    def read(self, items: Sequence[Any], limit: int | None = None) -> list[Encoded]:
        """Scale images to the model's size.

        Args:
            items: Images in any form that `open_image` accepts.
            limit: Nothing is cut off: an image has as many patches as the model reads.

        Raises:
            InputError: An image cannot be read.
        """
        del limit
        encoded = [Encoded(item, self.pixels(item)) for item in items]
        for image in encoded:
            if warning := self.unfamiliar(image.values):
                _logger.warning("warning: %s: %s", name_of(image.item), warning)
        return encoded

    def unfamiliar(self, pixels: NDArray[np.float32]) -> str:
        """What an image is unlike the images that the model learned from; mostly nothing.

        Args:
            pixels: (channels, height, width) From 0 to 1.
        """
        if not self.few_colours:
            return ""
        share, ground = few_colours_of(np.rint(255 * pixels))
        unlike = []
        if share < self.few_colours:
            unlike.append(f"four colours have {share:.1%} of it, of those {self.few_colours:.1%}")
        if ground < self.ground:
            unlike.append(f"its ground has {ground:.1%} of white, theirs {self.ground:.1%}")
        if not unlike:
            return ""
        said = " or more; ".join(unlike)
        return (
            f"no drawing as the model knows them: {said} or more. Do not trust what is said of it"
        )

    def collate(self, encoded: Sequence[Encoded]) -> Dense:
        """Images as the model's input: (images, channels, height, width), normalised."""
        import torch

        from regard.inputs.arrays import Dense

        pixels = np.stack([image.values for image in encoded])
        return Dense(self.normalised(torch.from_numpy(pixels)))

    def pixels(self, item: Any) -> NDArray[np.float32]:
        """Scale an image to the model's size: (channels, height, width), from 0 to 1."""
        image = open_image(item)
        if (ink := self._light_on_dark(image, item)) is not None:
            return ink
        return self._scale_image(image).astype(np.float32) / np.float32(255)

    def bytes_of(self, item: Any) -> NDArray[np.uint8]:
        """Scale an image to the model's size: (channels, height, width), from 0 to 255.

        As `pixels`, but for training data: large JPEGs are decoded at a part of their size.
        """
        shape = (self.height, self.width) if self.channels == 1 else (self.height, self.width, 3)
        scales_only = self.scaling != "ink" and self.resize is None
        has_shape = isinstance(item, np.ndarray) and item.dtype == np.uint8 and item.shape == shape
        if scales_only and has_shape:
            return item[None] if self.channels == 1 else item.transpose(2, 0, 1)
        image = open_image(item, (DECODED_TIMES * self.height, DECODED_TIMES * self.width))
        if (ink := self._light_on_dark(image, item)) is not None:
            return np.rint(255 * ink).astype(np.uint8)
        return self._scale_image(image)

    def _light_on_dark(self, image: Image.Image, item: Any) -> NDArray[np.float32] | None:
        """What stands on a plain background: (1, height, width), from 0 to 1; None: the whole."""
        if self.scaling == "ink":
            return frame_ink(image, self.height, name_of(item))[None]
        if self.scaling == "object" and image.size != (self.width, self.height):
            return frame_object(image, self.height, self.width, name_of(item))[None]
        return None

    def _scale_image(self, image: Image.Image) -> NDArray[np.uint8]:
        """Scale and crop the image, on white if it has transparency: (channels, height, width)."""
        image = on_white(image).convert("RGB" if self.channels == 3 else "L")
        size = self._scaled_size(image)
        if image.size != size:
            image = image.resize(size, Image.Resampling(RESAMPLES.index(self.resample)))
        if size != (self.width, self.height):  # the middle; what lies outside is black
            left, top = (size[0] - self.width) // 2, (size[1] - self.height) // 2
            image = image.crop((left, top, left + self.width, top + self.height))
        values: NDArray[np.uint8] = np.asarray(image)
        return values[None] if self.channels == 1 else values.transpose(2, 0, 1).copy()

    def _scaled_size(self, image: Image.Image) -> tuple[int, int]:
        """Width and height that an image is scaled to, before its middle is cut out."""
        if self.resize is None:
            return self.width, self.height
        if not isinstance(self.resize, int):
            return self.resize[1], self.resize[0]
        short, long = sorted(image.size)
        # a line of 1 x 10,000 pixels would become 256 x 2,560,000
        side = min(int(self.resize * long / short), MAX_LONG_SIDE)
        return (self.resize, side) if image.width <= image.height else (side, self.resize)

    def normalised(self, pixels: torch.Tensor) -> torch.Tensor:
        """Compute (x - mean) / std per channel: (images, channels, height, width).

        Args:
            pixels: Floats from 0 to 1, or bytes from 0 to 255.
        """
        import torch

        if pixels.dtype == torch.uint8:
            pixels = pixels.float() / 255
        mean, std = (torch.tensor(values).view(-1, 1, 1) for values in (self.mean, self.std))
        return (pixels.float() - mean) / std


def few_colours_of(pixels: NDArray[Any]) -> tuple[float, float]:
    """How plain an image is: in colours of 16 levels a channel.

    Args:
        pixels: (channels, height, width) From 0 to 255.

    Returns:
        The share of the image that its four commonest colours have, and how bright the commonest
        one is, from 0 to 1.

    Example:
        >>> few_colours_of(np.array([[[255, 255, 250, 100, 200]]]))
        (1.0, 1.0)
    """
    levels = pixels.astype(np.int64) >> 4
    colours = levels[0]
    for channel in levels[1:]:
        colours = colours * 16 + channel
    _, first, counts = np.unique(colours, return_index=True, return_counts=True)
    commonest = first[counts.argmax()]
    brightness = float(levels.reshape(len(levels), -1)[:, commonest].mean() / 15)
    return float(np.sort(counts)[-4:].sum() / colours.size), brightness
