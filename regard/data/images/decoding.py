"""A list of images -> their pixels in one array, decoded in several threads, without broken ones.

Images that fit are kept in memory as bytes. If all of them together do not, they are checked now,
and decoded again whenever they are asked for; a file that was replaced meanwhile is refused.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from regard.data.images.arrays import Source
from regard.data.images.labelled_images import pixel_digest
from regard.data.images.listing import ImageFile
from regard.errors import InputError
from regard.inputs.images.opening import content_of
from regard.runtime.device import memory

AT_ONCE = 32
"""Images that one thread decodes before it asks for more."""
MOST_KEPT = 2**31
"""The most bytes of decoded images that are kept in memory."""
VERSION = np.dtype([("size", np.int64), ("modified", np.int64), ("content", np.void, 32)])
"""How a file was when it was first read: its size, its time in nanoseconds, and its SHA-256."""

Scale = Callable[[Any], NDArray[np.uint8]]
"""An image in any form -> (channels, height, width), of the model's size."""
Shape = tuple[int, ...]
Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Decoded:
    """Decoded images, without the broken ones."""

    values: Any
    """`Pixels`: (images, channels, height, width) uint8."""
    files: list[ImageFile]
    """Where each image came from."""
    contents: list[bytes]
    """A digest of each image's file; equal for files with the same bytes."""
    pixels: list[bytes]
    """A digest of each image's pixels at the model's size."""
    problems: dict[str, str] = field(default_factory=dict)
    """Broken images: name -> what is wrong."""


class FilePixels:
    """Images that are decoded whenever they are asked for.

    Args:
        sources: Files, bytes or arrays.
        versions: (images,) `VERSION`s of the files; bytes and arrays are in memory and stay.
        scale: Decodes one.
        shape: (channels, height, width) of each.
    """

    def __init__(
        self, sources: Sequence[Source], versions: NDArray[Any], scale: Scale, shape: Shape
    ) -> None:
        self._sources, self._versions, self._scale = sources, versions, scale
        self.shape = (len(sources), *shape)

    def subset(self, rows: Sequence[int]) -> FilePixels:
        """Return some of the images, not yet decoded."""
        sources = [self._sources[row] for row in rows]
        return FilePixels(sources, self._versions[list(rows)], self._scale, self.shape[1:])

    def __getitem__(self, rows: Any) -> NDArray[np.uint8]:
        """Decode some images: (rows, channels, height, width).

        Raises:
            InputError: The file of an image has changed since it was first read.
        """
        if isinstance(rows, slice):
            rows = range(*rows.indices(self.shape[0]))
        indices = [int(row) for row in rows]
        parts = _map_in_threads(self._decode_rows, indices, 4)
        return np.stack([*chain(*parts)]) if indices else np.empty((0, *self.shape[1:]), np.uint8)

    def _decode_rows(self, rows: Sequence[int]) -> list[NDArray[np.uint8]]:
        return [self._scale(self._content(row)) for row in rows]

    def _content(self, row: int) -> Any:
        """Read an image again; its content is compared only if size or time have changed."""
        source, version = self._sources[row], self._versions[row]
        content = content_of(source)
        if not isinstance(source, Path):
            return content
        same = _size_and_time(source) == (version["size"], version["modified"])
        if not same and _digest(content) != version["content"].tobytes():
            raise InputError(
                f"{source} has changed since it was first read",
                got="another content",
                expected="the same image as long as it is used",
                fix="put the image back; a training then continues with --resume",
            )
        return content


