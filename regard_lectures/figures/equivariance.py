"""Figure of part 2: an image is shifted; do the feature maps shift with it, and does the rest stay?

With T_s the shift of an image by s pixels, S_c that of a map by c = s / stride cells (between two
cells linear), f a layer's map and p the vector that the head reads, over some images x:

    error of the maps    rms(f(T_s x) - S_c f(x)) / (√2 σ_f)        0: equivariant
    change of the vector rms(p(T_s x) - p(x)) / (√2 σ_p)            0: invariant

σ is the standard deviation over images (and cells), so that 100% is the distance of two cells, or
of two images, drawn at random. Cells that see what came in at the border are left out.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from regard.draw import LINE_STYLES, TEXT, LineStyle, shorten
from regard.explain import Board, Drawing, Numbers, Words
from regard_lectures.claims import claimed, interval, numbers_of
from regard_lectures.claims.classifiers import Course, train_classifier
from regard_lectures.claims.cuts import pooled_vectors
from regard_lectures.claims.journal import Journal
from regard_lectures.claims.layers import (
    Viewer,
    as_input,
    cnn_config,
    feature_maps,
    reaches,
    read_pictures,
    viewers,
    vit_config,
)
from regard_lectures.limits import model_line
from regard_lectures.progress import OnStep, training_progress
from regard_lectures.tries import draw_spread, span, spread_of, trainings

SIDE = 48
"""Height and width of the images: those of 28 x 28 can be shifted without leaving it."""
IMAGES, UNSEEN, MEASURED = 20_000, 1_000, 64
"""Images to train on, others for the accuracy, and those of them that are shifted."""
LARGEST = 8
"""The largest shift in pixels; of small images a quarter of their width."""
RATES = {"CNN": 2e-3, "ViT": 1e-3}
STAYS = 50.0
"""Percent: a pooled vector that changes by less is said to stay."""


def shift_images(pixels: Tensor, shift: int) -> Tensor:
    """Images (…, height, width) moved to the right, or to the left if `shift` is negative.

    The edge that they leave is repeated.

    Example:
        >>> shift_images(torch.tensor([[[[1.0, 2.0, 3.0]]]]), 1).tolist()
        [[[[1.0, 1.0, 2.0]]]]
    """
    if shift < 0:
        return shift_images(pixels.flip(-1), -shift).flip(-1)
    return F.pad(pixels, (shift, 0, 0, 0), mode="replicate")[..., : pixels.shape[-1]]


def shift_maps(maps: Tensor, cells: float) -> Tensor:
    """Maps (…, rows, columns) moved to the right, without the columns that came in at the left.

    Between two cells it is linear.

    Example:
        >>> shift_maps(torch.tensor([[0.0, 2.0, 6.0]]), 0.5).tolist()
        [[1.0, 4.0]]
    """
    whole = math.ceil(cells)
    share = whole - cells  # of the cell that is nearer to the right
    left = maps[..., : maps.shape[-1] - whole]
    if not share:
        return left
    right = maps[..., 1 : maps.shape[-1] - whole + 1]
    return (1 - share) * left + share * right


def map_error(maps: Tensor, of_shifted: Tensor, cells: float) -> float:
    """rms(f(T x) - S f(x)) / (√2 σ) of a layer, in percent.

    Args:
        maps: f(x), (images, channels, rows, columns).
        of_shifted: f(T x), of the same shape.
        cells: By how many cells f(T x) should be moved.
    """
    expected = shift_maps(maps, cells)
    got = of_shifted[..., of_shifted.shape[-1] - expected.shape[-1] :]
    return _relative(got - expected, got.transpose(0, 1).flatten(1))


def pooled_change(vectors: Tensor, of_shifted: Tensor, others: Tensor) -> float:
    """rms(p(T x) - p(x)) / (√2 σ) in percent, with σ over the vectors of several other images.

    Args:
        vectors: p(x), (images, dim).
        of_shifted: p(T x).
        others: (other images, dim).
    """
    return _relative(of_shifted - vectors, others.T)


def _relative(difference: Tensor, values: Tensor) -> float:
    """The root of a mean square over √2 σ; values (channels, …) have σ about each channel."""
    variance = values.var(1, correction=0).mean().clamp(min=1e-20)
    return 100 * float((difference.pow(2).mean() / (2 * variance)).sqrt())


@torch.no_grad()
def measure_model(model: Any, pixels: Tensor, others: Tensor) -> dict[str, Any]:
    """The errors of all layers and of the pooled vector, for all shifts, and maps to look at.

    Args:
        model: A model of images.
        pixels: (images, channels, height, width) What is shifted.
        others: Images whose vectors say how far apart two images are.
    """
    width = pixels.shape[3]
    shifts = range(1, max(1, min(LARGEST, width // 4)) + 1)
    maps, vectors = feature_maps(model, pixels), pooled_vectors(model, pixels)
    reach = reaches(model)
    strides = {
        name: reach[name].stride if name in reach else width / layer.shape[3]
        for name, layer in maps.items()
        if layer.shape[3] > 1
    }
    reference = pooled_vectors(model, others)
    errors: dict[str, list[float]] = {name: [] for name in strides}
    changes = []
    for shift in shifts:
        moved = shift_images(pixels, shift)
        of_moved = feature_maps(model, moved)
        for name, stride in strides.items():
            cells = shift / stride
            if math.ceil(cells) < maps[name].shape[3]:
                errors[name].append(map_error(maps[name], of_moved[name], cells))
        changes.append(pooled_change(vectors, pooled_vectors(model, moved), reference))
    layers = [name for name, values in errors.items() if values]
    shown = layers[len(layers) // 2]  # a layer in the middle, of the largest shift
    return {
        "layers": layers,
        "errors": [float(np.mean(errors[name])) for name in layers],
        "whole": [errors[name][-1] for name in layers],
        "shifts": list(shifts),
        "changes": changes,
        "shown": shown,
        "pictures": _pictures(maps[shown], of_moved[shown], shifts[-1] / strides[shown]),
    }


def _pictures(maps: Tensor, of_moved: Tensor, cells: float) -> list[Any]:
    """The map that should come, and the map that came, of the first image: rows of 0 to 255."""
    channel = int(maps[0].flatten(1).std(1).argmax())
    expected = shift_maps(maps[0, channel], cells)
    got = of_moved[0, channel, :, -expected.shape[1] :]
    low, high = float(torch.minimum(expected, got).min()), float(torch.maximum(expected, got).max())
    scaled = [(part - low) / max(high - low, 1e-12) for part in (expected, got)]
    return [(255 * part).round().int().tolist() for part in scaled]


def measure(
    text: str | None, model: str, data: str, steps: int, tries: int, seed: int
) -> dict[str, Any]:
    """Measure a CNN and a ViT that are trained here, or a person's own model and images.

    Returns:
        By network: errors in percent of the layers (tries, layers), mean over the shifts, and
        changes of the pooled vector (tries, shifts).
    """
    if model or text is not None:
        return _measure_loaded(model, text)
    train = min(IMAGES, 64 * steps)
    pictures = read_pictures(data, train=train, unseen=UNSEEN, side=SIDE, seed=0)
    channels = pictures.train.values.shape[1]
    configs = {"CNN": cnn_config(channels, SIDE), "ViT": vit_config(channels, SIDE)}
    pixels = as_input(pictures.unseen.values[:MEASURED])
    pixels = shift_images(pixels, -LARGEST // 2)  # so that the largest shift ends as far from it

    def run(kind: str, one_seed: int, on_step: OnStep) -> dict[str, Any]:
        course = Course(64 * steps, RATES[kind])
        trained = train_classifier(configs[kind], pictures.train, course, one_seed, on_step)
        accuracy = trained.accuracy(pictures.unseen)
        return {"accuracy": accuracy, **measure_model(trained.model, pixels, pixels)}

    settings = {"data": pictures.name, "steps": steps, "seed": seed}
    networks: dict[str, Any] = {}
    with (
        Journal("equivariance", settings) as journal,
        training_progress(steps * tries * len(configs)) as on_step,
    ):
        for kind in configs:
            runs = [
                journal.get(f"{kind} {number}", partial(run, kind, number, on_step))
                for number in range(seed, seed + tries)
            ]
            networks[kind] = _joined(runs, pixels)
            networks[kind]["accuracy"] = [one_run["accuracy"] for one_run in runs]
    return {
        "networks": networks, "data": pictures.name, "own": 0, "limits": "",
        "differences": differences_of(networks),
    }  # fmt: skip


def _joined(runs: Sequence[dict[str, Any]], pixels: Tensor) -> dict[str, Any]:
    """The measurements of several seeds, with the pictures of the first, and the image."""
    first = runs[0]
    image = (pixels[0] - pixels.min()) / (pixels.max() - pixels.min()).clamp(min=1e-6)
    return {
        **{key: first[key] for key in ("layers", "shifts", "shown", "pictures")},
        **{key: [run[key] for run in runs] for key in ("errors", "whole", "changes")},
        "image": _packed(image),
        "size": list(image.shape),
    }


def _packed(image: Tensor) -> str:
    """An image (channels, height, width) from 0 to 1 as bytes."""
    return base64.b64encode((255 * image).round().byte().numpy().tobytes()).decode()


def _unpacked(text: str, size: Sequence[int]) -> NDArray[np.uint8]:
    """An image for drawing: (height, width) or (height, width, 3)."""
    values = np.frombuffer(base64.b64decode(text), np.uint8).reshape(tuple(size))
    return values.transpose(1, 2, 0).squeeze()


def _measure_loaded(model: str, text: str | None) -> dict[str, Any]:
    """The errors of models that are loaded, of a person's own images or of drawn scenes."""
    networks, limits, count = {}, [], 0
    for viewer in viewers(model, text):
        others = viewer.pixels
        if len(others) == 1:  # how far apart two images are needs others
            drawn: Viewer = viewers(viewer.name, None)[0]
            others = torch.cat((others, drawn.pixels))
        runs = [measure_model(viewer.model, viewer.pixels, others)]
        pictures = torch.from_numpy(viewer.pictures)
        networks[viewer.name] = _joined(runs, pictures) | {"accuracy": []}
        limits.append(model_line(viewer.pipeline))
        count = len(viewer.pixels)
    return {
        "networks": networks, "data": "", "own": count if text is not None else 0,
        "limits": limits[0] if len(limits) == 1 else f"{' and '.join(networks)}, as they ship.",
        "differences": {},
    }  # fmt: skip


