"""Figure of part 6: fine-tuning a pretrained model with a new output layer on few labels.

A small BERT is pretrained on thousands of unlabelled sentences. Then it is fine-tuned to classify
the topic of short titles from few labelled examples, as `regard train own/classify` does: all
weights, half of them, or only the new layer are trained; for comparison, the same model from
scratch. The labelled texts can be a person's own table, which a shipped encoder learns, or another.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from regard import RunStart
from regard.data import LabelledText, read_labelled
from regard.draw import LINE_STYLES, MUTED, TEXT, shorten
from regard.errors import InputError
from regard.explain import Board, Drawing, Numbers, Words, key_of
from regard.inputs import Vocabulary
from regard.models import Encoder, build
from regard.recipes import load as load_recipe
from regard.tasks import Classify, ReadingOptions, with_task_head
from regard_lectures.figures.descent import Descent, train_on
from regard_lectures.figures.encoders import SHIPPED, load_encoder
from regard_lectures.figures.topics import (
    LENGTH,
    SENTENCES,
    TITLES,
    course,
    pretrain,
    sentences,
)
from regard_lectures.progress import OnStep, training_progress

EXAMPLES = (4, 8, 16, 32, 64)
TESTED, POOL = 200, 160
"""The number of test texts, at most, and of titles from which labelled examples are drawn."""
OWN_TESTED = 0.4
"""The share of a person's own texts that tests."""
FEWEST = 20
"""Fewer texts than this are refused."""
WAYS = ("all of it learns", "half frozen", "encoder frozen", "from scratch")
SMALL_RATES = {
    "encoder frozen": 1e-2,
    "half frozen": 2e-3,
    "all of it learns": 2e-3,
    "from scratch": 2e-3,
}
"""Adam's learning rates for a small model: a new layer alone tolerates a higher one."""
RATES = {
    "encoder frozen": 3e-3,
    "half frozen": 3e-4,
    "all of it learns": 3e-4,
    "from scratch": 3e-4,
}
"""The same for a model of one's own, or a shipped one."""
MOST, OWN_LENGTH = 1024, 64
"""Tokens per batch, and of one's own text."""
MARGIN = 5
"""Smaller differences, in percent of the texts, are not called any."""


