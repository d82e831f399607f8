"""Figure of part 7: the accuracy of a CNN and a ViT against the size of the object.

Each is trained on objects of all sizes on a plain canvas, and tested on new objects, each of them
at every size. Small objects have as many places to stand as large ones. A Vision Transformer with
attention in windows (Swin) stands beside the two, outside of the claim.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data import LabelledImages
from regard.draw import LINE_STYLES, MUTED, TEXT
from regard.explain import Board, Drawing, Numbers, Words
from regard.models import ViTConfig
from regard_lectures.claims import claimed, interval, numbers_of
from regard_lectures.claims.classifiers import Course, labelled, train_classifier
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

CANVAS = 32
"""Height and width of the pictures."""
SIDES = (5, 7, 9, 12, 15, 20)
"""Sides of the objects."""
SHIFTS = 11
"""Rows and columns at which an object can begin: as many for small ones as for large ones."""
OBJECTS, TESTED = 3_000, 400
SWIN = "ViT with windows"
KINDS = (CNN, VIT, SWIN)
WINDOW = 4
"""The side of Swin's windows, in patches."""


def pictures_at(
    objects: Objects, which: NDArray[np.int64], side: int, random: np.random.Generator
) -> LabelledImages:
    """Pictures of objects of one side, whose middles are anywhere in a square of side `SHIFTS`.

    Args:
        objects: The objects.
        which: The number of the object of each picture.
        side: Their side in pixels.
        random: Where they stand.
    """
    first = (SIDES[-1] - side) // 2
    rows, columns = first + random.integers(0, SHIFTS, (2, len(which)))
    return paste(objects.scaled(side), which, rows, columns, (CANVAS, CANVAS))


