"""Augmentation of training images: shift, rotation, shear, scale, and thickness of strokes.

The change of an image is a pure function of (seed, epoch, index of the image), so that a resumed
run sees the same images.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.order import generator

TURN = 0.22
"""Largest rotation in either direction, in radians: about 13 degrees."""
SHEAR = 0.25
STRETCH = 0.18
"""Largest relative change of height and of width, drawn independently."""
SHIFT = 0.2
"""Largest shift in either direction, as a fraction of half the image: 0.8 pixels of 8."""
WIDTH = 0.35
"""Largest weight of the image whose strokes are one pixel wider (or narrower) on each side."""


def augment(images: Tensor, index: Sequence[int], seed: int, epoch: int, by: float) -> Tensor:
    """Change each image at random: (images, channels, height, width), values from 0 to 1.

    Args:
        images: (images, channels, height, width) From 0 (background) to 1 (ink).
        index: The index of each image in the training split.
        seed: Seed of the run.
        epoch: Counted from 0.
        by: Strength, from 0 (unchanged) to 1 (up to the constants above).

    Returns:
        The changed images, of the same shape.
    """
    if not by:
        return images
    dice = np.stack([generator(seed, epoch, i).uniform(-1, 1, 7) for i in index])
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
    """Compute rotation @ (shear and scale) for each image: (images, 2, 2)."""
    cosine, sine, zero = turn.cos(), turn.sin(), torch.zeros_like(turn)
    rotation = torch.stack((cosine, -sine, sine, cosine), dim=1).view(-1, 2, 2)
    slant = torch.stack((wide, shear, zero, tall), dim=1).view(-1, 2, 2)
    return rotation @ slant
