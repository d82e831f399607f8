"""Figure of part 7: what helps a Vision Transformer on little data.

The same ViT is trained on the same few images without any remedy, with each alone, and with all:
weight decay, drop-path (Huang et al. 2016), mixup (Zhang et al. 2018), RandAugment (Cubuk et al.
2019), and a CNN, trained on these images, as teacher (Hinton et al. 2015). Their strengths are
fixed beforehand, not tuned. The CNN stands beside it.

The teacher's probabilities are learned, not its choice (DeiT's hard distillation): a CNN that knows
its few training images by heart chooses their labels, and the student learns what it would anyway.
"""

from __future__ import annotations

from functools import partial
from math import isfinite
from typing import Any

import numpy as np

from regard.data import ImagesData, ImageSplits
from regard.draw import BLUE, MUTED, ORANGE
from regard.explain import Board, Drawing, Numbers, Words
from regard.tasks import Teacher
from regard_lectures.claims import claimed, interval, numbers_of
from regard_lectures.claims.classifiers import Course, read_splits, train_classifier
from regard_lectures.claims.journal import Journal, source_of
from regard_lectures.figures.hunger import configs
from regard_lectures.progress import OnStep, training_progress
from regard_lectures.tries import listed, span, trainings

RATE = 1.5e-3
HELD_OUT = 1_000
"""Validation images, which are not used here."""
TESTED = 10_000
"""The most test images."""
WEIGHT_DECAY, DROP_PATH, MIXUP, OPERATIONS, MAGNITUDE = 0.3, 0.1, 0.8, 2, 9.0
DISTILLATION, TEMPERATURE = "soft", 3.0
REMEDIES = {
    "weight_decay": "weight decay",
    "drop_path": "drop-path",
    "mixup": "mixup",
    "randaugment": "RandAugment",
    "teacher": "a CNN as teacher",
}
NONE, ALL, CNN, TEACHER = "none", "all", "cnn", "cnn in training"
WAYS = (NONE, *REMEDIES, ALL)
BY_HEART = 99.5
"""Percent: a teacher that is right on more of the training images knows them by heart."""


def measure(data: str, images: int, seen: int, tries: int, seed: int) -> dict[str, Any]:
    """Train the ViT in every way, with every seed.

    Returns:
        Accuracies in percent by way, and of the CNN: (tries,); those of the teacher, which is that
        CNN, on its training images: (tries,).
    """
    splits, name = read_splits(data, held_out=HELD_OUT, most=images, seed=seed)
    images = min(images, len(splits.train))
    settings = {"data": source_of(data, name), "images": images, "seen": seen, "seed": seed}
    settings["distillation"] = DISTILLATION
    accuracies: dict[str, list[float]] = {way: [] for way in (*WAYS, CNN, TEACHER)}
    steps = Course(seen).steps * tries * (len(WAYS) + 1)
    with Journal("remedies", settings) as journal, training_progress(steps) as on_step:
        for number in range(seed, seed + tries):
            run = partial(train_all, splits, images, seen, number, on_step)
            for way, accuracy in journal.get(str(number), run).items():
                accuracies[way].append(accuracy)
    differences = {
        way: (np.array(accuracies[way]) - np.array(accuracies[NONE])).tolist() for way in WAYS[1:]
    }
    return {
        "data": name,
        "images": images,
        "tested": min(TESTED, len(splits.tests["test"])),
        "teacher": accuracies.pop(TEACHER),
        "accuracies": accuracies,
        "differences": differences,
    }


def train_all(
    splits: ImageSplits, count: int, seen: int, seed: int, on_step: OnStep
) -> dict[str, float]:
    """The accuracy of the CNN and of the ViT in every way, with one seed.

    The CNN is the teacher; its accuracy on the training images is among them.
    """
    test = splits.tests["test"][:TESTED]
    chosen = np.random.default_rng(seed).permutation(len(splits.train))[:count]
    images = splits.train.take(chosen.tolist())
    classes = sorted({*splits.train.labels, *test.labels})
    config = configs(test)
    cnn = train_classifier(
        config["CNN"], images, Course(seen, RATE), seed, on_step, classes=classes
    )
    accuracies = {CNN: cnn.accuracy(test), TEACHER: cnn.accuracy(images)}
    for way in WAYS:
        used = set(REMEDIES) if way == ALL else {way}
        changes = ImagesData(
            folder="-",
            workers=0,
            mixup=MIXUP if "mixup" in used else 0.0,
            randaugment=OPERATIONS if "randaugment" in used else 0,
            magnitude=MAGNITUDE,
        )
        decay = WEIGHT_DECAY if "weight_decay" in used else 0.0
        course = Course(seen, RATE, weight_decay=decay, changes=changes)
        drop_path = DROP_PATH if "drop_path" in used else 0.0
        vit = config["ViT"].changed(drop_path=drop_path)
        learned = Teacher(
            cnn.model, cnn.task.reader, distillation=DISTILLATION, temperature=TEMPERATURE
        )
        teacher = learned if "teacher" in used else None
        classifier = train_classifier(
            vit, images, course, seed, on_step, classes=classes, teacher=teacher
        )
        accuracies[way] = classifier.accuracy(test)
    return accuracies


