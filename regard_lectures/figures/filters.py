"""Figure of part 2: the filters of a network's first layer, and what they make of an image.

Each filter w (channels, side, side) is compared with random ones of its shape by three measures:

    roughness   Σ (differences of neighbours)² / Σ w²                   low: smooth
    direction   of the gradients g of its brightness, with J = Σ g gᵀ:
                (largest - smallest eigenvalue) / their sum             high: an edge or a bar
    colour      1 - channels · Σ (mean over channels)² / Σ w²           low: grey, high: colours

A filter is smooth, directed, grey or coloured if 95% of the random ones are less so.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from regard.draw import LINE_STYLES, MUTED, TEXT, shorten, signed_scale
from regard.errors import InputError
from regard.explain import Board, Drawing, Numbers, Words
from regard_lectures.claims.layers import Viewer, viewers
from regard_lectures.limits import model_line
from regard_lectures.tries import listed

MODEL = "small/caption"
"""The ResNet whose filters are drawn if no model is named."""
RANDOM = 4_000
"""Random filters that the model's are compared with."""
SURE = 0.05
"""The share of random filters that are beyond the border of each kind."""
MOST = 48
"""The most filters that are drawn: those with the largest weights."""
MAPS = 5
"""Filters whose answers to the image are drawn."""
KINDS = ("smooth", "directed", "grey", "coloured")
Measures = dict[str, NDArray[np.float64]]


def first_filters(model: Any) -> tuple[Tensor, int, int]:
    """The filters of the first layer of a model of images, with their stride and padding.

    A Vision Transformer without convolutions has a filter for each number of a patch's vector.

    Returns:
        (filters, channels, side, side), the stride and the padding in pixels.
    """
    front = model.embed
    if getattr(front, "stem", None) is None and hasattr(front, "projection"):
        weight, patch = front.projection.weight, front.patch  # (dim, channels · patch · patch)
        return weight.detach().reshape(len(weight), -1, patch, patch), patch, 0
    layers: Any = [*front.modules(), *model.encoder.modules()]
    first = next(layer for layer in layers if hasattr(layer, "kernel_size"))
    return first.weight.detach(), first.stride[0], first.padding[0]


def measures_of(filters: Tensor) -> Measures:
    """Roughness, direction and colour of filters (filters, channels, side, side), each (filters,).

    What cannot be measured of filters of this shape is left out: the direction of a single pixel,
    the colour of one channel.
    """
    w = filters.double().numpy()
    channels, side = w.shape[1:3]
    total = (w**2).sum((1, 2, 3)) + 1e-30
    measures: Measures = {}
    if side > 1:
        down, right = np.diff(w, axis=2) ** 2, np.diff(w, axis=3) ** 2
        measures["roughness"] = (down.sum((1, 2, 3)) + right.sum((1, 2, 3))) / total
    if side > 2:
        rows, columns = np.gradient(w.mean(1), axis=(1, 2))  # (filters, side, side) each
        a, b, c = ((x * y).sum((1, 2)) for x, y in ((rows, rows), (rows, columns), (columns,) * 2))
        # eigenvalues of [[a, b], [b, c]]: (a + c) / 2 ± √((a - c)² / 4 + b²)
        measures["direction"] = 2 * np.sqrt((a - c) ** 2 / 4 + b**2) / (a + c + 1e-30)
    if channels > 1:
        measures["colour"] = 1 - channels * (w.mean(1) ** 2).sum((1, 2)) / total
    return measures


def kinds_of(filters: Tensor, seed: int) -> dict[str, list[bool]]:
    """Which filters are smooth, directed, grey or coloured beyond 95% of random ones."""
    draws = torch.Generator().manual_seed(seed)
    random = measures_of(torch.randn(RANDOM, *filters.shape[1:], generator=draws))
    own_measures = measures_of(filters)
    sides = {
        "smooth": ("roughness", -1), "directed": ("direction", 1), "grey": ("colour", -1),
        "coloured": ("colour", 1),
    }  # fmt: skip
    kinds = {}
    for kind, (measure, sign) in sides.items():
        if measure in own_measures:
            border = np.quantile(sign * random[measure], 1 - SURE)
            kinds[kind] = (sign * own_measures[measure] > border).tolist()
    return kinds


