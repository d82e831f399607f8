"""A path, bytes, a Pillow image or an array -> an upright image with 8 bits per channel.

Pillow reads the files, restricted to formats that execute no code. The sizes of file and image are
checked before memory is allocated: a few bytes can claim to be an image of billions of pixels.
"""

from __future__ import annotations

import ctypes
import io
import os
import warnings
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, _imaging

from regard.errors import InputError
from regard.runtime.files import read_regular

FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "PPM")
MOST_BYTES = 2**28
MOST_PIXELS = 2**26
"""8,192 x 8,192, more than any camera has."""
SUFFIXES = (".png", ".jpg", ".jpeg", ".jpe", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".ppm",
            ".pgm", ".pbm", ".pnm")  # fmt: skip
CHANNELS = (1, 3, 4)
"""Allowed numbers of channels of an array: grey, RGB, RGBA."""


def open_image(item: Any, least: tuple[int, int] | None = None) -> Image.Image:
    """Open an image in mode L, RGB or RGBA, rotated upright; of an animation, its first frame.

    Args:
        item: A path, the bytes of a file, a Pillow image, or an array or tensor: (height, width),
            (height, width, channels) or, as in torch, (channels, height, width); integers of 8 or
            16 bits from 0 on, or floats from 0 to 1.
        least: Height and width, if a smaller copy of a large image is enough: a JPEG is then
            decoded at a half, a quarter or an eighth of its size, but not below this size.

    Raises:
        InputError: The item is none of these, is damaged, or is too large.
    """
    if isinstance(item, Image.Image):
        return _decode(item, "the image")
    if isinstance(item, str | os.PathLike):
        return _decode(_read_header(_read_bytes(Path(item)), str(item)), str(item), least)
    if isinstance(item, bytes | bytearray):
        return _decode(_read_header(bytes(item), "the image"), "the image", least)
    if hasattr(item, "__array__") or hasattr(item, "detach"):
        return _from_array(item)
    expected = "a path, bytes, a Pillow image or an array"
    raise InputError("an image", got=f"a {type(item).__name__}", expected=expected)


def content_of(source: Any) -> Any:
    """Read the bytes of a file; bytes and arrays are returned as they are.

    Raises:
        InputError: The file cannot be read.
    """
    return _read_bytes(source) if isinstance(source, Path) else source


def on_white(image: Image.Image) -> Image.Image:
    """Put an image with transparency on white; others are returned as they are."""
    return on_ground(image, "white").convert("RGB") if image.mode == "RGBA" else image


def on_ground(image: Image.Image, shade: str) -> Image.Image:
    """Put an image with transparency on a ground of one shade."""
    return Image.alpha_composite(Image.new("RGBA", image.size, shade), image)


def display_image(item: Any, largest: int = 1024) -> Image.Image:
    """An image for display, in mode L or RGB: at most `largest` pixels wide and high.

    Transparent parts are white.
    """
    image = open_image(item)
    image.thumbnail((largest, largest))
    return on_white(image)


def header_of(data: bytes) -> Image.Image:
    """Read the header of a file's bytes: format, size and mode; the pixels are not decoded.

    Raises:
        InputError: They are no image, or a too large one.
    """
    return _read_header(data, "the image")


def name_of(item: Any) -> str:
    """Name an item in errors: its path, or else its type."""
    if isinstance(item, str | os.PathLike):
        return str(item)
    return f"a {type(item).__name__}"


