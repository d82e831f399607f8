"""Figure of part 7: the time of a Vision Transformer and of a CNN at equal multiply-adds.

A ResNet-18 and a ViT are made for images of one size, and the widths of the ViT are chosen so that
both count as many multiply-adds per image. If a model of one's own is named, the other one is
matched to it. Timed are training steps and inferences, in rounds in which all take turns; and the
reason that is given for a difference, a convolution beside a matrix product of equal arithmetic,

    3 × 3 · c → c on H × W cells of b images      beside      (b·H·W, 3c) times (3c, 3c)

which have as many weights, too.

The differences that decide are log t_CNN − log t_ViT, of medians over the rounds, for each seed.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard import load
from regard.cost import forward_flops
from regard.draw import LINE_STYLES, Chart, LineStyle, short
from regard.errors import InputError
from regard.explain import Board, Drawing, Numbers, Words
from regard.inputs import Dense
from regard.models import ImageEncoder, ResNet, ResNetConfig, SmallCNN, ViTConfig, build
from regard.train import Adam
from regard_lectures.claims import claimed, interval, numbers_of
from regard_lectures.claims.journal import Journal
from regard_lectures.figures.descent import descend
from regard_lectures.progress import OnStep, training_progress
from regard_lectures.timing import Call, Name, measured
from regard_lectures.tries import trainings

CNN, VIT = "CNN", "ViT"
TIMED = {"training": "a training step", "inference": "an inference"}
CLASSES = tuple(str(number) for number in range(10))
SIZE, LAYERS, HEADS = "18", 6, 4
"""The ResNet, and the ViT that is matched."""
PATCHES, STAGES = 8, 4
"""Patches along a side of an image; stages of a ResNet."""
NEAR = 0.03
"""Counts that differ by less than this share are equal."""
RATE = 1e-6
"""Steps are timed, nothing is to be learned."""


def measure(
    model: str, side: int, batch: int, rounds: int, tries: int, seed: int
) -> dict[str, Any]:
    """Match the models, and time them with weights and images of several seeds.

    Returns:
        `multiply_adds` and `parameters` by model; `seconds`: of an image, by what is timed and
        model, (tries,); `products`: milliseconds by kind, (tries, stages).
    """
    configs, names = matched(model, side)
    shape = configs[CNN].image
    seconds: dict[str, Any] = {what: {CNN: [], VIT: []} for what in TIMED}
    products: dict[str, Any] = {"convolution": [], "matrix": []}
    settings = {"names": names, "side": side, "batch": batch, "rounds": rounds}
    with Journal("flops", settings) as journal, training_progress(tries) as on_step:
        for number in range(seed, seed + tries):
            run = partial(times, configs, batch, rounds, number, on_step)
            taken = journal.get(str(number), run)
            for what in TIMED:
                for name in configs:
                    seconds[what][name].append(taken[what][name] / batch)
            for kind, values in products.items():
                values.append(taken[kind])
    return {
        "names": names,
        "image": list(shape),
        "multiply_adds": {name: multiply_adds(config) for name, config in configs.items()},
        "parameters": {name: parameters(config) for name, config in configs.items()},
        "seconds": seconds,
        "products": products,
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "differences": differences_of(seconds, products),
    }


def differences_of(seconds: dict[str, Any], products: dict[str, Any]) -> dict[str, list[float]]:
    """The differences of the claim's parts, one for each seed."""
    logs = {
        what: np.log(by_model[CNN]) - np.log(by_model[VIT]) for what, by_model in seconds.items()
    }
    logs["product"] = np.log(np.sum(products["convolution"], 1) / np.sum(products["matrix"], 1))
    return {part: values.tolist() for part, values in logs.items()}


# Two models of equal multiply-adds.


def multiply_adds(config: Any) -> int:
    """The multiply-adds of a forward pass of one image."""
    with torch.device("meta"):
        return sum(forward_flops(build(config), config.max_length).values()) // 2


def parameters(config: Any) -> int:
    """The number of parameters."""
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in build(config).parameters())


