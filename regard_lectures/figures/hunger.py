"""Figure of part 7: the accuracy of a CNN and a Vision Transformer against the number of images.

Both have about as many parameters, and in every training they see as many images, the few ones more
often. The learning rate is chosen among three for each model and number of images, by the accuracy
on validation images; then each is trained with further seeds, on other images of the same data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from regard.data import ImageSplits, LabelledImages
from regard.draw import LINE_STYLES
from regard.errors import InputError
from regard.explain import Board, Drawing, Numbers, Words
from regard.models import ResNetConfig, ViTConfig, build
from regard_lectures.claims import Interval, claimed, interval, numbers_of
from regard_lectures.claims.classifiers import Course, read_splits, train_classifier
from regard_lectures.claims.journal import Journal, source_of
from regard_lectures.progress import OnStep, training_progress
from regard_lectures.tries import draw_spread, spread_of, trainings

SIZES = (300, 1_000, 3_000, 10_000)
"""Numbers of training images, each with all seeds."""
RATES = (5e-4, 1.5e-3, 4.5e-3)
"""Learning rates to choose from."""
HELD_OUT = 5_000
"""Validation images."""
TESTED = 10_000
"""The most test images."""
MODELS = ("CNN", "ViT")
FILTERS, DIM, LAYERS, PATCH = (40, 88), 64, 4, 4
BORDER = 0.5
"""Percent: means that are nearer to each other are not said to cross."""


def configs(images: LabelledImages) -> dict[str, Any]:
    """The configs of a ResNet and a ViT of about as many parameters, for images of this size."""
    channels, height, width = images.values.shape[1:]
    shape: dict[str, Any] = {"image": (height, width), "channels": channels}
    cnn = ResNetConfig(**shape, unit="basic", depths=(1, 1), filters=FILTERS, stem_width=FILTERS[0])
    vit = ViTConfig(
        **shape, patch=PATCH, dim=DIM, heads=4, hidden=2 * DIM, layers=LAYERS, dropout=0.0
    )
    return {"CNN": cnn, "ViT": vit}


def measure(data: str, most: int, seen: int, tries: int, seed: int) -> dict[str, Any]:
    """Train both models on every number of images, with every seed.

    Returns:
        Accuracies in percent by model: (sizes, tries), and on all images with one seed.

    Raises:
        InputError: There are too few images for two sizes.
    """
    splits, name = read_splits(data, held_out=HELD_OUT, most=most, seed=seed)
    if len(splits.train) < SIZES[1]:
        raise InputError(
            f"images in {name}",
            got=f"{len(splits.train):,} to train on, without those for validation and tests",
            expected=f"{SIZES[1]:,} or more",
            fix="`regard show remedies` and `regard show idea1` take fewer",
        )
    test = splits.tests["test"][:TESTED]
    sizes = [size for size in SIZES if size <= min(most, len(splits.train))]
    whole = len(splits.train) if most > sizes[-1] < len(splits.train) else 0
    course = Course(seen)
    settings = {
        "data": source_of(data, name),
        "most": most,
        "seen": seen,
        "tries": tries,
        "seed": seed,
    }
    count = len(MODELS) * (len(sizes) * (len(RATES) + tries - 1) + bool(whole))
    results: dict[str, Any] = {"accuracies": {}, "rates": {}, "whole": {}, "parameters": {}}
    with Journal("hunger", settings) as journal, training_progress(course.steps * count) as on_step:
        for model, config in configs(test).items():
            trial = _Trial(config, splits, test, seen, on_step)

            def run(
                size: int, rate: float, one_seed: int, trial: _Trial = trial, model: str = model
            ) -> dict[str, float]:
                """The scores of one training, or those of an interrupted run."""
                key = f"{model} {size} {rate:g} {one_seed}"
                scores: dict[str, float] = journal.get(
                    key, partial(trial.run, size, rate, one_seed)
                )
                return scores

            rows, rates = [], []
            for size in sizes:
                first = {rate: run(size, rate, seed) for rate in RATES}
                best = max(RATES, key=lambda rate: first[rate]["valid"])
                others = [run(size, best, seed + number) for number in range(1, tries)]
                rows.append([score["test"] for score in (first[best], *others)])
                rates.append(best)
            if whole:
                results["whole"][model] = run(whole, rates[-1], seed)["test"]
            results["accuracies"][model], results["rates"][model] = rows, rates
            results["parameters"][model] = _parameters(config, test)
    return {
        **results,
        "data": name,
        "sizes": sizes,
        "whole_size": whole,
        "tested": len(test),
        "differences": differences_of(results["accuracies"]),
    }


class _Trial:
    """Trainings of one model on parts of the same images."""

    def __init__(
        self,
        config: Any,
        splits: ImageSplits,
        test: LabelledImages,
        seen: int,
        on_step: OnStep,
    ) -> None:
        self.config, self.splits, self.test = config, splits, test
        self.seen, self.on_step = seen, on_step

    def run(self, size: int, rate: float, seed: int) -> dict[str, float]:
        """The accuracy on test and validation images after a training on `size` images."""
        pool = self.splits.train
        chosen = np.random.default_rng(seed).permutation(len(pool))[:size]
        images = pool.take(chosen.tolist())
        course = Course(self.seen, rate)
        classes = sorted({*pool.labels, *self.test.labels, *self.splits.valid.labels})
        classifier = train_classifier(
            self.config, images, course, seed, self.on_step, classes=classes
        )
        return {
            "test": classifier.accuracy(self.test),
            "valid": classifier.accuracy(self.splits.valid),
        }


def _parameters(config: Any, images: LabelledImages) -> int:
    """The number of parameters of a model for the classes of some images."""
    model = build(config.changed(classes=tuple(sorted(set(images.labels)))))
    return sum(parameter.numel() for parameter in model.parameters())


def differences_of(accuracies: dict[str, Any]) -> dict[str, list[float]]:
    """The differences of the claim's parts, one for each seed."""
    lead = np.array(accuracies["CNN"]) - np.array(accuracies["ViT"])  # (sizes, tries)
    return {
        "little": lead[0].tolist(),
        "shrinks": (lead[0] - lead[-1]).tolist(),
        "much": (-lead[-1]).tolist(),
    }


