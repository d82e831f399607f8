"""The included dataset of digits: 1,797 images of 8 x 8 pixels with their classes, in five folds.

The data is in `digits.csv.gz`, its origin in `digits.txt`, both in this folder.
"""

from __future__ import annotations

import gzip
import hashlib
from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from regard.data.config import DigitsData
from regard.data.images.labelled_images import ImageSplits, LabelledImages
from regard.data.order import generator

CLASSES = tuple("0123456789")
SIDE = 8
FOLDS = 5
VALID = 10
"""One in this many images outside the test fold is in the validation split."""
LARGEST = 16
"""Largest value of a pixel: it counts the black points in a block of the original bitmap."""


def splits(data: DigitsData) -> ImageSplits:
    """Split the digits, with one fold as the test split: a pure function of the fold's number.

    Each class is spread evenly over the folds, and over the training and validation splits.

    Args:
        data: Names the test fold.
    """
    values, labels, checksum = _read()
    random = generator(0)
    roles = np.empty(len(labels), dtype=np.int64)  # 0 train, 1 valid, 2 test
    for number in range(len(CLASSES)):
        rows = random.permutation(np.flatnonzero(labels == number))
        rank = np.arange(len(rows))
        train_or_valid = np.where(rank // FOLDS % VALID == 0, 1, 0)
        roles[rows] = np.where(rank % FOLDS == data.fold, 2, train_or_valid)
    train, valid, test = (
        LabelledImages(values[mask], tuple(CLASSES[number] for number in labels[mask].tolist()))
        for mask in (roles == 0, roles == 1, roles == 2)
    )
    return ImageSplits(train, valid, {"test": test}, {"digits": checksum})


@cache
def _read() -> tuple[NDArray[np.float32], NDArray[np.int64], str]:
    """Read all images, their classes, and the SHA-256 of the file."""
    packed = (files("regard.data.synthetic") / "digits.csv.gz").read_bytes()
    table = np.loadtxt(gzip.decompress(packed).decode().splitlines(), delimiter=",")
    # The last column is the class: (images, 64) -> (images, 1, 8, 8)
    values = (table[:, :-1] / LARGEST).reshape(-1, 1, SIDE, SIDE).astype(np.float32)
    return values, table[:, -1].astype(np.int64), hashlib.sha256(packed).hexdigest()