def matched(model: str, side: int) -> tuple[dict[str, Any], dict[str, str]]:
    """The configs of a CNN and a ViT of equal multiply-adds, and their names.

    Args:
        model: A model of one's own; empty: a ResNet-18 for images of this side.
        side: Height and width of the images of the ResNet-18.

    Raises:
        InputError: If the model is not a classifier of images, or none of equal count was seen.
    """
    if not model:
        if side % PATCHES:
            raise InputError("side", got=side, expected=f"a multiple of {PATCHES}")
        first: Any = ResNetConfig(size=SIZE, image=(side, side), channels=3, classes=CLASSES)
        name = f"ResNet-{SIZE}"
    else:
        pipeline = load(model, device="cpu")
        if not isinstance(pipeline.model, ImageEncoder | ResNet | SmallCNN):
            raise InputError(
                "model", got=model, expected="a CNN or a ViT", fix="such as small/fashion"
            )
        first, name = pipeline.model.config.changed(classes=CLASSES), pipeline.name
    target = multiply_adds(first)
    if isinstance(first, ViTConfig):
        other = nearest(target, partial(resnet, first), 8)
        configs, names = {CNN: other, VIT: first}, {CNN: "ResNet", VIT: name}
    else:
        other = nearest(target, partial(vit, first), 4)
        configs, names = {CNN: first, VIT: other}, {CNN: name, VIT: "ViT"}
    count = multiply_adds(other)
    if abs(count / target - 1) > NEAR:
        raise InputError(
            f"model {name}, with {short(target)} multiply-adds",
            got=f"{short(count)} in the nearest {names[CNN if other is configs[CNN] else VIT]}",
            expected=f"a difference of at most {NEAR:.0%}: a larger model, or larger images",
        )
    return configs, names


def nearest(target: int, make: Callable[[int, int], Any], ratio: int) -> Any:
    """The config whose count is nearest: first of all widths, then of one wider part.

    Args:
        target: The wanted multiply-adds.
        make: From a width and the width of that part to a config.
        ratio: What the width of that part is usually, in widths.
    """
    width = best(target, lambda units: make(16 * units, 16 * units * ratio))
    part = best(target, lambda units: make(16 * width, 8 * units))
    return make(16 * width, 8 * part)


def best(target: int, make: Callable[[int], Any]) -> int:
    """The number of units, from 1, whose config's count is nearest to the target."""
    low, high = 1, 2
    while multiply_adds(make(high)) < target:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if multiply_adds(make(middle)) < target:
            low = middle
        else:
            high = middle
    return min((low, high), key=lambda units: abs(multiply_adds(make(units)) - target))


def vit(cnn: Any, dim: int, hidden: int) -> ViTConfig:
    """A ViT for the images of a CNN."""
    height, width = cnn.image
    sides = [n for n in range(1, min(height, width) + 1) if not (height % n or width % n)]
    patch = min(sides, key=lambda n: abs(math.log(n * PATCHES / min(height, width))))
    return ViTConfig.model_validate({
        "image": (height, width), "channels": cnn.channels, "patch": patch, "classes": CLASSES,
        "dim": dim, "heads": HEADS, "hidden": hidden, "layers": LAYERS, "dropout": 0.0,
    })  # fmt: skip


def resnet(vit: Any, width: int, last: int) -> ResNetConfig:
    """A ResNet of the depth of ResNet-18 for the images of a ViT."""
    half = width // 2  # steps of 8
    return ResNetConfig.model_validate({
        "image": vit.image, "channels": vit.channels, "classes": CLASSES, "unit": "basic",
        "depths": (2,) * STAGES, "filters": (half, 2 * half, 4 * half, last), "stem_width": half,
    })  # fmt: skip


# Their times.


