"""Looks at all images of a folder or file: classes, sizes, copies, broken files."""

from __future__ import annotations

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from regard.data.config import ALL_FOUND, Column, Columns
from regard.data.images.arrays import Source
from regard.data.images.decoding import look_at_images
from regard.data.images.listing import ImageFile, find_images
from regard.data.images.numbered import find_numbered
from regard.inputs.images.opening import content_of, header_of, open_image

COMPARED_SIZE = (256, 256)
"""Large JPEGs are compared at a part of their size, but no less than this."""
MAX_LISTED = 10
"""How many broken files, classes and copies the report in words names."""


class ImageFacts(NamedTuple):
    """Format, size and digests of one image."""

    kind: str
    """The file's format, such as PNG."""
    mode: str
    """The colours, in Pillow's words: L is grey, P a palette."""
    width: int
    height: int
    content: bytes
    """A digest of the file's bytes."""
    pixels: bytes
    """A digest of the decoded pixels."""


@dataclass(frozen=True)
class CaptionFacts:
    """The captions of a set of images."""

    captions: int
    fewest: int
    """The fewest captions of an image."""
    most: int
    shortest: int
    """The number of words of the shortest caption."""
    median: int
    longest: int
    words: int
    """The number of different words, without regard to case."""
    repeated: int
    """Captions that another image has, too."""

    def describe(self) -> str:
        """The facts in a line."""
        per_image = (
            str(self.fewest) if self.fewest == self.most else f"{self.fewest} to {self.most}"
        )
        return (
            f"{self.captions:,} captions, {per_image} for each image; {self.shortest} to "
            f"{self.longest} words, median {self.median}; {self.words:,} different words; "
            f"{self.repeated:,} captions of another image, too"
        )


class NumberFacts(NamedTuple):
    """One of the numbers to predict, over all images."""

    mean: float
    deviation: float
    smallest: float
    largest: float

    def describe(self) -> str:
        """The facts in a line."""
        return (
            f"mean {self.mean:.4g}, deviation {self.deviation:.4g}, "
            f"{self.smallest:.4g} to {self.largest:.4g}"
        )


@dataclass(frozen=True)
class ImagesReport:
    """What is in a folder or file of images."""

    images: int
    """Whole images; without broken ones."""
    classes: dict[str, int]
    """The number of images of each class."""
    splits: dict[str, int]
    """The number of images of each split that the data names."""
    smallest: tuple[int, int] | None
    """Width and height of the image with the fewest pixels."""
    median: tuple[int, int] | None
    """The median of the widths, and that of the heights."""
    largest: tuple[int, int] | None
    modes: dict[str, int]
    formats: dict[str, int]
    same_bytes: int
    """Files whose bytes another file has, too: how many could be left out."""
    same_pixels: int
    """The same for decoded pixels, which includes those with the same bytes."""
    across_classes: tuple[tuple[str, str], ...]
    """Two files of different classes, or with other numbers, with the same pixels."""
    across_splits: tuple[tuple[str, str], ...]
    """Two files of different splits with the same pixels."""
    broken: dict[str, str]
    """Files that are no whole images: name -> what is wrong."""
    others: tuple[str, ...]
    """Files that are no images by their names; they are ignored."""
    captions: CaptionFacts | None = None
    """The captions, if the images are checked for them."""
    numbers: dict[str, NumberFacts] | None = None
    """Each of the numbers to predict, if the images are checked for them."""

    @property
    def is_bad(self) -> bool:
        """Whether something should be put right before a training."""
        return bool(self.broken or self.across_classes or self.across_splits)

    def describe(self) -> str:
        """Return the report as text."""
        lines = [f"{self.images:,} images of {len(self.classes)} classes: {_tally(self.classes)}"]
        if self.captions is not None:
            lines = [f"{self.images:,} images", self.captions.describe()]
        if self.numbers is not None:
            lines = [f"{self.images:,} images with {len(self.numbers):,} numbers each:"]
            first_numbers = [*self.numbers.items()][:MAX_LISTED]
            lines += [f"  {name}: {facts.describe()}" for name, facts in first_numbers]
            if len(self.numbers) > MAX_LISTED:
                lines.append(f"  and {len(self.numbers) - MAX_LISTED:,} more; --json lists all")
        if self.splits:
            lines.append(f"splits: {_tally(self.splits)}")
        if self.smallest and self.median and self.largest:
            sizes = (self.smallest, self.median, self.largest)
            smallest, median, largest = (f"{width:,} x {height:,}" for width, height in sizes)
            lines.append(f"width x height: {smallest} to {largest}, median {median}")
        lines.append(f"formats: {_tally(self.formats)}; modes: {_tally(self.modes)}")
        lines.append(
            f"copies: {self.same_pixels:,} with the same pixels as another image, "
            f"{self.same_bytes:,} of them with the same bytes"
        )
        twice = "with other numbers" if self.numbers is not None else "in two classes"
        for what, pairs in ((twice, self.across_classes), ("in two splits", self.across_splits)):
            if pairs:
                lines.append(f"the same image {what}: {len(pairs):,}")
                lines += [f"  {first} and {second}" for first, second in pairs[:MAX_LISTED]]
        if self.others:
            lines.append(f"other files, ignored: {len(self.others):,}, such as {self.others[0]}")
        lines.append(f"broken: {len(self.broken):,}")
        lines += [f"  {name}: {what}" for name, what in [*self.broken.items()][:MAX_LISTED]]
        if len(self.broken) > MAX_LISTED:
            lines.append(f"  and {len(self.broken) - MAX_LISTED:,} more; --json lists all")
        return "\n".join(lines)


