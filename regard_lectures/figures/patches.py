"""Figure of parts 1 and 7: patches as tokens: an image is chopped, and each patch projected.

The patches are cut by the layer that the models use (`regard.layers.cut_patches`). A person's own
image is read at its own size, up to what fits; a model's, by the model's own reader.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image as Pictures
from PIL import ImageOps
from torch import Tensor

from regard import load
from regard.data import make_scene
from regard.draw import ORANGE, Chart, signed_scale
from regard.errors import InputError
from regard.explain import Board, Drawing, Words
from regard.inputs import ImageReader
from regard.layers import cut_patches
from regard_lectures.limits import model_line

LARGEST, MOST_PATCHES = 224, 32
"""Pixels and patches of the longer side of an image; a larger one is brought to so many."""
SCENE = 7
"""The number of the drawn scene: three shapes of different colours."""
IN_ORDER = 6
"""The number of patches that are drawn one below the other."""
Image = NDArray[np.float32]


@dataclass(frozen=True)
class Front:
    """An image and how it becomes tokens.

    Attributes:
        pixels: (channels, height, width), from 0 to 1.
        own_size: Height and width of the image before it was brought to these pixels.
        patch: The side of a patch.
        tokens: (patches, dim).
        way: How a patch becomes a token: `random` and `learned`, by a matrix, or `stem`, by
            convolutions whose windows overlap.
    """

    pixels: Image
    own_size: tuple[int, int]
    patch: int
    tokens: Tensor
    way: str


def patches(text: str | None, patch: int, dim: int, model: str, seed: int) -> Drawing:
    """Draw an image, its patches in a row, and the vectors to which one matrix turns them.

    Args:
        text: The path of an image; None: a drawn scene.
        patch: The side of a patch in pixels.
        dim: The width of a token.
        model: A model of images, whose reader, patches and matrix are used; empty: a random matrix.
        seed: Seed of the scene and of the random matrix.
    """
    picture = scene(seed, LARGEST) if text is None else text
    front = _model_front(picture, model) if model else _random_front(picture, patch, dim, seed)
    channels, height, width = front.pixels.shape
    values = front.tokens.numpy()
    numbers: dict[str, Any] = {
        "patches": len(values), "grid": [height // front.patch, width // front.patch],
        "patch": front.patch, "numbers_of_a_patch": channels * front.patch**2,
        "dim": values.shape[1], "channels": channels, "own_size": list(front.own_size),
        "size": [height, width], "way": front.way, "model": model, "tokens": values.tolist(),
    }  # fmt: skip
    details = (
        "Step 1, chop: patches are read row by row. Step 2, project: x_i = W p_i + b, with p_i the "
        "pixels of patch i, channel by channel; that is a convolution whose stride is its size. "
        "The lecture's image of 224 × 224 has 14 × 14 patches of 3 × 16 × 16 = 768 numbers. A "
        "stem has convolutions instead, whose windows overlap. Then a position is added to each "
        f"token, and the same blocks as for words follow. Seed {seed}."
    )
    limits = "A random matrix: no training. A model learns it."
    limits = model_line(model) if model else limits
    with Board(words_patches(numbers), (1, 0.42, 1.1), details, limits=limits) as board:
        axes = bare(board, 0, "1  chop the image", height / width)
        draw_image(axes, front.pixels, (0, numbers["grid"][1], numbers["grid"][0], 0))
        draw_lines(axes, *numbers["grid"])
        _draw_in_order(board, front)
        step = "convolutions" if front.way == "stem" else "project"
        draw_tokens(board, 2, f"2  {step}: the tokens", values, "patch")
        return board.drawing(**numbers)


def words_patches(numbers: Mapping[str, Any]) -> Words:
    """How many tokens the image has, what was done to it before, and what makes the tokens."""
    (rows, columns), side, count = numbers["grid"], numbers["patch"], numbers["patches"]
    size, own_size = (" × ".join(map(str, numbers[key][::-1])) for key in ("size", "own_size"))
    whose = f"{numbers['model']} reads {size} pixels" if numbers["model"] else f"{size} pixels"
    unit = "patches" if numbers["way"] != "stem" else "cells"
    title = f"{whose} are {columns} × {rows} {unit} of {side} × {side}: {count:,} tokens"
    if numbers["model"]:
        title = title.replace("pixels are", "pixels:")
    numbers_of, dim = numbers["numbers_of_a_patch"], numbers["dim"]
    matrix = f"multiplied by one matrix {numbers_of} × {dim}"
    measured = {
        "random": f"each patch is {numbers_of} numbers, {matrix}, here a random one",
        "learned": f"each patch is {numbers_of} numbers, {matrix}, that of {numbers['model']}",
        "stem": f"convolutions make each cell a token of {dim} numbers: their windows overlap, so "
        "there is no matrix for a patch alone",
    }[numbers["way"]]
    done = (
        f"The image is read at its own size, {own_size}"
        if size == own_size
        else f"The image was brought from {own_size} to {size}"
    )
    if numbers["model"]:
        done += f" by the model's reader, {'in grey' if numbers['channels'] == 1 else 'in colour'}"
    caption = f"{done} (width × height); {measured}."
    return Words(title, caption)


def scene(seed: int, side: int) -> Pictures.Image:
    """A drawn scene of three shapes."""
    return make_scene(seed, 0, SCENE, most=3, least=3).draw(side)


def size_of(picture: Pictures.Image | str) -> tuple[int, int]:
    """Height and width of an image or an image file, upright.

    Raises:
        InputError: If there is no such file, or it is no image.
    """
    if isinstance(picture, Pictures.Image):
        return picture.height, picture.width
    ImageReader(height=8, width=8).pixels(picture)  # says what is wrong with a file
    with Pictures.open(picture) as file:
        upright = ImageOps.exif_transpose(file)
        return upright.height, upright.width


def whole_patches(size: tuple[int, int], patch: int, most_patches: int) -> tuple[int, int]:
    """The size nearest to an image's own that is whole patches and fits.

    Args:
        size: Height and width.
        patch: The side of a patch.
        most_patches: The most patches of the longer side.

    Example:
        >>> whole_patches((224, 224), 16, 14), whole_patches((3000, 4000), 16, 14)
        ((224, 224), (160, 224))
    """
    factor = min(1.0, most_patches * patch / max(size))
    height, width = (max(1, round(side * factor / patch)) * patch for side in size)
    return height, width


def _random_front(picture: Pictures.Image | str, patch: int, dim: int, seed: int) -> Front:
    """The image at its own size, if it fits, and a random matrix."""
    own_size = size_of(picture)
    most_patches = min(MOST_PATCHES, LARGEST // patch)
    height, width = whole_patches(own_size, patch, most_patches)
    pixels = ImageReader(height=height, width=width).pixels(picture)
    torch.manual_seed(seed)
    numbers = 3 * patch * patch
    weight = torch.randn(dim, numbers) / math.sqrt(numbers)
    chopped = cut_patches(torch.from_numpy(pixels)[None], patch)[0]  # (patches, channels · patch²)
    return Front(pixels, own_size, patch, chopped @ weight.T, "random")  # x_i = W p_i


def _model_front(picture: Pictures.Image | str, model: str) -> Front:
    """The image as a model reads it, and the tokens that the model makes of it.

    Raises:
        InputError: If the model is no Transformer that reads images.
    """
    pipeline = load(model, device="cpu")
    front: Any = getattr(pipeline.model, "embed", None)
    if not pipeline.reads_images or not hasattr(front, "patch"):
        fix = "small/digits and small/fashion are included"
        raise InputError("model", got=model, expected="a Transformer that reads images", fix=fix)
    reader = pipeline.processor.source
    own_size = size_of(picture)
    pixels = reader.pixels(picture)  # (channels, height, width)
    read = reader.normalised(torch.from_numpy(pixels)[None])
    stem = getattr(front, "stem", None)
    with torch.no_grad():
        if stem is not None:
            tokens = stem(read).flatten(2)[0].T  # (dim, rows, columns) -> (cells, dim)
        else:
            tokens = front.projection(cut_patches(read, front.patch)[0])  # W p_i + b
    return Front(pixels, own_size, front.patch, tokens, "learned" if stem is None else "stem")


def _draw_in_order(board: Board, front: Front) -> None:
    """Draw some patches, one below the other, as they are read: where the image varies most."""
    height, width = front.pixels.shape[1:]
    patch, columns = front.patch, width // front.patch
    count = height // patch * columns
    shown = min(IN_ORDER, count)
    spread = cut_patches(torch.from_numpy(front.pixels)[None], patch)[0].std(-1, correction=0)
    first = int(spread.unfold(0, shown, 1).sum(-1).argmax())
    left, top, box_width, box_height = board.panel_box(1)
    start = board.heading(1, f"{shown} in order", "row, column")
    pitch = min((box_height - (start - top)) / (IN_ORDER + 0.7), box_width * 0.55)
    axes = board.sheet.axes(left, start, box_width, pitch * (shown + 0.7))
    axes.set_axis_off()
    axes.set(xlim=(0, box_width / pitch), ylim=(shown + 0.7, 0))
    for index in range(shown):
        down, right = divmod(first + index, columns)
        part = front.pixels[
            :, down * patch : (down + 1) * patch, right * patch : (right + 1) * patch
        ]
        draw_image(axes, part, (0, 0.9, index + 0.9, index))
        axes.write((1.05, index + 0.45), f"{down}, {right}", va="center")
    axes.set(xlim=(0, box_width / pitch), ylim=(shown + 0.7, 0))
    if count > shown:
        axes.write((0, shown + 0.3), f"… of {count:,}", va="center")


def draw_tokens(
    board: Board, panel: int, heading: str, values: NDArray[np.float32], unit: str,
    part: tuple[float, float] = (0, 1),
) -> None:  # fmt: skip
    """Draw tokens (token, feature) as colours, with numbered rows and columns."""
    axes = board.chart(panel, heading, "feature", f"{unit}; blue: above 0, orange: below", part)
    axes.grid(visible=False)
    axes.locator_params(integer=True)
    reach = float(np.abs(values).max()) or 1.0
    axes.imshow(values, signed_scale(reach).colormap(), vmin=-reach, vmax=reach,
                aspect="auto", interpolation="nearest",
                extent=(-0.5, values.shape[1] - 0.5, len(values) - 0.5, -0.5))  # fmt: skip


def bare(board: Board, panel: int, heading: str, aspect: float) -> Chart:
    """Axes without ticks below the heading of a panel, as large as fits; aspect: height / width."""
    left, top, width, height = board.panel_box(panel)
    start = board.heading(panel, heading)
    wide = min(width, (top + height - start) / aspect)
    return board.sheet.axes(left, start, wide, wide * aspect)


def draw_image(axes: Chart, pixels: Image, extent: tuple[float, float, float, float]) -> None:
    """Draw pixels (channels, height, width) from 0 to 1 at a place of the axes."""
    shown = pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0)
    axes.imshow(shown, cmap="gray", vmin=0, vmax=1, aspect="auto", extent=extent,
                interpolation="nearest")  # fmt: skip


def draw_lines(axes: Chart, rows: int, columns: int) -> None:
    """Draw the lines along which an input is chopped."""
    limits = axes.get_xlim(), axes.get_ylim()
    extent = max(limits[0]), max(limits[1])
    width = 2 if max(rows, columns) <= 16 else 0.8
    for column in range(1, columns):
        axes.axvline(column * extent[0] / columns, color=ORANGE, linewidth=width)
    for row in range(1, rows):
        axes.axhline(row * extent[1] / rows, color=ORANGE, linewidth=width)
    axes.set(xlim=limits[0], ylim=limits[1])
