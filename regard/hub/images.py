"""`preprocessor_config.json` <-> an image reader: sizes, means and deviations, and nothing to run.

A reader that finds ink has no name there: it is kept under a key of its own, which others leave
alone, and they see how to scale a whole image.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from regard.config import refused
from regard.data.images.reader import RESAMPLES, ImageReader
from regard.errors import InputError
from regard.hub.kind import only
from regard.runtime.files import read_json, write_file
from regard.tokens import Processor

FILE = "preprocessor_config.json"
OWN = "regard"
"""The key under which a reader of ours stands whole."""


def read_reader(folder: Path, config: Any) -> Processor:
    """The reader of a folder; without a file, as their ViT reads unless told otherwise.

    Args:
        folder: Of a model.
        config: Of the model, whose size images are scaled to.

    Raises:
        InputError: It does what no reader here does, or is of another size than the model.
    """
    file = folder / FILE
    said = read_json(file) if file.is_file() else {}
    reader = ImageReader.from_spec(said[OWN]) if OWN in said else _theirs(said, config, file)
    size = (reader.channels, reader.height, reader.width)
    if size != (config.channels, *config.image):
        got, expected = (
            " x ".join(map(str, each)) for each in (size, (config.channels, *config.image))
        )
        raise InputError(str(file), got=got, expected=f"{expected}, as the model reads")
    return Processor(reader)


def _theirs(said: dict[str, Any], config: Any, file: Path) -> ImageReader:
    only(said, do_resize=True, do_rescale=True, do_center_crop=False)
    size = said.get("size", {"height": config.image[0], "width": config.image[1]})
    if isinstance(size, int):
        size = {"height": size, "width": size}
    if not isinstance(size, dict) or not {"height", "width"} <= size.keys():
        raise InputError(f"{file}: size", got=size, expected="height and width")
    factor = said.get("rescale_factor", 1 / 255)
    if not isinstance(factor, float) or abs(factor * 255 - 1) > 1e-6:
        raise InputError(f"{file}: rescale_factor", got=factor, expected="1/255")
    number = said.get("resample", RESAMPLES.index("bilinear"))
    if not isinstance(number, int) or not 0 <= number < len(RESAMPLES):
        raise InputError(f"{file}: resample", got=number, expected=f"0 to {len(RESAMPLES) - 1}")
    plain = not said.get("do_normalize", True)
    usual = [0.5] * config.channels
    mean = [0.0] * config.channels if plain else said.get("image_mean", usual)
    std = [1.0] * config.channels if plain else said.get("image_std", usual)
    try:
        return ImageReader(
            height=size["height"],
            width=size["width"],
            channels=config.channels,
            mean=mean,
            std=std,
            resample=RESAMPLES[number],
        )
    except ValidationError as error:
        raise refused(error, str(file)) from None


def write_reader(reader: ImageReader, folder: Path) -> None:
    """Writes the file that their image processors read."""
    said = {
        "image_processor_type": "ViTImageProcessor",
        "do_resize": True,
        "do_rescale": True,
        "do_normalize": True,
        "size": {"height": reader.height, "width": reader.width},
        "image_mean": list(reader.mean),
        "image_std": list(reader.std),
        "resample": RESAMPLES.index(reader.resample),
        "rescale_factor": 1 / 255,
    }
    if reader.scaling != "whole":
        said[OWN] = reader.model_dump(mode="json")
    write_file(folder / FILE, (json.dumps(said, indent=2) + "\n").encode())