def decode(
    files: Sequence[ImageFile],
    scale: Scale,
    shape: Shape,
    on_progress: Callable[[int], None] = lambda _: None,
) -> Decoded:
    """Decode images in parallel threads.

    If they take more than `MOST_KEPT` bytes, or than an eighth of the memory, they are not kept.

    Args:
        files: The images.
        scale: Decodes one image and scales it.
        shape: (channels, height, width), what `scale` returns.
        on_progress: Called with the number of images that are done.
    """
    max_bytes = min(MOST_KEPT, (memory() or MOST_KEPT * 8) // 8)
    in_memory = len(files) * int(np.prod(shape)) <= max_bytes
    values = np.empty((len(files) if in_memory else 0, *shape), np.uint8)
    versions = np.zeros(0 if in_memory else len(files), VERSION)

    def decode_image(number: int) -> tuple[bytes, bytes]:
        """Decode an image; return the digests of its file and of its pixels."""
        stamp = _size_and_time(files[number].source)
        content = content_of(files[number].source)
        pixels = np.ascontiguousarray(scale(content))
        raw = content if isinstance(content, bytes) else np.ascontiguousarray(content).data
        digest = _digest(raw)
        if in_memory:
            values[number] = pixels
        else:
            versions[number] = (*stamp, digest)
        return digest, pixel_digest(pixels)

    digests, problems = look_at_images(decode_image, files, on_progress)
    decoded_rows = list(digests)
    decoded_files = [files[i] for i in decoded_rows]
    if not in_memory:
        sources = [file.source for file in decoded_files]
        pixels: Any = FilePixels(sources, versions[decoded_rows], scale, shape)
    else:
        pixels = values if not problems else values[decoded_rows]
    contents = [content for content, _ in digests.values()]
    pixel_digests = [pixel for _, pixel in digests.values()]
    return Decoded(pixels, decoded_files, contents, pixel_digests, problems)


def look_at_images(
    look: Callable[[int], Result], files: Sequence[ImageFile], on_progress: Callable[[int], None]
) -> tuple[dict[int, Result], dict[str, str]]:
    """Look at images in parallel threads.

    Args:
        look: Looks at the image of a number; raises an `InputError` if it is broken.
        files: The images.
        on_progress: Called with the number of images that are done.

    Returns:
        The results by the number of the image; and broken images: name -> what is wrong.
    """

    def look_at_some(numbers: range) -> list[Result | str]:
        results: list[Result | str] = []
        for number in numbers:
            try:
                results.append(look(number))
            except InputError as error:
                results.append(_problem_text(error, files[number].source))
        return results

    results: list[Result | str] = []
    for part in _map_in_threads(look_at_some, range(len(files)), AT_ONCE):
        results += part
        on_progress(len(results))
    whole = {i: result for i, result in enumerate(results) if not isinstance(result, str)}
    return whole, {files[i].named: what for i, what in enumerate(results) if isinstance(what, str)}


def _problem_text(error: InputError, source: Source) -> str:
    """What is wrong with an image, in a few words and without its name."""
    words = error.what.removeprefix(str(source)).removeprefix("the image").strip(": ")
    parts = (words.removeprefix("is "), "" if error.got is None else str(error.got))
    return ": ".join(part for part in parts if part) or "no image"


def _size_and_time(source: Source) -> tuple[int, int]:
    """Size and time of a file; zeros if it is missing, or is no file."""
    try:
        status = source.stat() if isinstance(source, Path) else None
    except (OSError, ValueError):
        status = None
    return (0, 0) if status is None else (status.st_size, status.st_mtime_ns)


def _digest(data: Any) -> bytes:
    return hashlib.sha256(data).digest()


def _map_in_threads(function: Callable[[Any], Any], items: Any, size: int) -> Iterator[Any]:
    """Apply a function to parts of this size, in parallel; Pillow decodes without Python's lock."""
    parts = [items[first : first + size] for first in range(0, len(items), size)]
    if len(parts) < 2:
        yield from map(function, parts)
        return
    # Pillow's warnings are ignored for all threads at once: each of them ignores them, too, but
    # Python's filters belong to the whole process, and threads restore them in any order
    with (
        warnings.catch_warnings(action="ignore"),
        ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool,
    ):
        yield from pool.map(function, parts)
