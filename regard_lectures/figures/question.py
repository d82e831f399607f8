"""Figure of part 3: the head that asks “Any adjectives in front of me?”, taken away.

The lecture describes a head by what its queries ask. Here nouns ask for the adjectives in front of
them. A decoder reads English noun phrases and is then asked for German endings:

    fluffy blue creature old dog = blau es alt er flauschig es

The ending after `blau` depends on the gender of the noun that `blue` stands before. A decoder of
two layers can find it so: in layer 1 each noun reads the adjectives in front of it, in layer 2
`blau` finds the noun that has read `blue`. The stems come in random order, so that the order of the
phrases does not help.

In ordinary training several heads of layer 1 share this work and no single one is needed. So the
other heads are dropped at times in training (DropHead, Zhou et al. 2020). The head is then found by
its weights alone, and each head is knocked out in turn. With `model=`, the same is measured in a
translator: see `endings.py`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from regard.draw import BLUE, MUTED, ORANGE, positive_scale
from regard.errors import InputError
from regard.explain import Board, Drawing, in_words
from regard.inputs import Ragged
from regard.layers import Edit, Tap, knock_out, split_head
from regard.models import Decoder, GPTConfig, evaluating
from regard_lectures.figures.descent import Descent, draw_for_narrow
from regard_lectures.figures.endings import (
    draw_bars,
    draw_translator,
    measure_translator,
    stands_out,
)
from regard_lectures.progress import OnStep, training_progress

ENDINGS = ("er", "e", "es")
"""The endings of an adjective without article: masculine, feminine, neuter (nominative)."""
NOUNS = {
    "dog": 0, "forest": 0, "bird": 0, "tree": 0, "cat": 1, "flower": 1, "mouse": 1, "town": 1,
    "creature": 2, "house": 2, "horse": 2, "book": 2,
}  # fmt: skip
"""The gender of each noun in German, as an index of `ENDINGS`."""
STEMS = {
    "fluffy": "flauschig", "blue": "blau", "green": "grün", "old": "alt", "small": "klein",
    "new": "neu", "wild": "wild", "young": "jung",
}  # fmt: skip
BEGIN, EQUALS = "start", "="
TOKENS = (BEGIN, EQUALS, *ENDINGS, *NOUNS, *STEMS, *(f"{stem}-" for stem in STEMS.values()))
TEXT = "fluffy blue creature, green forest, small old cat"
PHRASES = 3
"""Noun phrases of an example, each with one or two adjectives."""
HEADS, DIM, HIDDEN, BATCH, RATE, WARMUP = 4, 64, 128, 48, 0.003, 50
SPARED = 0
"""The head of layer 1 that is never dropped in training."""
DROPPED = 0.9
"""The share of examples in which the other heads of layer 1 are dropped, all together."""
ONE_DROPPED = 0.2
"""The share of examples in which a random head of layer 2 is dropped."""
_ID = {token: number for number, token in enumerate(TOKENS)}


@dataclass(frozen=True)
class Ending:
    """An ending that is asked for."""

    position: int
    """The position of the German stem; the ending is the token after it."""
    gender: int
    """The right ending, as an index of `ENDINGS`."""
    noun: int
    """The position of the noun."""
    adjectives: tuple[int, ...]
    """The positions of the adjectives in front of the noun."""


@dataclass(frozen=True)
class Example:
    """Noun phrases, stems in random order, and after each stem its ending."""

    tokens: list[str]
    endings: list[Ending]

    def ids(self) -> list[int]:
        """The ids of all tokens but the last, whose successor nobody asks for."""
        return [_ID[token] for token in self.tokens[:-1]]


def draw_example(draw: random.Random) -> Example:
    """Noun phrases of random words, none of which occurs twice."""
    nouns, adjectives = draw.sample(list(NOUNS), PHRASES), draw.sample(list(STEMS), len(STEMS))
    tokens, asked = [BEGIN], []
    for noun in nouns:
        chosen = [adjectives.pop() for _ in range(draw.choice((1, 2)))]
        positions = tuple(range(len(tokens), len(tokens) + len(chosen)))
        tokens += [*chosen, noun]
        asked += [
            (STEMS[adjective], NOUNS[noun], len(tokens) - 1, positions) for adjective in chosen
        ]
    tokens.append(EQUALS)
    draw.shuffle(asked)
    endings = []
    for stem, gender, position, positions in asked:
        endings.append(Ending(len(tokens), gender, position, positions))
        tokens += [f"{stem}-", ENDINGS[gender]]
    return Example(tokens, endings)


class Asked:
    """Examples as one input, with the endings that are asked for in them."""

    def __init__(self, examples: Sequence[Example]) -> None:
        self.examples = examples
        self.input = Ragged.of([example.ids() for example in examples])
        starts = [sum(self.input.lengths[:row]) for row in range(len(examples))]
        both = list(zip(starts, examples, strict=True))
        self.at = torch.tensor([s + end.position for s, example in both for end in example.endings])
        self.genders = torch.tensor([end.gender for example in examples for end in example.endings])

    def guess(self) -> float:
        """The percentage wrong of a guess that knows the nouns of a phrase but not whose it is.

        It is the gender that most nouns of the example have; of several, a random one.
        """
        wrong = []
        for example in self.examples:
            genders = [NOUNS[token] for token in example.tokens if token in NOUNS]
            most = max(map(genders.count, genders))
            modes = {gender for gender in genders if genders.count(gender) == most}
            wrong += [1 - (end.gender in modes) / len(modes) for end in example.endings]
        return 100 * sum(wrong) / len(wrong)


def drop_others(heads: Tensor) -> Tensor:
    """Zero all heads but one in some examples; (batch, heads, query, head_dim), layer 1."""
    keep = (torch.rand(len(heads), 1) >= DROPPED).float().repeat(1, HEADS)  # (batch, heads)
    keep[:, SPARED] = 1
    return heads * keep[:, :, None, None]


def drop_one(heads: Tensor) -> Tensor:
    """Zero one random head in some examples; (batch, heads, query, head_dim), layer 2."""
    which = torch.randint(HEADS, (len(heads), 1))
    drops = (torch.rand(len(heads), 1) < ONE_DROPPED).float()
    keep = 1 - torch.zeros(len(heads), HEADS).scatter(1, which, drops)  # (batch, heads)
    return heads * keep[:, :, None, None]


def train(steps: int, seed: int, on_step: OnStep) -> Decoder:
    """Train a decoder of two layers on endings alone, with heads dropped at random."""
    torch.manual_seed(seed)
    config = GPTConfig(
        layers=2, dim=DIM, heads=HEADS, hidden=HIDDEN, positions="buckets", tied=False,
        dropout=0.0, max_length=64,
    )  # fmt: skip
    model, draw = Decoder(config, len(TOKENS)), random.Random(seed)
    draw_for_narrow(model)
    descent = Descent(
        model.parameters(),
        RATE,
        on_step,
        lambda step: min(1.0, (step + 1) / WARMUP, 4 * (1 - step / steps)),
        beta=0.98,
    )
    edits = [Edit("decoder.0.self.heads", drop_others), Edit("decoder.1.self.heads", drop_one)]
    for _ in range(steps):
        batch = Asked([draw_example(draw) for _ in range(BATCH)])
        x = model.hidden(batch.input, Tap(edits=edits))[batch.at]  # (endings, dim)
        loss = model.head.loss(x, _ID[ENDINGS[0]] + batch.genders) / len(batch.genders)
        descent.step(loss, len(batch.input.ids))
    return model


def wrong_endings(model: Decoder, asked: Asked, without: Sequence[str] = ()) -> float:
    """The percentage of endings for which another one is more probable, without some heads."""
    first = _ID[ENDINGS[0]]
    with evaluating(model):
        logits = model(asked.input, Tap(edits=[knock_out(head) for head in without]))
    guesses = logits[asked.at, first : first + len(ENDINGS)].argmax(-1)
    return 100 * float((guesses != asked.genders).float().mean())


def noun_to_adjectives(model: Decoder, examples: Sequence[Example]) -> dict[str, float]:
    """The weight of each head from a noun to all adjectives in front of it, the mean of nouns."""
    tap = Tap("decoder.*.self.weights")
    with evaluating(model):
        model.hidden(Ragged.of([example.ids() for example in examples]), tap)
    nouns = {
        (row, end.noun, end.adjectives)
        for row, example in enumerate(examples)
        for end in example.endings
    }  # fmt: skip
    means = {}
    for head in model.heads():
        layer, number = split_head(head)
        weights = tap.records[f"{layer}.weights"][:, number]  # (batch, query, key)
        means[head] = sum(float(weights[r, n, list(a)].sum()) for r, n, a in nouns) / len(nouns)
    return means


def read_phrases(text: str) -> list[str]:
    """The tokens of the user's phrases.

    Raises:
        InputError: If there are other words, or no noun after an adjective.

    Example:
        >>> read_phrases("old dog, wild young cat")
        ['start', 'old', 'dog', 'wild', 'young', 'cat']
    """
    words = text.lower().replace(",", " ").split()
    unknown = [word for word in words if word not in NOUNS and word not in STEMS]
    pairs = pairwise(words)
    if unknown or not any(a in STEMS and b in NOUNS for a, b in pairs) or len(words) > 12:
        raise InputError(
            "text", got=repr(text), expected=f"up to 12 words, such as '{TEXT}'",
            fix=f"the words are {', '.join(STEMS)}; {', '.join(NOUNS)}",
        )  # fmt: skip
    return [BEGIN, *words]


def measure(text: str | None, model: str, pairs: int, steps: int, seed: int) -> dict[str, Any]:
    """Find the head by its weights from nouns to adjectives; count endings without each head.

    Args:
        text: Noun phrases whose weights in the head found are drawn, or a translator's sentence.
        model: A translator trained on the grammar; empty to train a decoder.
        pairs: The number of examples that are measured.
        steps: The training steps of the decoder.
        seed: The seed of everything random.
    """
    if model:
        return measure_translator(text, model, pairs, seed)
    tokens = read_phrases(TEXT if text is None else text)
    with training_progress(steps) as on_step:
        trained = train(steps, seed, on_step)
    draw = random.Random(f"unseen {seed}")
    examples = [draw_example(draw) for _ in range(pairs)]
    asked, weight = Asked(examples), noun_to_adjectives(trained, examples)
    head = max(weight, key=weight.__getitem__)
    layer, number = split_head(head)
    tap = Tap(f"{layer}.weights")
    with evaluating(trained):
        trained.hidden(Ragged.of([[_ID[token] for token in tokens]]), tap)
    return {
        "head": head,
        "endings": len(asked.genders),
        "weight": weight,
        "wrong": {name: wrong_endings(trained, asked, [name]) for name in weight},
        "wrong_with_all": wrong_endings(trained, asked),
        "guess": asked.guess(),
        "tokens": tokens,
        "map": tap.records[f"{layer}.weights"][0, number].tolist(),  # (query, key)
    }


def question(measured: dict[str, Any], model: str, pairs: int, steps: int, seed: int) -> Drawing:
    """Draw the head's map, the weights from nouns to adjectives, and the endings without heads."""
    if model:
        return draw_translator(measured, model, seed)
    best, count, guess = (measured[key] for key in ("head", "endings", "guess"))
    weight, wrong, tokens = (measured[key] for key in ("weight", "wrong", "tokens"))
    worst = max(value for head, value in wrong.items() if head != best)
    clear = stands_out(wrong[best], worst, count)
    others = "without others at most" if clear else "without another"
    caption = (
        f"Without it {wrong[best]:.0f}% of German endings are wrong, {others} {worst:.1f}%. The "
        "others in its layer were mostly off in training; else they share the work."
    )
    details = (
        f"A decoder of 2 layers of {HEADS} heads, {DIM} wide, reads {PHRASES} noun phrases and is "
        "asked for the endings of their adjectives, in random order: “fluffy blue creature old dog "
        f"= blau-es alt-er flauschig-es”. {steps} steps of Adam at {RATE:g} with {BATCH} examples, "
        f"seed {seed}. In {DROPPED:.0%} of the training examples all heads of layer 1 but one were "
        f"dropped, in {ONE_DROPPED:.0%} one of layer 2. Measured with {count} endings of {pairs} "
        f"new examples: {measured['wrong_with_all']:.1f}% are wrong with all heads; guessing the "
        f"gender that most nouns of the example have, {guess:.0f}% (dotted). The head found, "
        f"{in_words(best)}, has a mean weight of {weight[best]:.2f} from a noun to its "
        "adjectives. The search does not know which head was spared. Trained in the ordinary way, "
        "several heads of layer 1 do this work together, and no single one is needed: see "
        "docs/lab.md."
    )
    short = [f"{layer[8:-5]}.{number}" for layer, number in map(split_head, weight)]
    name = dict(zip(weight, short, strict=True))[best]
    with Board(caption, (1.3, 1, 1), details) as board:
        board.matrix(
            0, f"head {name}", measured["map"], positive_scale(), (tokens, tokens),
            ("query", "key"),
        )  # fmt: skip
        colours = [ORANGE if head == best else BLUE for head in weight]
        axes = board.chart(1, "weight", "", "from noun to adjectives", ticks=48)
        said = [f"{value:.2f}" for value in weight.values()]
        draw_bars(axes, short, list(weight.values()), said, colours)
        axes = board.chart(2, "without the head", "", "% of endings wrong", ticks=48)
        said = [f"{value:.1f}%" for value in wrong.values()]
        draw_bars(axes, short, list(wrong.values()), said, colours)
        axes.axvline(guess, color=MUTED, linewidth=1.4, linestyle=":")
        return board.drawing(
            head=best,
            stands_out=clear,
            endings=count,
            heads=list(weight),
            weight=list(weight.values()),
            wrong=list(wrong.values()),
            wrong_with_all=measured["wrong_with_all"],
            guess=guess,
        )
