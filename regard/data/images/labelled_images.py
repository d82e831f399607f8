"""Images of equal size with their classes, in training, validation and test splits."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from regard.inputs.text.bloom import Keys, keys_of

if TYPE_CHECKING:
    from regard.data.synthetic.scenes import Scene

AT_ONCE = 256
"""Images that are read together."""


class Pixels(Protocol):
    """Images in an array, or in files that are decoded when they are asked for."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(images, channels, height, width)."""

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        """Return some images: (rows, channels, height, width)."""


@dataclass(frozen=True, eq=False)
class LabelledImages:
    """Images of equal size with their classes."""

    values: Any
    """`Pixels`: (images, channels, height, width), bytes from 0 to 255 or floats from 0 to 1; in
    drawings, 1 is ink."""
    labels: tuple[str, ...]
    """The class name of each image."""
    captions: tuple[tuple[str, ...], ...] = ()
    """The captions of each image, one or several; empty if they have none."""
    scenes: tuple[Scene, ...] = field(default=(), repr=False)
    """What was drawn in each image, of drawn scenes: objects, positions, masks."""
    digests: tuple[bytes, ...] = field(default=(), repr=False)
    """SHA-256 of each image's pixels, if they were computed when it was read."""
    skipped: int = 0
    """The number of files that were left out because they are no images."""
    numbers: NDArray[np.float64] | None = field(default=None, repr=False)
    """(images, outputs) The numbers to predict from each image; None if they have none."""
    outputs: tuple[str, ...] = ()
    """The names of these numbers."""

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, rows: slice) -> LabelledImages:
        return self._selected(self.values[rows], range(*rows.indices(len(self))))

    def take(self, rows: Sequence[int]) -> LabelledImages:
        """Return some of the images, by their numbers."""
        return self._selected(pixels_at(self.values, rows), rows)

    def _selected(self, values: Any, rows: Sequence[int]) -> LabelledImages:
        """Return the images with these pixels and numbers, with all that is known about them."""
        columns: Any = self.labels, self.captions, self.scenes, self.digests
        labels, captions, scenes, digests = (
            tuple(column[row] for row in rows) if column else () for column in columns
        )
        numbers = None if self.numbers is None else self.numbers[list(rows)]
        return LabelledImages(
            values, labels, captions, scenes, digests, numbers=numbers, outputs=self.outputs
        )

    def keys(self) -> Iterator[Keys]:
        """Yield the keys of the images, by which copies of them are found: (images, 1, 2)."""
        for keys in keys_of(digest[:16] for digest in self.digests or self._compute_digests()):
            yield keys[:, None]

    def _compute_digests(self) -> Iterator[bytes]:
        """Yield the SHA-256 of each image's pixels, as bytes from 0 to 255."""
        for first in range(0, len(self), AT_ONCE):
            pixels = self.values[first : first + AT_ONCE]
            if pixels.dtype != np.uint8:
                pixels = np.round(255 * pixels).astype(np.uint8)
            yield from (pixel_digest(image) for image in pixels)


def pixels_at(values: Any, rows: Sequence[int]) -> Any:
    """Select images; those that are in files are not decoded yet."""
    return values.subset(rows) if hasattr(values, "subset") else values[list(rows)]


def pixel_digest(pixels: NDArray[np.uint8]) -> bytes:
    """SHA-256 of an image's pixels."""
    return hashlib.sha256(np.ascontiguousarray(pixels).data).digest()


@dataclass(frozen=True, eq=False)
class ImageSplits:
    """Training, validation and test images."""

    train: LabelledImages
    valid: LabelledImages
    tests: dict[str, LabelledImages]
    checksums: dict[str, str]
    """SHA-256 of the data, by the name of its file, folder or kind."""


def statistics(values: Pixels, most: int = 10_000) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Compute mean and standard deviation of each channel, from 0 to 1, with four decimals.

    Args:
        values: (images, channels, height, width) Bytes from 0 to 255.
        most: So many images are looked at, evenly spread.
    """
    count = values.shape[0]
    rows = np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.int64))
    channels = values.shape[1]
    total, squares, pixel_count = np.zeros(channels), np.zeros(channels), 0
    for first in range(0, len(rows), AT_ONCE):
        pixels = values[rows[first : first + AT_ONCE]].astype(np.float64) / 255
        total += pixels.sum(axis=(0, 2, 3))
        squares += (pixels**2).sum(axis=(0, 2, 3))
        pixel_count += pixels[:, 0].size
    mean = total / pixel_count
    deviation = np.sqrt(np.maximum(squares / pixel_count - mean**2, 0))
    means = tuple(np.round(mean, 4).tolist())
    return means, tuple(np.round(np.maximum(deviation, 0.01), 4).tolist())
