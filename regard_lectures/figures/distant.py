"""Figure of part 7: two marks far apart that decide together, as the parts of a picture of a team.

A picture's class is whether its two marks are alike. CNNs of two, three and four layers see more
and more of it at once; beside them convolutions with a small field are followed by one attention
layer. If no cell sees both marks, the mean of the cells is a sum over the marks,

    score = c + f(first mark) + g(second mark)

which is right for 3 of the 4 pairs of marks at most: 75%.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from matplotlib.patches import Rectangle

from regard.data import LabelledImages
from regard.draw import BLUE, LINE_STYLES, MUTED, TEXT
from regard.errors import InputError
from regard.explain import Board, Drawing, Numbers, Words
from regard.inputs import Dense
from regard_lectures.claims import claimed, interval, numbers_of
from regard_lectures.claims.classifiers import Classifier, Course, train_classifier
from regard_lectures.claims.journal import measured_with_all_seeds, source_of
from regard_lectures.claims.layers import as_input
from regard_lectures.claims.pasted import Objects, as_text, from_text, in_colour, read_objects
from regard_lectures.claims.two_marks import (
    ALIKE,
    ATTENTION,
    CANVAS,
    DIFFERENT,
    SIDE,
    draw_marks,
    gradient_of_cell,
    marks_seen,
    models_of,
)
from regard_lectures.progress import OnStep
from regard_lectures.tries import draw_spread, spread_of, trainings

RATES = {"CNN": 3e-3, ATTENTION: 2e-3}
BATCH = 32
ALONE = 0.5
"""The share of the training pictures that show one mark alone."""
OBJECTS, KEPT, TESTED = 1_500, 300, 1_000
"""Objects to train with, others for the test pictures, and the number of these."""
SHAPES = ("circle", "cross")
"""The two marks if shapes are drawn."""
SMALL, LARGE = "CNN 3", "CNN 4"
"""The CNN whose field is too small, and the one whose field is large enough."""
FIELDS = {"CNN 2": 10, SMALL: 22, LARGE: 46, ATTENTION: CANVAS}
"""The side of what a cell of the last map sees, in pixels."""


def read_marks(data: str, seed: int) -> tuple[Objects, Objects, tuple[str, str], str]:
    """Marks for training, others for tests, their two classes, and the name of the data.

    Raises:
        InputError: If there are no two classes with images of each in both parts.
    """
    train, test, name = read_objects(data, OBJECTS, KEPT, seed)
    first, second = SHAPES if not data else (*train.classes, "", "")[:2]
    for part in (train, test):
        if not {first, second} <= set(part.labels):
            raise InputError(
                "data",
                got=f"{data}: {len(train)} images to train with and {len(test)} for tests, "
                f"classes {', '.join(train.classes)}",
                expected="two folders of 20 images or more, one for each kind of mark",
            )
    return train.scaled(SIDE), test.scaled(SIDE), (first, second), name


def measure(data: str, steps: int, tries: int, seed: int) -> dict[str, Any]:
    """Train all models with every seed.

    Returns:
        Accuracies in percent by model: (tries,); the gradients of a cell, of the first seed.
    """
    train, test, classes, name = read_marks(data, seed)
    configs = models_of(train.channels)
    tests, corners = draw_marks(test, classes, TESTED, np.random.default_rng(seed))
    settings = {"data": source_of(data, name), "steps": steps, "seed": seed}

    def run(kind: str, number: int, on_step: OnStep) -> dict[str, Any]:
        random = np.random.default_rng((number, 1))
        images, _ = draw_marks(train, classes, BATCH * steps, random, alone=ALONE)
        course = Course(BATCH * steps, RATES[kind.split()[0]], BATCH)
        names = (ALIKE, DIFFERENT, *classes)
        classifier = train_classifier(configs[kind], images, course, number, on_step, classes=names)
        accuracy = share_right(classifier.model, tests)
        return {"accuracy": accuracy, **_seen_by(classifier, tests, corners, number)}

    seeds = range(seed, seed + tries)
    runs = measured_with_all_seeds("distant", settings, [*configs], seeds, steps, run)
    accuracies = {kind: [float(item["accuracy"]) for item in runs[kind]] for kind in configs}
    return {
        "accuracies": accuracies,
        "seen": {kind: [item["marks"] for item in runs[kind]] for kind in configs},
        "fields": {kind: runs[kind][0]["field"] for kind in configs},
        "boxes": {kind: runs[kind][0]["box"] for kind in configs},
        "parameters": {kind: runs[kind][0]["parameters"] for kind in configs},
        "picture": as_text(tests.values[:1]),
        "data": name,
        "classes": list(classes),
        "objects": len(train),
        "differences": differences_of(accuracies),
    }


def share_right(model: Any, tests: LabelledImages) -> float:
    """The share of pictures of two marks that are rightly called alike or different, in percent."""
    names = model.config.head.classes
    answers = (ALIKE, DIFFERENT)
    with torch.no_grad():
        logits = model.classify(Dense(as_input(tests.values)))  # (pictures, classes)
    chosen = logits[:, [names.index(answer) for answer in answers]].argmax(1).tolist()
    right = [answers[index] == label for index, label in zip(chosen, tests.labels, strict=True)]
    return 100 * float(np.mean(right))


def _seen_by(
    classifier: Classifier, tests: LabelledImages, corners: Any, seed: int
) -> dict[str, Any]:
    """What the cell nearest to the first mark of the first picture sees of it, by gradients."""
    row, column = (corners[0, 0] + SIDE / 2).tolist()
    pixels = as_input(tests.values[:1])
    field, box = gradient_of_cell(classifier.model, pixels, (row, column), seed)
    scaled = np.sqrt(field / max(field.max(), 1e-30))  # the root, so that small ones are seen
    return {
        "field": as_text(np.rint(255 * scaled).astype(np.uint8)[None, None]),
        "box": box,
        "marks": marks_seen(field, corners[0]),
        "parameters": sum(weights.numel() for weights in classifier.model.parameters()),
    }


def differences_of(accuracies: dict[str, list[float]]) -> dict[str, list[float]]:
    """The differences of the claim's parts, one for each seed."""
    over = {"attention": ATTENTION, "field": LARGE}
    return {
        part: (np.array(accuracies[kind]) - np.array(accuracies[SMALL])).tolist()
        for part, kind in over.items()
    }


