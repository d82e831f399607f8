"""Figure of parts 4 and 7: how alike the learned positions of an image's patches are.

By default a small ViT is trained to say where a drawn shape is. Its positions begin as small random
vectors, so that what they have in common was learned.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard import load
from regard.data import make_scene
from regard.draw import BLUE, SMALLEST, Scale, points, sequential
from regard.errors import InputError
from regard.explain import Board, Drawing, patch_distances
from regard.inputs import Dense
from regard.models import ViTConfig, build
from regard_lectures.figures.descent import Descent
from regard_lectures.progress import training_progress

DIM, HEADS, LAYERS, HIDDEN, BATCH = 32, 2, 2, 64, 48
SIDE, PATCH = 32, 4
SCENES, PLACES = 1500, 4
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
    """The cosines (patches, patches), and their mean by the distance of the two patches."""
    unit = F.normalize(table.double(), dim=1)
    cosines = (unit @ unit.T).clamp(-1, 1).numpy()
    apart = np.rint(patch_distances(grid)).astype(int)
    means = [
        float(cosines[apart == distance].mean()) for distance in range(1, int(apart.max()) + 1)
    ]
    return {"grid": list(grid), "cosines": np.round(cosines, 4).tolist(), "by_distance": means}


def similarity(result: dict[str, Any], model: str, steps: int, seed: int) -> Drawing:
    """Draw for each position a map of its cosine with all others, and the mean by distance."""
    del model, steps, seed
    rows, columns = result["grid"]
    cosines = np.array(result["cosines"])
    off = cosines[~np.eye(len(cosines), dtype=bool)]
    low, high = float(off.min()), float(np.quantile(off, 0.995))
    means = result["by_distance"]
    apart = min(4, len(means))
    far = f"{means[apart - 1]:.2f}".replace("-", "−")
    near = f"{means[0]:.2f}".replace("-", "−")
    caption = (
        "Each small map, at its place in the image, is one position's cosine with all positions: "
        f"neighbours have {near} on average, positions {apart} patches apart {far}."
    )
    details = (
        f"Positions of {result['of']}: their table is all that tells the model where a patch is. "
        "Cosine p_i·p_j / (|p_i| |p_j|), as in figure 7 (middle) of Dosovitskiy et al. 2021. The "
        f"colours end at {high:.2f}, so that the cosine of a position with itself, 1, does not "
        "hide the rest. Right: the mean over all pairs at a distance, rounded to whole patches; "
        "positions where images never differ, such as corners, may be alike, too."
    )
    scale = Scale(sequential(), low, max(high, low + 1e-6), "cosine")
    with Board(caption, (1.25, 1), details) as board:
        start = board.heading(0, f"cosine of each position with all, {rows} × {columns}")
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
        axes = board.chart(1, "mean cosine by distance", "distance, in patches", "")
        axes.plot(range(1, len(means) + 1), means, "o-", color=BLUE, linewidth=2.4, markersize=8)
        axes.axhline(0, color="black", linewidth=1)
        axes.tick_params(labelsize=points(SMALLEST))
        return board.drawing(
            of=result["of"], grid=result["grid"], by_distance=means, cosines=result["cosines"]
        )
