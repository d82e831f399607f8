"""Images in one file: `.npz` files of arrays, and the IDX files of MNIST -> arrays with labels.

Sizes are read from the headers and checked before memory is allocated.
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError
from regard.inputs.images.opening import CHANNELS
from regard.runtime.device import check_memory
from regard.runtime.files import open_regular
from regard.runtime.npz import LARGE, MOST_ARRAY, MOST_PACKED, open_npz

Source = Path | bytes | NDArray[Any]
"""One image: a file, the bytes of a file, or an array."""
MOST_NAMES = 2**24
"""The most bytes of the names of classes."""
KEYS = {
    "": (("images", "labels"), ("x", "y"), ("data", "labels")),
    "train": (("x_train", "y_train"), ("train_images", "train_labels")),
    "valid": (("x_valid", "y_valid"), ("x_val", "y_val"), ("valid_images", "valid_labels"),
              ("val_images", "val_labels")),
    "test": (("x_test", "y_test"), ("test_images", "test_labels")),
}  # fmt: skip
"""By split: the names of the arrays of images and of labels in an `.npz` file."""
IDX_SPLITS = {"train": "train", "t10k": "test", "test": "test", "valid": "valid"}
"""By the beginning of its name: the split that an IDX file holds."""
UNSIGNED_BYTES = 8
"""The type of number in the header of an IDX file that images have."""


@dataclass(frozen=True, eq=False)
class ImageArray:
    """Images of one array with their labels."""

    images: NDArray[Any]
    """(images, height, width) or (images, height, width, channels)."""
    labels: list[str]


def read_npz(path: Path) -> dict[str, ImageArray]:
    """Read the splits of an `.npz` file, by their names; one without a name is called "".

    Raises:
        InputError: The file is damaged, or has no arrays of images and labels.
    """
    with open_regular(path) as file, open_npz(path, file) as arrays:
        pairs: dict[str, tuple[str, str]] = {}
        for split, candidates in KEYS.items():
            for pair in candidates:
                if arrays.keys() >= {*pair}:
                    pairs.setdefault(split, pair)
        if not pairs:
            expected = "images and labels, or x_train, y_train, x_test and y_test"
            raise InputError(str(path), got=f"arrays {', '.join(arrays)}", expected=expected)
        for images, labels in pairs.values():
            arrays[images].check()
            arrays[labels].check()
            _check_shapes(path, arrays[images].shape, arrays[labels].shape)
        size = sum(arrays[name].size for pair in pairs.values() for name in pair)
        check_memory(str(path), 2 * size)
        names = arrays["names"].read(MOST_NAMES).reshape(-1).tolist() if "names" in arrays else []
        return {
            split: _image_array(path, arrays[images].read(), arrays[labels].read(), names)
            for split, (images, labels) in pairs.items()
        }


def _check_shapes(path: Path, images: tuple[int, ...], labels: tuple[int, ...]) -> None:
    """Check that there are images, and a label for each."""
    if len(images) not in (3, 4):
        expected = "images x height x width, with or without channels"
        raise InputError(f"{path}: images", got=_shape_text(images), expected=expected)
    if labels[:1] != images[:1] or math.prod(labels[1:]) != 1:
        got = f"{_shape_text(labels)} labels for {images[0]} images"
        raise InputError(str(path), got=got, expected="one label for each image")
    if len(images) == 4 and images[3] not in CHANNELS and images[1] not in CHANNELS:
        expected = "1, 3 or 4 channels, in the last place or in the second"
        raise InputError(f"{path}: images", got=_shape_text(images), expected=expected)


def _shape_text(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "no"


def _image_array(
    path: Path, images: NDArray[Any], labels: NDArray[Any], names: Sequence[object] = ()
) -> ImageArray:
    """Turn labels into texts; channels that come first are moved to the end."""
    labels = labels.reshape(-1)
    if images.ndim == 4 and images.shape[3] not in CHANNELS:
        images = np.ascontiguousarray(images.transpose(0, 2, 3, 1))
    if labels.dtype.kind == "f" and (labels == np.round(labels)).all():
        labels = labels.astype(np.int64)
    if labels.dtype.kind not in "iubSU":
        raise InputError(f"{path}: labels", got=str(labels.dtype), expected="numbers or texts")
    texts = [_as_text(label) for label in labels.tolist()]
    if names:
        texts = [_as_text(names[int(text)]) if text.isdecimal() and int(text) < len(names) else text
                 for text in texts]  # fmt: skip
    return ImageArray(images, texts)


def _as_text(label: object) -> str:
    return label.decode("utf-8", "replace") if isinstance(label, bytes) else str(label)


def is_idx(path: Path) -> bool:
    """Whether a file is an IDX file of bytes, by its first four bytes."""
    try:
        head = _read_start(path, 4)
    except InputError:
        return False
    return len(head) == 4 and head[:3] == bytes((0, 0, UNSIGNED_BYTES)) and 1 <= head[3] <= 4


def first_idx(folder: Path) -> Path | None:
    """Find the IDX file of training images in a folder, or else of any images."""
    paths = [path for path in sorted(folder.iterdir()) if "idx" in path.name and _has_images(path)]
    paths.sort(key=lambda path: not path.name.startswith("train"))
    return next(iter(paths), None)


def read_idx_and_others(path: Path) -> dict[str, ImageArray]:
    """Read an IDX file of images with its labels, and the files of other splits beside it.

    The labels are in the file whose name has "labels-idx1" in place of "images-idx3". Beside a file
    `train-images…`, `t10k-images…` holds the test images.

    Raises:
        InputError: A file is damaged, or there are no labels.
    """
    if not _has_images(path):
        expected = "the file of images, such as train-images-idx3-ubyte.gz"
        raise InputError(str(path), got="no images", expected=expected)
    if not path.name.startswith("train"):
        return {"": _read_idx_with_labels(path)}
    splits = {}
    for prefix, split in IDX_SPLITS.items():
        split_file = path.with_name(prefix + path.name.removeprefix("train"))
        if split_file.is_file():
            splits[split] = _read_idx_with_labels(split_file)
    return splits


def _has_images(path: Path) -> bool:
    return "images" in path.name and path.is_file() and is_idx(path)


def _read_idx_with_labels(path: Path) -> ImageArray:
    """Read an IDX file of images, and the file of labels beside it."""
    name = path.name.replace("images-idx3", "labels-idx1")
    label_file = path.with_name(name if name != path.name else name.replace("images", "labels"))
    if label_file == path or not label_file.is_file():
        raise InputError(f"{path}: no labels", expected=f"a file {label_file.name} beside it")
    _check_shapes(path, _idx_shape(path), _idx_shape(label_file))
    return _image_array(path, read_idx(path), read_idx(label_file))


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Read an IDX file of bytes, plain or `.gz`: the type, the shape, and the bytes.

    Raises:
        InputError: The file is damaged.
    """
    shape = _idx_shape(path)
    first, size = 4 + 4 * len(shape), math.prod(shape)
    data = _read_start(path, first + size + 1)
    if len(data) != first + size:
        got = f"{len(data) - first:,} bytes" if len(data) < first + size else "more bytes"
        raise InputError(f"{path} is damaged", got=got, expected=f"{size:,}, as its header says")
    return np.frombuffer(data, np.uint8, offset=first).reshape(shape)


