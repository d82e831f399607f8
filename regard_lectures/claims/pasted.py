"""Pictures of one object on a plain ground: how large it is and where it stands can be chosen.

Objects are drawn shapes, whose classes are the shapes, or a person's own images. They are cut out,
scaled, and pasted onto a canvas, so that the same object can stand anywhere.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from regard.data import LabelledImages, make_scene
from regard.errors import InputError
from regard_lectures.claims.classifiers import labelled, read_splits

Bytes = NDArray[np.uint8]

FILLS = 0.46
"""The radius of a drawn shape, as a share of the side of its picture."""
LARGEST = 32
"""The side of the pictures that objects are cut from, in pixels."""
PARTS = ("train", "test")
"""Objects for training, and others for tests."""
OWN_HELD_OUT = 1000
"""At most so many of a person's own images, and at most a tenth of them, are kept for tests."""


@dataclass(frozen=True)
class Objects:
    """Objects, each in a picture that it fills, with its class and the ground that it stands on."""

    pictures: Bytes
    """(objects, channels, side, side)"""
    labels: tuple[str, ...]
    grounds: Bytes
    """(objects, channels)"""

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def classes(self) -> tuple[str, ...]:
        """All classes, in order of the alphabet."""
        return tuple(sorted(set(self.labels)))

    @property
    def channels(self) -> int:
        """1 for grey, 3 for colour."""
        return int(self.pictures.shape[1])

    def scaled(self, side: int) -> Objects:
        """The same objects in pictures of another side."""
        if side == self.pictures.shape[2]:
            return self
        pictures = [_resized(picture, side) for picture in self.pictures]
        return replace(self, pictures=np.stack(pictures))


def _resized(picture: Bytes, side: int) -> Bytes:
    """A picture (channels, height, width) scaled without jagged edges to side x side."""
    image = Image.fromarray(picture.transpose(1, 2, 0).squeeze())
    scaled = np.asarray(image.resize((side, side), Image.Resampling.BOX))
    return scaled.reshape(side, side, -1).transpose(2, 0, 1)


def draw_objects(count: int, seed: int, part: str) -> Objects:
    """Draw shapes: of any colour, turned a little, on a light ground."""
    pictures, labels, grounds = [], [], []
    for number in range(count):
        scene = make_scene(seed, PARTS.index(part), number, most=1)
        shape = replace(scene.objects[0], x=0.5, y=0.5, radius=FILLS)
        image = replace(scene, objects=(shape,)).draw(LARGEST)
        pictures.append(np.asarray(image).transpose(2, 0, 1))
        labels.append(shape.shape)
        grounds.append(scene.ground)
    return Objects(np.stack(pictures), tuple(labels), np.array(grounds, np.uint8))


def read_objects(data: str, count: int, unseen: int, seed: int) -> tuple[Objects, Objects, str]:
    """Objects for training, others for tests, and their name.

    Args:
        data: A folder of images with classes; empty: shapes are drawn.
        count: How many shapes to draw for training.
        unseen: How many objects for tests, at most.
        seed: Of the shapes, or of the images that are kept for tests.

    Raises:
        InputError: If there is no such folder.
    """
    if not data:
        train, test = (
            draw_objects(n, seed, part) for n, part in zip((count, unseen), PARTS, strict=True)
        )
        return train, test, "drawn shapes"
    if not Path(data).exists():
        raise InputError("data", got=data, expected="a folder with a folder of images per class")
    splits, name = read_splits(data, held_out=min(unseen, OWN_HELD_OUT), most=count, seed=seed)
    return _cut_out(splits.train), _cut_out(splits.valid), name


def _cut_out(images: LabelledImages) -> Objects:
    """Images as objects; their ground is the median of the pixels at their edge."""
    values: Any = images.values[np.arange(len(images))]
    edge = np.concatenate(
        [values[:, :, 0], values[:, :, -1], values[:, :, :, 0], values[:, :, :, -1]], axis=2
    )  # (objects, channels, pixels of the edge)
    return Objects(values, images.labels, np.median(edge, axis=2).astype(np.uint8))


def paste(
    objects: Objects,
    which: Sequence[int] | NDArray[np.int64],
    rows: NDArray[np.int64],
    columns: NDArray[np.int64],
    canvas: tuple[int, int],
) -> LabelledImages:
    """Put objects onto canvases of their ground.

    Args:
        objects: The objects.
        which: The number of the object of each picture.
        rows: The top of the object in each picture, in pixels.
        columns: Its left edge.
        canvas: Height and width of the pictures.
    """
    height, width = canvas
    ground = objects.grounds[which][:, :, None, None]  # (pictures, channels, 1, 1)
    pixels = np.repeat(np.repeat(ground, height, axis=2), width, axis=3)
    side = objects.pictures.shape[2]
    for picture, number, row, column in zip(pixels, which, rows, columns, strict=True):
        picture[:, row : row + side, column : column + side] = objects.pictures[number]
    return labelled(pixels, [objects.labels[number] for number in which])


def as_text(pictures: Bytes) -> dict[str, Any]:
    """Pictures (pictures, channels, height, width) as JSON: their shape, and their bytes as text.

    Example:
        >>> pictures = np.arange(6, dtype=np.uint8).reshape(1, 1, 2, 3)
        >>> bool((from_text(as_text(pictures)) == pictures).all())
        True
    """
    packed = base64.b64encode(np.ascontiguousarray(pictures).tobytes()).decode()
    return {"shape": list(pictures.shape), "bytes": packed}


def from_text(stored: dict[str, Any]) -> Bytes:
    """Pictures from what `as_text` wrote."""
    packed = np.frombuffer(base64.b64decode(stored["bytes"]), np.uint8)
    return packed.reshape(stored["shape"])


def in_colour(picture: Bytes) -> Bytes:
    """A picture (channels, height, width) as (height, width, 3), to be drawn.

    Example:
        >>> in_colour(np.zeros((1, 2, 5), np.uint8)).shape
        (2, 5, 3)
    """
    return np.broadcast_to(picture, (3, *picture.shape[1:])).transpose(1, 2, 0)