def crossing(sizes: Sequence[int], lead: Sequence[float]) -> float | None:
    """The number of images at which a lead falls from above to below 0, on a logarithmic axis.

    It must be more than `BORDER` above 0 at some size before, and below 0 at some size after.

    Example:
        >>> round(crossing([100, 10_000], [1.0, -1.0])), crossing([100, 10_000], [1.0, -0.1])
        (1000, None)
    """
    for index in range(1, len(sizes)):
        n, m = sizes[index - 1 : index + 1]
        a, b = lead[index - 1 : index + 1]
        clear = max(lead[:index]) > BORDER and min(lead[index:]) < -BORDER
        if a > 0 >= b and clear:
            return math.exp(math.log(n) + a / (a - b) * (math.log(m) - math.log(n)))
    return None


def words_hunger(numbers: Numbers) -> Words:
    """The verdict, by how much the CNN leads on few and on many images, and where they cross."""
    sizes = numbers["sizes"]
    few, many = f"{sizes[0]:,}", f"{sizes[-1]:,}"
    little, much = (interval(numbers[f"differences_{part}"]) for part in ("little", "much"))
    ahead = {"holds": "the CNN is ahead", "does not hold": "the ViT is ahead"}
    first = ahead.get(little.verdict, "neither is surely ahead")
    lead = Interval(-much.mean, -much.high, -much.low)
    second = ahead.get(lead.verdict, "neither is surely ahead")
    title = f"Data hunger: with {few} images {first}, with {many} {second}"
    if first == second:
        title = f"Data hunger: with {few} images and with {many}, {first}"
    shrinks = {
        "holds": "The lead shrinks",
        "does not hold": "The lead grows",
        "cannot tell": "Whether the lead shrinks cannot be told",
    }[numbers["verdict_shrinks"]]
    where = numbers["crossing"]
    crossed = "the means do not clearly cross"
    if where:
        crossed = f"the means cross at about {float(f'{where:.1g}'):,.0f} images"
    judged = claimed(numbers["verdict"])
    if sizes[-1] < SIZES[-1]:
        judged = f"Up to {many} images, {judged[0].lower()}{judged[1:]}"
    caption = (
        f"CNN over ViT: {little.shown(unit=' points')} with {few}, {lead.shown(unit=' points')} "
        f"with {many} images. {shrinks}; {crossed}. {judged}"
    )
    if numbers["whole_size"]:
        cnn, vit = (numbers["whole"][model] for model in MODELS)
        caption += f" All {numbers['whole_size']:,}, one seed: CNN {cnn:.1f}%, ViT {vit:.1f}%."
    return Words(title, caption)


