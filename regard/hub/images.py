"""Converts `preprocessor_config.json` to an image reader and back.

It holds sizes, means and standard deviations. Regard's readers that crop an image to its ink have
no equivalent there. They are stored under the key "regard", which other programs ignore; those see
the settings for scaling a whole image.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from regard.config import input_error
from regard.decode.config import DecodeConfig
from regard.errors import InputError
from regard.hub.config import CONFIG
from regard.hub.folder import read_model, write_model
from regard.hub.identify import Described
from regard.hub.kind import require
from regard.inputs.images.reader import RESAMPLES, ImageReader
from regard.inputs.processor import Processor
from regard.models import Model
from regard.runtime.files import read_json, write_file

_logger = logging.getLogger(__name__)

FILE = "preprocessor_config.json"
OUR_KEY = "regard"
"""The key under which all settings of a reader of Regard are stored."""


def read(
    folder: Path, described: Described, normalisation: Mapping[str, Any] | None = None
) -> tuple[Model, Processor]:
    """Reads a model and its image reader.

    Args:
        folder: The model's folder.
        described: What its config says.
        normalisation: The `mean` or `std` of images, if not what the folder says.
    """
    model, any_size = read_model(folder, described), described.kind.any_size
    their = described.their
    return model, read_reader(folder, model.config, their, any_size=any_size, given=normalisation)


def write(
    model: Model, processor: Processor | None, decode: DecodeConfig, folder: Path, kind: str | None
) -> None:
    """Writes a model with its image reader; see `exchange.export`."""
    del decode  # a model of images writes nothing
    their = write_model(model, folder, kind)
    if processor is not None and kind == "timm":
        their["pretrained_cfg"] |= timm_settings(processor.source)
        write_file(folder / CONFIG, (json.dumps(their, indent=2) + "\n").encode())
    elif processor is not None:
        write_reader(processor.source, folder)


def read_reader(
    folder: Path,
    config: Any,
    their: dict[str, Any] | None = None,
    *,
    any_size: bool = False,
    given: Mapping[str, Any] | None = None,
) -> Processor:
    """Reads the image reader of a folder; without a file it has the defaults of their ViT.

    What is assumed without a file is logged.

    Args:
        folder: The model's folder.
        config: The model's config, with the size that images are scaled to.
        their: The contents of `config.json`, in which timm keeps these settings.
        any_size: Whether the file may have another size than the model's config.
        given: The `mean` or `std` to take instead.

    Raises:
        InputError: The file has settings that Regard does not support, or another size than the
            model.
    """
    file = folder / FILE
    settings = read_json(file) if file.is_file() else {}
    if OUR_KEY in settings:
        reader = ImageReader.from_spec(settings[OUR_KEY])
    elif not settings and their and "pretrained_cfg" in their:
        reader = _timms(their["pretrained_cfg"] or {}, config, folder / CONFIG)
    else:
        reader = _theirs(settings, config, file)
        if not settings and len(given or {}) < 2:
            _log_assumed(reader, folder)
    if given:
        reader = _reader(Path("--mean and --std"), **{**reader.model_dump(), **given})
    size = (reader.channels, reader.height, reader.width)
    if size != (config.channels, *config.image) and not any_size:
        got, expected = (
            " x ".join(map(str, shape)) for shape in (size, (config.channels, *config.image))
        )
        raise InputError(str(file), got=got, expected=f"{expected}, as the model reads")
    return Processor(reader)


_CLIP = (0.48145466, 0.4578275, 0.40821073)
_CLIP_STD = (0.26862954, 0.26130258, 0.27577711)
_USUAL: dict[str, dict[str, Any]] = {
    "ViT": {"resample": 2},
    "DeiT": {
        "size": {"height": 256, "width": 256},
        "crop_size": 224,
        "do_center_crop": True,
        "resample": 3,
    },
    "Bit": {
        "size": {"shortest_edge": 224},
        "crop_size": 224,
        "do_center_crop": True,
        "resample": 3,
        "image_mean": list(_CLIP),
        "image_std": list(_CLIP_STD),
    },
    "ConvNext": {"size": {"shortest_edge": 384}, "crop_pct": 224 / 256, "resample": 3},
}
"""What the image processors of transformers do unless their file says otherwise, by the beginning
of their names."""


def _theirs(settings: dict[str, Any], config: Any, file: Path) -> ImageReader:
    name = str(settings.get("image_processor_type") or settings.get("feature_extractor_type") or "")
    kind = next((prefix for prefix in _USUAL if name.startswith(prefix)), "ViT")
    settings = _USUAL[kind] | settings
    require(settings, do_resize=True, do_rescale=True)
    factor = settings.get("rescale_factor", 1 / 255)
    if not isinstance(factor, float) or abs(factor * 255 - 1) > 1e-6:
        raise InputError(f"{file}: rescale_factor", got=factor, expected="1/255")
    number = settings["resample"]
    if not isinstance(number, int) or not 0 <= number < len(RESAMPLES):
        raise InputError(f"{file}: resample", got=number, expected=f"0 to {len(RESAMPLES) - 1}")
    plain = not settings.get("do_normalize", True)
    usual = [0.5] * config.channels
    mean = [0.0] * config.channels if plain else settings.get("image_mean", usual)
    std = [1.0] * config.channels if plain else settings.get("image_std", usual)
    scaled = _sizes(settings, kind, config, file)
    return _reader(file, channels=config.channels, mean=mean, std=std, resample=RESAMPLES[number],
                   **scaled)  # fmt: skip


def _log_assumed(reader: ImageReader, folder: Path) -> None:
    """Says how images are scaled and normalised for a folder that does not say it."""
    mean, std = (", ".join(f"{x:g}" for x in values) for values in (reader.mean, reader.std))
    _logger.warning(
        "%s: no %s: images are scaled to %d x %d (%s) and normalised by mean %s and std %s, "
        "ViT's defaults; `regard import %s -o NEW --mean … --std …` sets others",
        folder, FILE, reader.height, reader.width, reader.resample, mean, std, folder,
    )  # fmt: skip


def _reader(file: Path, **settings: Any) -> ImageReader:
    try:
        return ImageReader(**settings)
    except ValidationError as error:
        raise input_error(error, str(file)) from None


def _sizes(settings: dict[str, Any], kind: str, config: Any, file: Path) -> dict[str, Any]:
    """The fields of a reader that say how an image is scaled and cropped."""
    size = settings.get("size", {"height": config.image[0], "width": config.image[1]})
    if isinstance(size, int):
        short = kind in ("Bit", "ConvNext")
        size = {"shortest_edge": size} if short else {"height": size, "width": size}
    whole = isinstance(size, dict) and {"height", "width"} <= size.keys()
    short = isinstance(size, dict) and isinstance(size.get("shortest_edge"), int)
    if kind == "ConvNext" and short:
        side = size["shortest_edge"]
        cropped = {"resize": int(side / settings["crop_pct"])} if side < 384 else {}
        return {"height": side, "width": side, **cropped}
    if not settings.get("do_center_crop", False):
        if not whole:
            raise InputError(f"{file}: size", got=size, expected="height and width")
        return {"height": size["height"], "width": size["width"]}
    if not whole and not short:
        expected = "height and width, or shortest_edge"
        raise InputError(f"{file}: size", got=size, expected=expected)
    crop = settings.get("crop_size")
    crop = {"height": crop, "width": crop} if isinstance(crop, int) else crop
    if not isinstance(crop, dict) or not {"height", "width"} <= crop.keys():
        raise InputError(f"{file}: do_center_crop", got=f"crop_size {crop}", expected="a size")
    resize = size["shortest_edge"] if short else (size["height"], size["width"])
    return {"height": crop["height"], "width": crop["width"], "resize": resize}


def _timms(settings: dict[str, Any], config: Any, file: Path) -> ImageReader:
    """The reader of a timm model: its shorter side is scaled to size / crop_pct, then cropped."""
    height, width = config.image
    share, mode = settings.get("crop_pct", 0.875), settings.get("crop_mode", "center")
    if mode not in ("center", "squash"):
        raise InputError(f"{file}: crop_mode", got=mode, expected="center or squash")
    sides = [math.floor(side / share) for side in (height, width)]
    resize: Any = sides[0] if mode == "center" and height == width else tuple(sides)
    channels = config.channels
    return _reader(
        file,
        height=height,
        width=width,
        channels=channels,
        mean=settings.get("mean", [0.485, 0.456, 0.406])[:channels],
        std=settings.get("std", [0.229, 0.224, 0.225])[:channels],
        resample=settings.get("interpolation", "bicubic"),
        resize=resize,
    )


def timm_settings(reader: ImageReader) -> dict[str, Any]:
    """The entries of timm's `pretrained_cfg` for a reader.

    Raises:
        InputError: timm has no such reader.
    """
    whole = reader.resize is None or not isinstance(reader.resize, int)
    resize = reader.resize if isinstance(reader.resize, tuple) else (reader.height, reader.width)
    side = resize[0] if whole else reader.resize
    assert isinstance(side, int)
    if reader.scaling != "whole" or (
        whole and resize[0] * reader.width != resize[1] * reader.height
    ):
        raise InputError("export to timm", got="an image reader of Regard", expected="whole images")
    return {
        "mean": list(reader.mean),
        "std": list(reader.std),
        "interpolation": reader.resample,
        "crop_pct": reader.height / side,
        "crop_mode": "squash" if whole else "center",
    }


def write_reader(reader: ImageReader, folder: Path) -> None:
    """Writes `preprocessor_config.json` for the image processors of transformers."""
    middle = {"height": reader.height, "width": reader.width}
    size: dict[str, Any] = {"image_processor_type": "ViTImageProcessor", "size": middle}
    if isinstance(reader.resize, int):
        size = {
            "image_processor_type": "BitImageProcessor",
            "size": {"shortest_edge": reader.resize},
        }
    elif reader.resize is not None:
        height, width = reader.resize
        size = {
            "image_processor_type": "DeiTImageProcessor",
            "size": {"height": height, "width": width},
        }
    if reader.resize is not None:
        size |= {"do_center_crop": True, "crop_size": middle}
    settings = {
        **size,
        "do_resize": True,
        "do_rescale": True,
        "do_normalize": True,
        "image_mean": list(reader.mean),
        "image_std": list(reader.std),
        "resample": RESAMPLES.index(reader.resample),
        "rescale_factor": 1 / 255,
    }
    if reader.scaling != "whole":
        settings[OUR_KEY] = reader.model_dump(mode="json")
    write_file(folder / FILE, (json.dumps(settings, indent=2) + "\n").encode())