def _idx_shape(path: Path) -> tuple[int, ...]:
    """Read the shape of an IDX file; its size is checked against that of the file."""
    if not is_idx(path):
        raise InputError(str(path), got="another kind of file", expected="an IDX file of bytes")
    dimensions = _read_start(path, 4)[3]
    first = 4 + 4 * dimensions
    head = _read_start(path, first)
    if len(head) < first:
        raise InputError(f"{path} is damaged", got="a part of a header", expected="a whole file")
    shape = struct.unpack(f">{dimensions}I", head[4:])
    size, stored = math.prod(shape), path.stat().st_size
    max_size = min(MOST_ARRAY, max(LARGE, stored * MOST_PACKED) if path.suffix == ".gz" else stored)
    if size > max_size:
        got, expected = f"a header that claims {size:,} bytes", f"at most {max_size:,}"
        raise InputError(f"{path} is damaged", got=got, expected=expected)
    check_memory(str(path), 3 * size)
    return shape


def _read_start(path: Path, size: int) -> bytes:
    """Read the first bytes of a file; of a `.gz`, of what is packed in it."""
    try:
        with open_regular(path) as file:
            if path.suffix != ".gz":
                return file.read(size)
            with gzip.open(file) as unpacked:
                return unpacked.read(size)
    except (OSError, EOFError, zlib.error) as error:
        got = str(error).partition("\n")[0]
        raise InputError(f"{path} is damaged", got=got, expected="an IDX file") from None
