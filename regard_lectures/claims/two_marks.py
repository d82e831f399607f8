"""Pictures of two marks far apart, which decide together, and models that see more or less of them.

A mark is an object of one of two classes. The class of a picture is whether its two marks are
alike: none of them alone tells anything about it. Half of the training pictures show one mark
alone, whose class is that of the object, so that marks are learned, too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data import LabelledImages
from regard_lectures.claims.classifiers import labelled
from regard_lectures.claims.layers import (
    cnn_config,
    feature_maps,
    is_convolutional,
    reaches,
    vit_config,
)
from regard_lectures.claims.pasted import Objects

CANVAS = 48
"""Height and width of the pictures."""
SIDE = 8
"""Side of a mark."""
FIRST, APART = (0, 4), (30, 34)
"""The left edge of the first mark, and how much further to the right the second one begins."""
WITHIN = 46
"""All marks are within so many first rows and columns, which the deepest CNN sees."""
ALIKE, DIFFERENT = "alike", "different"
FILTERS = (16, 32, 48, 48)
"""Channels of the CNN's convolutions; a CNN of n layers has the first n."""
ATTENTION = "attention"
DRAWS = 16
"""How often the signs of the channels are drawn for a gradient."""


def models_of(channels: int) -> dict[str, Any]:
    """The configs of CNNs of 2, 3 and 4 layers, and of convolutions with one attention layer.

    Between the inner edges of two marks are `APART` - `SIDE` pixels: 22 at least. A cell of the CNN
    of three layers sees 22 x 22 pixels, never both marks; one of four layers sees 46 x 46, and a
    patch's convolutions before attention see 13 x 13.
    """
    cnn = cnn_config(channels, CANVAS)
    configs = {f"CNN {n}": cnn.changed(filters=FILTERS[:n]) for n in (2, 3, 4)}
    vit = vit_config(channels, CANVAS, stem=True)
    return {**configs, ATTENTION: vit.changed(layers=1)}


def draw_marks(
    objects: Objects,
    classes: tuple[str, str],
    count: int,
    random: np.random.Generator,
    *,
    alone: float = 0.0,
) -> tuple[LabelledImages, NDArray[np.int64]]:
    """Pictures of two marks, or of one; and the corners of both: (pictures, 2, row and column).

    Args:
        objects: The marks, of side `SIDE`.
        classes: The two classes of marks.
        count: How many pictures.
        random: What they show, and where.
        alone: The share of pictures of one mark, whose class is the mark's.
    """
    labels = np.array(objects.labels)
    members = [np.flatnonzero(labels == name) for name in classes]
    ground = objects.grounds[random.integers(0, len(objects), count)]  # (pictures, channels)
    pixels = np.empty((count, objects.channels, CANVAS, CANVAS), np.uint8)
    pixels[:] = ground[:, :, None, None]
    corners = _draw_corners(count, random)
    kinds = random.integers(0, 2, (count, 2))
    single = np.where(random.random(count) < alone, random.integers(0, 2, count), -1)
    answers = []
    for picture, pair, kind, chosen in zip(pixels, corners, kinds, single, strict=True):
        for number in (0, 1) if chosen < 0 else (chosen,):
            row, column = pair[number]
            mark = objects.pictures[random.choice(members[kind[number]])]
            picture[:, row : row + SIDE, column : column + SIDE] = mark
        alike = ALIKE if kind[0] == kind[1] else DIFFERENT
        answers.append(alike if chosen < 0 else classes[kind[chosen]])
    return labelled(pixels, answers), corners


def _draw_corners(count: int, random: np.random.Generator) -> NDArray[np.int64]:
    """The top left corners of two marks: (pictures, 2, 2)."""
    rows = random.integers(0, WITHIN - SIDE + 1, (count, 2))
    first = random.integers(FIRST[0], FIRST[1] + 1, count)
    apart = random.integers(APART[0], APART[1] + 1, count)
    return np.stack([rows, np.stack([first, first + apart], axis=1)], axis=2)


def cell_near(model: Any, point: tuple[float, float], cells: tuple[int, int]) -> tuple[int, int]:
    """The cell of a model's last map whose field has its middle nearest to a point.

    Args:
        model: A CNN, or a ViT.
        point: Row and column, in pixels.
        cells: Rows and columns of the map.
    """
    if not is_convolutional(model):
        row, column = (int(side // model.embed.patch) for side in point)
        return row, column
    reach = list(reaches(model).values())[-1]
    middles = [
        reach.start + reach.stride * np.arange(many) + (reach.side - 1) / 2 for many in cells
    ]
    row, column = (
        int(np.abs(middle - side).argmin()) for middle, side in zip(middles, point, strict=True)
    )
    return row, column


def gradient_of_cell(
    model: Any, pixels: Tensor, point: tuple[float, float], seed: int
) -> tuple[NDArray[np.float64], list[int]]:
    """How much each pixel moves the cell of the last map that is nearest to a point.

        g(p) = mean over signs of Σ_channels |∂(Σ_c s_c y_c) / ∂x_p|        s_c = ±1 at random

    Args:
        model: A CNN, or a ViT.
        pixels: (1, channels, height, width) The picture.
        point: Row and column, in pixels.
        seed: Of the signs.

    Returns:
        g, (height, width); and what the formula says of a CNN: first row and end, first column and
        end. Nothing for attention.
    """
    signs = torch.Generator().manual_seed(seed)
    x = pixels.repeat(DRAWS, 1, 1, 1).requires_grad_()
    last = list(feature_maps(model, x).values())[-1]  # (draws, channels, rows, columns)
    row, column = cell_near(model, point, (last.shape[2], last.shape[3]))
    cell = last[:, :, row, column]
    s = torch.randint(0, 2, cell.shape, generator=signs) * 2.0 - 1.0
    (gradient,) = torch.autograd.grad((s * cell).sum(), x)
    field: NDArray[np.float64] = gradient.abs().sum(1).mean(0).double().numpy()
    if not is_convolutional(model):
        return field, []
    reach = list(reaches(model).values())[-1]
    rows, columns = reach.span(row, field.shape[0]), reach.span(column, field.shape[1])
    return field, [*rows, *columns]


def marks_seen(field: NDArray[np.float64], corners: NDArray[np.int64]) -> int:
    """In how many of the two marks some pixel has a gradient.

    Example:
        >>> field = np.zeros((48, 48))
        >>> field[3, 5] = 1.0
        >>> marks_seen(field, np.array([[0, 0], [0, 30]]))
        1
    """
    return sum(
        bool((field[row : row + SIDE, column : column + SIDE] > 0).any())
        for row, column in corners.tolist()
    )