def hunger(
    measured: dict[str, Any], data: str, most: int, seen: int, tries: int, seed: int
) -> Drawing:
    """Draw accuracy against the number of training images, and the CNN's lead."""
    accuracies, sizes = measured["accuracies"], measured["sizes"]
    means = {model: np.mean(accuracies[model], axis=1).tolist() for model in MODELS}
    lead = [a - b for a, b in zip(means["CNN"], means["ViT"], strict=True)]
    numbers: Numbers = {
        "data": measured["data"],
        "asked": data,
        "most": most,
        "sizes": sizes,
        "tries": tries,
        "seen": seen,
        **{f"accuracy_{model}": accuracies[model] for model in MODELS},
        **{f"rate_{model}": measured["rates"][model] for model in MODELS},
        **{f"parameters_{model}": measured["parameters"][model] for model in MODELS},
        "crossing": crossing(sizes, lead),
        "whole_size": measured["whole_size"],
        "whole": measured["whole"],
        **numbers_of("hunger", measured["differences"]),
    }
    counts = measured["parameters"]
    details = (
        f"A ResNet of two stages ({counts['CNN']:,} parameters) and a ViT of {LAYERS} layers "
        f"({counts['ViT']:,}), each trained from scratch on {seen:,} images seen, the same ones "
        "again in every epoch, unchanged; Adam, a learning rate chosen for each point among "
        f"{', '.join(f'{rate:g}' for rate in RATES)} on {HELD_OUT:,} validation images with seed "
        f"{seed}. Seeds from {seed}, each with other training images; {measured['tested']:,} test "
        f"images. Intervals: {tries} paired differences, Student's t, 95%; lines in the "
        "picture: from the lowest to the highest seed. The last point, all images, has one seed "
        "and no verdict."
    )
    limits = f"{measured['data']}, {counts['ViT'] / 1000:.0f}k parameters, {seen:,} images seen, "
    limits += f"unchanged images, {trainings(tries)}."
    with Board(words_hunger(numbers), (3, 2), details, limits=limits) as board:
        styles = dict(zip(MODELS, LINE_STYLES, strict=False))
        board.legend(styles)
        axes = board.chart(0, "accuracy on new images, %", "training images", "")
        shown = [*sizes, measured["whole_size"]] if measured["whole_size"] else sizes
        for model, style in styles.items():
            draw_spread(axes, sizes, spread_of(np.transpose(accuracies[model])), style)
            if measured["whole_size"]:
                last = measured["whole"][model]
                axes.curve(shown[-1:], [last], style=style, marker=style.marker)
        axes.log_axis("x", shown)
        axes = board.chart(1, "lead of the CNN, points", "training images", "")
        differences = np.array(accuracies["CNN"]) - np.array(accuracies["ViT"])
        draw_spread(axes, sizes, spread_of(differences.T), LINE_STYLES[0])
        axes.axhline(0, color="0.5", linewidth=1.4)
        axes.log_axis("x", sizes)
        return board.drawing(**numbers)
