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
from regard.hub import captions
from regard.hub.config import CONFIG
from regard.hub.folder import read_model, write_model
from regard.hub.identify import ModelDescription
from regard.hub.kind import require
from regard.inputs.images.reader import RESAMPLES, ImageReader
from regard.inputs.processor import Processor
from regard.models import Model
from regard.runtime.files import read_json, write_file

_logger = logging.getLogger(__name__)

FILE = captions.PREPROCESSOR
OUR_KEY = "regard"
"""The key under which all settings of a reader of Regard are stored."""


def read(
    folder: Path, description: ModelDescription, normalisation: Mapping[str, Any] | None = None
) -> tuple[Model, Processor]:
    """Reads a model and its image reader.

    Args:
        folder: The model's folder.
        description: What its config says.
        normalisation: The `mean` or `std` of images, if not what the folder says.
    """
    model, any_size = read_model(folder, description), description.kind.any_size
    hub_config = description.hub_config
    if model.config.has_target:
        captions.check_files(folder, normalisation)
    processor = read_reader(
        folder, model.config, hub_config, any_size=any_size, normalisation=normalisation
    )
    if model.config.has_target:
        return model, captions.with_tokenizer(processor, model, folder, description)
    return model, processor


def write(
    model: Model, processor: Processor | None, decode: DecodeConfig, folder: Path, kind: str | None
) -> None:
    """Writes a model with its image reader; see `exchange.export`."""
    if getattr(model.config, "numbers", ()):
        raise InputError(
            "export",
            got="a model of images that predicts numbers",
            expected="one that has classes, as transformers' models do",
            fix="`regard export MODEL --store fp16 -o NEW` keeps it whole, in fewer bytes",
        )
    if model.config.has_target:
        captions.write(model, processor, decode, folder, kind)
        hub_config = {}
    else:
        hub_config = write_model(model, folder, kind)
    if processor is not None and kind == "timm":
        hub_config["pretrained_cfg"] |= timm_settings(processor.source)
        write_file(folder / CONFIG, (json.dumps(hub_config, indent=2) + "\n").encode())
    elif processor is not None:
        write_reader(processor.source, folder)


def read_reader(
    folder: Path,
    config: Any,
    hub_config: dict[str, Any] | None = None,
    *,
    any_size: bool = False,
    normalisation: Mapping[str, Any] | None = None,
) -> Processor:
    """Reads the image reader of a folder; without a file it has the defaults of their ViT.

    What is assumed without a file is logged.

    Args:
        folder: The model's folder.
        config: The model's config, with the size that images are scaled to.
        hub_config: The contents of `config.json`, in which timm keeps these settings.
        any_size: Whether the file may have another size than the model's config.
        normalisation: The `mean` or `std` to take instead.

    Raises:
        InputError: The file has settings that Regard does not support, or another size than the
            model.
    """
    file = folder / FILE
    settings = read_json(file) if file.is_file() else {}
    if OUR_KEY in settings:
        reader = ImageReader.from_spec(settings[OUR_KEY])
    elif not settings and hub_config and "pretrained_cfg" in hub_config:
        reader = _timm_reader(hub_config["pretrained_cfg"] or {}, config, folder / CONFIG)
    else:
        reader = _transformers_reader(settings, config, file)
        if not settings and len(normalisation or {}) < 2:
            _log_assumptions(reader, folder)
    if normalisation:
        reader = _make_reader(Path("--mean and --std"), **{**reader.model_dump(), **normalisation})
    size = (reader.channels, reader.height, reader.width)
    if size != (config.channels, *config.image) and not any_size:
        got, expected = (
            " x ".join(map(str, shape)) for shape in (size, (config.channels, *config.image))
        )
        raise InputError(str(file), got=got, expected=f"{expected}, as the model reads")
    return Processor(reader)


_CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
_CLIP_STD = (0.26862954, 0.26130258, 0.27577711)
_PROCESSOR_DEFAULTS: dict[str, dict[str, Any]] = {
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
        "image_mean": list(_CLIP_MEAN),
        "image_std": list(_CLIP_STD),
    },
    "ConvNext": {"size": {"shortest_edge": 384}, "crop_pct": 224 / 256, "resample": 3},
}
"""What the image processors of transformers do unless their file says otherwise, by the beginning
of their names."""


