"""Fine-tuning (part 6): pretrained weights, a new last layer, a few labelled sentences.

A small BERT has read thousands of sentences without a label. Then it is to tell the topic of short
titles from the few that have one, beginning as `regard train own/classify` does: all of it learns,
a part, or the new layer alone; beside it, the same model from scratch.
"""

from __future__ import annotations

import itertools
import random
import statistics
from collections.abc import Sequence

import torch

from regard.atlas.drawing import MARKERS, STROKES, Board, Drawing, key, label, powers
from regard.atlas.figures.descent import descend
from regard.atlas.figures.topics import (
    LENGTH,
    SENTENCES,
    TITLES,
    TOPICS,
    Pretrained,
    course,
    pretrain,
    sentences,
)
from regard.data.batch import Cursor
from regard.data.text.annotations import LabelledText
from regard.explain.colours import MUTED
from regard.models import Encoder, build
from regard.recipes import recipe as recipes
from regard.runs.start import Beginning
from regard.tasks import Classify
from regard.tasks.labelled import ReadingOptions, headed
from regard.train.adam import Adam

EXAMPLES = (4, 8, 16, 32, 64)
TESTED, POOL = 200, 160
"""Titles to test with, and to draw labelled ones from."""
WAYS: dict[str, str | None] = {
    "all of it learns": "none",
    "half frozen": "1",
    "encoder frozen": "all",
    "from scratch": None,
}
"""What `start.freeze` says; None: nothing to begin from."""
RATES = {"all": 1e-2}
"""Of Adam, by what is frozen; a new layer alone bears more."""
RATE = 2e-3
MOST = 512
"""Tokens of a batch."""


