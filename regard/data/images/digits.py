"""The digits that ship: 1,797 images of 8 x 8 with their classes, in five folds.

The file and where it comes from: `digits.csv.gz` and `digits.txt`, beside this one.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from regard.data.config import DigitsData

CLASSES = tuple("0123456789")
SIDE = 8
FOLDS = 5
VALID = 10
"""One in so many of the images outside a fold is set aside to choose the checkpoint with."""
LARGEST = 16
"""Of a pixel: as many points of the bitmap as it counts."""


@dataclass(frozen=True, eq=False)
class Pictures:
    """Some images of one size, and what each shows."""

    values: NDArray[np.float32]
    """(images, channels, height, width) From 0 to 1; of drawings, 1 is ink."""
    labels: tuple[str, ...]
    """The name of each one's class."""

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, rows: slice) -> Pictures:
        return Pictures(self.values[rows], self.labels[rows])


@dataclass(frozen=True, eq=False)
class PictureSplits:
    """Images to learn from, to choose a checkpoint with, and to test on."""

    train: Pictures
    valid: Pictures
    tests: dict[str, Pictures]
    checksums: dict[str, str]
    """SHA-256 of the file that ships."""


def splits(data: DigitsData) -> PictureSplits:
    """The digits with one fold for the test: a pure function of the fold's number.

    Each class is dealt out evenly: to the folds, and to what is set aside of the others.

    Args:
        data: Which fold.
    """
    values, labels, checksum = _read()
    random = np.random.Generator(np.random.PCG64(0))
    roles = np.empty(len(labels), dtype=np.int64)  # 0 train, 1 valid, 2 test
    for number in range(len(CLASSES)):
        places = random.permutation(np.flatnonzero(labels == number))
        rank = np.arange(len(places))
        outside = np.where(rank // FOLDS % VALID == 0, 1, 0)
        roles[places] = np.where(rank % FOLDS == data.fold, 2, outside)
    train, valid, test = (_chosen(values, labels, roles == role) for role in range(3))
    return PictureSplits(train, valid, {"test": test}, {"digits": checksum})


def _chosen(
    values: NDArray[np.float32], labels: NDArray[np.int64], keep: NDArray[np.bool_]
) -> Pictures:
    return Pictures(values[keep], tuple(CLASSES[number] for number in labels[keep].tolist()))


@cache
def _read() -> tuple[NDArray[np.float32], NDArray[np.int64], str]:
    """All images, their classes, and the SHA-256 of the file."""
    packed = (files("regard") / "data" / "images" / "digits.csv.gz").read_bytes()
    table = np.loadtxt(gzip.decompress(packed).decode().splitlines(), delimiter=",")
    values = (table[:, :-1] / LARGEST).reshape(-1, 1, SIDE, SIDE).astype(np.float32)
    return values, table[:, -1].astype(np.int64), hashlib.sha256(packed).hexdigest()