def differences_of(networks: dict[str, Any]) -> dict[str, list[float]]:
    """The differences of the claim's parts in percent, by seed: ViT less CNN."""

    def mean_error(kind: str) -> NDArray[np.float64]:
        """The mean over the layers, without the ViT's patches, which come before them: (tries,)."""
        layers = [name.startswith("layer") for name in networks[kind]["layers"]]
        means: NDArray[np.float64] = np.array(networks[kind]["errors"])[:, layers].mean(1)
        return means

    changes = {kind: np.mean(networks[kind]["changes"], 1) for kind in networks}
    return {
        "maps": (mean_error("ViT") - mean_error("CNN")).tolist(),
        "pooled": (changes["ViT"] - changes["CNN"]).tolist(),
    }


def words_equivariance(numbers: Numbers) -> Words:
    """How far the maps are from shifting with the image, and the pooled vector from staying."""
    kinds = numbers["kinds"]
    errors = {kind: numbers[f"mean_error_{kind}"] for kind in kinds}
    changes = {kind: numbers[f"mean_change_{kind}"] for kind in kinds}
    if "verdict" not in numbers:
        parts = [f"{kind}: maps off by {errors[kind]:.0f}%" for kind in kinds]
        title = f"The image is shifted; {'; '.join(parts)}"
        told = [
            f"{kind} {changes[kind]:.0f}% ({'stays' if changes[kind] < STAYS else 'does not stay'})"
            for kind in kinds
        ]
        caption = (
            f"Change of the pooled vector: {', '.join(told)}. 100%: as two cells, or two images, "
            "drawn at random. Means over the layers and over shifts of 1 pixel to the largest."
        )
        return Words(title, caption)
    title = {
        "holds": "A CNN's maps shift with the image more than a ViT's",
        "does not hold": "A ViT's maps shift with the image more than a CNN's",
        "cannot tell": "Whose maps shift with the image more cannot be told",
    }[numbers["verdict_maps"]]
    title += f": off by {errors['CNN']:.0f}% in the CNN, {errors['ViT']:.0f}% in the ViT"
    pooled = {
        "holds": "The CNN's pooled vector stays more",
        "does not hold": "The ViT's pooled vector stays more",
        "cannot tell": "Whose pooled vector stays more cannot be told",
    }[numbers["verdict_pooled"]]
    apart = {part: interval(numbers[f"differences_{part}"]) for part in ("maps", "pooled")}
    exact = numbers["whole_CNN"]
    caption = (
        f"Maps, ViT over CNN: {apart['maps'].shown('+.0f', ' points')}; by {LARGEST} pixels, which "
        f"are whole cells, the CNN's are off by {span(exact, '.0f')}%. {pooled}: "
        f"{changes['CNN']:.0f}% beside {changes['ViT']:.0f}%, "
        f"{apart['pooled'].shown('+.0f', ' points')}. {claimed(numbers['verdict'])}"
    )
    return Words(title, caption)