@dataclass(frozen=True)
class Setting:
    """What is fine-tuned on what.

    Attributes:
        model: The pretrained model.
        vocabulary: Its vocabulary.
        test: Texts to measure on.
        pool: Texts from which labelled examples are drawn.
        longest: The longest text in tokens.
        steps: Training steps.
        rates: The learning rate of each way.
        said: The model, and how it was pretrained.
    """

    model: Encoder
    vocabulary: Vocabulary
    test: Sequence[LabelledText]
    pool: Sequence[LabelledText]
    longest: int
    steps: int
    rates: dict[str, float]
    said: str

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the texts that can be learned, sorted."""
        return tuple(sorted({example.label for example in self.pool}))

    @property
    def examples(self) -> list[int]:
        """The numbers of labelled texts: at least one for each label, at most all."""
        return [n for n in EXAMPLES if len(self.labels) <= n <= len(self.pool)]

    @property
    def freezes(self) -> dict[str, str | None]:
        """The value of `start.freeze` for each way to train; None: from scratch."""
        half = str(sum(self.model.config.stacks.values()) // 2)
        return dict(zip(WAYS, ("none", half, "all", None), strict=True))


def measure(steps: int, tries: int, data: str, model: str, seed: int) -> dict[str, Any]:
    """Fine-tune an encoder in each way on each number of labelled texts, drawn several times.

    Returns:
        `accuracies` on new texts by way (examples, tries), the `parameters` that each way trains,
        and what was learned.
    """
    setting = _read_setting(steps, data, model, seed)
    with training_progress(setting.steps * tries * len(WAYS) * len(setting.examples)) as on_step:
        accuracies = _accuracies(setting, tries, seed, on_step)
    counts = [sum(text.label == label for text in setting.test) for label in setting.labels]
    task = _task(setting, setting.pool, setting.test, seed)
    cut = [max(0, len(task.tokenizer.encode(text.text)) - task.max_row_tokens(setting.longest))
           for text in (*setting.pool, *setting.test)]  # fmt: skip
    return {
        "examples": setting.examples,
        "labels": list(setting.labels),
        "accuracies": accuracies,
        "parameters": {way: _trained(_begin(setting, way, seed)) for way in WAYS},
        "most_frequent": 100 * max(counts) / len(setting.test),
        "tested": len(setting.test),
        "cut": sum(beyond > 0 for beyond in cut),
        "steps": setting.steps,
        "said": setting.said,
        "text": setting.test[0].text,
    }


def _read_setting(steps: int, data: str, model: str, seed: int) -> Setting:
    """What the options ask for: by default a new model, and titles of its language."""
    test, pool = _split(read_own(data), seed) if data else _titles(seed)
    if not data and not model:
        base = pretrain(steps, seed)
        said = f"a BERT pretrained for {steps} steps on {SENTENCES:,} artificial sentences"
        tuning = max(1, steps // 10)
        return Setting(base.model, base.vocabulary, test, pool, LENGTH, tuning, SMALL_RATES, said)
    pipeline = load_encoder(model or SHIPPED)
    assert pipeline.vocabulary is not None  # load_encoder refuses others
    longest = min(OWN_LENGTH, pipeline.model.config.max_length)
    tuning = max(1, steps // 20)
    said = shorten("/".join(Path(model or SHIPPED).parts[-2:]), 300, TEXT)
    return Setting(pipeline.model, pipeline.vocabulary, test, pool, longest, tuning, RATES, said)


def read_own(file: str) -> list[LabelledText]:
    """All labelled texts of a table, read as `regard train own/classify` reads them.

    Raises:
        InputError: If it cannot be read, or has too few texts or too many labels.
    """
    texts: list[LabelledText] = read_labelled(file, "classify")[0]
    labels = {text.label for text in texts}
    if len(texts) < FEWEST or not 2 <= len(labels) <= EXAMPLES[-1] // 2:
        raise InputError(
            f"data={file}",
            got=f"{len(texts)} texts with {len(labels)} labels",
            expected=f"{FEWEST} texts or more with 2 to {EXAMPLES[-1] // 2} labels",
        )
    return texts


def _split(
    texts: Sequence[LabelledText], seed: int
) -> tuple[list[LabelledText], list[LabelledText]]:
    """Shuffled: the test set, and the pool of examples. The pool has every label."""
    shuffled = random.Random(f"{seed} own").sample(list(texts), len(texts))
    first: dict[str, LabelledText] = {}
    for text in shuffled:
        first.setdefault(text.label, text)
    others = [text for text in shuffled if text is not first[text.label]]
    tested = min(TESTED, round(OWN_TESTED * len(texts)), len(others))
    return others[:tested], [*first.values(), *others[tested:]]


def _titles(seed: int) -> tuple[list[LabelledText], list[LabelledText]]:
    """Distinct titles with alternating topics: the test set, and the pool of examples."""
    titles = sentences(TESTED + POOL, f"{seed} titles", TITLES)
    examples = [LabelledText(text, None, topic) for text, topic in titles]
    return examples[:TESTED], examples[TESTED:]


def _accuracies(
    setting: Setting, tries: int, seed: int, on_step: OnStep
) -> dict[str, list[list[float]]]:
    """The accuracies after fine-tuning, by way: (examples, tries)."""
    draws = [_draw_examples(setting, seed + number) for number in range(tries)]
    by_way: dict[str, list[list[float]]] = {way: [] for way in WAYS}
    for way, examples in itertools.product(WAYS, setting.examples):
        accuracies = []
        for number, draw in enumerate(draws):
            chosen = draw[:examples]  # smaller sets are prefixes of larger ones
            accuracies.append(_tune(setting, way, chosen, seed + number, on_step))
        by_way[way].append(accuracies)
    return by_way


def _draw_examples(setting: Setting, seed: int) -> list[LabelledText]:
    """All labelled examples in a random order with alternating labels, as long as they last."""
    dice = random.Random(f"{seed} some")
    by_label = [
        [example for example in setting.pool if example.label == label] for label in setting.labels
    ]
    drawn = [dice.sample(examples, len(examples)) for examples in by_label]
    turns = itertools.zip_longest(*drawn)
    return [example for turn in turns for example in turn if example is not None]


def _begin(setting: Setting, way: str, seed: int) -> Encoder:
    """A model with a new layer for the labels; other weights are pretrained or new, by `way`."""
    torch.manual_seed(seed)
    named = setting.model.config.changed(classes=setting.labels)
    model: Encoder = build(with_task_head("classify", named), setting.model.vocab)
    frozen = setting.freezes[way]
    if frozen is not None:
        recipe = load_recipe("own/classify", [f"start.freeze={frozen}"])
        weights = setting.model.state_dict()
        RunStart(recipe, config=setting.model.config, weights=weights).prepare(model)
    return model


def _trained(model: Encoder) -> int:
    """The number of trainable parameters."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def _task(
    setting: Setting, examples: Sequence[LabelledText], test: Sequence[LabelledText], seed: int
) -> Classify:
    settings = ReadingOptions(longest=setting.longest, batch_tokens=MOST, seed=seed)
    return Classify(setting.vocabulary, examples, test, setting.labels, settings)