def _transformers_reader(settings: dict[str, Any], config: Any, file: Path) -> ImageReader:
    """The reader of a transformers model, from its `preprocessor_config.json`."""
    name = str(settings.get("image_processor_type") or settings.get("feature_extractor_type") or "")
    kind = next((prefix for prefix in _PROCESSOR_DEFAULTS if name.startswith(prefix)), "ViT")
    settings = _PROCESSOR_DEFAULTS[kind] | settings
    require(settings, do_resize=True, do_rescale=True)
    factor = settings.get("rescale_factor", 1 / 255)
    if not isinstance(factor, float) or abs(factor * 255 - 1) > 1e-6:
        raise InputError(f"{file}: rescale_factor", got=factor, expected="1/255")
    number = settings["resample"]
    if not isinstance(number, int) or not 0 <= number < len(RESAMPLES):
        raise InputError(f"{file}: resample", got=number, expected=f"0 to {len(RESAMPLES) - 1}")
    skip_normalisation = not settings.get("do_normalize", True)
    default = [0.5] * config.channels
    mean = [0.0] * config.channels if skip_normalisation else settings.get("image_mean", default)
    std = [1.0] * config.channels if skip_normalisation else settings.get("image_std", default)
    size_settings = _size_settings(settings, kind, config, file)
    normalised = {"channels": config.channels, "mean": mean, "std": std}
    return _make_reader(file, **normalised, resample=RESAMPLES[number], **size_settings)


def _log_assumptions(reader: ImageReader, folder: Path) -> None:
    """Says how images are scaled and normalised for a folder that does not say it."""
    mean, std = (", ".join(f"{x:g}" for x in values) for values in (reader.mean, reader.std))
    _logger.warning(
        "%s: no %s: images are scaled to %d x %d (%s) and normalised by mean %s and std %s, "
        "ViT's defaults; `regard import %s -o NEW --mean … --std …` sets others",
        folder, FILE, reader.height, reader.width, reader.resample, mean, std, folder,
    )  # fmt: skip


def _make_reader(file: Path, **settings: Any) -> ImageReader:
    """Makes a reader; an invalid setting is an error of the file."""
    try:
        return ImageReader(**settings)
    except ValidationError as error:
        raise input_error(error, str(file)) from None


def _size_settings(settings: dict[str, Any], kind: str, config: Any, file: Path) -> dict[str, Any]:
    """The fields of a reader that say how an image is scaled and cropped."""
    size = settings.get("size", {"height": config.image[0], "width": config.image[1]})
    if isinstance(size, int):
        has_short_side = kind in ("Bit", "ConvNext")
        size = {"shortest_edge": size} if has_short_side else {"height": size, "width": size}
    has_sides = isinstance(size, dict) and {"height", "width"} <= size.keys()
    has_short_side = isinstance(size, dict) and isinstance(size.get("shortest_edge"), int)
    if kind == "ConvNext" and has_short_side:
        side = size["shortest_edge"]
        cropped = {"resize": int(side / settings["crop_pct"])} if side < 384 else {}
        return {"height": side, "width": side, **cropped}
    if not settings.get("do_center_crop", False):
        if not has_sides:
            raise InputError(f"{file}: size", got=size, expected="height and width")
        return {"height": size["height"], "width": size["width"]}
    if not has_sides and not has_short_side:
        expected = "height and width, or shortest_edge"
        raise InputError(f"{file}: size", got=size, expected=expected)
    crop = settings.get("crop_size")
    crop = {"height": crop, "width": crop} if isinstance(crop, int) else crop
    if not isinstance(crop, dict) or not {"height", "width"} <= crop.keys():
        raise InputError(f"{file}: do_center_crop", got=f"crop_size {crop}", expected="a size")
    resize = size["shortest_edge"] if has_short_side else (size["height"], size["width"])
    return {"height": crop["height"], "width": crop["width"], "resize": resize}


def _timm_reader(settings: dict[str, Any], config: Any, file: Path) -> ImageReader:
    """The reader of a timm model: its shorter side is scaled to size / crop_pct, then cropped."""
    height, width = config.image
    crop_share, crop_mode = settings.get("crop_pct", 0.875), settings.get("crop_mode", "center")
    if crop_mode not in ("center", "squash"):
        raise InputError(f"{file}: crop_mode", got=crop_mode, expected="center or squash")
    sides = [math.floor(side / crop_share) for side in (height, width)]
    resize: Any = sides[0] if crop_mode == "center" and height == width else tuple(sides)
    channels = config.channels
    return _make_reader(
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
    scales_whole = reader.resize is None or not isinstance(reader.resize, int)
    resize = reader.resize if isinstance(reader.resize, tuple) else (reader.height, reader.width)
    side = resize[0] if scales_whole else reader.resize
    assert isinstance(side, int)
    if reader.scaling != "whole" or (
        scales_whole and resize[0] * reader.width != resize[1] * reader.height
    ):
        raise InputError("export to timm", got="an image reader of Regard", expected="whole images")
    return {
        "mean": list(reader.mean),
        "std": list(reader.std),
        "interpolation": reader.resample,
        "crop_pct": reader.height / side,
        "crop_mode": "squash" if scales_whole else "center",
    }


def write_reader(reader: ImageReader, folder: Path) -> None:
    """Writes `preprocessor_config.json` for the image processors of transformers."""
    image_size = {"height": reader.height, "width": reader.width}
    size: dict[str, Any] = {"image_processor_type": "ViTImageProcessor", "size": image_size}
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
        size |= {"do_center_crop": True, "crop_size": image_size}
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
