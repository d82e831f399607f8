"""Images of equal size with their classes, in training, validation and test splits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from regard.data.images.scenes import Scene


class Pixels(Protocol):
    """Images in an array, or in files that are decoded when they are asked for."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(images, channels, height, width)."""

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        """Return some images: (rows, channels, height, width)."""


@dataclass(frozen=True, eq=False)
class Pictures:
    """Images of equal size with their classes."""

    values: Any
    """`Pixels`: (images, channels, height, width), bytes from 0 to 255 or floats from 0 to 1; in
    drawings, 1 is ink."""
    labels: tuple[str, ...]
    """The class name of each image."""
    captions: tuple[str, ...] = ()
    """The caption of each image; empty if they have none."""
    scenes: tuple[Scene, ...] = field(default=(), repr=False)
    """What was drawn in each image, of drawn scenes: objects, positions, masks."""

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, rows: slice) -> Pictures:
        return Pictures(
            self.values[rows], self.labels[rows], self.captions[rows], self.scenes[rows]
        )


@dataclass(frozen=True, eq=False)
class PictureSplits:
    """Training, validation and test images."""

    train: Pictures
    valid: Pictures
    tests: dict[str, Pictures]
    checksums: dict[str, str]
    """SHA-256 of the data, by the name of its file, folder or kind."""


def statistics(values: Pixels, most: int = 10_000) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Compute mean and standard deviation of each channel, from 0 to 1, with four decimals.

    Args:
        values: (images, channels, height, width) Bytes from 0 to 255.
        most: So many images are looked at, evenly spread.
    """
    count = values.shape[0]
    places = np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.int64))
    channels = values.shape[1]
    total, squares, pixels = np.zeros(channels), np.zeros(channels), 0
    for first in range(0, len(places), 256):
        some = values[places[first : first + 256]].astype(np.float64) / 255
        total += some.sum(axis=(0, 2, 3))
        squares += (some**2).sum(axis=(0, 2, 3))
        pixels += some[:, 0].size
    mean = total / pixels
    deviation = np.sqrt(np.maximum(squares / pixels - mean**2, 0))
    rounded = (np.round(each, 4).tolist() for each in (mean, np.maximum(deviation, 0.01)))
    means, deviations = map(tuple, rounded)
    return means, deviations
