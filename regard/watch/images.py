"""From the pixels that a vision model reads to the names and positions of its tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.errors import InputError
from regard.tasks.trace import ImageGrid


def pixel_values(given: Any) -> Tensor | None:
    """The pixels (batch, channels, height, width) that a vision model was given; None: no image.

    Args:
        given: The output of an image processor, or its `pixel_values`, of one image or a batch.
    """
    if isinstance(given, Mapping):
        given = given.get("pixel_values") if given.get("input_ids") is None else None
    if not isinstance(given, Tensor | np.ndarray) or given.ndim not in (3, 4):
        return None
    values = torch.as_tensor(given).detach().float().cpu()
    return values[None] if values.dim() == 3 else values


def patch_config(*configs: Any) -> Any:
    """The first config that names the size of a patch, its own or that of its encoder.

    The decoder of a captioner does not know about patches; the config of the whole model does.
    """
    sections = [part for config in configs for part in (config, getattr(config, "encoder", None))]
    return next((part for part in sections if hasattr(part, "patch_size")), configs[0])


def read_picture(values: Tensor, config: Any, tokens: int, processor: Any = None) -> ImageGrid:
    """An image and its patches, as a vision model of `transformers` reads them.

    Args:
        values: (channels, height, width) The normalised pixels.
        config: The model's config, which names the size of a patch.
        tokens: The number of tokens; those that are not patches come first ([CLS], registers).
        processor: The image processor; without it the pixels are scaled to 0 to 1.

    Raises:
        InputError: If the tokens of a layer are not the patches of the whole image.
    """
    patch = getattr(config, "patch_size", None)
    height, width = (patch, patch) if isinstance(patch, int) else patch or (0, 0)
    rows, columns = (values.shape[1] // max(height, 1), values.shape[2] // max(width, 1))
    first = tokens - rows * columns
    if not patch or not 0 <= first < 64:
        got = f"{tokens} tokens in a layer, {rows} x {columns} patches"
        expected = "a model each of whose layers sees the whole image"
        fix = "windows, as Swin's, can be read as seen.weights[layer]"
        raise InputError("look at an image", got=got, expected=expected, fix=fix)
    mean, std = (getattr(processor, name, None) for name in ("image_mean", "image_std"))
    if mean is not None and std is not None:
        scale, shift = (torch.tensor(numbers).view(-1, 1, 1) for numbers in (std, mean))
        pixels = (values * scale + shift).clamp(0, 1)
    else:
        low, high = values.min(), values.max()
        pixels = (values - low) / (high - low).clamp(min=1e-9)
    return ImageGrid(pixels.numpy(), (rows, columns), first)
