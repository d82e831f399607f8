"""Training images, each time a little different: moved, turned, scaled, thicker or thinner.

What becomes of an image is a pure function of (seed, epoch, which image), so that a run which stops
goes on with the very same images.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

TURN = 0.22
"""Radians, either way: about 13 degrees."""
SHEAR = 0.25
STRETCH = 0.18
"""Of height and width, either way, each by itself."""
SHIFT = 0.2
"""Of half the image, either way: 0.8 pixels of 8."""
WIDTH = 0.35
"""How far an image goes towards the one with every stroke a pixel wider or narrower."""


def augmented(images: Tensor, index: Sequence[int], seed: int, epoch: int, by: float) -> Tensor:
    """Images with small changes of their own, (images, channels, height, width), 0 to 1.

    Args:
        images: From 0, background, to 1, ink.
        index: Which of the training images these are.
        seed: Of the run.
        epoch: Counted from 0.
        by: From 0, as they are, to 1, as far as the constants above say.
    """
    if not by:
        return images
    dice = np.stack(
        [
            np.random.Generator(np.random.PCG64([seed % 2**64, epoch, place])).uniform(-1, 1, 7)
            for place in index
        ]
    )
    turn, shear, tall, wide, right, down, width = (by * torch.from_numpy(dice).float()).unbind(1)
    turned = _affine(turn * TURN, shear * SHEAR, 1 + tall * STRETCH, 1 + wide * STRETCH)
    shift = torch.stack((right, down), dim=1)[:, :, None] * SHIFT
    maps = torch.cat((turned, shift), dim=2)  # (images, 2, 3)
    grid = F.affine_grid(maps, list(images.shape), align_corners=False)
    moved = F.grid_sample(images, grid, align_corners=False)
    thicker = F.max_pool2d(moved, 3, stride=1, padding=1)
    thinner = -F.max_pool2d(-moved, 3, stride=1, padding=1)
    other = torch.where((width > 0)[:, None, None, None], thicker, thinner)
    return moved + (width.abs() * WIDTH)[:, None, None, None] * (other - moved)


def _affine(turn: Tensor, shear: Tensor, tall: Tensor, wide: Tensor) -> Tensor:
    """Rotation times shear times scale, for each image: (images, 2, 2)."""
    cosine, sine, zero = turn.cos(), turn.sin(), torch.zeros_like(turn)
    rotation = torch.stack((cosine, -sine, sine, cosine), dim=1).view(-1, 2, 2)
    slant = torch.stack((wide, shear, zero, tall), dim=1).view(-1, 2, 2)
    return rotation @ slant
