"""Figure of part 6: fine-tuning a pretrained model with a new output layer on few labels.

A small BERT is pretrained on thousands of unlabelled sentences. Then it is fine-tuned to classify
the topic of short titles from few labelled examples, as `regard train own/classify` does: all
weights, half of them, or only the new layer are trained; for comparison, the same model from
scratch.
"""

from __future__ import annotations

import itertools
import random
import statistics
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from regard import RunStart
from regard.data import LabelledText
from regard.draw import LINE_STYLES, MUTED
from regard.explain import Board, Drawing, key_of
from regard.models import Encoder, build
from regard.recipes import load as load_recipe
from regard.tasks import Classify, ReadingOptions, with_task_head
from regard_lectures.figures.descent import Descent, train_on
from regard_lectures.figures.topics import (
    LENGTH,
    SENTENCES,
    TITLES,
    TOPICS,
    Pretrained,
    course,
    pretrain,
    sentences,
)
from regard_lectures.progress import OnStep, training_progress

EXAMPLES = (4, 8, 16, 32, 64)
TESTED, POOL = 200, 160
"""The number of test titles, and of titles from which labelled examples are drawn."""
WAYS: dict[str, str | None] = {
    "all of it learns": "none",
    "half frozen": "1",
    "encoder frozen": "all",
    "from scratch": None,
}
"""The value of `start.freeze` for each way to train; None: from scratch."""
RATES = {"all": 1e-2}
"""Learning rates of Adam by what is frozen: a new layer alone tolerates a higher one."""
RATE = 2e-3
MOST = 512
"""Tokens per batch."""