def beyond_chance(count: int, trials: int) -> bool:
    """Whether so many of some random filters would be of a kind with a probability below 1%.

    Example:
        >>> beyond_chance(3, 32), beyond_chance(6, 32)
        (False, True)
    """
    terms = (
        math.comb(trials, n) * SURE**n * (1 - SURE) ** (trials - n) for n in range(count)
    )  # of fewer
    return 1 - sum(terms) < 0.01


def words_filters(numbers: Numbers) -> Words:
    """Of which kind the filters are, and which kinds are as rare as among random ones."""
    total, counts = numbers["filters"], numbers["counts"]
    many = {kind: beyond_chance(count, total) for kind, count in counts.items()}
    told = [f"{counts[kind]} {kind}" for kind in counts if many[kind]]
    title = f"{total} filters of the first layer of {numbers['model']}: "
    title += listed(told) if told else "no more order than in random ones"
    side, channels = numbers["side"], numbers["channels"]
    usual = [f"{counts[kind]} {kind}" for kind in counts if not many[kind]]
    caption = f"Each is {side} × {side} pixels of {channels} channel{'s'[: channels > 1]}. "
    caption += f"Of random ones {SURE * total:.1f} would be of each kind"
    caption += f"; {listed(usual)} is no more than chance." if usual else "; these are more."
    if numbers["answers"]:
        caption += (
            f" Right: {len(numbers['answers'])} strong answers to the image that differ; blue: "
            "above 0, orange: below."
        )
    return Words(title, caption)


def answers_to(viewer: Viewer) -> Tensor:
    """What the first layer's filters make of the first image: (filters, rows, columns)."""
    filters, stride, padding = first_filters(viewer.model)
    with torch.no_grad():
        return F.conv2d(viewer.pixels[:1], filters, stride=stride, padding=padding)[0]


def different(answers: Tensor, most: int) -> list[int]:
    """The strongest answers that differ from those before.

    After the strongest, the next is the largest deviation · (1 - |r|), with the largest correlation
    r to one that was chosen.

    Args:
        answers: (filters, rows, columns).
        most: How many.
    """
    flat = answers.flatten(1).double()
    flat = flat - flat.mean(1, keepdim=True)
    sizes = flat.norm(dim=1)
    unit = flat / sizes.clamp(min=1e-30)[:, None]
    unlike, chosen = torch.ones(len(flat), dtype=torch.float64), []
    for _ in range(min(most, len(flat))):
        chosen.append(int((sizes * unlike).argmax()))
        unlike = torch.minimum(unlike, 1 - (unit @ unit[chosen[-1]]).abs()).clamp(min=0)
        unlike[chosen] = -1.0  # none is chosen twice
    return chosen


def filters(text: str | None, model: str, seed: int) -> Drawing:
    """Draw the filters of a model's first layer, and the answers of some to an image."""
    viewer = viewers(model or MODEL, text, 1)[0]
    weights, _, _ = first_filters(viewer.model)
    if not bool(torch.isfinite(weights).all()):
        raise InputError("model", got=f"{viewer.name}, with weights that are no numbers")
    kinds = kinds_of(weights, seed)
    answers = answers_to(viewer)
    strength = answers.flatten(1).std(1) / answers.flatten(1).std(1).max().clamp(min=1e-30)
    strongest = different(answers, MAPS)
    sizes = weights.flatten(1).norm(dim=1)
    order = sorted(sizes.argsort(descending=True)[:MOST].tolist())
    order = sorted({*order, *strongest})
    numbers: Numbers = {
        "model": viewer.name, "filters": len(weights), "channels": weights.shape[1],
        "side": weights.shape[2], "counts": {kind: sum(flags) for kind, flags in kinds.items()},
        "kinds": kinds, "answers": strongest, "strengths": strength[strongest].tolist(),
        "drawn": order,
        "measures": {name: values.tolist() for name, values in measures_of(weights).items()},
    }  # fmt: skip
    details = (
        "Roughness: the sum of the squared differences of neighbours over that of the weights; "
        "direction: from the matrix of the gradients of the brightness, the difference of its "
        "eigenvalues over their sum; colour: the share of the weights' squares that is not equal "
        f"in all channels. Smooth, directed, grey, coloured: beyond 95% of {RANDOM:,} random "
        "filters. A filter is drawn about grey, scaled to its own largest weight; the answer is "
        "the convolution alone, without norm and ReLU."
    )
    limits = model_line(viewer.pipeline)
    with Board(words_filters(numbers), (1.15, 1), details, limits=limits) as board:
        _draw_grid(board, weights, order, strongest)
        _draw_answers(board, viewer, weights, answers, strongest, kinds)
        return board.drawing(**numbers)


