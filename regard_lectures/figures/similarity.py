"""Figure of parts 4 and 7: how alike the learned positions of an image's patches are.

By default a small ViT is trained to say where a drawn shape is. Its positions begin as small random
vectors, so that what they have in common was learned.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from regard import load
from regard.data import make_scene
from regard.draw import LINE_STYLES, Scale, sequential
from regard.errors import InputError
from regard.explain import Board, Drawing, Numbers, Words, patch_distances
from regard.inputs import Dense
from regard.models import ViTConfig, build
from regard_lectures.figures.descent import Descent
from regard_lectures.limits import model_line
from regard_lectures.progress import training_progress

DIM, HEADS, LAYERS, HIDDEN, BATCH = 32, 2, 2, 64, 48
SIDE, PATCH = 32, 4
SCENES, PLACES = 1500, 4
MARGIN = 0.1
"""Mean cosines that differ by less are as large as each other."""
BEGIN = 0.02
"""Standard deviation of the positions at the start."""


def measure(model: str, steps: int, seed: int) -> dict[str, Any]:
    """The cosine of each two learned positions of a model, or of one that is trained here.

    Args:
        model: A model of images with learned positions; empty: train one.
        steps: Training steps.
        seed: Seed of weights and batches.
    """
    if model:
        table, grid = _positions(model)
        return {"of": model, **_cosines(table, grid)}
    torch.manual_seed(seed)
    vit: Any = build(
        ViTConfig(
            dim=DIM, heads=HEADS, hidden=HIDDEN, layers=LAYERS, image=(SIDE, SIDE), patch=PATCH,
            dropout=0.0, pool="mean", class_token=False,
            classes=tuple(map(str, range(PLACES * PLACES))),
        )
    )  # fmt: skip
    nn.init.normal_(vit.encoder.positions.table, std=BEGIN)
    pixels, targets = draw_shapes(seed)
    data = torch.Generator().manual_seed(seed)
    with training_progress(steps) as on_step:
        descent = Descent(vit.parameters(), 3e-3, on_step)
        for _ in range(steps):
            chosen = torch.randint(SCENES, (BATCH,), generator=data)
            loss = F.cross_entropy(vit(Dense(pixels[chosen])), targets[chosen])
            descent.step(loss, BATCH * vit.config.max_length)
    name = f"a ViT that was trained for {steps} steps to say where a drawn shape is"
    return {"of": name, **_cosines(vit.encoder.positions.table.detach(), vit.config.encoder.grid)}


def draw_shapes(seed: int) -> tuple[Tensor, Tensor]:
    """Images of one shape, (images, 3, side, side) from -1 to 1, and its place (images,).

    The place is the number of the cell of the shape's centre, among PLACES x PLACES cells.
    """
    scenes = [make_scene(seed, 0, number, most=1) for number in range(SCENES)]
    arrays = np.stack([np.asarray(scene.draw(SIDE), dtype=np.float32) for scene in scenes])
    pixels = torch.from_numpy(arrays).permute(0, 3, 1, 2) / 127.5 - 1
    centres = torch.tensor([[scene.objects[0].y, scene.objects[0].x] for scene in scenes])
    cells = (centres * PLACES).long().clamp(0, PLACES - 1)  # row and column
    return pixels, cells[:, 0] * PLACES + cells[:, 1]


def _positions(model: str) -> tuple[Tensor, tuple[int, int]]:
    """The learned positions of the patches, (patches, dim), and the grid of patches."""
    network: Any = load(model).model
    table = getattr(getattr(getattr(network, "encoder", None), "positions", None), "table", None)
    if network.config.reads != "images" or not isinstance(table, nn.Parameter):
        got = f"{model}, without learned positions of patches"
        raise InputError("model", got=got, expected="a ViT with model.positions: learned")
    rows, columns = network.config.encoder.grid
    return table.detach()[-rows * columns :], (rows, columns)


def _cosines(table: Tensor, grid: tuple[int, int]) -> dict[str, Any]:
    """The cosines of all pairs, (patches, patches), and the grid."""
    unit = F.normalize(table.double(), dim=1)
    cosines = (unit @ unit.T).clamp(-1, 1).numpy()
    return {"grid": list(grid), "cosines": np.round(cosines, 4).tolist()}


def numbers_of(result: Mapping[str, Any]) -> Numbers:
    """What the picture shows and its words say: means by distance, with and without borders."""
    rows, columns = result["grid"]
    cosines = np.array(result["cosines"])
    apart = np.rint(patch_distances((rows, columns))).astype(int)
    down, right = np.divmod(np.arange(rows * columns), columns)
    border = (down % (rows - 1 or 1) == 0) | (right % (columns - 1 or 1) == 0)
    both = border[:, None] & border[None, :]
    distances = range(1, int(apart.max()) + 1)

    def mean(chosen: NDArray[np.bool_]) -> float | None:
        """The mean cosine of some pairs; None if there are none."""
        return round(float(cosines[chosen].mean()), 4) if chosen.any() else None

    def means(chosen: NDArray[np.bool_]) -> list[float | None]:
        """The mean cosine at each distance; None where no pair is chosen."""
        return [mean(chosen & (apart == distance)) for distance in distances]

    far = apart >= max(2, math.ceil(apart.max() / 2))
    return {
        "of": result["of"],
        "grid": result["grid"],
        "all_pairs": round(float(cosines[apart > 0].mean()), 4),
        "by_distance": means(apart > 0),
        "by_distance_borders": means(both & (apart > 0)),
        "by_distance_others": means(~both & (apart > 0)),
        "farthest_pairs": int((apart == apart.max()).sum()) // 2,
        "far_from": max(2, math.ceil(apart.max() / 2)),
        "far_borders": mean(far & both),
        "far_others": mean(far & ~both),
        "cosines": result["cosines"],
    }


def words_similarity(numbers: Mapping[str, Any]) -> Words:
    """Whether neighbours are alike, and whether far pairs are more so because of the borders."""
    near, far, usual = (numbers["by_distance"][0], numbers["by_distance"][-1], numbers["all_pairs"])
    borders, others = numbers["far_borders"], numbers["far_others"]
    both = f"({_signed(near)}, all pairs {_signed(usual)})"
    if near - usual >= MARGIN:
        title = f"Neighbouring positions are alike {both}"
    elif usual - near >= MARGIN:
        title = f"Neighbouring positions are less alike than others {both}"
    else:
        title = f"Neighbouring positions are hardly more alike than others {both}"
    count = numbers["farthest_pairs"]
    pairs = f"The {count} farthest pairs are" if count > 1 else "The farthest pair is"
    is_more = far - near >= MARGIN
    compared = (
        "more alike than"
        if is_more
        else "less alike than"
        if near - far >= MARGIN
        else "about as alike as"
    )
    if borders is None or others is None:
        said = f"{pairs} {compared} neighbours ({_signed(far)})"
        return Words(title, f"{said}; this grid is too small to compare borders.")
    if borders - others >= MARGIN:
        reason = "borders are alike"
    else:
        reason = "borders do not explain it" if is_more else "borders are not alike"
    caption = (
        f"{pairs} {compared} neighbours ({_signed(far)}); {reason}: from {numbers['far_from']} "
        "patches on, pairs with both ends at the border of the image have "
        f"{_signed(borders)} on average, others {_signed(others)}."
    )
    return Words(title, caption)


def _signed(value: float) -> str:
    """A cosine with two digits, and a minus sign where they are not zero.

    Example:
        >>> _signed(-0.123), _signed(-0.001)
        ('−0.12', '0.00')
    """
    return f"{round(value, 2) + 0.0:.2f}".replace("-", "−")


def similarity(result: dict[str, Any], model: str, steps: int, seed: int) -> Drawing:
    """Draw for each position a map of its cosine with all others, and the mean by distance."""
    numbers = numbers_of(result)
    rows, columns = numbers["grid"]
    cosines = np.array(numbers["cosines"])
    off = cosines[~np.eye(len(cosines), dtype=bool)]
    low, high = float(off.min()), float(np.quantile(off, 0.995))
    details = (
        f"Positions of {numbers['of']}: their table is all that tells the model where a patch is. "
        "Cosine p_i·p_j / (|p_i| |p_j|), as in figure 7 (middle) of Dosovitskiy et al. 2021. The "
        f"colours end at {high:.2f}, so that the cosine of a position with itself, 1, does not "
        "hide the rest. Right: the mean over all pairs at a distance, rounded to whole patches, of "
        "pairs with both patches at the border of the image, and of the others. What a position "
        "must say about its patch is learned: patches in which images never differ may be alike."
    )
    limits = (
        model_line(model)
        if model
        else f"A ViT of {LAYERS} layers, {steps} steps to say where a drawn shape is, seed {seed}."
    )
    scale = Scale(sequential(), low, max(high, low + 1e-6), "cosine")
    with Board(words_similarity(numbers), (1.1, 1), details, limits=limits) as board:
        start = board.heading(0, f"cosine of each position with all, {rows} × {columns}",
                              f"light {_signed(low)}, dark {_signed(high)} or more")  # fmt: skip
        left, top, width, height = board.panel_box(0)
        gap = 3.0
        side = min(width / columns, (top + height - start) / rows)
        for index, row in enumerate(cosines):
            down, right = divmod(index, columns)
            axes = board.sheet.axes(
                left + right * side, start + down * side, side - gap, side - gap
            )
            axes.imshow(row.reshape(rows, columns), scale.colormap(), vmin=scale.low,
                        vmax=scale.high, aspect="auto", interpolation="nearest")  # fmt: skip
        _draw_distances(board, numbers)
        return board.drawing(**numbers)


def _draw_distances(board: Board, numbers: Numbers) -> None:
    """Draw the mean cosine by distance of all pairs, of two borders, and of the others."""
    axes = board.chart(1, "mean cosine by distance", "distance, in patches", "")
    lines = {"all pairs": "", "both at the border": "_borders", "others": "_others"}
    highest, lowest = 0.0, 0.0
    for (name, key), line_style in zip(lines.items(), LINE_STYLES, strict=False):
        means = [math.nan if mean is None else mean for mean in numbers[f"by_distance{key}"]]
        axes.curve(range(1, len(means) + 1), means, style=line_style, marker=line_style.marker,
                   label=name, markersize=8)  # fmt: skip
        highest, lowest = max(highest, np.nanmax(means)), min(lowest, np.nanmin(means))
    axes.axhline(0, color="black", linewidth=1)
    axes.set_yticks([tick for tick in axes.get_yticks() if lowest - 0.1 <= tick <= 1])
    axes.set_ylim(lowest - 0.05, highest + 0.45 * (highest - lowest) + 0.02)
    axes.draw_legend("upper left")