def words_distant(numbers: Numbers) -> Words:
    """Whether a larger field and one attention layer help where two distant marks decide."""
    verdicts = numbers["verdict_field"], numbers["verdict_attention"]
    told = {
        "holds": "{} helps",
        "does not hold": "{} does harm",
        "cannot tell": "{} does not surely help",
    }
    names = ("a larger field", "attention")
    if verdicts[0] == verdicts[1]:
        outcome = {
            "holds": "a larger field helps a CNN, and so does attention",
            "does not hold": "a larger field harms a CNN, and so does attention",
            "cannot tell": "neither a larger field nor attention surely helps",
        }[verdicts[0]]
    else:
        outcome = ", ".join(
            told[verdict].format(name) for verdict, name in zip(verdicts, names, strict=True)
        )
    gains = [interval(numbers[f"differences_{part}"]).shown(unit=" points")
             for part in ("field", "attention")]  # fmt: skip
    means = numbers["means"]
    marks = numbers["marks"]
    small, large = FIELDS[SMALL], FIELDS[LARGE]
    caption = (
        f"A cell of {small} pixels sees {marks[SMALL]} of the two marks: {means[SMALL]:.0f}% right."
        f" One of {large} pixels sees {marks[LARGE]}: {gains[0]}. With attention it sees "
        f"{marks[ATTENTION]}: {gains[1]}. {claimed(numbers['verdict'])}"
    )
    return Words(f"Two distant marks decide: {outcome}", caption)