def equivariance(
    measured: dict[str, Any], *, steps: int, tries: int, seed: int, **_: Any
) -> Drawing:
    """Draw maps that should come and that came, errors by layer, and changes by shift."""
    networks = measured["networks"]
    numbers: Numbers = {"kinds": list(networks), "data": measured["data"]}
    for kind, values in networks.items():
        inner = [name != "patches" for name in values["layers"]]
        numbers |= {
            f"{key}_{kind}": values[key] for key in ("layers", "shifts", "errors", "changes")
        } | {
            f"mean_error_{kind}": float(np.mean(np.array(values["errors"])[:, inner])),
            f"mean_change_{kind}": float(np.mean(values["changes"])),
            f"whole_{kind}": np.mean(np.array(values["whole"])[:, inner], 0).tolist(),
            f"accuracy_{kind}": values["accuracy"],
        }  # fmt: skip
    if measured["differences"]:
        numbers |= numbers_of("equivariance", measured["differences"])
    details = (
        "T_s: the image moved s pixels to the right, its left edge repeated. S_c: the map moved "
        "c = s / stride cells, linear between two cells. Error of the maps: "
        "rms(f(T_s x) - S_c f(x)) / (√2 σ), mean over s, over cells that both have; change of the "
        "pooled vector: rms(p(T_s x) - p(x)) / (√2 σ); σ over images and cells. "
    )
    if measured["differences"]:
        means = {kind: np.mean(values["accuracy"]) for kind, values in networks.items()}
        details += (
            "CNN: three convolutions of 3 × 3, each max-pooled, no padding. ViT: three blocks on "
            "patches of 4 × 4 with learned positions; the mean of the patches is pooled. Both are "
            f"trained on centred images; accuracy {means['CNN']:.0f}% and {means['ViT']:.0f}%. "
            f"{MEASURED} unseen images, from {LARGEST // 2} pixels left of the middle on."
        )
    limits = measured["limits"] or (
        f"{measured['data']} in frames of {SIDE} × {SIDE}, {64 * steps:,} images seen, "
        f"{trainings(tries)} from {seed}."
    )
    with Board(words_equivariance(numbers), (1.35, 1, 1), details, limits=limits) as board:
        styles = dict(zip(networks, LINE_STYLES, strict=False))
        board.legend(styles)
        _draw_maps(board, measured)
        _draw_curves(board, networks, styles)
        return board.drawing(**numbers)