def times(
    configs: dict[str, Any], batch: int, rounds: int, seed: int, on_step: OnStep
) -> dict[str, Any]:
    """The median seconds of a training step and of an inference, and the ms of the products."""
    torch.manual_seed(seed)
    height, width = configs[CNN].image
    pixels = torch.randn(batch, configs[CNN].channels, height, width)
    labels = torch.randint(len(CLASSES), (batch,))
    calls: dict[Name, Call] = {}
    for name, config in configs.items():
        model: Any = build(config)
        frozen = copy.deepcopy(model).eval()
        optimizer = Adam(model.train().parameters(), lr=RATE, fused=True)
        calls[f"training {name}", 0] = partial(train_step, model, optimizer, pixels, labels)
        calls[f"inference {name}", 0] = partial(infer, frozen, pixels)
    for stage in range(STAGES):
        x, weights, rows, matrix = operands(stage, batch, (height, width))
        calls["convolution", stage] = partial(convolve, x, weights)
        calls["matrix", stage] = partial(multiply, rows, matrix)
    costs = measured(calls, rounds)
    taken: dict[str, Any] = {
        what: {name: costs[f"{what} {name}", 0].seconds for name in configs} for what in TIMED
    }
    for kind in ("convolution", "matrix"):
        taken[kind] = [1e3 * costs[kind, stage].seconds for stage in range(STAGES)]
    on_step(train_step(model, optimizer, pixels, labels), batch * rounds)
    return taken


def train_step(model: Any, optimizer: Any, pixels: Tensor, labels: Tensor) -> float:
    """A step on the loss of images (batch, channels, height, width)."""
    return descend(optimizer, F.cross_entropy(model.classify(Dense(pixels)), labels))


@torch.inference_mode()
def infer(model: Any, pixels: Tensor) -> Tensor:
    """The logits of images (batch, channels, height, width)."""
    logits: Tensor = model.classify(Dense(pixels))
    return logits


