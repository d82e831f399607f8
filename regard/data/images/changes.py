"""Random changes of training images: shift, crop, flip, colours, erasing, mixup and CutMix.

What happens to an image is a pure function of (seed, epoch, image): it does not depend on the batch
that the image is in, on what was drawn before, or on the number of threads. All images of a batch
are changed together, in a few NumPy calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.config import ImageData
from regard.data.images.labelled_images import Pixels
from regard.data.images.randaugment import randaugment
from regard.data.order import generator, uniforms

Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]
Change = Callable[[NDArray[Any], Sequence[int], int], NDArray[Any]]
"""A change of images, by their indices and the epoch."""
Dice = NDArray[np.float64]
"""(images, columns) Uniform random numbers from 0 to 1. Each change has columns of its own, so that
turning one on leaves the others as they were."""
SHIFT, CROP, FLIP, COLOUR, ERASE, MIX, RANDAUGMENT = 0, 2, 6, 7, 10, 15, 20
"""The first column of each change."""
COLUMNS = 40
ASPECT = 4 / 3
"""Crops are at most this many times as wide as high, relative to the image, or as high as wide."""
ERASED = (0.02, 1 / 3)
"""The smallest and largest share of the area that is erased."""
ERASED_ASPECT = 10 / 3
PARTNER = 2**32
"""Added to the epoch for the changes of the image that another one is mixed with."""
QUANTILES = 2**14


@dataclass(frozen=True, eq=False)
class Mixed:
    """Images of a batch, and which other image each one is mixed with."""

    pixels: NDArray[Any]
    """(images, channels, height, width) Bytes if nothing was changed, else floats from 0 to 1."""
    partners: Numbers | None = None
    """(images,) Index of the other image; None: nothing was mixed."""
    shares: Floats | None = None
    """(images,) The share of the image itself, λ; the other one has 1 - λ."""


def change_batch(
    values: Pixels,
    index: Sequence[int],
    data: ImageData,
    seed: int,
    epoch: int,
    erased: Sequence[float] = (0.5,),
    first: Change | None = None,
) -> Mixed:
    """Take some images and change them at random.

    Args:
        values: All training images.
        index: Which of them.
        data: Which changes, and how strong.
        seed: Seed of the run.
        epoch: Counted from 0.
        erased: The value of erased pixels in each channel, or in all.
        first: A change before all others.
    """
    dice = uniforms(seed, epoch, index, COLUMNS)
    fill = np.asarray(erased, np.float32)[:, None, None]

    def take_images(rows: Numbers, epoch: int) -> NDArray[Any]:
        pixels = values[rows]
        return pixels if first is None else first(pixels, index, epoch)

    pixels = change_images(take_images(np.asarray(index), epoch), dice, data, fill)
    if not (data.mixup or data.cutmix):
        return Mixed(pixels)
    partners = (dice[:, MIX] * values.shape[0]).astype(np.int64)
    partner_dice = uniforms(seed, epoch + PARTNER, index, COLUMNS)
    partner = change_images(take_images(partners, epoch + PARTNER), partner_dice, data, fill)
    return mix(as_floats(pixels), as_floats(partner), partners, dice[:, MIX + 1 : MIX + 5], data)


def change_images(pixels: NDArray[Any], dice: Dice, data: ImageData, fill: Floats) -> NDArray[Any]:
    """Apply all changes of single images.

    Args:
        pixels: (images, channels, height, width) Bytes, or floats from 0 to 1.
        dice: (images, COLUMNS).
        data: Which changes, and how strong.
        fill: (channels, 1, 1) The value of erased pixels, from 0 to 1.

    Returns:
        Bytes if only whole pixels were moved, else floats from 0 to 1.
    """
    if data.crop < 1 or data.shift or data.flip:
        pixels = shift_crop_flip(pixels, dice, data)
    if data.randaugment:
        pixels = randaugment(as_bytes(pixels), dice[:, RANDAUGMENT:], data.randaugment,
                             data.magnitude)  # fmt: skip
    if data.colour:
        pixels = change_colours(as_floats(pixels), dice[:, COLOUR:ERASE], data.colour)
    if data.erase:
        pixels = erase_rectangles(as_floats(pixels), dice[:, ERASE:MIX], data.erase, fill)
    return pixels


def as_floats(pixels: NDArray[Any]) -> Floats:
    """Convert bytes to floats from 0 to 1; floats are returned as they are."""
    if pixels.dtype == np.uint8:
        return pixels.astype(np.float32) / np.float32(255)
    return pixels


def as_bytes(pixels: NDArray[Any]) -> NDArray[np.uint8]:
    """Convert floats from 0 to 1 to bytes; bytes are returned as they are."""
    if pixels.dtype == np.uint8:
        return pixels
    return np.rint(np.clip(pixels, 0, 1) * 255).astype(np.uint8)


def shift_crop_flip(pixels: NDArray[Any], dice: Dice, data: ImageData) -> NDArray[Any]:
    """Shift, crop and flip: each output pixel is read from one position of the input.

    Without a crop, positions are whole pixels, and all images are changed by a single gather. For a
    position outside the image, the nearest pixel of its edge is read.
    """
    height, width = pixels.shape[2:]
    across = np.arange(width)
    columns = np.broadcast_to(across, (len(pixels), width))
    rows = np.broadcast_to(np.arange(height), (len(pixels), height))
    if data.flip:
        mirrored = dice[:, FLIP, None] < 0.5
        columns = np.where(mirrored, across[::-1], across)
    if data.shift:
        down, right = np.floor(dice[:, SHIFT : SHIFT + 2] * (2 * data.shift + 1)).astype(int).T
        rows = rows + (down - data.shift)[:, None]
        columns = columns + (right - data.shift)[:, None]
    if data.crop == 1:
        return gather(pixels, rows, columns)
    tall, wide, top, left = _crops(dice[:, CROP:FLIP], data.crop, height, width)
    # The centre of output pixel i is at (i + 1/2) * tall of the window that begins at `top`
    read_rows, read_columns = (rows + 0.5) * tall + top - 0.5, (columns + 0.5) * wide + left - 0.5
    return _interpolate(pixels, read_rows, read_columns)


def gather(pixels: NDArray[Any], rows: Numbers, columns: Numbers) -> NDArray[Any]:
    """Compute out[n, c, i, j] = pixels[n, c, rows[n, i], columns[n, j]], inside of the image."""
    images, channels, height, width = pixels.shape
    plane = np.arange(images * channels).reshape(images, channels, 1, 1) * (height * width)
    down = np.clip(rows, 0, height - 1) * width
    across = np.clip(columns, 0, width - 1)
    flat_index = plane + down[:, None, :, None] + across[:, None, None, :]
    return np.ascontiguousarray(pixels).reshape(-1).take(flat_index)


def _crops(dice: Dice, least: float, height: int, width: int) -> tuple[Dice, Dice, Dice, Dice]:
    """Draw the part of each image that is kept: its share of height and width, top and left.

    The share of the area is uniform from `least` to 1, the logarithm of the aspect uniform, too
    (Szegedy et al. 2015): each result is (images, 1).
    """
    area = least + (1 - least) * dice[:, 0]
    aspect = np.exp((2 * dice[:, 1] - 1) * math.log(ASPECT))
    tall = np.minimum(np.sqrt(area / aspect), 1)
    wide = np.minimum(np.sqrt(area * aspect), 1)
    top, left = dice[:, 2] * (1 - tall) * height, dice[:, 3] * (1 - wide) * width
    return tall[:, None], wide[:, None], top[:, None], left[:, None]


def _interpolate(pixels: NDArray[Any], rows: Dice, columns: Dice) -> Floats:
    """Interpolate bilinearly at positions between pixels: (images, channels, rows, columns)."""
    height, width = pixels.shape[2:]
    rows, columns = np.clip(rows, 0, height - 1), np.clip(columns, 0, width - 1)
    top, left = rows.astype(np.int64), columns.astype(np.int64)
    down = (rows - top).astype(np.float32)[:, None, :, None]
    right = (columns - left).astype(np.float32)[:, None, None, :]
    upper, lower = (
        (1 - right) * gather(pixels, row, left) + right * gather(pixels, row, left + 1)
        for row in (top, top + 1)
    )
    blended = (1 - down) * upper + down * lower
    return blended / np.float32(255) if pixels.dtype == np.uint8 else blended


def change_colours(pixels: Floats, dice: Dice, strength: float) -> Floats:
    """Change brightness, contrast and saturation, in this order, each by a factor 1 ± strength.

    brightness: f x; contrast: m + f (x - m), with m the mean grey of the image; saturation:
    g + f (x - g), with g the grey of the pixel.
    """
    factors = (1 + (2 * dice - 1) * strength).astype(np.float32)
    bright, contrast, saturation = factors.T[:, :, None, None, None]
    pixels = np.clip(bright * pixels, 0, 1)
    mean = grey(pixels).mean(axis=(1, 2, 3), keepdims=True)
    pixels = np.clip(mean + contrast * (pixels - mean), 0, 1)
    if pixels.shape[1] == 1:
        return pixels
    grey_pixels = grey(pixels)
    return np.clip(grey_pixels + saturation * (pixels - grey_pixels), 0, 1)


def grey(pixels: Floats) -> Floats:
    """Compute the luma 0.299 R + 0.587 G + 0.114 B: (images, 1, height, width)."""
    if pixels.shape[1] == 1:
        return pixels
    weights = np.array([0.299, 0.587, 0.114], np.float32)[:, None, None]
    return (pixels * weights).sum(axis=1, keepdims=True)


def erase_rectangles(pixels: Floats, dice: Dice, share: float, fill: Floats) -> Floats:
    """Erase a rectangle in this share of the images (Zhong et al. 2017)."""
    height, width = pixels.shape[2:]
    smallest, largest = ERASED
    area = smallest + (largest - smallest) * dice[:, 1]
    aspect = np.exp((2 * dice[:, 2] - 1) * math.log(ERASED_ASPECT))
    tall = np.minimum(np.sqrt(area * aspect), 1) * (dice[:, 0] < share)
    wide = np.minimum(np.sqrt(area / aspect), 1)
    inside = _rectangle(tall, wide, dice[:, 3], dice[:, 4], height, width)
    return np.where(inside, fill, pixels)


def _rectangle(
    tall: Dice, wide: Dice, down: Dice, right: Dice, height: int, width: int
) -> NDArray[np.bool_]:
    """Compute which pixels are inside of a rectangle per image: (images, 1, height, width).

    Args:
        tall: (images,) Share of the height.
        wide: (images,) Share of the width.
        down: (images,) From 0 (at the top) to 1 (at the bottom).
        right: (images,) From 0 (at the left) to 1 (at the right).
        height: Of the images.
        width: Of the images.
    """

    def interval_mask(share: Dice, position: Dice, size: int) -> NDArray[np.bool_]:
        """Compute which pixels of a side are covered: (images, size)."""
        length = np.rint(share * size)
        first = np.rint(position * (size - length))
        pixel = np.arange(size)
        return (pixel >= first[:, None]) & (pixel < (first + length)[:, None])  # (images, size)

    rows, columns = interval_mask(tall, down, height), interval_mask(wide, right, width)
    return rows[:, None, :, None] & columns[:, None, None, :]


def mix(pixels: Floats, other: Floats, partners: Numbers, dice: Dice, data: ImageData) -> Mixed:
    """Mix each image with another one, by mixup or by CutMix.

    mixup: λ x + (1 - λ) x', λ from Beta(α, α). CutMix: a rectangle of x' with 1 - λ of the area is
    pasted into x; λ is then what is left of x, in whole pixels.

    Args:
        pixels: (images, channels, height, width) From 0 to 1.
        other: The same number of other images.
        partners: Their indices.
        dice: (images, 4) Which of the two, λ, and the position of the rectangle.
        data: `mixup` and `cutmix`, the α of each; 0: never.
    """
    height, width = pixels.shape[2:]
    chance = 0.5 if data.mixup and data.cutmix else float(bool(data.cutmix))
    cut = dice[:, 0] < chance
    quantile = (dice[:, 1] * QUANTILES).astype(np.int64)
    pasted_draws, blended_draws = beta_quantiles(data.cutmix), beta_quantiles(data.mixup)
    beta_draws = np.where(cut, pasted_draws[quantile], blended_draws[quantile])
    side = np.sqrt(1 - beta_draws)  # of the rectangle, as a share of the image's
    pasted = _rectangle(side, side, dice[:, 2], dice[:, 3], height, width)
    kept_share = 1 - pasted.mean(axis=(1, 2, 3))
    shares = np.where(cut, kept_share, beta_draws).astype(np.float32)
    share = shares[:, None, None, None]
    blended = share * pixels + (1 - share) * other
    mixed_pixels = np.where(cut[:, None, None, None], np.where(pasted, other, pixels), blended)
    return Mixed(mixed_pixels, partners, shares)


@cache
def beta_quantiles(alpha: float) -> Floats:
    """Return sorted draws from Beta(α, α): one of them, chosen uniformly, is a draw from it."""
    if not alpha:
        return np.ones(QUANTILES, np.float32)
    return np.sort(generator(0).beta(alpha, alpha, QUANTILES)).astype(np.float32)
