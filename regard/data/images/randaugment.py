"""RandAugment (Cubuk et al. 2019): some random operations on each image, all equally strong.

The 14 operations are those of the paper, on bytes, with the magnitudes from 0 to 30 that most
implementations use. They compute what Pillow's functions of the same names compute, but for all
images of a batch that get the same operation at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
"""(images, channels, height, width) From 0 to 255."""
Strength = NDArray[np.float64]
"""(images,) Magnitude / 30 with a random sign: from -1 to 1. Some operations ignore the sign."""
HIGHEST = 30
FILL = 128
"""The value of pixels that come from outside of the image."""
MOST_SHEAR = 0.3
MOST_SHIFT = 150 / 331
"""Of the image's side, as in the paper's 150 of 331 pixels."""
MOST_TURN = 30.0
"""Degrees."""
MOST_FACTOR = 0.9
MOST_BITS = 4


def randaugment(pixels: Bytes, dice: NDArray[np.float64], count: int, magnitude: float) -> Bytes:
    """Apply `count` random operations to each image, one after the other.

    Args:
        pixels: The images.
        dice: (images, at least 2 * count) Uniform from 0 to 1: which operation, and its sign.
        count: Number of operations, N in the paper.
        magnitude: Their strength from 0 to 30, M in the paper.
    """
    pixels = pixels.copy()
    for number in range(count):
        operation_index = (dice[:, 2 * number] * len(OPERATIONS)).astype(np.int64)
        sign = np.where(dice[:, 2 * number + 1] < 0.5, -1.0, 1.0)
        for index, operation in enumerate(OPERATIONS.values()):
            rows = np.flatnonzero(operation_index == index)
            if len(rows):
                pixels[rows] = operation(pixels[rows], sign[rows] * magnitude / HIGHEST)
    return pixels


def identity(pixels: Bytes, _strength: Strength) -> Bytes:
    """Leave the images as they are."""
    return pixels


def shear_x(pixels: Bytes, strength: Strength) -> Bytes:
    """Slant by up to 0.3 pixels to the side for each pixel down."""
    return _affine(pixels, 1, MOST_SHEAR * strength, 0, 1)


def shear_y(pixels: Bytes, strength: Strength) -> Bytes:
    """Slant by up to 0.3 pixels down for each pixel to the side."""
    return _affine(pixels, 1, 0, MOST_SHEAR * strength, 1)


def translate_x(pixels: Bytes, strength: Strength) -> Bytes:
    """Shift by up to 45% of the width."""
    right = np.trunc(MOST_SHIFT * pixels.shape[3] * strength)
    return _affine(pixels, 1, 0, 0, 1, right=right)


def translate_y(pixels: Bytes, strength: Strength) -> Bytes:
    """Shift by up to 45% of the height."""
    down = np.trunc(MOST_SHIFT * pixels.shape[2] * strength)
    return _affine(pixels, 1, 0, 0, 1, down=down)


def rotate(pixels: Bytes, strength: Strength) -> Bytes:
    """Rotate by up to 30 degrees about the centre, counterclockwise."""
    angle = np.radians(MOST_TURN * strength)
    return _affine(pixels, np.cos(angle), -np.sin(angle), np.sin(angle), np.cos(angle))


def brightness(pixels: Bytes, strength: Strength) -> Bytes:
    """f x, with f from 0.1 to 1.9."""
    return _blend(np.zeros_like(pixels), pixels, strength)


def colour(pixels: Bytes, strength: Strength) -> Bytes:
    """g + f (x - g), with g the grey of the pixel."""
    return _blend(luma(pixels), pixels, strength)


def contrast(pixels: Bytes, strength: Strength) -> Bytes:
    """m + f (x - m), with m the mean grey of the image, a whole number."""
    mean = np.floor(luma(pixels).mean(axis=(1, 2, 3), keepdims=True) + 0.5)
    return _blend(mean, pixels, strength)


def sharpness(pixels: Bytes, strength: Strength) -> Bytes:
    """s + f (x - s), with s the mean of a pixel (weight 5) and its 8 neighbours; edges stay."""
    height, width = pixels.shape[2:]
    smooth = pixels.astype(np.float32)
    if min(height, width) > 2:
        total = np.float32(4) * smooth[:, :, 1:-1, 1:-1]
        for down in range(3):
            for right in range(3):
                total += smooth[:, :, down : height - 2 + down, right : width - 2 + right]
        smooth[:, :, 1:-1, 1:-1] = np.floor(total / 13 + 0.5)
    return _blend(smooth, pixels, strength)


def posterize(pixels: Bytes, strength: Strength) -> Bytes:
    """Keep only the highest 8 to 4 bits of each value."""
    lost = np.rint(MOST_BITS * np.abs(strength)).astype(np.int64)
    return pixels & (256 - 2**lost).astype(np.uint8)[:, None, None, None]


def solarize(pixels: Bytes, strength: Strength) -> Bytes:
    """Invert values from a threshold on: 255 - x if x >= t."""
    threshold = (255 * (1 - np.abs(strength)))[:, None, None, None]
    return np.where(pixels >= threshold, 255 - pixels, pixels)


def autocontrast(pixels: Bytes, _strength: Strength) -> Bytes:
    """Stretch each channel to all values from 0 to 255."""
    low = pixels.min(axis=(2, 3), keepdims=True).astype(np.float64)
    high = pixels.max(axis=(2, 3), keepdims=True).astype(np.float64)
    scale = 255 / np.maximum(high - low, 1)
    stretched = np.clip(pixels * scale - low * scale, 0, 255).astype(np.uint8)
    return np.where(high > low, stretched, pixels)


def equalize(pixels: Bytes, _strength: Strength) -> Bytes:
    """Map the values of each channel so that all of them are about equally frequent.

    Value v becomes (step / 2 + pixels below v) / step, with step = (pixels - those of the highest
    value) / 255, in whole numbers.
    """
    images, channels, height, width = pixels.shape
    planes = np.arange(images * channels)[:, None]
    flat = pixels.reshape(images * channels, height * width)  # (planes, pixels)
    counts = np.bincount((flat + 256 * planes).ravel(), minlength=256 * len(planes))
    counts = counts.reshape(-1, 256)  # (planes, values)
    highest = np.take_along_axis(counts, flat.max(axis=1)[:, None].astype(np.int64), axis=1)
    step = (height * width - highest) // 255
    below = np.cumsum(counts, axis=1) - counts
    table = np.minimum((step // 2 + below) // np.maximum(step, 1), 255)
    table = np.where(step > 0, table, np.arange(256)).astype(np.uint8)
    return table[planes, flat].reshape(pixels.shape)


OPERATIONS: dict[str, Callable[[Bytes, Strength], Bytes]] = {
    operation.__name__: operation
    for operation in (
        identity, shear_x, shear_y, translate_x, translate_y, rotate, brightness, colour, contrast,
        sharpness, posterize, solarize, autocontrast, equalize,
    )
}  # fmt: skip


def luma(pixels: Bytes) -> NDArray[np.float32]:
    """Compute 0.299 R + 0.587 G + 0.114 B as Pillow does: (images, 1, height, width)."""
    if pixels.shape[1] == 1:
        return pixels.astype(np.float32)
    red, green, blue = (pixels[:, channel].astype(np.uint32) for channel in range(3))
    grey = (19595 * red + 38470 * green + 7471 * blue + 0x8000) >> 16
    return grey[:, None].astype(np.float32)


def _blend(base: NDArray[Any], pixels: Bytes, strength: Strength) -> Bytes:
    """Compute b + f (x - b) with f = 1 + 0.9 * strength, cut to bytes."""
    factor = (1 + MOST_FACTOR * strength).astype(np.float32)[:, None, None, None]
    base = base.astype(np.float32)
    return np.clip(base + factor * (pixels.astype(np.float32) - base), 0, 255).astype(np.uint8)


def _affine(
    pixels: Bytes, xx: Any, xy: Any, yx: Any, yy: Any, right: Any = 0.0, down: Any = 0.0
) -> Bytes:
    """Read each output pixel (x, y) from the nearest input pixel to A (x, y) + (right, down).

    Coordinates are relative to the centre of the image; outside of it there is `FILL`.

    Args:
        pixels: The images.
        xx: The matrix A = [[xx, xy], [yx, yy]]: a number, or one for each image.
        xy: See above.
        yx: See above.
        yy: See above.
        right: A number, or one for each image.
        down: A number, or one for each image.
    """
    images, channels, height, width = pixels.shape
    numbers = (xx, xy, yx, yy, right, down)
    xx, xy, yx, yy, right, down = (np.broadcast_to(n, images)[:, None, None] for n in numbers)
    x = np.arange(width) + 0.5 - width / 2
    y = (np.arange(height) + 0.5 - height / 2)[:, None]
    # the input pixel of each output pixel: (images, height, width)
    column = np.floor(xx * x + xy * y + right + width / 2).astype(np.int64)
    row = np.floor(yx * x + yy * y + down + height / 2).astype(np.int64)
    inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
    flat_index = np.where(inside, row * width + column, 0).reshape(images, 1, -1)
    plane = np.arange(images * channels).reshape(images, channels, 1) * (height * width)
    moved = np.ascontiguousarray(pixels).reshape(-1).take(plane + flat_index).reshape(pixels.shape)
    return np.where(inside[:, None], moved, np.uint8(FILL))
