"""Images of a recipe's data -> plain PNG files, and `captions.jsonl` with what is true of each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from regard.data.config import ScenesData
from regard.data.images.sources import load_images
from regard.data.synthetic.scenes import PARTS, scenes_of
from regard.errors import InputError
from regard.inputs.images.reader import ImageReader
from regard.runtime.files import reporting

CAPTIONS = "captions.jsonl"

Sample = tuple[dict[str, Any], Image.Image, Image.Image | None]
"""What is true of an image, the image, and the mask of its objects if it is a drawn scene."""


def iter_samples(data: Any, split: str, count: int, reader: ImageReader) -> Iterator[Sample]:
    """Yield the first images of a split, with their labels and captions.

    Args:
        data: The `data:` section of a recipe.
        split: train, valid, or the name of a test split.
        count: How many.
        reader: Its height is the side of drawn scenes; other images are scaled to its size.

    Raises:
        InputError: There is no such split.
    """
    if isinstance(data, ScenesData):
        if split not in PARTS:
            raise InputError("--split", got=split, expected=f"one of {', '.join(PARTS)}")
        enough = data.model_copy(update={"pairs": max(count, data.pairs)})
        for scene in islice(scenes_of(enough, split), count):
            row = {"label": scene.labels[data.label], **scene.to_json()}
            side = reader.height
            yield row, scene.draw(side), Image.fromarray(scene.mask(side))
        return
    splits = load_images(data, reader)
    by_name = {"train": splits.train, "valid": splits.valid, **splits.tests}
    if split not in by_name:
        raise InputError("--split", got=split, expected=f"one of {', '.join(by_name)}")
    images = by_name[split][:count]
    for i, label in enumerate(images.labels):
        row = {"label": label}
        if images.captions:
            row["caption"] = captions[0] if len(captions := images.captions[i]) == 1 else captions
        yield row, _to_image(images.values[i : i + 1][0]), None


def _to_image(pixels: Any) -> Image.Image:
    """Make an image of (channels, height, width): bytes, or floats from 0 to 1."""
    if pixels.dtype != np.uint8:
        pixels = np.rint(255 * pixels).astype(np.uint8)
    return Image.fromarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0).copy())


def write_samples(samples: Iterator[Sample], folder: Path) -> Iterator[dict[str, Any]]:
    """Write images, masks and `captions.jsonl` into a folder; yield each line's values.

    A mask is a grey PNG: 0 for the ground, n for the n-th object.

    Raises:
        InputError: The folder has samples already.
    """
    if (folder / CAPTIONS).exists():
        raise InputError(f"{folder / CAPTIONS} exists already", fix="choose another folder with -o")
    with reporting(str(folder), "what was written before is whole"):
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / CAPTIONS).open("w", encoding="utf-8") as file:
            for number, (row, image, mask) in enumerate(samples):
                name = f"{number:05}"
                line = {"path": f"{name}.png", **row}
                image.save(folder / f"{name}.png")
                if mask is not None:
                    mask.save(folder / f"{name}-mask.png")
                    line["mask"] = f"{name}-mask.png"
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
                yield line
