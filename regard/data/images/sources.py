"""The `data:` section of a recipe -> training, validation and test images, with a checksum.

In: the digits, drawn scenes, or images in a folder or a file, and the reader that scales them to
the model's size. Out: the splits. Images with the same pixels never stand in two splits, unless the
data itself says so.
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from regard.data.config import (
    ALL_FOUND,
    Column,
    Columns,
    DigitsData,
    ImagesData,
    OnBad,
    ScenesData,
    TissueData,
)
from regard.data.images.decoding import Decoded, decode
from regard.data.images.labelled_images import ImageSplits, LabelledImages, pixels_at
from regard.data.images.listing import Listing, find_images, merge_listings
from regard.data.images.numbered import find_numbered
from regard.data.synthetic import digits
from regard.data.text.examples import progress
from regard.data.text.splits import choose_groups
from regard.errors import InputError
from regard.inputs.images.reader import ImageReader

MAX_NAMED = 3
"""How many broken files a warning names."""
_logger = logging.getLogger(__name__)


def load_images(
    data: Any, reader: ImageReader, *, captions: bool = False, numbers: bool = False
) -> ImageSplits:
    """Read or draw the images of a recipe's `data:` section.

    Args:
        data: The section.
        reader: Scales images to the model's size.
        captions: Whether they are read for their captions, not for their classes.
        numbers: Whether they are read for their numbers.

    Raises:
        InputError: Images cannot be read, or have no classes.
    """
    if numbers and not isinstance(data, TissueData | ImagesData):
        raise InputError("data.kind", got=data.kind, expected="images or tissue, for numbers")
    if isinstance(data, TissueData):
        from regard.data.synthetic.tissue import tissue_splits

        if not numbers:
            raise InputError("data.kind", got="tissue", expected="images with classes")
        return tissue_splits(data, reader)
    if isinstance(data, DigitsData):
        return digits.splits(data)
    if isinstance(data, ScenesData):
        from regard.data.synthetic.scenes import scene_splits

        return scene_splits(data, reader)
    if isinstance(data, ImagesData):
        return _image_splits(data, reader, captions=captions, numbers=numbers)
    expected = "images, scenes, tissue or digits, for a model of images"
    raise InputError("data.kind", got=data.kind, expected=expected)


def read_images(
    path: str,
    reader: ImageReader,
    names: Sequence[str] = (),
    *,
    columns: Columns = ALL_FOUND,
    for_tests: bool = False,
    captions: bool = False,
    outputs: Sequence[Column] | None = None,
) -> LabelledImages:
    """Read all images of a folder or file, as one set; broken ones are skipped and counted.

    Args:
        path: As for `find_images`.
        reader: Scales images to the model's size.
        names: Names of classes that are numbers.
        columns: Which columns of a table are read.
        for_tests: Whether to read only the test split, if there is one.
        captions: Whether they are read for their captions.
        outputs: The columns of the numbers that they are read for; None: not for numbers.

    Raises:
        InputError: There are no images.
    """
    if outputs is None:
        listing = find_images(path, columns, captions=captions)
    else:
        listing = find_numbered(path, outputs, columns)
    if for_tests:
        tests = [file for file in listing.files if file.split == "test"]
        listing.files[:] = tests or listing.files
    decoded = _decode_listing(listing, reader, path, "skip")
    skipped = len(listing.problems | decoded.problems)
    images = _labelled_images(decoded, range(len(decoded.files)), names)
    return replace(images, skipped=skipped, outputs=listing.outputs)


def sort_classes(labels: Sequence[str]) -> tuple[str, ...]:
    """Return the labels that occur, each once: numbers by size, names by the alphabet.

    Example:
        >>> sort_classes(["10", "9", "9"]), sort_classes(["dog", "cat"])
        (('9', '10'), ('cat', 'dog'))
    """
    classes = set(labels)
    if all(label.isdecimal() for label in classes):
        return tuple(sorted(classes, key=lambda label: (int(label), label)))
    return tuple(sorted(classes))


def _image_splits(
    data: ImagesData, reader: ImageReader, *, captions: bool, numbers: bool
) -> ImageSplits:
    """Read the images of a folder or file, and of other splits if they are named."""
    paths = _split_paths(data)
    listings = {
        split: find_numbered(path, data.outputs, data.columns)
        if numbers
        else find_images(path, data.columns, captions=captions)
        for split, path in paths.items()
    }
    listing = merge_listings(listings)
    _check_same_outputs(listings, paths)
    path = data.folder or data.file or ""
    decoded = _decode_listing(listing, reader, path, data.on_bad)
    rows = _split_rows(decoded, data)
    _warn_of_copies(decoded, rows)
    parts = {
        split: replace(_labelled_images(decoded, rows[split], data.names), outputs=listing.outputs)
        for split in rows
    }
    if not captions and not numbers and len(set(parts["train"].labels)) < 2:
        got = f"{parts['train'].labels[0]!r} alone" if len(parts["train"]) else "no image"
        raise InputError(f"classes in {path}", got=got, expected="at least two of them")
    checksums = {path: _checksum(decoded, captions=captions)}
    tests = {"test": parts["test"]} if "test" in parts else {}
    return ImageSplits(parts["train"], parts["valid"], tests, checksums)


def _check_same_outputs(listings: Mapping[str, Listing], paths: Mapping[str, str]) -> None:
    """Refuse splits with other numbers than those of the training images."""
    outputs = listings[""].outputs
    for split, listing in listings.items():
        if listing.outputs != outputs:
            what = f"{paths[split]}: columns of numbers"
            got, expected = ", ".join(listing.outputs), f"{', '.join(outputs)}, as in {paths['']}"
            raise InputError(what, got=got, expected=expected, fix="name them: data.outputs=[a,b]")


def _split_paths(data: ImagesData) -> dict[str, str]:
    """Which folder or file each split is read from; "" for the one that has them all."""
    paths = {"": data.folder or data.file, "valid": data.valid, "test": data.test}
    return {split: path for split, path in paths.items() if path is not None}


def _decode_listing(listing: Listing, reader: ImageReader, path: str, on_bad: OnBad) -> Decoded:
    """Decode the images of a listing, and say once which were skipped."""
    files, shape = listing.files, (reader.channels, reader.height, reader.width)
    with progress(len(files)) as bar:

        def show(done: int) -> None:
            bar.update_to(done, f"{done} of {len(files)} images read")

        decoded = decode(files, reader.bytes_of, shape, show)
    problems = listing.problems | decoded.problems
    if not problems:
        return decoded
    first_problems = ", ".join(f"{name} ({what})" for name, what in [*problems.items()][:MAX_NAMED])
    more_problems = f", and {len(problems) - MAX_NAMED} more" if len(problems) > MAX_NAMED else ""
    if on_bad == "stop" or not decoded.files:
        raise InputError(
            f"{path}: {first_problems}{more_problems}",
            fix="`regard data check` lists all of them; data.on_bad=skip leaves them out",
        )
    _logger.warning(
        "data: %d of %d files in %s skipped: %s%s",
        len(problems), len(problems) + len(decoded.files), path, first_problems, more_problems,
    )  # fmt: skip
    return decoded


def _split_rows(decoded: Decoded, data: ImagesData) -> dict[str, list[int]]:
    """Compute the rows of each split; what the data does not say is chosen by seed."""
    rows: dict[str, list[int]] = {"train": []}
    for row, file in enumerate(decoded.files):
        rows.setdefault(file.split or "train", []).append(row)
    counts = {"valid": data.held_out, "test": data.held_out_test}
    for i, (name, count) in enumerate(counts.items()):
        if name in rows or not count:
            continue
        groups: Counter[Hashable] = Counter(decoded.pixels[row] for row in rows["train"])
        held_out = max(1, min(count, len(rows["train"]) // 10))
        seed = data.seed + i * 2**32
        numbers = choose_groups(list(groups.values()), held_out, seed, "image")
        keys = list(groups)
        held_out_keys = {keys[number] for number in numbers.tolist()}
        rows[name] = [row for row in rows["train"] if decoded.pixels[row] in held_out_keys]
        rows["train"] = [row for row in rows["train"] if decoded.pixels[row] not in held_out_keys]
    return rows


def _warn_of_copies(decoded: Decoded, rows: dict[str, list[int]]) -> None:
    """Warn of training images that the data has in another split, too."""
    train = {decoded.pixels[row] for row in rows["train"]}
    for name in ("valid", "test"):
        copies = [row for row in rows.get(name, ()) if decoded.pixels[row] in train]
        if copies:
            _logger.warning(
                "data: %d images of the %s split are training images, too, such as %s",
                len(copies), name, decoded.files[copies[0]].name,
            )  # fmt: skip


def _labelled_images(decoded: Decoded, rows: Sequence[int], names: Sequence[str]) -> LabelledImages:
    """Select the images at `rows`, with their labels, captions and digests."""
    files = [decoded.files[row] for row in rows]
    values = decoded.values
    if len(rows) < len(decoded.files):
        values = pixels_at(values, rows)
    labels = tuple(_class_name(file.label, names) for file in files)
    captions = tuple(file.captions for file in files)
    digests = tuple(decoded.pixels[row] for row in rows)
    has_numbers = any(file.numbers for file in files)
    numbers = np.array([file.numbers for file in files], np.float64) if has_numbers else None
    captions = captions if any(captions) else ()
    return LabelledImages(values, labels, captions, digests=digests, numbers=numbers)


def _class_name(label: str, names: Sequence[str]) -> str:
    """The name of a class that is a number; with too few names an error."""
    if not names or not label.isdecimal():
        return label
    if int(label) >= len(names):
        expected = f"a name for class {label}, too"
        raise InputError("data.names", got=f"{len(names)} names", expected=expected)
    return names[int(label)]


def _checksum(decoded: Decoded, *, captions: bool) -> str:
    """SHA-256 of the names, labels, splits and contents of all images, or also of captions."""
    digest = hashlib.sha256()
    for file, content in zip(decoded.files, decoded.contents, strict=True):
        digest.update(f"{file.name}\t{file.label}\t{file.split}\t".encode("utf-8", "replace"))
        for number in file.numbers:
            digest.update(f"{number!r}\t".encode())
        for caption in file.captions if captions else ():
            digest.update(f"{caption}\t".encode("utf-8", "replace"))
        digest.update(content)
    return digest.hexdigest()
