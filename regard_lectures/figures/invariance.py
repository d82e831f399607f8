"""Figure of part 7: whether a network knows a moved object that it has not seen at that place.

A CNN and a Vision Transformer of about as many parameters are trained on objects in the left half
of a canvas, and tested on new objects at all columns. The same ViT is also trained with shifts: the
same objects, moved sideways by any number of pixels; and, outside of the claim, with sines as
positions in place of learned ones. What a model loses from left to right is

    loss = accuracy in the left half - accuracy in the right half

All objects keep away from the left and right edge, so that none of them is cut by the CNN's layers,
which are not padded.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data import LabelledImages
from regard.draw import LINE_STYLES, MUTED, TEXT
from regard.explain import Board, Drawing, Numbers, Words
from regard_lectures.claims import claimed, interval, numbers_of
from regard_lectures.claims.classifiers import Course, train_classifier
from regard_lectures.claims.journal import measured_with_all_seeds, source_of
from regard_lectures.claims.pasted import (
    Objects,
    as_text,
    from_text,
    in_colour,
    paste,
    read_objects,
)
from regard_lectures.claims.two_models import CNN, RATES, VIT, parameters_of, two_configs
from regard_lectures.progress import OnStep
from regard_lectures.tries import draw_spread, spread_of, trainings

CANVAS = (24, 64)
"""Height and width of the pictures."""
SIDE = 14
"""Side of the objects."""
ROWS = 9
"""Tops of the objects: 0 to 8."""
LEFT, RIGHT = (8, 16), (32, 40)
"""The first and the last column at which an object of a half begins."""
COLUMNS = tuple(range(LEFT[0], RIGHT[1] + 1, 4))
"""Columns at which objects are tested."""
OBJECTS, TESTED = 3_000, 300
SHIFTED, SINES = "ViT with shifts", "ViT, sines as positions"
KINDS = (CNN, VIT, SHIFTED, SINES)


def pictures_between(
    objects: Objects, count: int, columns: tuple[int, int], random: np.random.Generator
) -> LabelledImages:
    """Pictures of objects that begin between two columns, at any row.

    Args:
        objects: The objects, of side `SIDE`.
        count: How many pictures; the objects take turns in a random order.
        columns: The first and the last column.
        random: Where the objects stand.
    """
    which = np.concatenate(
        [random.permutation(len(objects)) for _ in range(-(-count // len(objects)))]
    )[:count]
    rows = random.integers(0, ROWS, count)
    return paste(objects, which, rows, random.integers(columns[0], columns[1] + 1, count), CANVAS)


def measure(data: str, steps: int, tries: int, seed: int) -> dict[str, Any]:
    """Train the three with every seed.

    Returns:
        Accuracies in percent by kind and column: (tries, columns); the differences of the parts.
    """
    count = min(OBJECTS, 64 * steps)
    train, test, name = read_objects(data, count, min(TESTED, count), seed)
    train, test = train.scaled(SIDE), test.scaled(SIDE)
    configs = two_configs(train.channels, CANVAS)
    settings = {"data": source_of(data, name), "steps": steps, "seed": seed}

    def run(kind: str, number: int, on_step: OnStep) -> list[float]:
        return by_column(kind, configs, train, test, steps, number, on_step)

    seeds = range(seed, seed + tries)
    accuracies = measured_with_all_seeds("invariance", settings, KINDS, seeds, steps, run)
    random = np.random.default_rng(seed)
    examples = [
        pictures_between(test, 2, columns, random).values
        for columns in (LEFT, RIGHT, (LEFT[0], RIGHT[1]))
    ]
    return {
        "accuracies": accuracies,
        "data": name,
        "classes": len(train.classes),
        "objects": len(train),
        "tested": len(test),
        "parameters": parameters_of(configs, train.classes),
        "examples": as_text(np.concatenate(examples)),
        "differences": differences_of(accuracies),
    }


def by_column(
    kind: str,
    configs: dict[str, Any],
    train: Objects,
    test: Objects,
    steps: int,
    seed: int,
    on_step: OnStep,
) -> list[float]:
    """Train one model with one seed; its accuracy at each column, in percent."""
    random = np.random.default_rng(seed)
    columns = (LEFT[0], RIGHT[1]) if kind == SHIFTED else LEFT
    images = pictures_between(train, 64 * steps, columns, random)
    model = CNN if kind == CNN else VIT
    config = configs[model]
    if kind == SINES:
        config = config.changed(positions={"kind": "sinusoidal_2d"})
    course = Course(64 * steps, RATES[model])
    classifier = train_classifier(config, images, course, seed, on_step, classes=train.classes)
    which, rows = np.arange(len(test)), random.integers(0, ROWS, len(test))
    return [
        classifier.accuracy(paste(test, which, rows, np.full(len(test), column), CANVAS))
        for column in COLUMNS
    ]


def halves(accuracies: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The mean accuracy in the left and in the right half: (tries, columns) -> (tries,) twice.

    Example:
        >>> left, right = halves([[100.0] * 3 + [0.0] * 3 + [50.0] * 3])
        >>> left.tolist(), right.tolist()
        ([100.0], [50.0])
    """
    table = np.asarray(accuracies, float)
    spans = [[low <= column <= high for column in COLUMNS] for low, high in (LEFT, RIGHT)]
    left, right = (table[:, span].mean(1) for span in spans)
    return left, right