def _read_bytes(path: Path) -> bytes:
    """Read a file of at most `MOST_BYTES`; what prevents it becomes an `InputError`."""
    try:
        if path.is_dir():
            raise InputError(str(path), got="a folder", expected="an image file")
        return read_regular(path, MOST_BYTES)
    except FileNotFoundError:
        expected = "the path of an image"
        raise InputError(f"{path}: no such file", expected=expected) from None
    except ValueError:  # a path with a zero byte
        raise InputError(repr(str(path)), got="no path", expected="an image file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None


def _read_header(data: bytes, name: str) -> Image.Image:
    """Read the header: the image with its size, pixels not yet decoded."""
    if not data:
        raise InputError(name, got="an empty file", expected="an image")
    if len(data) > MOST_BYTES:
        raise InputError(name, got="a larger file", expected=f"at most {MOST_BYTES:,} bytes")
    try:
        # Pillow warns of large images: the size is checked below
        with warnings.catch_warnings(action="ignore"):
            image = Image.open(io.BytesIO(data), formats=FORMATS)
    except Image.DecompressionBombError:
        raise _size_error(name, "more pixels than any camera's") from None
    except Exception:  # Pillow's readers raise many types on bytes that are not an image
        expected = f"an image: {', '.join(FORMATS)}"
        raise InputError(name, got="no image", expected=expected) from None
    if image.format == "TIFF":
        _silence_libtiff()
    _check_size(image, name)
    return image


@cache
def _silence_libtiff() -> None:
    """Keep libtiff from writing to standard error what is wrong with a file; Pillow raises it, too.

    Its handlers belong to the whole process, so they are set once and for all threads. Pillow does
    not offer them; they are in the library that its own is linked to.
    """
    with suppress(AttributeError, OSError):  # a Pillow without libtiff, or with it built in
        library = ctypes.CDLL(_imaging.__file__)
        library.TIFFSetErrorHandler(None)
        library.TIFFSetWarningHandler(None)


def _check_size(image: Image.Image, name: str) -> None:
    """Refuse images of too many pixels, of none, or of a single one."""
    if image.width * image.height > MOST_PIXELS:
        raise _size_error(name, f"{image.width:,} x {image.height:,} pixels")
    if not image.width or not image.height:
        raise InputError(name, got="no pixels", expected="an image")
    if image.width == image.height == 1:
        raise InputError(name, got="a single pixel", expected="an image")


def _size_error(name: str, got: str) -> InputError:
    """The error for an image of too many pixels."""
    return InputError(name, got=got, expected=f"at most {MOST_PIXELS:,} pixels")


def _decode(image: Image.Image, name: str, least: tuple[int, int] | None = None) -> Image.Image:
    """Decode the pixels, rotate by the EXIF orientation, and convert to 8 bits."""
    _check_size(image, name)
    try:
        # Pillow warns of unreadable metadata, which is not used
        with warnings.catch_warnings(action="ignore"):
            if least is not None and image.format == "JPEG":
                side = max(least)  # it may be turned below
                image.draft(None, (side, side))
            image.load()
            image = ImageOps.exif_transpose(image)
            return _to_8_bits(image, name)
    except InputError:
        raise
    except Exception as error:  # as above: Pillow raises many types on damaged data
        got = str(error).partition("\n")[0] or type(error).__name__
        raise InputError(f"{name} is damaged", got=got, expected="a whole image") from None


def _to_8_bits(image: Image.Image, name: str) -> Image.Image:
    """Convert to grey, RGB or, if there is transparency, RGBA, with 8 bits per channel."""
    if image.mode.startswith("I") or image.mode == "F":  # 16 or 32 bits per pixel
        return Image.fromarray(_grey_bytes(np.asarray(image), name))
    if "transparency" in image.info or image.mode in ("LA", "La", "PA", "RGBa"):
        return image.convert("RGBA")
    if image.mode in ("L", "RGB", "RGBA"):
        return image
    return image.convert("L" if image.mode == "1" else "RGB")


def _grey_bytes(values: NDArray[Any], name: str) -> NDArray[np.uint8]:
    """Convert integers of up to 16 bits, or floats from 0 to 1, to bytes from 0 to 255."""
    values = np.asarray(values)
    if values.dtype == bool or values.dtype == np.uint8:
        return np.asarray(values, dtype=np.uint8) * (255 if values.dtype == bool else 1)
    if values.dtype.kind not in "iuf" or not np.isfinite(values).all():
        raise InputError(name, got=f"{values.dtype} numbers", expected="0 to 1, or 0 to 255")
    lowest, highest = float(values.min()), float(values.max())
    is_16_bit = values.dtype.kind in "iu" and (values.dtype.itemsize == 2 or highest > 255)
    largest = 1.0 if values.dtype.kind == "f" else 65535.0 if is_16_bit else 255.0
    if lowest < 0 or highest > largest:
        got, expected = f"pixels from {lowest:g} to {highest:g}", f"0 to {largest:g}"
        raise InputError(name, got=got, expected=expected)
    return np.asarray(np.rint(values.astype(np.float64) * (255 / largest)), dtype=np.uint8)


def _from_array(item: Any) -> Image.Image:
    """Convert an array or tensor to an image; channels may be first or last."""
    values = np.asarray(item.detach().cpu() if hasattr(item, "detach") else item)
    shape = " x ".join(map(str, values.shape))
    is_torch = values.ndim == 3 and (hasattr(item, "detach") or values.shape[2] not in CHANNELS)
    if is_torch and values.shape[0] in CHANNELS:  # channels first
        values = values.transpose(1, 2, 0)
    if values.ndim == 3 and values.shape[2] == 1:
        values = values[:, :, 0]
    if values.ndim != 2 and not (values.ndim == 3 and values.shape[2] in CHANNELS):
        expected = "height x width, with 1, 3 or 4 channels"
        raise InputError("an array as an image", got=shape or "one number", expected=expected)
    if not values.size:
        raise InputError("an array as an image", got=shape, expected="at least one pixel")
    if values.shape[0] * values.shape[1] > MOST_PIXELS:
        raise _size_error("an array as an image", f"{shape} pixels")
    return Image.fromarray(np.ascontiguousarray(_grey_bytes(values, "an array as an image")))