def _draw_curves(board: Board, networks: dict[str, Any], styles: dict[str, LineStyle]) -> None:
    """Draw the errors by layer and the changes by shift."""
    axes = board.chart(1, "maps: error, %", "layer")
    for kind, style in styles.items():
        values = networks[kind]
        draw_spread(axes, _numbers(values["layers"]), spread_of(values["errors"]), style)
    axes.set_ylim(bottom=0)
    axes.set_xticks(range(max(_numbers(values["layers"])[-1] for values in networks.values()) + 1))
    axes = board.chart(2, "pooled vector: change, %", "shift in pixels")
    for kind, style in styles.items():
        values = networks[kind]
        draw_spread(axes, values["shifts"], spread_of(values["changes"]), style)
    axes.set_ylim(bottom=0)
    axes.locator_params(axis="x", integer=True)


def _numbers(layers: Sequence[str]) -> list[int]:
    """The numbers of layers; what comes before them is 0."""
    return [int(name.split()[-1]) if name.startswith("layer") else 0 for name in layers]


def _draw_maps(board: Board, measured: dict[str, Any]) -> None:
    """Draw the shifted image, the map that should come and the one that came, in a row each."""
    networks = measured["networks"]
    left, top, width, height = board.panel_box(0)
    line, gap, columns = 32.0, 12.0, ("moved image", "expected", "its map")
    pitch = width / len(columns)
    row_height = (height - line) / max(len(networks), 2)
    side = min(pitch - gap, row_height - line - gap)
    for column, name in enumerate(columns):
        board.sheet.text((left + (column + 0.5) * pitch, top), name, align="center top")
    for row, (kind, values) in enumerate(networks.items()):
        y = top + line + row * row_height
        shift = values["shifts"][-1]
        image = torch.from_numpy(np.array(_unpacked(values["image"], values["size"])))
        image = image[..., None] if image.dim() == 2 else image
        moved = shift_images(image.permute(2, 0, 1)[None].float(), shift)[0].permute(1, 2, 0)
        pictures = [(moved.squeeze(-1) / 255).numpy(), *map(np.array, values["pictures"])]
        for column, picture in enumerate(pictures):
            x = left + (column + 0.5) * pitch
            axes = board.sheet.axes(x - side / 2, y, side, side)
            axes.set_axis_off()
            high = 255 if column else 1
            axes.imshow(picture, cmap="gray", vmin=0, vmax=high, aspect="auto")
        text = f"{kind}, {values['shown']}, {shift} pixels"
        board.sheet.text((left, y + side + 2), shorten(text, width, TEXT))