def words_remedies(numbers: Numbers) -> Words:
    """Which remedies help, which hurt, and how far all together get towards the CNN."""
    verdicts = {part: numbers[f"verdict_{part}"] for part in (*REMEDIES, ALL)}
    helping, hurting, open_ = (
        [REMEDIES[part] for part in REMEDIES if verdicts[part] == verdict]
        for verdict in ("holds", "does not hold", "cannot tell")
    )
    count = f"{numbers['images']:,} images"
    if helping:
        verb = "helps" if len(helping) == 1 else "help"
        title = f"A ViT on {count}: {listed(helping)} {verb}"
    elif verdicts[ALL] == "holds":
        title = f"A ViT on {count}: all remedies together help, none of them surely alone"
    elif hurting:
        title = f"A ViT on {count}: no remedy surely helps, {listed(hurting)}"
        title += " does harm" if len(hurting) == 1 else " do harm"
    else:
        title = f"A ViT on {count}: these seeds cannot tell whether a remedy helps"
    sentences = []
    if hurting and (helping or verdicts[ALL] == "holds"):
        verb = "does" if len(hurting) == 1 else "do"
        sentences.append(f"{listed(hurting)[0].upper()}{listed(hurting)[1:]} {verb} harm.")
    if open_:
        sentences.append(f"Cannot be told: {listed(open_)}.")
    if verdicts["teacher"] != "holds" and min(numbers["teacher_right"]) > BY_HEART:
        sentences.append("The teacher knows its training images by heart.")
    together = interval(numbers[f"differences_{ALL}"])
    means = {way: sum(values) / len(values) for way, values in numbers["accuracies"].items()}
    shown = [f"{means[way]:.1f}" for way in (ALL, CNN)]
    beside = "above" if means[ALL] > means[CNN] else "below"
    beside = "as" if shown[0] == shown[1] else beside
    sentences.append(
        f"All together {together.shown(unit=' points')}: {shown[0]}%, {beside} the CNN's "
        f"{shown[1]}%. {claimed(numbers['verdict'])}"
    )
    return Words(title, " ".join(sentences))


def remedies(
    measured: dict[str, Any], data: str, images: int, seen: int, tries: int, seed: int
) -> Drawing:
    """Draw the accuracy in every way, and the difference to none with its interval."""
    accuracies, count = measured["accuracies"], measured["images"]
    numbers: Numbers = {
        "data": measured["data"],
        "asked": data,
        "most_images": images,
        "images": measured["images"],
        "seen": seen,
        "tries": tries,
        "teacher_right": measured["teacher"],
        "accuracies": accuracies,
        **numbers_of("remedies", measured["differences"]),
    }
    details = (
        f"The ViT of `regard show hunger`, from scratch on {count:,} training images, "
        f"{seen:,} images seen, Adam at {RATE:g} in all ways. Weight decay {WEIGHT_DECAY:g}, "
        f"drop-path {DROP_PATH:g}, mixup α = {MIXUP:g}, RandAugment of {OPERATIONS} operations of "
        f"magnitude {MAGNITUDE:g}, {DISTILLATION} distillation at temperature {TEMPERATURE:g} with "
        "weight ½ from a ResNet of equal parameters that was trained on the same images, of "
        f"which it then gets {span(measured['teacher'], '.1f')}% right; none was tuned. "
        f"{measured['tested']:,} test images; seeds from {seed}, each with other training images. "
        "Lines: 95% t-intervals of the paired differences."
    )
    limits = f"{measured['data']}, {count:,} training images, {seen:,} seen, strengths not tuned, "
    limits += f"{trainings(tries)}."
    rows = [*WAYS, CNN]
    names = {**REMEDIES, NONE: "none", ALL: "all of them", CNN: "the CNN alone"}
    with Board(words_remedies(numbers), (3, 2), details, limits=limits) as board:
        axes = board.chart(0, "accuracy on new images, %", "each point: one seed", ticks=230)
        heights = range(len(rows))
        for height, row in zip(heights, rows, strict=True):
            colour = MUTED if row in (NONE, CNN) else BLUE
            mean = float(np.mean(accuracies[row]))
            axes.vlines(mean, height - 0.3, height + 0.3, color=colour, linewidth=6)
            axes.plot(accuracies[row], [height] * len(accuracies[row]), "ko")
        axes.set_yticks(list(heights), [names[row] for row in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.locator_params(axis="x", nbins=5)
        axes = board.chart(1, "over none, points", "with 95% interval", ticks=10)
        for height, row in enumerate(rows):
            if row in measured["differences"]:
                line = interval(measured["differences"][row])
                if isfinite(line.low):
                    axes.hlines(height, line.low, line.high, color=ORANGE, linewidth=4)
                axes.plot([line.mean], [height], "o", color=ORANGE, markersize=12)
        axes.axvline(0, color=MUTED, linewidth=1.4)
        axes.locator_params(axis="x", nbins=5)
        axes.set_yticks([])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        return board.drawing(**numbers)
