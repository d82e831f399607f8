"""Converts `preprocessor_config.json` to an image reader and back.

It holds sizes, means and standard deviations. Regard's readers that crop an image to its ink have
no equivalent there. They are stored under the key "regard", which other programs ignore; those see
the settings for scaling a whole image.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from regard.config import input_error
from regard.data.images.reader import RESAMPLES, ImageReader
from regard.errors import InputError
from regard.hub.kind import only
from regard.runtime.files import read_json, write_file
from regard.tokens import Processor

FILE = "preprocessor_config.json"
OWN = "regard"
"""The key under which all settings of a reader of Regard are stored."""


def read_reader(folder: Path, config: Any) -> Processor:
    """Reads the image reader of a folder; without a file it has the defaults of their ViT.

    Args:
        folder: The model's folder.
        config: The model's config, with the size that images are scaled to.

    Raises:
        InputError: The file has settings that Regard does not support, or another size than the
            model.
    """
    file = folder / FILE
    settings = read_json(file) if file.is_file() else {}
    reader = (
        ImageReader.from_spec(settings[OWN]) if OWN in settings else _theirs(settings, config, file)
    )
    size = (reader.channels, reader.height, reader.width)
    if size != (config.channels, *config.image):
        got, expected = (
            " x ".join(map(str, each)) for each in (size, (config.channels, *config.image))
        )
        raise InputError(str(file), got=got, expected=f"{expected}, as the model reads")
    return Processor(reader)


def _theirs(settings: dict[str, Any], config: Any, file: Path) -> ImageReader:
    only(settings, do_resize=True, do_rescale=True, do_center_crop=False)
    size = settings.get("size", {"height": config.image[0], "width": config.image[1]})
    if isinstance(size, int):
        size = {"height": size, "width": size}
    if not isinstance(size, dict) or not {"height", "width"} <= size.keys():
        raise InputError(f"{file}: size", got=size, expected="height and width")
    factor = settings.get("rescale_factor", 1 / 255)
    if not isinstance(factor, float) or abs(factor * 255 - 1) > 1e-6:
        raise InputError(f"{file}: rescale_factor", got=factor, expected="1/255")
    number = settings.get("resample", RESAMPLES.index("bilinear"))
    if not isinstance(number, int) or not 0 <= number < len(RESAMPLES):
        raise InputError(f"{file}: resample", got=number, expected=f"0 to {len(RESAMPLES) - 1}")
    plain = not settings.get("do_normalize", True)
    usual = [0.5] * config.channels
    mean = [0.0] * config.channels if plain else settings.get("image_mean", usual)
    std = [1.0] * config.channels if plain else settings.get("image_std", usual)
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
        raise input_error(error, str(file)) from None


def write_reader(reader: ImageReader, folder: Path) -> None:
    """Writes `preprocessor_config.json` for the image processors of transformers."""
    settings = {
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
        settings[OWN] = reader.model_dump(mode="json")
    write_file(folder / FILE, (json.dumps(settings, indent=2) + "\n").encode())