def differences_of(accuracies: dict[str, Any]) -> dict[str, list[float]]:
    """The differences of the claim's parts, one for each seed."""
    sides = {kind: halves(accuracies[kind]) for kind in KINDS}
    lost = {kind: left - right for kind, (left, right) in sides.items()}
    return {
        "built_in": (lost[VIT] - lost[CNN]).tolist(),
        "learned": (sides[SHIFTED][1] - sides[VIT][1]).tolist(),
    }


def words_invariance(numbers: Numbers) -> Words:
    """Which of the two knows a moved object, and whether shifts teach it to the ViT."""
    left, right = numbers["left"], numbers["right"]
    title = {
        "holds": "Objects seen only on the left: on the right the ViT loses more than the CNN",
        "does not hold": "Objects seen only on the left: on the right the CNN loses more than "
        "the ViT",
        "cannot tell": "Objects seen only on the left: neither surely loses more on the right",
    }[numbers["verdict_built_in"]]
    gain = interval(numbers["differences_learned"]).shown(unit=" points")
    learned = {
        "holds": f"Trained with shifts the ViT gains {gain} there",
        "does not hold": f"Trained with shifts the ViT is worse there, {gain}",
        "cannot tell": f"Whether shifts help the ViT there cannot be told, {gain}",
    }[numbers["verdict_learned"]]
    caption = (
        f"From left to right: CNN {left[CNN]:.0f}% to {right[CNN]:.0f}%, ViT {left[VIT]:.0f}% to "
        f"{right[VIT]:.0f}% (with sines {left[SINES]:.0f}% to {right[SINES]:.0f}%); "
        f"chance is {numbers['chance']:.0f}%. {learned}. "
        f"{claimed(numbers['verdict'])}"
    )
    return Words(title, caption)


def invariance(measured: dict[str, Any], data: str, steps: int, tries: int, seed: int) -> Drawing:
    """Draw the accuracy by column, and pictures of both halves."""
    accuracies = measured["accuracies"]
    sides = {kind: halves(accuracies[kind]) for kind in KINDS}
    numbers: Numbers = {
        "data": measured["data"],
        "asked": data,
        "steps": steps,
        "tries": tries,
        "columns": list(COLUMNS),
        **{f"accuracy_{kind}": accuracies[kind] for kind in KINDS},
        "left": {kind: float(side[0].mean()) for kind, side in sides.items()},
        "right": {kind: float(side[1].mean()) for kind, side in sides.items()},
        "chance": 100 / measured["classes"],
        "parameters": measured["parameters"],
        **numbers_of("invariance", measured["differences"]),
    }
    counts = measured["parameters"]
    details = (
        f"Objects of {SIDE} x {SIDE} on a plain canvas of {CANVAS[0]} x {CANVAS[1]}, at any of "
        f"{ROWS} rows. Training: columns {LEFT[0]} to {LEFT[1]}, with shifts {LEFT[0]} to "
        f"{RIGHT[1]}; {64 * steps:,} pictures of {measured['objects']:,} objects, each at a new "
        f"place. Left: columns to {LEFT[1]}; right: from {RIGHT[0]}. CNN: three convolutions of "
        f"3 x 3, max-pooled, no padding, mean of the cells ({counts[CNN]:,} parameters); ViT: "
        f"three blocks on patches of 4 x 4, learned positions, mean of the patches "
        f"({counts[VIT]:,}). Adam, {RATES[CNN]:g} and {RATES[VIT]:g}. {measured['tested']:,} new "
        f"objects; seeds from {seed}. Intervals: Student's t, 95%, of paired differences."
    )
    limits = (
        f"{measured['data']}, {counts[VIT] / 1000:.0f}k parameters, {64 * steps:,} pictures seen, "
    )
    limits += f"plain ground, {trainings(tries)}."
    with Board(words_invariance(numbers), (2.6, 1), details, limits=limits) as board:
        styles = dict(zip(KINDS, LINE_STYLES, strict=False))
        board.legend(styles)
        axes = board.chart(0, "accuracy on new objects, %", "column where the object begins", "")
        low = min(5.0, float(np.min([accuracies[kind] for kind in KINDS])))
        axes.set_ylim(low - 4, 114)
        axes.set_yticks(range(0, 101, 20))
        axes.axvspan(LEFT[0] - 1, LEFT[1] + 1, color=MUTED, alpha=0.15, linewidth=0)
        axes.write((sum(LEFT) / 2, 112), "trained here", ha="center", va="top")
        axes.axhline(numbers["chance"], color=MUTED, linewidth=1.4, linestyle=":")
        axes.write((RIGHT[1], numbers["chance"] - 1), "chance", ha="right", va="top")
        for kind, style in styles.items():
            draw_spread(axes, COLUMNS, spread_of(accuracies[kind]), style)
        axes.set_xticks(COLUMNS)
        _draw_examples(board, from_text(measured["examples"]))
        return board.drawing(**numbers)


def _draw_examples(board: Board, pictures: NDArray[np.uint8]) -> None:
    """Draw two pictures (channels, height, width) of the left half, the right half, and of both."""
    left, top, width, height = board.panel_box(1)
    names = ("left: training", "right: test", "with shifts")
    share = height / len(names)
    side = min(width, (share - TEXT - 22) / 2 * CANVAS[1] / CANVAS[0])
    for row, name in enumerate(names):
        board.sheet.text((left, top + row * share), name)
        for number in range(2):
            high = side * CANVAS[0] / CANVAS[1]
            start = top + row * share + TEXT + 8 + number * (high + 6)
            axes = board.sheet.axes(left, start, side, high)
            axes.imshow(in_colour(pictures[2 * row + number]), aspect="auto")