def check_images(
    path: str,
    on_progress: Callable[[int, int], None] = lambda _done, _all: None,
    columns: Columns = ALL_FOUND,
    *,
    captions: bool = False,
    outputs: Sequence[Column] | None = None,
) -> ImagesReport:
    """Decode every image of a folder or file, in parallel threads, and report on them.

    Args:
        path: As for `find_images`.
        on_progress: Called with the number of images that are done, and of all.
        columns: Which columns of a table are read.
        captions: Whether they are checked for their captions, not for their classes.
        outputs: The columns of the numbers that they are checked for; None: not for numbers.

    Raises:
        InputError: There are no images with classes, captions or numbers at all.
    """
    if outputs is None:
        listing = find_images(path, columns, captions=captions)
    else:
        listing = find_numbered(path, outputs, columns)
    files = listing.files
    facts_by_number, problems = look_at_images(
        lambda number: _image_facts(files[number].source),
        files,
        lambda done: on_progress(done, len(files)),
    )
    facts = [(files[number], facts) for number, facts in facts_by_number.items()]
    report = _report(facts, listing.problems | problems, listing.others)
    if outputs is not None:
        return replace(report, numbers=_number_facts(listing.outputs, [file for file, _ in facts]))
    if not captions:
        return report
    return replace(report, captions=_caption_facts([file.captions for file, _ in facts]))


def _number_facts(names: Sequence[str], files: Sequence[ImageFile]) -> dict[str, NumberFacts]:
    """Mean, standard deviation, smallest and largest value of each number."""
    columns = np.array([file.numbers for file in files]).reshape(-1, len(names)).T
    return {
        name: NumberFacts(*(float(f(column)) for f in (np.mean, np.std, np.min, np.max)))
        for name, column in zip(names, columns, strict=True)
        if len(column)
    }


def _caption_facts(captions: Sequence[Sequence[str]]) -> CaptionFacts:
    """Count captions and their words; captions of each image."""
    counts, texts = [*map(len, captions)], [text for texts in captions for text in texts]
    lengths = sorted(len(text.split()) for text in texts)
    images_with = Counter(text for texts in captions for text in set(texts))
    return CaptionFacts(
        captions=len(texts),
        fewest=min(counts, default=0),
        most=max(counts, default=0),
        shortest=min(lengths, default=0),
        median=lengths[len(lengths) // 2] if lengths else 0,
        longest=max(lengths, default=0),
        words=len({word.lower() for text in texts for word in text.split()}),
        repeated=sum(images_with[text] > 1 for text in texts),
    )


def _image_facts(source: Source) -> ImageFacts:
    """Compute format, size and digests of an image."""
    content = content_of(source)
    if isinstance(content, bytes):
        header = header_of(content)
        kind, (width, height), mode = header.format or "", header.size, header.mode
        raw = content
    else:
        kind, (height, width) = "array", content.shape[:2]
        mode = "L" if content.ndim == 2 else {1: "L", 3: "RGB", 4: "RGBA"}[content.shape[2]]
        raw = np.ascontiguousarray(content).tobytes()
    image = open_image(content, COMPARED_SIZE)
    digest = hashlib.sha256(f"{image.mode} {image.size}".encode() + image.tobytes()).digest()
    return ImageFacts(kind, mode, width, height, hashlib.sha256(raw).digest(), digest)


def _label(file: ImageFile) -> str:
    """What an image is to be read as: its class, or its numbers."""
    return " ".join(map(repr, file.numbers)) if file.numbers else file.label


def _report(
    facts: Sequence[tuple[ImageFile, ImageFacts]], broken: dict[str, str], ignored: Sequence[str]
) -> ImagesReport:
    """Count classes, splits, sizes and copies of the images."""
    files, images = [file for file, _ in facts], [image for _, image in facts]
    groups: dict[bytes, list[ImageFile]] = defaultdict(list)
    for file, image in facts:
        groups[image.pixels].append(file)
    sizes = sorted(((image.width, image.height) for image in images), key=math.prod)
    median = None
    if sizes:
        across, down = (int(np.median([size[side] for size in sizes])) for side in (0, 1))
        median = (across, down)
    return ImagesReport(
        images=len(facts),
        classes=_count_values(file.label for file in files),
        splits=_count_values(file.split for file in files if file.split),
        smallest=sizes[0] if sizes else None,
        median=median,
        largest=sizes[-1] if sizes else None,
        modes=_count_values(image.mode for image in images),
        formats=_count_values(image.kind for image in images),
        same_bytes=len(images) - len({image.content for image in images}),
        same_pixels=len(images) - len(groups),
        across_classes=_copies_across(groups.values(), _label),
        across_splits=_copies_across(groups.values(), lambda file: file.split),
        broken=broken,
        others=tuple(ignored),
    )


def _copies_across(groups: Any, key: Callable[[ImageFile], str]) -> tuple[tuple[str, str], ...]:
    """Pairs of equal images that differ in something: the first, and the first that differs."""
    pairs = []
    for first, *copies in groups:
        other = next((file for file in copies if key(file) != key(first)), None)
        if other is not None:
            pairs.append((first.name, other.name))
    return tuple(pairs)


def _count_values(values: Any) -> dict[str, int]:
    """Count values, by their names."""
    return dict(sorted(Counter(values).items()))


def _tally(counts: dict[str, int]) -> str:
    """List names with their counts in one line; of many, the first."""
    entries = [f"{name} {count:,}" for name, count in [*counts.items()][:MAX_LISTED]]
    more_entries = [f"and {len(counts) - MAX_LISTED} more"] if len(counts) > MAX_LISTED else []
    return ", ".join([*entries, *more_entries]) or "none"
