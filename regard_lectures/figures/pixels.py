"""Figure of part 7: a Transformer whose tokens are pixels: what it learns, and the memory it takes.

An image of R x R pixels has R² tokens, and each head's weights are a matrix of R² x R² = R⁴. The
peak of the memory that torch allocates in a training step, forward and backward, is measured for
one image and growing R, once with the weights made as matrices and once with PyTorch's fused
kernel, which never has a whole one. The same Transformer is trained on images of 8 x 8, with pixels
and with patches of 2 x 2 as tokens.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.data import DigitsData, ImagesData, ImageSplits, load_images
from regard.draw import INK, LINE_STYLES, MUTED
from regard.errors import InputError
from regard.explain import Board, Drawing, Numbers, Words
from regard.inputs import Dense, ImageReader
from regard.layers import Edit, Tap
from regard.models import ViTConfig, build
from regard_lectures.claims import claimed, numbers_of
from regard_lectures.claims.classifiers import Course, train_classifier, with_tests
from regard_lectures.figures.entries import in_units
from regard_lectures.progress import training_progress
from regard_lectures.timing import peak_bytes
from regard_lectures.tries import span, trainings

DIGITS = "digits"
"""The included images of 8 x 8."""
SIDE = 8
"""Height and width of the images that are learned."""
RESOLUTIONS = (4, 8, 16, 32, 64)
"""R of the measured memory; the claim is judged by the last two."""
DIM, HEADS, LAYERS = 64, 2, 2
RATE = 2e-3
BATCH = 64
FOLDS = 5
KINDS = {"pixels": 1, "patches of 2 × 2": 2}
"""What is a token, and its side."""
UNFUSED, FUSED = "matrices", "fused"
BORDER = 0.5
"""An exponent of R that is no farther from 4 is said to be near it."""


def config_of(side: int, patch: int) -> ViTConfig:
    """A small Vision Transformer on grey images, without other tokens than its patches."""
    return ViTConfig.model_validate({
        "image": (side, side), "channels": 1, "patch": patch, "dim": DIM, "heads": HEADS,
        "hidden": 2 * DIM, "layers": LAYERS, "pool": "mean", "class_token": False, "dropout": 0.0,
    })  # fmt: skip


def step_bytes(side: int, *, fused: bool, seed: int) -> int:
    """The peak of the memory that is allocated in a training step on one image of R x R pixels."""
    torch.manual_seed(seed)
    model: Any = build(config_of(side, 1).changed(classes=("a", "b"))).train()
    image = Dense(torch.rand(1, 1, side, side))
    # a tap that edits the weights needs them as a matrix, even if it leaves them as they are
    edits = [Edit(f"encoder.{layer}.self.weights", lambda x: x) for layer in range(LAYERS)]

    def step() -> None:
        tap = None if fused else Tap(edits=edits)
        torch.autograd.backward(model.hidden(image, tap).square().sum())

    return peak_bytes(step)


def measure(data: str, steps: int, tries: int, seed: int) -> dict[str, Any]:
    """Measure the memory at each R, and train on pixels and on patches, with every seed.

    Returns:
        Bytes by kind of attention: (tries, resolutions). Accuracies in percent by kind of token.
    """
    seeds = range(seed, seed + tries)
    memory = {
        kind: [
            [step_bytes(side, fused=kind == FUSED, seed=one_seed) for side in RESOLUTIONS]
            for one_seed in seeds
        ]
        for kind in (UNFUSED, FUSED)
    }
    accuracies: dict[str, list[float]] = {kind: [] for kind in KINDS}
    parameters, sizes = {}, []
    with training_progress(len(KINDS) * tries * steps) as on_step:
        for one_seed in seeds:
            splits = read_images_of(data, one_seed)
            test = splits.tests["test"]
            classes = sorted({*splits.train.labels, *test.labels})
            sizes = [len(splits.train), len(test)]
            for kind, patch in KINDS.items():
                course = Course(steps * BATCH, RATE, BATCH)
                trained = train_classifier(
                    config_of(SIDE, patch), splits.train, course, one_seed, on_step, classes=classes
                )
                accuracies[kind].append(trained.accuracy(test))
                parameters[kind] = sum(p.numel() for p in trained.model.parameters())
    return {
        "memory": memory,
        "accuracies": accuracies,
        "parameters": parameters,
        "sizes": sizes,
        "data": "8 × 8 digits" if data == DIGITS else f"{Path(data).resolve().name}, 8 × 8",
        "differences": {"memory": [growth_over_8(row) for row in memory[UNFUSED]]},
    }


def growth_over_8(row: list[int]) -> float:
    """M(2R) / (8 M(R)) - 1 for the last two of some measurements.

    Above 0 memory grows by more than R³ would; R⁴ would be 1.

    Example:
        >>> growth_over_8([1, 16]), growth_over_8([1, 4])
        (1.0, -0.5)
    """
    return row[-1] / (8 * row[-2]) - 1


def read_images_of(data: str, seed: int) -> ImageSplits:
    """Grey images of 8 x 8: the included digits, another fold for each seed, or one's own.

    Raises:
        InputError: There are no such images.
    """
    half = (0.5,)
    reader = ImageReader(height=SIDE, width=SIDE, channels=1, mean=half, std=half)
    if data == DIGITS:
        return load_images(DigitsData(fold=seed % FOLDS), reader)
    if not Path(data).exists():
        raise InputError(
            "data", got=data, expected="a folder or file of images with classes, or digits"
        )
    source = {"folder": data} if Path(data).is_dir() else {"file": data}
    section: Any = ImagesData(**source, held_out=1, seed=seed)
    return with_tests(load_images(section, reader), seed)


def exponent(row: list[float]) -> float:
    """By which power of R the last doubling made memory grow: log₂ M(2R) / M(R).

    Example:
        >>> exponent([1.0, 16.0])
        4.0
    """
    return math.log2(row[-1] / row[-2])


def words_pixels(numbers: Numbers) -> Words:
    """How memory grows, with weights as matrices and fused, and how well pixels are learned."""
    small, large = numbers["resolutions"][-2:]
    power, fused = numbers["exponent_matrices"], numbers["exponent_fused"]
    short = " no more than" if power < 4 - BORDER else ""
    title = f"On pixels, memory grows as{short} R^{power:.1f} from R = {small} to {large}"
    verdict = {
        "holds": f"faster than R³{', near R⁴' if abs(power - 4) <= BORDER else ''}",
        "does not hold": "slower than R³",
        "cannot tell": "not surely faster than R³",
    }[numbers["verdict_memory"]]
    means = {kind: float(np.mean(values)) for kind, values in numbers["accuracies"].items()}
    pixels, patches = (means[kind] for kind in KINDS)
    learned = (
        f"Trained on {SIDE} × {SIDE}: {pixels:.1f}% right on pixels, {patches:.1f}% on patches"
    )
    caption = (
        f"{in_units(numbers['memory_matrices'][-1])} at R = {large}: {verdict}; with the fused "
        f"kernel {in_units(numbers['memory_fused'][-1])}, as R^{fused:.1f}. {learned}. "
        f"{claimed(numbers['verdict'])}"
    )
    return Words(title, caption)


def pixels(measured: dict[str, Any], data: str, steps: int, tries: int, seed: int) -> Drawing:
    """Draw memory against R beside R⁴, and the accuracies on pixels and on patches."""
    memory = {kind: np.mean(rows, axis=0).tolist() for kind, rows in measured["memory"].items()}
    same = all(row == rows[0] for rows in measured["memory"].values() for row in rows)
    sizes, counts = measured["sizes"], measured["parameters"]
    numbers: Numbers = {
        "data": measured["data"],
        "asked": data,
        "steps": steps,
        "tries": tries,
        "resolutions": list(RESOLUTIONS),
        "memory_matrices": memory[UNFUSED],
        "memory_fused": memory[FUSED],
        "exponent_matrices": exponent(memory[UNFUSED]),
        "exponent_fused": exponent(memory[FUSED]),
        "bytes_of_weights": [4 * LAYERS * HEADS * side**4 for side in RESOLUTIONS],
        "accuracies": measured["accuracies"],
        "parameters": counts,
        **numbers_of("pixels", measured["differences"]),
    }
    details = (
        f"Peak of what torch allocates in a training step on one image, {LAYERS} layers of {HEADS} "
        f"heads, {DIM} wide; the model's own weights are not counted. As matrices: softmax(QKᵀ/√d) "
        "is computed and kept for the backward pass; fused: PyTorch's kernel. One matrix of "
        f"attention for each head and layer has 4 · {LAYERS} · {HEADS} · R⁴ bytes in all; several "
        "such tensors are held. "
        + ("The seed makes no difference. " if same and tries > 1 else "")
        + f"Trained with {BATCH} images a step, {steps:,} steps of Adam at {RATE:g} on "
        f"{sizes[0]:,} images, unchanged; {sizes[1]:,} test images, for each seed another part. "
        f"Parameters: {', '.join(f'{kind} {count:,}' for kind, count in counts.items())}. "
        f"Seeds from {seed}."
    )
    limits = f"{measured['data']}, {sizes[0]:,} training images, {steps:,} steps, "
    limits += f"{LAYERS} layers, {trainings(tries)}; memory: 1 image."
    with Board(words_pixels(numbers), (1.6, 1), details, limits=limits) as board:
        names = {UNFUSED: "attention as matrices", FUSED: "fused kernel"}
        axes = board.chart(0, "peak memory of a training step", "R: pixels at a side", ticks=110)
        for (kind, name), style in zip(names.items(), LINE_STYLES, strict=False):
            axes.curve(RESOLUTIONS, memory[kind], style=style, marker=style.marker, label=name)
        axes.plot(
            RESOLUTIONS, numbers["bytes_of_weights"], color=MUTED, linestyle=":", linewidth=2.2,
            label="R⁴: attention weights alone",
        )  # fmt: skip
        axes.log_axis("x", RESOLUTIONS)
        axes.set_xticks(RESOLUTIONS, [str(side) for side in RESOLUTIONS])
        axes.set_yscale("log", base=2)
        ticks = [2.0**power for power in range(10, 41, 5)]
        axes.set_yticks(ticks, [in_units(tick) for tick in ticks])
        axes.set_ylim(2.0**11, 8 * max(memory[UNFUSED]))
        axes.draw_legend("upper left")
        _draw_accuracies(board, measured["accuracies"])
        return board.drawing(**numbers)


def _draw_accuracies(board: Board, accuracies: dict[str, list[float]]) -> None:
    """Draw the accuracy on pixels and on patches, a point for each seed and a bar at the mean."""
    axes = board.chart(1, "accuracy on new images, %", "what a token is")
    lowest = min(min(values) for values in accuracies.values())
    for index, values in enumerate(accuracies.values()):
        mean, colour = float(np.mean(values)), LINE_STYLES[2 * index].colour
        axes.hlines(mean, index - 0.25, index + 0.25, color=colour, linewidth=6)
        axes.plot([index] * len(values), values, "o", color=INK, markersize=8)
        axes.write_beside((index, max(values)), span(values, ".1f"), xytext=(0, 8))
    axes.set_xticks(range(len(accuracies)), [kind.replace(" of", "") for kind in accuracies])
    axes.set_xlim(-0.6, len(accuracies) - 0.4)
    low = max(0.0, lowest - 0.4 * max(5.0, 100 - lowest))
    axes.set_ylim(low, 100 + 0.15 * (100 - low))
    step = 2 if low > 88 else 5 if low > 70 else 10 if low > 40 else 20
    axes.set_yticks([tick for tick in range(0, 101, step) if tick >= low])