def measure(steps: int, tries: int, seed: int) -> dict[str, Any]:
    """Pretrain a BERT, and fine-tune it in each way on each number of labelled titles.

    Returns:
        The accuracies on new titles by way: (examples, tries).
    """
    tuning = max(1, steps // 10)
    base = pretrain(steps, seed)
    with training_progress(tuning * tries * len(WAYS) * len(EXAMPLES)) as on_step:
        accuracies = _accuracies(base, tuning, tries, seed, on_step)
    return {
        "accuracies": accuracies,
        "parameters": {way: _trained(_begin(base, way, seed)) for way in WAYS},
        "masked_right": base.right,
        "title": _labelled(seed)[0][0].text,
    }


def _accuracies(
    base: Pretrained, tuning: int, tries: int, seed: int, on_step: OnStep
) -> dict[str, list[list[float]]]:
    """The accuracies after fine-tuning, by way: (examples, tries)."""
    test, pool = _labelled(seed)
    draws = [_draw_examples(pool, seed + number) for number in range(tries)]
    by_way: dict[str, list[list[float]]] = {way: [] for way in WAYS}
    for way, examples in itertools.product(WAYS, EXAMPLES):
        accuracies = []
        for number, draw in enumerate(draws):
            chosen = draw[:examples]  # smaller sets are prefixes of larger ones
            model = _begin(base, way, seed + number)
            how = tuning, seed + number, WAYS[way]
            accuracies.append(_tune(model, base, chosen, test, *how, on_step))
        by_way[way].append(accuracies)
    return by_way


def finetuning(measured: dict[str, Any], steps: int, tries: int, seed: int) -> Drawing:
    """Draw accuracy on new titles against the number of labelled ones, for each way to train."""
    accuracies, learned = measured["accuracies"], measured["parameters"]
    right = measured["masked_right"]
    tuning = max(1, steps // 10)
    means = {way: [statistics.fmean(draws) for draws in lines] for way, lines in accuracies.items()}
    few, many = EXAMPLES[1], EXAMPLES[-1]
    caption = (
        f"With {few} labelled titles, the pretrained model classifies "
        f"{means['all of it learns'][1]:.0f}% of new titles correctly, the same model trained "
        f"from scratch {means['from scratch'][1]:.0f}%."
    )
    details = (
        f"A BERT pretrained by masked language modelling on {SENTENCES:,} sentences without labels "
        f"({steps} steps, {right:.0f}% of masked tokens in new sentences predicted correctly) "
        f"gets a new last layer and learns the topic, one of {len(TOPICS)}, of titles such as "
        f"“{measured['title']}”: {tuning} steps of Adam on the labelled titles. With {few} of "
        "them: "
        + ", ".join(f"{way} {lines[1]:.0f}%" for way, lines in means.items())
        + f"; with {many}: "
        + ", ".join(f"{lines[-1]:.0f}%" for lines in means.values())
        + f". Accuracy on {TESTED} titles that were in no training. Mean and range of {tries} "
        f"draws of titles and of the new layer, seed {seed}."
    )
    with Board(caption, (1.7, 1), details) as board:
        axes = board.chart(0, "accuracy", "labelled titles", "percent")
        for (way, lines), style in zip(accuracies.items(), LINE_STYLES, strict=False):
            low, high = ([pick(draws) for draws in lines] for pick in (min, max))
            axes.fill_between(EXAMPLES, low, high, color=style.colour, alpha=0.13, linewidth=0)
            axes.curve(EXAMPLES, means[way], style=style, marker=style.marker, label=way)
        guess = 100 / len(TOPICS)
        axes.axhline(guess, color=MUTED, linewidth=1.2, linestyle=":", label="guessing")
        axes.log_axis("x", EXAMPLES)
        axes.set_ylim(0, 104)
        axes.draw_legend("lower right")
        _draw_parts(board, learned)
        return board.drawing(
            examples=list(EXAMPLES),
            guessing=guess,
            holes_right=right,
            **{f"accuracy_{key_of(way)}": line for way, line in means.items()},
            **{f"parameters_{key_of(way)}": count for way, count in learned.items()},
        )


def _labelled(seed: int) -> tuple[list[LabelledText], list[LabelledText]]:
    """Distinct titles with alternating topics: the test set, and the pool of examples."""
    titles = sentences(TESTED + POOL, f"{seed} titles", TITLES)
    examples = [LabelledText(text, None, topic) for text, topic in titles]
    return examples[:TESTED], examples[TESTED:]


def _draw_examples(pool: Sequence[LabelledText], seed: int) -> list[LabelledText]:
    """The largest set of labelled examples, drawn from the pool, with alternating topics."""
    dice = random.Random(f"{seed} some")
    by_topic = [[example for example in pool if example.label == topic] for topic in TOPICS]
    drawn = [dice.sample(examples, EXAMPLES[-1] // len(TOPICS)) for examples in by_topic]
    return [example for turn in zip(*drawn, strict=True) for example in turn]


def _begin(base: Pretrained, way: str, seed: int) -> Encoder:
    """A model with a new layer for the topics; other weights are pretrained or new, by `way`."""
    torch.manual_seed(seed)
    named = base.model.config.changed(classes=tuple(TOPICS))
    model: Encoder = build(with_task_head("classify", named), base.model.vocab)
    frozen = WAYS[way]
    if frozen is not None:
        recipe = load_recipe("own/classify", [f"start.freeze={frozen}"])
        start = RunStart(recipe, config=base.model.config, weights=base.model.state_dict())
        start.prepare(model)
    return model


def _trained(model: Encoder) -> int:
    """The number of trainable parameters."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def _tune(
    model: Encoder,
    base: Pretrained,
    examples: Sequence[LabelledText],
    test: Sequence[LabelledText],
    steps: int,
    seed: int,
    frozen: str | None,
    on_step: OnStep,
) -> float:
    """Train on the examples; returns the accuracy on the test set in percent."""
    settings = ReadingOptions(longest=LENGTH, batch_tokens=MOST, seed=seed)
    task = Classify(base.vocabulary, examples, test, tuple(TOPICS), settings)
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    rate = RATES.get(str(frozen), RATE)
    train_on(task, model, Descent(learning, rate, on_step, partial(course, steps=steps)), steps)
    return task.evaluate(model)["accuracy"]


def _draw_parts(board: Board, learned: dict[str, int]) -> None:
    """Draw the number of trainable parameters of each way to train."""
    axes = board.chart(1, "trained parameters", "thousand parameters", "", ticks=10)
    for index, ((way, count), style) in enumerate(zip(learned.items(), LINE_STYLES, strict=False)):
        axes.barh(index, count / 1000, 0.45, color=style.colour)
        axes.write((0, index - 0.28), f" {way}: {count:,}", va="bottom")
    axes.set_yticks([])
    axes.set_ylim(len(learned) - 0.4, -0.75)
    axes.grid(visible=False, axis="y")
