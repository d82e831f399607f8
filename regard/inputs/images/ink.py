"""What stands on a plain background, of whatever colour -> a small image of it, light on dark.

Ink is where a pixel differs from the background. A drawing (`frame_ink`) is cropped, scaled to a
fixed height, and made thicker or thinner until a fixed share of the frame is ink, so that thin pens
and thick brushes give the same digit, as NIST's programs made them. An object (`frame_object`) is
cropped and scaled to the frame, as the photographs of Fashion-MNIST were.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from regard.errors import InputError
from regard.inputs.images.opening import on_ground

Ink = NDArray[np.float64]
"""(height, width) From 0 (background) to 1 (ink)."""

LARGEST_SIDE = 512
"""Pixels of the longer side; larger drawings are reduced first."""
FRAME = 64
"""Side of the frame in which ink is measured: twice the resolution of NIST's 32."""
MAX_WIDTH_SHARE = 40 / 64
"""Largest width of a digit, as a share of the frame: NIST scales to 32 high and 20 wide."""
SHARE = 0.305
"""Share of the frame that is ink: the mean over the digits; each class is from 0.296 to 0.322."""
MIN_CONTRAST = 0.08
"""The least contrast to the background, from 0 to 1, that the strongest pixel must have."""
INK_CONTRAST = 0.4
"""A pixel is ink if it reaches this share of the strongest contrast."""
OBJECT_CONTRAST = 0.1
"""A pixel belongs to an object if it reaches this share of the strongest contrast."""


def frame_ink(image: Image.Image, side: int, name: str = "the image") -> NDArray[np.float32]:
    """Turn a drawing into ink in a square frame: (side, side), values from 0 to 1.

    Args:
        image: Of mode L, RGB or RGBA; dark on light or light on dark.
        side: Side of the frame in pixels; must divide 64.
        name: Name of the image in errors.

    Raises:
        InputError: The image has only one colour.
    """
    ink = _sharpen_ink(ink_of(image, name))
    for _ in range(2):  # thickening enlarges the ink: scale a second time
        if not (ink > 0.5).any():
            raise InputError(name, got="no clear strokes", expected="a drawing")
        ink = with_share(_centre_ink(_crop_ink(ink)), SHARE)
    block = FRAME // side
    return ink.reshape(side, block, side, block).mean(axis=(1, 3)).astype(np.float32)


def frame_object(
    image: Image.Image, height: int, width: int, name: str = "the image"
) -> NDArray[np.float32]:
    """Turn a picture of one object into its contrast to the background, 0 to 1: (height, width).

    The object is cropped, scaled until its longer side fills the frame, and centred. On white it
    becomes its negative, on black it stays as it is.

    Args:
        image: Of mode L, RGB or RGBA.
        height: Height of the frame in pixels.
        width: Width of the frame.
        name: Name of the image in errors.

    Raises:
        InputError: The image has only one colour.
    """
    contrast = ink_of(image, name)
    object_ = _crop_ink(contrast, OBJECT_CONTRAST * contrast.max())
    high, wide = object_.shape
    factor = min(height / high, width / wide)
    size = max(1, round(wide * factor)), max(1, round(high * factor))
    scaled = Image.fromarray(object_.astype(np.float32)).resize(size, Image.Resampling.BILINEAR)
    frame = np.zeros((height, width), np.float32)
    left, top = (width - size[0]) // 2, (height - size[1]) // 2
    frame[top : top + size[1], left : left + size[0]] = np.asarray(scaled)
    return frame


def ink_of(image: Image.Image, name: str = "the image") -> Ink:
    """Compute the contrast of each pixel to the background, the median value along the border.

    An image with transparency is put on white or on black, whichever gives more contrast.
    """
    factor = max(image.size) // LARGEST_SIDE
    image = image.reduce(factor) if factor > 1 else image
    if image.mode == "RGBA":
        contrasts = [_contrast(on_ground(image, shade)) for shade in ("white", "black")]
        ink = max(contrasts, key=lambda contrast: float(contrast.max()))
    else:
        ink = _contrast(image)
    if ink.max() < MIN_CONTRAST:
        raise InputError(name, got="one colour, without ink", expected="a drawing")
    return ink


def _contrast(image: Image.Image) -> Ink:
    """Compute |grey - background|, from 0 to 1."""
    grey = np.asarray(image.convert("L"), dtype=np.float64) / 255
    border = np.concatenate((grey[0], grey[-1], grey[:, 0], grey[:, -1]))
    return np.abs(grey - np.median(border))


def _sharpen_ink(ink: Ink) -> Ink:
    """Sharpen the contrast: 0 for background, 1 for ink, in between only at the edges."""
    strong = np.quantile(ink[ink > INK_CONTRAST * ink.max()], 0.9)
    return np.clip((ink / strong - INK_CONTRAST) / 0.2 + 0.5, 0, 1)


def _crop_ink(ink: Ink, least: float = 0.5) -> Ink:
    """Crop to the bounding box of the ink, which is what is above `least`."""
    rows, columns = (np.flatnonzero((ink > least).any(axis=axis)) for axis in (1, 0))
    return ink[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]


def _centre_ink(ink: Ink) -> Ink:
    """Scale to the height of the frame and centre; the aspect is kept up to `MAX_WIDTH_SHARE`."""
    height, width = ink.shape
    wide = round(min(FRAME * width / height, MAX_WIDTH_SHARE * FRAME)) or 1
    scaled = Image.fromarray(ink.astype(np.float32)).resize((wide, FRAME), Image.Resampling.BOX)
    frame = np.zeros((FRAME, FRAME))
    left = (FRAME - wide) // 2
    frame[:, left : left + wide] = np.asarray(scaled, dtype=np.float64)
    return frame


def with_share(ink: Ink, share: float) -> Ink:
    """Make strokes thicker or thinner until this share of the frame is ink.

    Example:
        >>> line = np.zeros((64, 64)); line[:, 30:33] = 1
        >>> round(float(with_share(line, 0.25).mean()), 2)
        0.25
    """
    grow = ink.mean() < share
    for step in range(FRAME):
        grown = _grow_ink(ink, square=bool(step % 2), thicker=grow)
        if (grown.mean() >= share) == grow:
            fraction = (share - ink.mean()) / (grown.mean() - ink.mean())
            return ink + fraction * (grown - ink)
        if grown.mean() in (0.0, ink.mean()):
            break
        ink = grown
    return ink


def _grow_ink(ink: Ink, *, square: bool, thicker: bool) -> Ink:
    """Replace each pixel by the maximum (or minimum) of itself and its 4 or 8 neighbours."""
    padded = np.pad(ink, 1, mode="edge")
    height, width = ink.shape
    neighbours = [
        padded[1 + down : 1 + down + height, 1 + right : 1 + right + width]
        for down in (-1, 0, 1)
        for right in (-1, 0, 1)
        if square or not (down and right)
    ]
    return np.maximum.reduce(neighbours) if thicker else np.minimum.reduce(neighbours)
