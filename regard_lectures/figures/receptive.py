"""Figure of part 7: the receptive field of a CNN, of a Vision Transformer, and of both together.

The field of a layer's centre cell y = (y_1, …, y_C) is measured at each pixel p by

    g(p) = mean over images of Σ_channels |∂(Σ_c s_c y_c) / ∂x_p|        s_c = ±1 at random

without training and after it. A pixel is reached if g(p) > 0. The effective field is the fewest
pixels that have 90% of Σ_p g(p) (Luo et al. 2016). Beside it is what the formula says of a CNN.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from matplotlib.patches import Rectangle
from numpy.typing import NDArray
from torch import Tensor

from regard.draw import BLUE, INK, LINE_STYLES, TEXT, LineStyle, shorten
from regard.explain import Board, Drawing, Numbers, Words
from regard_lectures.claims import claimed, interval, numbers_of
from regard_lectures.claims.classifiers import Course, train_classifier
from regard_lectures.claims.journal import Journal, source_of
from regard_lectures.claims.layers import (
    Reach,
    Viewer,
    as_input,
    cnn_config,
    feature_maps,
    is_convolutional,
    reaches,
    read_pictures,
    untrained,
    viewers,
    vit_config,
)
from regard_lectures.limits import model_line
from regard_lectures.progress import OnStep, training_progress
from regard_lectures.tries import draw_spread, spread_of, trainings

SIDE = 32
"""Height and width of the images; smaller ones get a border."""
IMAGES, UNSEEN = 20_000, 500
"""Training images, and images on which the accuracy is measured."""
MEASURED = 64
"""Images over which the gradients are averaged."""
DRAWS = 8
"""How often the signs of the channels are drawn for a few images of a person's own."""
MOST = 0.9
"""The share of the gradient that the effective field has."""
RATES = {"CNN": 2e-3, "ViT": 1e-3, "both": 1e-3}
WAYS = ("untrained", "trained")
Field = NDArray[np.float64]