def _tune(
    setting: Setting, way: str, examples: Sequence[LabelledText], seed: int, on_step: OnStep
) -> float:
    """Train on the examples; returns the accuracy on the test set in percent."""
    model = _begin(setting, way, seed)
    task = _task(setting, examples, setting.test, seed)
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    schedule = partial(course, steps=setting.steps)
    train_on(task, model, Descent(learning, setting.rates[way], on_step, schedule), setting.steps)
    return task.evaluate(model)["accuracy"]


def numbers_of(measured: dict[str, Any], tries: int) -> Numbers:
    """What the picture shows and its words say."""
    return {
        "examples": measured["examples"],
        "labels": measured["labels"],
        "most_frequent": measured["most_frequent"],
        "tested": measured["tested"],
        "cut": measured["cut"],
        "tries": tries,
        **{f"accuracy_{key_of(way)}": lines for way, lines in measured["accuracies"].items()},
        **{f"parameters_{key_of(way)}": count for way, count in measured["parameters"].items()},
    }


def is_better(first: Sequence[float], other: Sequence[float]) -> bool:
    """Whether one of two ways is better in every draw, and by `MARGIN` on average."""
    gaps = [a - b for a, b in zip(first, other, strict=True)]
    return len(gaps) > 1 and min(gaps) > 0 and _mean(gaps) >= MARGIN


def words_finetuning(numbers: Numbers) -> Words:
    """Whether pretraining helps, with how many labels, and whether freezing does."""
    free, half, frozen, scratch = (numbers[f"accuracy_{key_of(way)}"] for way in WAYS)
    counts = numbers["examples"]
    helps = [n for n, a, b in zip(counts, free, scratch, strict=True) if is_better(a, b)]
    hurts = [n for n, a, b in zip(counts, free, scratch, strict=True) if is_better(b, a)]
    if numbers["tries"] == 1:
        title = "Fine-tuning: one draw of labels cannot tell whether pretraining helps"
    elif helps and not hurts:
        title = "Fine-tuning: pretraining helps "
        title += "with every number of labels" if helps == counts else f"with {_some(helps)} labels"
    elif hurts and not helps:
        title = f"Fine-tuning: pretraining does harm with {_some(hurts)} labels"
    elif helps:
        title = (
            f"Fine-tuning: pretraining helps with {_some(helps)} labels, not with {_some(hurts)}"
        )
    else:
        title = "Fine-tuning: these draws cannot tell whether pretraining helps"
    index = counts.index(helps[0]) if helps else 0
    means = [_mean(lines[index]) for lines in (free, half, frozen, scratch)]
    caption = (
        f"With {counts[index]} labels: all of it learns {means[0]:.0f}%, half frozen "
        f"{means[1]:.0f}%, encoder frozen {means[2]:.0f}%, from scratch {means[3]:.0f}% right "
        f"(dotted: the most frequent label, {numbers['most_frequent']:.0f}%). "
        f"{_said_freezing(frozen[index], free[index])}"
    )
    if numbers["cut"]:
        caption += f" {numbers['cut']} longer texts are cut."
    return Words(title, caption)