def _shown(weight: Tensor) -> NDArray[np.float64]:
    """A filter (channels, side, side) about grey: (side, side) or (side, side, 3)."""
    scaled = 0.5 + 0.5 * weight / weight.abs().max().clamp(min=1e-30)
    return scaled.permute(1, 2, 0).squeeze(-1).double().numpy()


def _draw_filter(
    board: Board, weight: Tensor, corner: tuple[float, float], side: float, colour: str
) -> None:
    """Draw a filter, in a coloured frame if its answer is drawn."""
    axes = board.sheet.axes(*corner, side, side)
    axes.imshow(_shown(weight), cmap="gray", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    for spine in axes.spines.values():
        spine.set(color=colour or MUTED, linewidth=5 if colour else 0.5)


def _draw_grid(board: Board, weights: Tensor, order: list[int], strongest: list[int]) -> None:
    """Draw the filters in rows."""
    left, top, width, height = board.panel_box(0)
    count = len(weights)
    heading = f"all {count} filters" if len(order) == count else f"{len(order)} of {count} filters"
    start = board.heading(0, heading, "grey: 0, brighter: above, darker: below")
    free = top + height - start
    columns = next(n for n in range(1, len(order) + 1) if -(-len(order) // n) * width / n <= free)
    pitch = min(width / columns, free / -(-len(order) // columns), 110)
    for number, index in enumerate(order):
        row, column = divmod(number, columns)
        colour = _colour(strongest, index)
        corner = (left + column * pitch + 3, start + row * pitch + 3)
        _draw_filter(board, weights[index], corner, pitch - 12, colour)


def _colour(strongest: list[int], index: int) -> str:
    """The colour of a filter whose answer is drawn; empty: it is not."""
    if index not in strongest:
        return ""
    return LINE_STYLES[strongest.index(index) % len(LINE_STYLES)].colour


def _draw_answers(
    board: Board, viewer: Viewer, weights: Tensor, answers: Tensor, strongest: list[int],
    kinds: dict[str, list[bool]],
) -> None:  # fmt: skip
    """Draw the image, and the maps of strong answers beside their filters, with their kinds."""
    left, top, width, height = board.panel_box(1)
    start = board.heading(1, "the image, and answers to it")
    columns, rows, filter_side, gap, line = 2, 3, 64.0, 12.0, 30.0
    pitch = width / columns
    side = min(pitch - filter_side - 2 * gap, (top + height - start) / rows - line - 4)
    reach = float(answers[strongest].abs().max()) or 1.0
    image = viewer.pictures[0].transpose(1, 2, 0).squeeze()
    for number in range(1 + len(strongest)):
        row, column = divmod(number, columns)
        x, y = left + column * pitch + filter_side + gap, start + row * (side + line + 4)
        axes = board.sheet.axes(x, y, side, side)
        index = strongest[number - 1] if number else -1
        mine = [kind for kind, flags in kinds.items() if flags[index]]
        special = [kind for kind in mine if not all(kinds[kind])] or mine
        text = shorten(", ".join(special) or "no kind", pitch - gap, TEXT)
        text = text if number else "the image"
        board.sheet.text((left + column * pitch, y + side + 1), text)
        if number == 0:
            axes.imshow(image, cmap="gray", vmin=0, vmax=1, aspect="auto")
            continue
        axes.imshow(answers[index].numpy(), vmin=-reach, vmax=reach,
                    cmap=signed_scale(reach).colormap(),
                    aspect="auto", interpolation="nearest")  # fmt: skip
        corner = (x - filter_side - gap / 2, y + (side - filter_side) / 2)
        _draw_filter(board, weights[index], corner, filter_side - 6, _colour(strongest, index))