def distant(measured: dict[str, Any], data: str, steps: int, tries: int, seed: int) -> Drawing:
    """Draw what a cell of each model sees of a picture, and accuracy against the field."""
    accuracies = measured["accuracies"]
    numbers: Numbers = {
        "data": measured["data"],
        "asked": data,
        "steps": steps,
        "tries": tries,
        "classes": measured["classes"],
        "fields": FIELDS,
        "accuracies": accuracies,
        "means": {kind: float(np.mean(values)) for kind, values in accuracies.items()},
        "marks": {kind: seen[0] for kind, seen in measured["seen"].items()},
        "parameters": measured["parameters"],
        **numbers_of("distant", measured["differences"]),
    }
    counts = ", ".join(f"{kind} {count:,}" for kind, count in measured["parameters"].items())
    details = (
        f"Marks of {SIDE} x {SIDE} pixels ({' and '.join(measured['classes'])}) on {CANVAS} x "
        f"{CANVAS}, 22 pixels or more between them. A CNN of n convolutions of 3 x 3, each "
        "max-pooled, and the mean of its cells; attention: two convolutions, one block, the mean "
        f"of its patches. Parameters: {counts}. {BATCH * steps:,} training pictures of "
        f"{measured['objects']:,} objects, half of them of one mark alone. {TESTED:,} test "
        "pictures of two marks of other objects; chance is 50%, and a sum over the marks is right "
        f"for 75% at most. Orange: the root of the gradient of the cell nearest to the left mark, "
        f"seed {seed}; blue: its field by the formula. Seeds from {seed}. Intervals: Student's t, "
        "95%, of paired differences."
    )
    smallest, largest = (pick(measured["parameters"].values()) / 1000 for pick in (min, max))
    limits = (
        f"{measured['data']}, {smallest:.0f}k to {largest:.0f}k parameters, {BATCH * steps:,} "
        f"pictures seen, {trainings(tries)}."
    )
    with Board(words_distant(numbers), (1, 1.1), details, limits=limits) as board:
        styles = {"CNN": LINE_STYLES[0], "one attention layer": LINE_STYLES[1]}
        board.legend(styles)
        _draw_fields(board, measured)
        axes = board.chart(1, "accuracy on pictures of two marks, %", "side of the field, pixels")
        cnns = [kind for kind in FIELDS if kind != ATTENTION]
        table = [accuracies[kind] for kind in cnns]
        sides = [FIELDS[kind] for kind in cnns]
        draw_spread(axes, sides, spread_of(np.transpose(table)), LINE_STYLES[0])
        lone = spread_of(np.transpose([accuracies[ATTENTION]]))
        draw_spread(axes, [FIELDS[ATTENTION]], lone, LINE_STYLES[1])
        axes.axhline(50, color=MUTED, linewidth=1.4, linestyle=":")
        axes.write((34, 49), "chance", ha="center", va="top")
        low = min(float(np.min(table)), min(accuracies[ATTENTION]), 44)
        axes.set_ylim(low - 6, 104)
        axes.set_xticks([*sides[:-1], FIELDS[ATTENTION]], [*map(str, sides[:-1]), "46, all"])
        axes.set_xlim(5, 53)
        return board.drawing(**numbers)


def _draw_fields(board: Board, measured: dict[str, Any]) -> None:
    """Draw the example with the gradient of a cell of each model over it."""
    left, top, width, height = board.panel_box(0)
    names = {
        kind: "one attention layer" if kind == ATTENTION else f"CNN, {side} x {side}"
        for kind, side in FIELDS.items()
    }
    picture = in_colour(from_text(measured["picture"])[0])
    pitch = min(width / 2, height / 2 - TEXT - 6)
    for index, (kind, name) in enumerate(names.items()):
        row, column = divmod(index, 2)
        x, y = left + column * width / 2, top + row * height / 2
        board.sheet.text((x, y), name)
        axes = board.sheet.axes(x, y + TEXT + 8, pitch - 10, pitch - 10)
        axes.set_axis_off()
        axes.imshow(picture)
        field = from_text(measured["fields"][kind])[0, 0] / 255
        axes.imshow(np.ones_like(field), cmap="autumn", alpha=0.75 * field, vmin=0, vmax=2)
        if measured["boxes"][kind]:
            first, end, start, stop = measured["boxes"][kind]
            axes.add_patch(
                Rectangle(
                    (start - 0.5, first - 0.5), stop - start, end - first,
                    fill=False, edgecolor=BLUE, linewidth=3,
                )
            )  # fmt: skip
        axes.set(xlim=(-0.5, CANVAS - 0.5), ylim=(CANVAS - 0.5, -0.5))