def cells_of(stage: int, image: tuple[int, int]) -> tuple[int, int, int]:
    """Channels, height and width of the maps of a stage of ResNet-18."""
    height, width = (max(1, side // 2 ** (2 + stage)) for side in image)
    return 64 * 2**stage, height, width


def operands(
    stage: int, batch: int, image: tuple[int, int]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Random operands of a convolution and of a matrix product of the same arithmetic.

    Returns:
        Maps (batch, c, H, W) and weights (c, c, 3, 3), with the channels side by side in memory;
        rows (batch · H · W, 3c) and a matrix (3c, 3c).
    """
    channels, height, width = cells_of(stage, image)
    x = torch.randn(batch, channels, height, width)
    weights = torch.randn(channels, channels, 3, 3) / (9 * channels) ** 0.5
    x, weights = (t.contiguous(memory_format=torch.channels_last) for t in (x, weights))
    rows = torch.randn(batch * height * width, 3 * channels)
    matrix = torch.randn(3 * channels, 3 * channels) / (3 * channels) ** 0.5
    return x, weights, rows, matrix


@torch.inference_mode()
def convolve(x: Tensor, weights: Tensor) -> Tensor:
    """The convolution with a border of zeros: (batch, c, H, W) -> (batch, c, H, W)."""
    return F.conv2d(x, weights, padding=1)


@torch.inference_mode()
def multiply(rows: Tensor, matrix: Tensor) -> Tensor:
    """The matrix product: (rows, 3c) times (3c, 3c)."""
    return rows @ matrix


# Their words and picture.


def share_of_time(ratio: float) -> str:
    """How long something takes beside another that takes `ratio` times as long.

    Example:
        >>> share_of_time(2.0), share_of_time(0.8)
        ('0.50 ×', '1.25 ×')
    """
    return f"{1 / ratio:.2f} ×"


def words_flops(numbers: Numbers) -> Words:
    """Whether the ViT is faster, in training and inference, and how its reason does."""
    names, ratios = numbers["names"], {
        part: math.exp(interval(numbers[f"differences_{part}"]).mean)
        for part in (*TIMED, "product")
    }  # fmt: skip
    verdicts = [numbers[f"verdict_{part}"] for part in TIMED]
    vit_name = names[VIT] if names[VIT] != "ViT" else "a ViT"
    if verdicts == ["holds"] * 2:
        title = f"On one CPU core {vit_name} is faster than {names[CNN]} at equal multiply-adds"
    elif verdicts == ["does not hold"] * 2:
        title = f"On one CPU core {vit_name} is slower than {names[CNN]} at equal multiply-adds"
    elif set(verdicts) == {"holds", "does not hold"}:
        where = "training" if verdicts[0] == "holds" else "inference"
        title = f"At equal multiply-adds {vit_name} is faster than {names[CNN]} in {where} alone"
    else:
        title = f"Whether {vit_name} is faster than {names[CNN]}, these times cannot tell"
    counts = " and ".join(f"{short(numbers['multiply_adds'][name])}" for name in (VIT, CNN))
    caption = (
        f"With {counts} multiply-adds per image the ViT takes "
        f"{share_of_time(ratios['training'])} the CNN's time in training, "
        f"{share_of_time(ratios['inference'])} in inference. A matrix product takes "
        f"{share_of_time(ratios['product'])} the time of a convolution of the same arithmetic. "
        f"{claimed(numbers['verdict'])}"
    )
    return Words(title, caption)


def flops(
    measured: dict[str, Any],
    *,
    batch: int,
    rounds: int,
    tries: int,
    seed: int,
    **_: Any,
) -> Drawing:
    """Draw the times of both models, and those of a convolution and a matrix product by stage."""
    numbers: Numbers = {
        **{key: value for key, value in measured.items() if key != "differences"},
        **numbers_of("flops", measured["differences"]),
    }
    height, width = measured["image"]
    sizes = " and ".join(
        f"{measured['names'][name]} with {measured['multiply_adds'][name]:,} multiply-adds per "
        f"image and {short(measured['parameters'][name])} parameters"
        for name in (CNN, VIT)
    )
    spans = "; ".join(
        f"{part} {interval(values).shown('+.2f')}"
        for part, values in measured["differences"].items()
    )
    details = (
        f"{sizes}, for random images of {height} × {width}; batches of {batch}. The widths of the "
        "second are chosen so that the counts are equal; additions of norms and softmax do not "
        "count, and borders of convolutions do. Medians of "
        f"{rounds} rounds, in which all take turns, with weights and images of {tries} seeds from "
        f"{seed}; time of one core, PyTorch with {measured['instructions']}. A training step is a "
        "forward and a backward pass and a step of Adam. Right: 3 × 3 convolutions as in the "
        "stages of ResNet-18 with c channels, and products (b·H·W, 3c) times (3c, 3c), forward; "
        "on x86 PyTorch takes oneDNN for the first and MKL for the second. Logs of the ratios "
        f"of the times, CNN over ViT, convolution over product: {spans}. A GPU, or more cores, "
        "may say otherwise."
    )
    limits = (
        f"Times of one core of one machine ({measured['instructions']}), random images of "
        f"{height} × {width}, {rounds} rounds, {trainings(tries)}."
    )
    styles = {"CNN, convolution": LINE_STYLES[1], "ViT, matrix product": LINE_STYLES[0]}
    with Board(words_flops(numbers), (1, 1), details, limits=limits) as board:
        board.legend(styles)
        axes = board.chart(0, "time per image", "ms", ticks=140)
        by_name = [
            [1e3 * np.array(measured["seconds"][what][name]) for what in TIMED]
            for name in (CNN, VIT)
        ]
        _draw_bars(axes, by_name, list(TIMED), styles)
        axes = board.chart(1, "equal arithmetic", f"ms, {batch} images", ticks=170)
        by_kind = [list(np.transpose(rows)) for rows in measured["products"].values()]
        channels = [cells_of(stage, (height, width))[0] for stage in range(STAGES)]
        _draw_bars(axes, by_kind, [f"{count} channels" for count in channels], styles)
        return board.drawing(**numbers)


def _draw_bars(
    axes: Chart,
    by_style: list[list[Any]],
    labels: list[str],
    styles: Mapping[str, LineStyle],
) -> None:
    """Draw a row for each label: a bar of each style with the mean, and a mark for each seed."""
    for offset, rows, style in zip((-0.18, 0.18), by_style, styles.values(), strict=True):
        for row, line in enumerate(rows):
            axes.barh(row + offset, np.mean(line), 0.32, color=style.colour, alpha=0.45)
            axes.plot(line, [row + offset] * len(line), linestyle="none", markersize=8,
                      marker=style.marker, color=style.colour)  # fmt: skip
    largest = max(float(np.max(rows)) for rows in by_style)
    axes.set_yticks(range(len(labels)), labels)
    axes.set(ylim=(len(labels) - 0.5, -0.5), xlim=(0, 1.1 * largest))
