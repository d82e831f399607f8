"""Small models of images with random weights, whose attention is sharp."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from PIL import Image

from regard.inputs.images.reader import ImageReader
from regard.inputs.processor import Processor
from regard.models import FAMILIES, build
from regard.pipeline import Pipeline
from regard.recipes import recipe as recipes

SIZES = {"dim": 16, "heads": 4, "hidden": 24, "layers": 3, "image": (8, 12), "patch": 2,
         "channels": 3, "classes": ("a", "b", "c")}  # fmt: skip


def pipeline(**changes: Any) -> Pipeline:
    """A classifier of images of 8 x 12 pixels in 4 x 6 patches, and what the changes say."""
    torch.manual_seed(0)
    config = FAMILIES["vit"].config.model_validate(SIZES | changes)
    model = build(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.4 * torch.randn_like(parameter))
    height, width = config.image
    reader = ImageReader(height=height, width=width)
    return Pipeline(model, Processor(reader), recipes.load("tiny/digits"), "random")


def photo(height: int = 40, width: int = 60) -> Image.Image:
    """A picture of noise, the same at every call."""
    random = np.random.default_rng(0)
    return Image.fromarray(random.integers(0, 256, (height, width, 3), dtype=np.uint8))