def _said_freezing(frozen: Sequence[float], free: Sequence[float]) -> str:
    if is_better(frozen, free):
        return "Freezing the encoder is better there."
    if is_better(free, frozen):
        return "Freezing the encoder is worse there."
    return "Whether freezing helps there these draws cannot tell."


def _some(counts: Sequence[int]) -> str:
    """Numbers of labels.

    Example:
        >>> _some([4, 8, 16])
        '4 to 16'
    """
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def finetuning(
    measured: dict[str, Any], steps: int, tries: int, data: str, model: str, seed: int
) -> Drawing:
    """Draw accuracy on new texts against the number of labelled ones, for each way to train."""
    del steps, model  # the result has them
    numbers = numbers_of(measured, tries)
    details = (
        f"An encoder, {measured['said']}, gets a new last layer and learns the label, one of "
        f"{len(numbers['labels'])}, of texts such as “{shorten(measured['text'], 600, TEXT)}”: "
        f"{measured['steps']} steps of Adam on the labelled texts in batches of {MOST:,} tokens. "
        f"Accuracy on {numbers['tested']} texts that were in no training. Lines: the mean of "
        f"{tries} draws of texts and of the new layer, seed {seed}; areas: from the least to the "
        f"largest. A difference counts from {MARGIN} points on, if every draw has it. Dotted: "
        "always the most frequent label. From scratch has the same few steps."
    )
    source = f", {shorten(Path(data).name, 250, TEXT)}" if data else ""
    draws = f"{tries} draws" if tries > 1 else "one draw"
    limits = f"{measured['said']}{source}; fine-tuned for {measured['steps']} steps; {draws}."
    limits = limits[0].upper() + limits[1:] if not data else limits
    with Board(words_finetuning(numbers), (1.7, 1), details, limits=limits) as board:
        _draw_accuracy(board, numbers)
        _draw_parts(board, measured["parameters"])
        return board.drawing(**numbers)


def _draw_accuracy(board: Board, numbers: Numbers) -> None:
    axes, counts = board.chart(0, "accuracy", "labelled texts", "percent"), numbers["examples"]
    for way, style in zip(WAYS, LINE_STYLES, strict=False):
        lines = numbers[f"accuracy_{key_of(way)}"]
        low, high = ([pick(draws) for draws in lines] for pick in (min, max))
        axes.fill_between(counts, low, high, color=style.colour, alpha=0.13, linewidth=0)
        means = [_mean(draws) for draws in lines]
        axes.curve(counts, means, style=style, marker=style.marker, label=way)
    axes.axhline(numbers["most_frequent"], color=MUTED, linewidth=1.2, linestyle=":")
    axes.log_axis("x", counts)
    axes.set_ylim(0, 104)
    axes.draw_legend("lower right")


def _draw_parts(board: Board, learned: dict[str, int]) -> None:
    """Draw the number of trainable parameters of each way to train."""
    axes = board.chart(1, "trained parameters", "thousand parameters", "", ticks=10)
    for index, ((way, count), style) in enumerate(zip(learned.items(), LINE_STYLES, strict=False)):
        axes.barh(index, count / 1000, 0.45, color=style.colour)
        axes.write((0, index - 0.28), f" {way}: {count:,}", va="bottom")
    axes.set_yticks([])
    axes.set_ylim(len(learned) - 0.4, -0.75)
    axes.grid(visible=False, axis="y")
