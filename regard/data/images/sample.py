"""Images of a recipe's data -> plain PNG files, and a file with what is true of each.

That is `captions.jsonl`; of images with numbers it is the table `outputs.csv`, and of drawn tissue
also `cells.jsonl`.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from regard.data.config import ScenesData, TissueData
from regard.data.images.sources import load_images
from regard.data.synthetic.scenes import PARTS, scenes_of
from regard.data.synthetic.tissue import genes, tissues_of
from regard.errors import InputError
from regard.inputs.images.reader import ImageReader
from regard.runtime.files import reporting

CAPTIONS, NUMBERS, CELLS = "captions.jsonl", "outputs.csv", "cells.jsonl"

Sample = tuple[dict[str, Any], Image.Image, Image.Image | None]
"""What is true of an image, the image, and the mask of its objects if it is a drawn scene."""


def iter_samples(
    data: Any, split: str, count: int, reader: ImageReader, *, numbers: bool = False
) -> Iterator[Sample]:
    """Yield the first images of a split, with their labels and captions, or with their numbers.

    Args:
        data: The `data:` section of a recipe.
        split: train, valid, or the name of a test split.
        count: How many.
        reader: Its height is the side of drawings; other images are scaled to its size.
        numbers: Whether they are read for their numbers.

    Raises:
        InputError: There is no such split.
    """
    if isinstance(data, ScenesData | TissueData) and split not in PARTS:
        raise InputError("--split", got=split, expected=f"one of {', '.join(PARTS)}")
    if isinstance(data, TissueData):
        names = [gene.name for gene in genes(data.genes)]
        enough_tissue = data.model_copy(update={"pairs": max(count, data.pairs)})
        for tissue in islice(tissues_of(enough_tissue, split), count):
            of_genes = dict(zip(names, tissue.numbers(data.genes), strict=True))
            yield {"numbers": of_genes, **tissue.to_json()}, tissue.draw(reader.height), None
        return
    if isinstance(data, ScenesData):
        enough = data.model_copy(update={"pairs": max(count, data.pairs)})
        for scene in islice(scenes_of(enough, split), count):
            fields = {"label": scene.labels[data.label], **scene.to_json()}
            side = reader.height
            yield fields, scene.draw(side), Image.fromarray(scene.mask(side))
        return
    splits = load_images(data, reader, numbers=numbers)
    by_name = {"train": splits.train, "valid": splits.valid, **splits.tests}
    if split not in by_name:
        raise InputError("--split", got=split, expected=f"one of {', '.join(by_name)}")
    images = by_name[split][:count]
    for i, label in enumerate(images.labels):
        row: dict[str, Any] = {"label": label}
        if images.numbers is not None:
            row = {"numbers": dict(zip(images.outputs, images.numbers[i].tolist(), strict=True))}
        if images.captions:
            row["caption"] = captions[0] if len(captions := images.captions[i]) == 1 else captions
        yield row, _to_image(images.values[i : i + 1][0]), None


def _to_image(pixels: Any) -> Image.Image:
    """Make an image of (channels, height, width): bytes, or floats from 0 to 1."""
    if pixels.dtype != np.uint8:
        pixels = np.rint(255 * pixels).astype(np.uint8)
    return Image.fromarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0).copy())


def write_samples(samples: Iterator[Sample], folder: Path) -> Iterator[dict[str, Any]]:
    """Write images, masks and what is true of them into a folder; yield each line's values.

    A mask is a grey PNG: 0 for the ground, n for the n-th object. Numbers are written as a table,
    of which `own/image-numbers` can learn.

    Raises:
        InputError: The folder has samples already.
    """
    for name in (CAPTIONS, NUMBERS):
        if (folder / name).exists():
            fix = "choose another folder with -o"
            raise InputError(f"{folder / name} exists already", fix=fix)
    with reporting(str(folder), "what was written before is whole"):
        folder.mkdir(parents=True, exist_ok=True)
        for number, (row, image, mask) in enumerate(samples):
            name = f"{number:05}"
            line = {"path": f"{name}.png", **row}
            image.save(folder / f"{name}.png")
            if mask is not None:
                mask.save(folder / f"{name}-mask.png")
                line["mask"] = f"{name}-mask.png"
            _add_line(folder, line)
            yield line


def _add_line(folder: Path, line: Mapping[str, Any]) -> None:
    """Add what is true of one image to the files of a folder."""
    facts = {key: value for key, value in line.items() if key != "numbers"}
    if "numbers" in line:
        is_new = not (folder / NUMBERS).exists()
        with (folder / NUMBERS).open("a", encoding="utf-8", newline="") as table:
            writer = csv.writer(table)
            if is_new:
                writer.writerow(["path", *line["numbers"]])
            writer.writerow([line["path"], *line["numbers"].values()])
        if "cells" not in facts:
            return
    with (folder / (CELLS if "cells" in facts else CAPTIONS)).open("a", encoding="utf-8") as file:
        file.write(json.dumps(facts, ensure_ascii=False) + "\n")