def finetuning(steps: int, tries: int, seed: int) -> Drawing:
    """Accuracy on new titles by how many labelled ones there are, for each way to begin."""
    base = pretrain(steps, seed)
    tuning = max(1, steps // 10)
    test, pool = _labelled(seed)
    draws = [_some(pool, seed + number) for number in range(tries)]
    found: dict[str, list[list[float]]] = {way: [] for way in WAYS}
    for way, examples in itertools.product(WAYS, EXAMPLES):
        accuracies = []
        for number, draw in enumerate(draws):
            some = draw[:examples]  # fewer are the beginning of more
            model = _begin(base, way, seed + number)
            accuracies.append(_tune(model, base, some, test, tuning, seed + number, WAYS[way]))
        found[way].append(accuracies)
    means = {way: [statistics.fmean(each) for each in lines] for way, lines in found.items()}
    learned = {way: _trained(_begin(base, way, seed)) for way in WAYS}
    few, many = EXAMPLES[1], EXAMPLES[-1]
    caption = (
        f"With {few} labelled titles, a model that had read without labels is right in "
        f"{means['all of it learns'][1]:.0f}%, the same model from scratch in "
        f"{means['from scratch'][1]:.0f}%."
    )
    details = (
        f"A BERT that filled holes in {SENTENCES:,} sentences without labels ({steps} steps, "
        f"{base.right:.0f}% of new holes right) gets a new last layer and learns to tell the topic "
        f"of a title, such as “{test[0].text}”, one of {len(TOPICS)}: {tuning} steps of Adam on "
        f"the labelled ones. With {few} of them: "
        + ", ".join(f"{way} {lines[1]:.0f}%" for way, lines in means.items())
        + f"; with {many}: "
        + ", ".join(f"{lines[-1]:.0f}%" for lines in means.values())
        + f". Measured on {TESTED} others; it had read none of them. Mean and range of {tries} "
        f"draws of titles and new layers, seed {seed}."
    )
    with Board(
        "Fine-tuning: what was read without labels saves labels", caption, (1.7, 1), details
    ) as board:
        axes = board.chart(0, "topics told right", "labelled titles", "percent")
        for (way, lines), (colour, dash), mark in zip(
            found.items(), STROKES, MARKERS, strict=False
        ):
            low, high = ([pick(each) for each in lines] for pick in (min, max))
            axes.fill_between(EXAMPLES, low, high, color=colour, alpha=0.13, linewidth=0)
            axes.plot(
                EXAMPLES, means[way], color=colour, linestyle=dash, linewidth=2.6, marker=mark,
                label=way,
            )  # fmt: skip
        guess = 100 / len(TOPICS)
        axes.axhline(guess, color=MUTED, linewidth=1.2, linestyle=":", label="guessing")
        powers(axes, "x", EXAMPLES)
        axes.set_ylim(0, 104)
        key(axes, "lower right")
        _draw_parts(board, learned)
        return board.drawing(
            {
                "examples": list(EXAMPLES),
                "guessing": guess,
                "holes_right": base.right,
                **{f"accuracy_{_named(way)}": line for way, line in means.items()},
                **{f"parameters_{_named(way)}": count for way, count in learned.items()},
            }
        )


def _named(way: str) -> str:
    return way.replace(" ", "_")


def _labelled(seed: int) -> tuple[list[LabelledText], list[LabelledText]]:
    """Different titles with their topics, which take turns: to test with, and to learn from."""
    titles = sentences(TESTED + POOL, f"{seed} titles", TITLES)
    made = [LabelledText(text, None, topic) for text, topic in titles]
    return made[:TESTED], made[TESTED:]


def _some(pool: Sequence[LabelledText], seed: int) -> list[LabelledText]:
    """The most that are learned from, drawn from the pool; the topics take turns."""
    dice = random.Random(f"{seed} some")
    each = [[one for one in pool if one.label == topic] for topic in TOPICS]
    drawn = [dice.sample(ones, EXAMPLES[-1] // len(TOPICS)) for ones in each]
    return [one for turn in zip(*drawn, strict=True) for one in turn]


def _begin(base: Pretrained, way: str, seed: int) -> Encoder:
    """A model with a new layer for the topics, its other weights those of the pretrained one."""
    torch.manual_seed(seed)
    named = base.model.config.model_copy(update={"classes": tuple(TOPICS)})
    model: Encoder = build(headed("classify", named), base.model.vocab)
    frozen = WAYS[way]
    if frozen is not None:
        recipe = recipes.load("own/classify", [f"start.freeze={frozen}"])
        start = Beginning(recipe, config=base.model.config, weights=base.model.state_dict())
        start.prepare(model)
    return model


def _trained(model: Encoder) -> int:
    """How many parameters learn."""
    return sum(each.numel() for each in model.parameters() if each.requires_grad)


def _tune(
    model: Encoder,
    base: Pretrained,
    examples: Sequence[LabelledText],
    test: Sequence[LabelledText],
    steps: int,
    seed: int,
    frozen: str | None,
) -> float:
    """Trains on the examples; returns the percent of the test that is told right."""
    settings = ReadingOptions(longest=LENGTH, batch_tokens=MOST, seed=seed)
    task = Classify(base.vocabulary, examples, test, tuple(TOPICS), settings)
    learning = [each for each in model.parameters() if each.requires_grad]
    rate = RATES.get(str(frozen), RATE)
    optimizer = Adam(learning, lr=rate, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: course(step, steps))
    for _, (batch, _) in zip(range(steps), task.batches(Cursor()), strict=False):
        descend(optimizer, task.loss(model, batch) / task.targets(batch))
        schedule.step()
    return task.evaluate(model)["accuracy"]


def _draw_parts(board: Board, learned: dict[str, int]) -> None:
    """How many parameters learn in each way."""
    axes = board.chart(1, "what learns", "thousand parameters", "", beside=10)
    for place, ((way, count), (colour, _)) in enumerate(
        zip(learned.items(), STROKES, strict=False)
    ):
        axes.barh(place, count / 1000, 0.45, color=colour)
        label(axes, (0, place - 0.28), f" {way}: {count:,}", va="bottom")
    axes.set_yticks([])
    axes.set_ylim(len(learned) - 0.4, -0.75)
    axes.grid(visible=False, axis="y")