def gradient_fields(model: Any, pixels: Tensor, seed: int, draws: int = 1) -> dict[str, Field]:
    """g(p) of the centre cell of each layer, (height, width), by the layer's name.

    Args:
        model: A model of images.
        pixels: (images, channels, height, width) As the model reads them.
        seed: Of the signs.
        draws: How many signs are drawn for each image.
    """
    signs = torch.Generator().manual_seed(seed)
    x = pixels.repeat(draws, 1, 1, 1).requires_grad_()
    fields = {}
    maps = feature_maps(model, x)
    for name, layer in maps.items():
        centre = layer[:, :, layer.shape[2] // 2, layer.shape[3] // 2]  # (images, channels)
        s = torch.randint(0, 2, centre.shape, generator=signs) * 2.0 - 1.0
        (gradient,) = torch.autograd.grad((s * centre).sum(), x, retain_graph=True)
        fields[name] = gradient.abs().sum(1).mean(0).double().numpy()
    return fields


def share_reached(field: Field) -> float:
    """The share of pixels with a gradient, in percent.

    Example:
        >>> share_reached(np.array([[0.0, 3.0], [0.0, 1.0]]))
        50.0
    """
    return 100 * float((field > 0).mean())


def share_of_most(field: Field) -> float:
    """The fewest pixels that have 90% of the gradient, in percent of all.

    Example:
        >>> share_of_most(np.array([[0.0, 96.0], [2.0, 2.0]]))
        25.0
    """
    ordered = np.sort(field.ravel())[::-1].cumsum()
    if not ordered[-1]:
        return 0.0
    return 100 * float((ordered < MOST * ordered[-1]).sum() + 1) / field.size


def share_by_formula(reach: Reach, cell: tuple[int, int], size: tuple[int, int]) -> float:
    """The share of the image that a cell sees by the formula, in percent."""
    spans = [reach.span(*of) for of in zip(cell, size, strict=True)]
    area = np.prod([end - first for first, end in spans])
    return 100 * float(area) / (size[0] * size[1])


def _fields_of(models: dict[str, Any], pixels: Tensor, seed: int, draws: int) -> dict[str, Any]:
    """Shares and pictures of an untrained and a trained model's layers."""
    fields = {way: gradient_fields(model, pixels, seed, draws) for way, model in models.items()}
    model, size = models["trained"], (pixels.shape[2], pixels.shape[3])
    layers = list(fields["trained"])
    with torch.no_grad():
        maps = feature_maps(model, pixels[:1])
    formula = reaches(model)
    cells = {name: (layer.shape[2] // 2, layer.shape[3] // 2) for name, layer in maps.items()}
    first = "layer 1" if not is_convolutional(model) else layers[0]
    return {
        "layers": layers,
        "first": first,
        "reached": {way: [share_reached(field) for field in fields[way].values()] for way in WAYS},
        "most": {way: [share_of_most(field) for field in fields[way].values()] for way in WAYS},
        "pictures": {
            way: [_picture(fields[way][name]) for name in (first, layers[-1])] for way in WAYS
        },
        "formula": [
            share_by_formula(formula[name], cells[name], size) if name in formula else 100.0
            for name in layers
        ] if is_convolutional(model) else [],
        "boxes": [
            [side for axis in (0, 1) for side in formula[name].span(cells[name][axis], size[axis])]
            for name in (first, layers[-1]) if name in formula
        ],
    }  # fmt: skip


def _picture(field: Field) -> str:
    """A field as bytes from 0 to 255, the root of its share of the largest value."""
    scaled = np.sqrt(field / max(field.max(), 1e-30))
    return _packed(np.rint(255 * scaled))


def _packed(pixels: NDArray[Any]) -> str:
    return base64.b64encode(pixels.astype(np.uint8).tobytes()).decode()


def _unpacked(text: str, shape: Sequence[int]) -> NDArray[np.uint8]:
    return np.frombuffer(base64.b64decode(text), np.uint8).reshape(tuple(shape))


def measure(
    text: str | None, model: str, data: str, steps: int, tries: int, seed: int
) -> dict[str, Any]:
    """Measure the fields of models that are trained here, or of a person's own model and images.

    Returns:
        Shares in percent by model: (tries, layers), and some fields as pictures.
    """
    if model or text is not None:
        return _measure_loaded(viewers(model, text), seed, has_text=text is not None)
    pictures = read_pictures(data, train=min(IMAGES, 64 * steps), unseen=UNSEEN, side=SIDE, seed=0)
    channels = pictures.train.values.shape[1]
    classes = sorted({*pictures.train.labels, *pictures.unseen.labels})
    configs = {
        "CNN": cnn_config(channels, SIDE),
        "ViT": vit_config(channels, SIDE),
        "both": vit_config(channels, SIDE, stem=True),
    }
    pixels = as_input(pictures.unseen.values[:MEASURED])

    def run(kind: str, one_seed: int, on_step: OnStep) -> dict[str, Any]:
        course = Course(64 * steps, RATES[kind])
        classifier = train_classifier(
            configs[kind], pictures.train, course, one_seed, on_step, classes=classes
        )
        models = {"untrained": untrained(classifier.model, one_seed), "trained": classifier.model}
        return {
            "accuracy": classifier.accuracy(pictures.unseen),
            **_fields_of(models, pixels, one_seed, 1),
        }

    settings = {"data": source_of(data, pictures.name), "steps": steps}
    models: dict[str, Any] = {}
    with (
        Journal("receptive", settings) as journal,
        training_progress(steps * tries * len(configs)) as on_step,
    ):
        for kind in configs:
            runs = [
                journal.get(f"{kind} {one_seed}", partial(run, kind, one_seed, on_step))
                for one_seed in range(seed, seed + tries)
            ]
            models[kind] = {
                **{
                    key: runs[0][key] for key in ("layers", "first", "formula", "boxes", "pictures")
                },
                **{
                    key: {way: [one_run[key][way] for one_run in runs] for way in WAYS}
                    for key in ("reached", "most")
                },
                "accuracy": [one_run["accuracy"] for one_run in runs],
            }
    picture = as_input(pictures.unseen.values[:1])[0].mean(0).numpy() / 2 + 0.5
    return {
        "models": models,
        "data": pictures.name,
        "own": "",
        "limits": "",
        "size": [SIDE, SIDE],
        "images": {kind: _packed(np.rint(255 * picture)) for kind in models},
        "differences": differences_of(models),
    }


def _measure_loaded(loaded: list[Viewer], seed: int, *, has_text: bool) -> dict[str, Any]:
    """The fields of models that are loaded, beside those of their shape with random weights."""
    models, images, limits = {}, {}, []
    count, kind = len(loaded[0].pixels), "image" if has_text else "drawn scene"
    shown = f"{count} {kind}{'s' if count > 1 else ''}"
    for viewer in loaded:
        draws = max(1, DRAWS // len(viewer.pixels))
        both = {"untrained": untrained(viewer.model, seed), "trained": viewer.model}
        runs = _fields_of(both, viewer.pixels, seed, draws)
        size = list(viewer.pixels.shape[2:])
        models[viewer.name] = runs | {
            key: {way: [runs[key][way]] for way in WAYS} for key in ("reached", "most")
        } | {"accuracy": [], "size": size}  # fmt: skip
        images[viewer.name] = _packed(np.rint(255 * viewer.pictures[0].mean(0)))
        limits.append(model_line(viewer.pipeline))
    line = limits[0] if len(limits) == 1 else f"{shown}, {' and '.join(models)} as they ship."
    return {
        "models": models, "data": "", "own": shown, "size": [],
        "limits": line, "images": images, "differences": {},
    }  # fmt: skip


def differences_of(models: dict[str, Any]) -> dict[str, list[float]]:
    """The differences of the claim's parts in percent of the image, of the trained models."""
    reached = {kind: np.array(models[kind]["reached"]["trained"]) for kind in ("CNN", "ViT")}
    first = models["ViT"]["layers"].index("layer 1")
    most = np.array(models["CNN"]["most"]["trained"])
    return {
        "whole": (reached["ViT"][:, first] - reached["CNN"][:, 0]).tolist(),
        "grows": (reached["CNN"][:, -1] - reached["CNN"][:, 0]).tolist(),
        "effective": (reached["CNN"][:, -1] - most[:, -1]).tolist(),
    }


def words_receptive(numbers: Numbers) -> Words:
    """How far the first and the last layer see, and the verdict if models were trained for it."""
    kinds = numbers["kinds"]
    first = {kind: numbers[f"reached_first_{kind}"] for kind in kinds}
    last = {kind: numbers[f"reached_last_{kind}"] for kind in kinds}
    most = {kind: numbers[f"most_last_{kind}"] for kind in kinds}
    before = {kind: numbers[f"most_last_untrained_{kind}"] for kind in kinds}

    def told(kind: str) -> str:
        return (
            f"{kind}: {first[kind]:.0f}% reached in {numbers[f'first_{kind}']}, "
            f"{last[kind]:.0f}% in the last"
        )

    if "verdict" not in numbers:
        title = "Receptive fields: " + "; ".join(map(told, kinds))
        parts = [
            f"{kind} {most[kind]:.0f}% after training, {before[kind]:.0f}% with random weights"
            for kind in kinds
        ]
        caption = f"Pixels with 90% of the last layer's gradient: {'; '.join(parts)}."
        return Words(title, caption)
    grows = {
        "holds": f"grows from {first['CNN']:.0f}% to {last['CNN']:.0f}% of the image",
        "does not hold": f"shrinks from {first['CNN']:.0f}% to {last['CNN']:.0f}% of the image",
        "cannot tell": "does not surely grow",
    }[numbers["verdict_grows"]]
    whole = {
        "holds": f"attention sees {first['ViT']:.0f}% at once",
        "does not hold": f"attention sees less at once, {first['ViT']:.0f}%",
        "cannot tell": "attention does not surely see more at once",
    }[numbers["verdict_whole"]]
    title = f"A CNN's receptive field {grows}; {whole}"
    gap = interval(numbers["differences_effective"])
    effective = {
        "holds": f"which is {gap.shown('.0f', ' points')} below what is reached",
        "does not hold": "which is more than what is reached",
        "cannot tell": "not surely less than what is reached",
    }[numbers["verdict_effective"]]
    caption = (
        f"90% of the gradient of the CNN's last layer is in {most['CNN']:.0f}% of the image "
        f"({before['CNN']:.0f}% untrained), {effective}; of the ViT's in {most['ViT']:.0f}% "
        f"({before['ViT']:.0f}%). {claimed(numbers['verdict'])}"
    )
    return Words(title, caption)


def receptive(measured: dict[str, Any], *, steps: int, tries: int, seed: int, **_: Any) -> Drawing:
    """Draw the fields of first and last layers on the image, and their shares by layer."""
    models = measured["models"]
    kinds = list(models)
    numbers: Numbers = {"kinds": kinds, "data": measured["data"]}
    for kind, values in models.items():
        at = values["layers"].index(values["first"])
        reached, most = (np.mean(values[key]["trained"], 0) for key in ("reached", "most"))
        numbers |= {
            f"layers_{kind}": values["layers"], f"first_{kind}": values["first"],
            f"reached_{kind}": reached.tolist(), f"most_{kind}": most.tolist(),
            f"reached_untrained_{kind}": np.mean(values["reached"]["untrained"], 0).tolist(),
            f"formula_{kind}": values["formula"], f"accuracy_{kind}": values["accuracy"],
            f"reached_first_{kind}": float(reached[at]), f"reached_last_{kind}": float(reached[-1]),
            f"most_last_{kind}": float(most[-1]),
            f"most_last_untrained_{kind}": float(np.mean(values["most"]["untrained"], 0)[-1]),
        }  # fmt: skip
    if measured["differences"]:
        numbers |= numbers_of("receptive", measured["differences"])
    details = (
        "g(p) = mean over images of Σ |∂(Σ_c s_c y_c) / ∂x_p| for the centre cell y of a layer, "
        "s_c = ±1 at random. Reached: pixels with g > 0. Colour: the root of g over its largest "
        "value. Blue frames: the field by the formula r' = r + (k - 1) j, j' = j · stride. "
    )
    if measured["differences"]:
        details += (
            f"CNN: three convolutions of 3 × 3, each max-pooled, no padding. ViT: three blocks on "
            f"patches of 4 × 4. Both: the ViT with convolutions as its stem. Means of {MEASURED} "
            f"unseen images of {SIDE} × {SIDE}; pictures: seed {seed}. Accuracies: "
            + ", ".join(f"{kind} {np.mean(models[kind]['accuracy']):.0f}%" for kind in kinds) + "."
        )  # fmt: skip
    else:
        details += f"Mean of {measured['own']}."
    limits = measured["limits"] or (
        f"{measured['data']}, {64 * steps:,} images seen, widths 16 to 64, {trainings(tries)}."
    )
    with Board(words_receptive(numbers), (1.5, 1), details, limits=limits) as board:
        styles = {
            kind: LineStyle(style.colour, "-", style.marker)  # dashes say which share it is
            for kind, style in zip(kinds, LINE_STYLES, strict=False)
        }
        names: dict[Any, str] = {"both": "both: ViT on convolutions"}
        board.legend({
            **{names.get(kind, kind): style for kind, style in styles.items()},
            "with 90% of the gradient": LineStyle(INK, "--"),
        })  # fmt: skip
        _draw_fields(board, measured)
        axes = board.chart(1, "share of the image after training, %", "layer")
        for kind, style in styles.items():
            values = models[kind]
            layers = [layer_number(name) for name in values["layers"]]
            draw_spread(axes, layers, spread_of(values["reached"]["trained"]), style)
            dashed = LineStyle(style.colour, "--", style.marker)
            draw_spread(axes, layers, spread_of(values["most"]["trained"]), dashed)
        axes.set_ylim(0, 105)
        last = max(layer_number(models[kind]["layers"][-1]) for kind in kinds)
        axes.set_xticks(range(last + 1))
        return board.drawing(**numbers)


def layer_number(name: str) -> int:
    """The number of a layer; what comes before the layers is 0.

    Example:
        >>> layer_number("stem"), layer_number("layer 3")
        (0, 3)
    """
    return int(name.split()[-1]) if name.startswith("layer") else 0


def _draw_fields(board: Board, measured: dict[str, Any]) -> None:
    """Draw the fields over the image: a row for each model, before and after training."""
    models = measured["models"]
    left, top, width, height = board.panel_box(0)
    head, gap, margin = 62, 8, 0.24  # two lines of text; the share of the width for names of rows
    pitch = min((height - head) / max(len(models), 2), (1 - margin) * width / 4)
    for column, name in enumerate(("first,", "", "last,", "")):
        board.sheet.text((left + column * pitch, top), name)
        board.sheet.text((left + column * pitch, top + 29), WAYS[column % 2])
    for row, (kind, values) in enumerate(models.items()):
        size = values.get("size") or measured["size"]
        image = _unpacked(measured["images"][kind], size)
        point = (left + 4 * pitch + gap, top + head + (row + 0.5) * pitch - gap)
        name = shorten(kind, left + width - point[0], TEXT)
        board.sheet.text(point, name, align="left center")
        for column in range(4):
            layer, way = divmod(column, 2)
            axes = board.sheet.axes(
                left + column * pitch, top + head + row * pitch, pitch - gap, pitch - gap
            )
            axes.set_axis_off()
            field = _unpacked(values["pictures"][WAYS[way]][layer], size) / 255
            axes.imshow(0.55 + 0.45 * image / 255, cmap="gray", vmin=0, vmax=1)
            axes.imshow(np.ones_like(field), cmap="autumn", alpha=0.85 * field, vmin=0, vmax=2)
            if len(values["boxes"]) > layer:
                first, end, from_left, right = values["boxes"][layer]
                corner = (from_left - 0.5, first - 0.5)
                axes.add_patch(
                    Rectangle(corner, right - from_left, end - first, fill=False,
                              edgecolor=BLUE, linewidth=2)
                )  # fmt: skip
            axes.set(xlim=(-0.5, size[1] - 0.5), ylim=(size[0] - 0.5, -0.5))