def pictures_of_all_sizes(
    objects: Objects, count: int, random: np.random.Generator
) -> LabelledImages:
    """Pictures of objects of all sides, equally often and in a random order."""
    share = -(-count // len(SIDES))
    parts = [
        pictures_at(objects, random.integers(0, len(objects), share), side, random)
        for side in SIDES
    ]
    order = random.permutation(share * len(SIDES))[:count]
    pixels = np.concatenate([part.values for part in parts])
    labels = [label for part in parts for label in part.labels]
    return labelled(pixels[order], [labels[index] for index in order])


def configs_of(channels: int) -> dict[str, Any]:
    """The configs of the CNN, of the ViT, and of the ViT with attention in windows."""
    configs = two_configs(channels, (CANVAS, CANVAS))
    nested = configs[VIT].model_dump()
    attention, feed_forward = nested["encoder"]["block"]
    heads = attention["heads"]
    within = {"kind": "grid_attention", "heads": heads, "grid_window": WINDOW}
    nested["encoder"]["block"] = (within, feed_forward)
    return {**configs, SWIN: ViTConfig.model_validate(nested)}


def measure(data: str, steps: int, tries: int, seed: int) -> dict[str, Any]:
    """Train the three with every seed.

    Returns:
        Accuracies in percent by kind: (tries, sides); the differences of the parts.
    """
    count = min(OBJECTS, 64 * steps)
    train, test, name = read_objects(data, count, min(TESTED, count), seed)
    configs = configs_of(train.channels)
    settings = {"data": source_of(data, name), "steps": steps, "seed": seed}

    def run(kind: str, number: int, on_step: OnStep) -> list[float]:
        return by_side(kind, configs[kind], train, test, steps, number, on_step)

    seeds = range(seed, seed + tries)
    accuracies = measured_with_all_seeds("scale", settings, KINDS, seeds, steps, run)
    random = np.random.default_rng(seed)
    examples = [pictures_at(test, np.zeros(1, np.int64), side, random).values for side in SIDES]
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


def by_side(
    kind: str,
    config: Any,
    train: Objects,
    test: Objects,
    steps: int,
    seed: int,
    on_step: OnStep,
) -> list[float]:
    """Train one model with one seed; its accuracy at each side, in percent."""
    random = np.random.default_rng(seed)
    images = pictures_of_all_sizes(train, 64 * steps, random)
    course = Course(64 * steps, RATES[CNN if kind == CNN else VIT])
    classifier = train_classifier(config, images, course, seed, on_step, classes=train.classes)
    which = np.arange(len(test))
    return [classifier.accuracy(pictures_at(test, which, side, random)) for side in SIDES]


def differences_of(accuracies: dict[str, Any]) -> dict[str, list[float]]:
    """The differences of the claim's parts, one for each seed."""
    tables = {part: np.array(accuracies[kind]) for part, kind in (("cnn", CNN), ("vit", VIT))}
    return {part: (table[:, -1] - table[:, 0]).tolist() for part, table in tables.items()}


def words_scale(numbers: Numbers) -> Words:
    """For which of the two small objects are harder, and at which size each is best."""
    verdicts = {kind: numbers[f"verdict_{kind.lower()}"] for kind in (CNN, VIT)}
    harder = [kind for kind, verdict in verdicts.items() if verdict == "holds"]
    easier = [kind for kind, verdict in verdicts.items() if verdict == "does not hold"]
    phrases = []
    if harder:
        phrases.append("small objects are harder for the " + " and the ".join(harder))
    if easier:
        phrases.append("large objects are harder for the " + " and the ".join(easier))
    title = "; ".join(phrases) or "neither model surely finds small or large objects harder"
    largest, smallest = numbers["sides"][-1], numbers["sides"][0]
    told = []
    for kind in (CNN, VIT):
        means = numbers["means"][kind]
        gap = interval(numbers[f"differences_{kind.lower()}"]).shown(unit=" points")
        best = numbers["sides"][int(np.argmax(means))]
        told.append(f"{kind} {gap}, best at {best}")
    caption = (
        f"Objects of {largest} over those of {smallest} pixels: {'; '.join(told)}. "
        f"{claimed(numbers['verdict'])}"
    )
    return Words(title[0].upper() + title[1:], caption)


def scale(measured: dict[str, Any], data: str, steps: int, tries: int, seed: int) -> Drawing:
    """Draw accuracy against the side of the object, and an object at all sizes."""
    accuracies, counts = measured["accuracies"], measured["parameters"]
    numbers: Numbers = {
        "data": measured["data"],
        "asked": data,
        "steps": steps,
        "tries": tries,
        "sides": list(SIDES),
        **{f"accuracy_{kind}": accuracies[kind] for kind in KINDS},
        "means": {kind: np.mean(accuracies[kind], 0).tolist() for kind in KINDS},
        "chance": 100 / measured["classes"],
        "parameters": counts,
        **numbers_of("scale", measured["differences"]),
    }
    details = (
        f"Objects on a plain canvas of {CANVAS} x {CANVAS}, scaled to sides of "
        f"{', '.join(map(str, SIDES))} pixels, equally often, each at {SHIFTS} x {SHIFTS} places "
        f"about the same point. CNN: "
        f"three convolutions of 3 x 3, max-pooled, no padding, mean of the cells "
        f"({counts[CNN]:,} parameters); ViT: three blocks on patches of 4 x 4, mean of the patches "
        f"({counts[VIT]:,}); with windows: attention within {WINDOW} x {WINDOW} patches, every "
        f"other block shifted by half (Swin), {counts[SWIN]:,}. {64 * steps:,} pictures of "
        f"{measured['objects']:,} objects, each at a new place; Adam, {RATES[CNN]:g} and "
        f"{RATES[VIT]:g}. {measured['tested']:,} new objects, each at every size; seeds from "
        f"{seed}. Intervals: Student's t, 95%, of paired differences."
    )
    limits = f"{measured['data']}, {counts[VIT] / 1000:.0f}k parameters, {64 * steps:,} pictures "
    limits += f"seen, plain ground, {trainings(tries)}."
    with Board(words_scale(numbers), (2.6, 1), details, limits=limits) as board:
        styles = dict(zip(KINDS, LINE_STYLES, strict=False))
        board.legend(styles)
        axes = board.chart(0, "accuracy on new objects, %", "side of the object, pixels", "")
        for kind, style in styles.items():
            draw_spread(axes, SIDES, spread_of(accuracies[kind]), style)
        axes.axhline(numbers["chance"], color=MUTED, linewidth=1.4, linestyle=":")
        low = min(numbers["chance"], float(np.min([accuracies[kind] for kind in KINDS])))
        axes.set_ylim(max(-3.0, low - 12), 104)
        axes.write((SIDES[-1], numbers["chance"] - 1), "chance", ha="right", va="top")
        axes.log_axis("x", SIDES)
        _draw_examples(board, from_text(measured["examples"]))
        return board.drawing(**numbers)


def _draw_examples(board: Board, pictures: NDArray[np.uint8]) -> None:
    """Draw an object at all sizes: (pictures, channels, height, width)."""
    left, top, width, height = board.panel_box(1)
    board.sheet.text((left, top), "an object, all sizes")
    start = top + TEXT + 14
    pitch = min(width / 2, 2 * (height - TEXT - 14) / len(SIDES))
    for index, picture in enumerate(pictures):
        row, column = divmod(index, 2)
        axes = board.sheet.axes(left + column * pitch, start + row * pitch, pitch - 8, pitch - 8)
        axes.imshow(in_colour(picture))
