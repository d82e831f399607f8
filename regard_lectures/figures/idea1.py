"""Figure of part 7: a ResNet with self-attention between its stages, beside one without.

Both begin with the same weights and see the same images in the same order: attention is added as
x + γ · attention(norm(x)), with a learned γ that begins at 0. After training, γ is set back to 0 to
see what the rest of the network does without the attention that it was trained with.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch

from regard.data import ImageSplits, LabelledImages
from regard.draw import BLUE, MUTED, ORANGE
from regard.explain import Board, Drawing, Numbers, Words
from regard.models import ResNetConfig
from regard_lectures.claims import claimed, interval, numbers_of
from regard_lectures.claims.classifiers import Course, read_splits, train_classifier
from regard_lectures.claims.journal import Journal, source_of
from regard_lectures.progress import OnStep, training_progress
from regard_lectures.tries import span, trainings

FILTERS = (32, 64, 128)
"""Channels of the stages; attention follows the first two."""
HEADS = 4
RATE = 2e-3
HELD_OUT = 1_000
TESTED = 10_000
"""The most test images."""
PLAIN, ATTENDING, REMOVED = "plain", "attention", "removed"
BORDER = 0.05
"""A γ within this distance of 0 counts as unused."""


def configs(images: LabelledImages) -> dict[str, ResNetConfig]:
    """The configs of a ResNet without and with attention, for images of this size."""
    channels, height, width = images.values.shape[1:]
    plain = ResNetConfig(
        image=(height, width),
        channels=channels,
        unit="basic",
        depths=(1,) * len(FILTERS),
        filters=FILTERS,
        stem_width=FILTERS[0],
    )
    attention = {"after": tuple(range(len(FILTERS) - 1)), "heads": HEADS}
    return {PLAIN: plain, ATTENDING: plain.changed(stage_attention=attention)}


def gammas(model: Any) -> list[torch.nn.Parameter]:
    """The learned factor γ of each attention between stages."""
    return [part.gamma for part in model.encoder.stage_attentions()]


def measure(data: str, images: int, seen: int, tries: int, seed: int) -> dict[str, Any]:
    """Train both networks with every seed.

    Returns:
        Accuracies in percent (tries) of both, and with γ set to 0 after training; γ by stage
        (tries, stages); the numbers of parameters.
    """
    splits, name = read_splits(data, held_out=HELD_OUT, most=images, seed=seed)
    images = min(images, len(splits.train))
    settings = {"data": source_of(data, name), "images": images, "seen": seen, "seed": seed}
    steps = 2 * tries * Course(seen).steps
    with Journal("idea1", settings) as journal, training_progress(steps) as on_step:
        runs = [
            journal.get(str(number), partial(train_both, splits, images, seen, number, on_step))
            for number in range(seed, seed + tries)
        ]
    accuracies = {
        kind: [run["accuracies"][kind] for run in runs] for kind in (PLAIN, ATTENDING, REMOVED)
    }
    pairs = zip(accuracies[ATTENDING], accuracies[PLAIN], strict=True)
    return {
        "accuracies": accuracies,
        "gammas": [run["gammas"] for run in runs],
        "parameters": runs[0]["parameters"],
        "data": name,
        "images": images,
        "tested": min(TESTED, len(splits.tests["test"])),
        "differences": {"attention": [with_it - without for with_it, without in pairs]},
    }


def train_both(
    splits: ImageSplits, count: int, seen: int, seed: int, on_step: OnStep
) -> dict[str, Any]:
    """Accuracies of both networks with one seed, the learned γ, and the numbers of parameters."""
    test = splits.tests["test"][:TESTED]
    order = np.random.default_rng(seed).permutation(len(splits.train))[:count]
    chosen = splits.train.take(order.tolist())
    classes = sorted({*splits.train.labels, *test.labels})
    accuracies, parameters, factors = {}, {}, []
    for kind, config in configs(test).items():
        trained = train_classifier(
            config, chosen, Course(seen, RATE), seed, on_step, classes=classes
        )
        accuracies[kind] = trained.accuracy(test)
        parameters[kind] = sum(p.numel() for p in trained.model.parameters())
        if kind == ATTENDING:
            learned = gammas(trained.model)
            factors = [float(gamma.detach()) for gamma in learned]
            with torch.no_grad():
                for gamma in learned:
                    gamma.zero_()
            accuracies[REMOVED] = trained.accuracy(test)
    return {"accuracies": accuracies, "gammas": factors, "parameters": parameters}


def words_idea1(numbers: Numbers) -> Words:
    """Whether attention helps, whether γ left 0, and what the network is without its attention."""
    lead = interval(numbers["differences_attention"])
    title = {
        "holds": f"Self-attention between the stages helps this ResNet: {lead.mean:+.1f} points",
        "does not hold": f"Self-attention between the stages harms this ResNet: {lead.mean:+.1f} "
        "points",
        "cannot tell": "Whether self-attention between its stages helps this ResNet cannot be told",
    }[numbers["verdict"]]
    means = {kind: np.mean(values) for kind, values in numbers["accuracies"].items()}
    largest = [abs(gamma) for factors in numbers["gammas"] for gamma in factors]
    used = min(largest) > BORDER
    factor = "every |γ|" if used else "|γ|"
    grown = f"From 0, {factor} came to {span(largest, '.2f')}"
    if not used:
        grown += " (hardly used)" if max(largest) <= BORDER else ""
    loss = interval(
        [a - b for a, b in zip(*(numbers["accuracies"][k] for k in (ATTENDING, REMOVED)),
                               strict=True)]
    )  # fmt: skip
    without = {
        "holds": f"set back to 0, the accuracy falls to {means[REMOVED]:.1f}%",
        "does not hold": f"set back to 0, the accuracy rises to {means[REMOVED]:.1f}%",
        "cannot tell": f"set back to 0, the accuracy is {means[REMOVED]:.1f}%, not surely another",
    }[loss.verdict]
    caption = (
        f"{means[ATTENDING]:.1f}% beside {means[PLAIN]:.1f}% without: "
        f"{lead.shown(unit=' points')}. {grown}; {without}. {claimed(numbers['verdict'])}"
    )
    return Words(title, caption)


def idea1(
    measured: dict[str, Any], data: str, images: int, seen: int, tries: int, seed: int
) -> Drawing:
    """Draw the accuracies of each seed, and the factors γ that were learned."""
    counts = measured["parameters"]
    numbers: Numbers = {
        "data": measured["data"],
        "asked": data,
        "most_images": images,
        "images": measured["images"],
        "seen": seen,
        "tries": tries,
        "accuracies": measured["accuracies"],
        "gammas": measured["gammas"],
        "parameters": counts,
        **numbers_of("idea1", measured["differences"]),
    }
    details = (
        f"A ResNet of {len(FILTERS)} stages of one unit, {', '.join(map(str, FILTERS))} channels "
        f"({counts[PLAIN]:,} parameters); the other one also has x + γ · attention(norm(x) + "
        f"positions) of {HEADS} heads over the cells after each stage but the last "
        f"({counts[ATTENDING]:,}), γ = 0 at first. Both begin with equal weights and see equal "
        f"images: {measured['images']:,} training images, {seen:,} seen, Adam at {RATE:g}, "
        f"unchanged images. {measured['tested']:,} test images; seeds from {seed}, each with "
        "other training images. γ = 0 again: the trained network with γ set to 0. Interval: "
        "Student's t, 95%, of the paired differences."
    )
    limits = f"{measured['data']}, {measured['images']:,} training images, {seen:,} seen, "
    limits += f"{counts[PLAIN] / 1000:.0f}k parameters, {trainings(tries)}."
    with Board(words_idea1(numbers), (1.4, 1), details, limits=limits) as board:
        axes = board.chart(0, "accuracy on new images, %", "each line: one seed")
        kinds = (PLAIN, ATTENDING, REMOVED)
        table = np.array([measured["accuracies"][kind] for kind in kinds])  # (kinds, tries)
        for accuracies in table.T:
            axes.plot(range(len(kinds)), accuracies, "o-", color=MUTED, markersize=9)
        for index, colour in enumerate((BLUE, ORANGE, MUTED)):
            mean = float(table[index].mean())
            axes.hlines(mean, index - 0.25, index + 0.25, color=colour, linewidth=6)
            axes.write_beside(
                (index + 0.25, mean), f"{mean:.1f}", xytext=(4, 0), ha="left", va="center",
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
            )  # fmt: skip
        axes.set_xticks(range(len(kinds)), ["plain", "attention", "its γ = 0 again"])
        axes.set_xlim(-0.5, len(kinds) - 0.35)
        spread = max(1.0, float(table.max() - table.min()))
        axes.set_ylim(table.min() - 0.2 * spread, table.max() + 0.3 * spread)
        axes = board.chart(1, "learned γ", "attention after stage")
        factors = np.array(measured["gammas"])  # (tries, stages)
        stages = np.arange(factors.shape[1])
        for one_seed in factors:
            axes.plot(stages, one_seed, "o", color=ORANGE, markersize=12)
        axes.axhline(0, color=MUTED, linewidth=1.4)
        axes.set_xticks(stages.tolist(), [str(stage) for stage in stages])
        axes.set_xlim(-0.6, len(stages) - 0.4)
        edge = 1.2 * max(BORDER, float(np.abs(factors).max()))
        axes.set_ylim(-edge if factors.min() < 0 else -0.15 * edge, edge)
        return board.drawing(**numbers)
