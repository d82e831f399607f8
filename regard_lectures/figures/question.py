"""Figure of part 3: the head that asks “Any adjectives in front of me?”, taken away.

The lecture describes a head by what its queries ask. Here nouns ask for the adjectives in front of
them. A decoder reads English noun phrases and is then asked for German endings:

    fluffy blue creature old dog = blau es alt er flauschig es

The ending after `blau` depends on the gender of the noun that `blue` stands before. A decoder of
two layers can find it so: in layer 0 each noun reads the adjectives in front of it, in layer 1
`blau` finds the noun that has read `blue`. The stems come in random order, so that the order of the
phrases does not help.

In ordinary training several heads of layer 0 share this work and no single one is needed. So the
other heads are dropped at times in training (DropHead, Zhou et al. 2020). The head is then found by
its weights alone, and each head is knocked out in turn. With `model=`, the same is measured in a
translator: see `endings.py`. A sentence of other words than the decoder's is read by a translator.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from regard.draw import BLUE, MUTED, ORANGE, positive_scale
from regard.errors import InputError
from regard.explain import Board, Drawing, Words, in_words
from regard.inputs import Ragged
from regard.layers import Edit, Tap, knock_out, split_head
from regard.models import Decoder, GPTConfig, evaluating
from regard_lectures import results
from regard_lectures.figures.descent import Descent, draw_for_narrow
from regard_lectures.figures.endings import (
    draw_bars,
    draw_translator,
    measure_translator,
    stands_out,
    words_translator,
)
from regard_lectures.figures.phrase_scores import causal_weights, scores_apart
from regard_lectures.progress import OnStep, training_progress
from regard_lectures.tries import span, trainings

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
MOST_WORDS = 12
"""The most words of the phrases in the picture."""
TRANSLATOR, SENTENCES = "small/translate", 40
"""The translator that reads other words, and how many sentences it is measured with."""
HEADS, DIM, HIDDEN, BATCH, RATE, WARMUP = 4, 64, 128, 48, 0.003, 50
SPARED = 0
"""The head of layer 0 that is never dropped in training."""
DROPPED = 0.9
"""The share of examples in which the other heads of layer 0 are dropped, all together."""
ONE_DROPPED = 0.2
"""The share of examples in which a random head of layer 1 is dropped."""
READ = (BEGIN, *NOUNS, *STEMS)
"""The tokens of the phrases."""
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
    """Zero all heads but one in some examples; (batch, heads, query, head_dim), layer 0."""
    keep = (torch.rand(len(heads), 1) >= DROPPED).float().repeat(1, HEADS)  # (batch, heads)
    keep[:, SPARED] = 1
    return heads * keep[:, :, None, None]


def drop_one(heads: Tensor) -> Tensor:
    """Zero one random head in some examples; (batch, heads, query, head_dim), layer 1."""
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


def read_phrases(text: str) -> list[str] | None:
    """The tokens of the user's phrases; None if the decoder does not know one of their words.

    Raises:
        InputError: If there is no noun after an adjective.

    Example:
        >>> read_phrases("Old dog, wild young cat.")
        ['start', 'old', 'dog', 'wild', 'young', 'cat']
        >>> read_phrases("The old dog sleeps.")
    """
    words = re.findall(r"\w+", text.lower())
    if not words or any(word not in NOUNS and word not in STEMS for word in words):
        return None
    if not any(a in STEMS and b in NOUNS for a, b in pairwise(words)):
        raise InputError(
            "--text", got=repr(text), expected="an adjective before a noun",
            fix=f"such as '{TEXT}', or any sentence, which {TRANSLATOR} reads",
        )  # fmt: skip
    return [BEGIN, *words]


def measure(
    text: str | None, model: str, pairs: int, steps: int, tries: int, seed: int
) -> dict[str, Any]:
    """Find the head by its weights from nouns to adjectives; count endings without each head.

    Args:
        text: Noun phrases whose weights in the head found are drawn, or a sentence, which a
            translator reads.
        model: A translator to German; empty to train a decoder.
        pairs: The number of examples that are measured.
        steps: The training steps of the decoder.
        tries: The number of trainings, with the seeds `seed`, `seed + 1`, and so on.
        seed: The seed of everything random.
    """
    tokens = None if model else read_phrases(TEXT if text is None else text)
    if tokens is None:
        return measure_translator(text, model or TRANSLATOR, pairs if model else SENTENCES, seed)
    options = {"model": model, "pairs": pairs, "steps": steps, "tries": tries, "seed": seed}
    result = results.stored("question", options) if text is not None else None
    if result is None:
        with training_progress(steps * tries) as on_step:
            runs = [_measured_run(pairs, steps, seed + run, on_step) for run in range(tries)]
        result = {"runs": runs, "pairs": pairs, "steps": steps}
    return {**result, "text": text or "", "tokens": tokens}


def _measured_run(pairs: int, steps: int, seed: int, on_step: OnStep) -> dict[str, Any]:
    """Train one decoder; the head found, and the endings that are wrong without each head."""
    trained = train(steps, seed, on_step)
    draw = random.Random(f"unseen {seed}")
    examples = [draw_example(draw) for _ in range(pairs)]
    asked, weight = Asked(examples), noun_to_adjectives(trained, examples)
    # in layer 0, whose queries know their own word alone
    head = max((name for name in weight if ".0." in name), key=weight.__getitem__)
    return {
        "head": head,
        "endings": len(asked.genders),
        "weight": weight,
        "wrong": {name: wrong_endings(trained, asked, [name]) for name in weight},
        "wrong_with_all": wrong_endings(trained, asked),
        "guess": asked.guess(),
        "scores": scores_apart(trained, head, [_ID[token] for token in READ], MOST_WORDS + 1),
    }


def words_question(numbers: Mapping[str, Any]) -> Words:
    """Whether endings fail without the head that looks from nouns to adjectives."""
    if "sentences" in numbers:
        return words_translator(numbers)
    without_head, others, clear = (
        numbers[key] for key in ("wrong_without", "others", "stands_out")
    )
    asks = "A head asks “Any adjectives in front of me?”"
    if all(clear):
        title = f"{asks} Endings fail without it"
    elif any(clear):
        title = f"{asks} Endings fail without it in {sum(clear)} of {len(clear)} trainings"
    else:
        title = "No single head that looks from nouns to adjectives is needed for endings"
    trainings_phrase = (
        "In one training" if len(without_head) == 1 else f"In {len(without_head)} trainings"
    )
    caption = (
        f"{trainings_phrase} {span(without_head, '.0f')}% of German endings are wrong without the "
        "head of layer 0 that attends most from nouns to adjectives (weight "
        f"{span(numbers['weights_found'], '.2f')}), without any other head at most "
        f"{max(others):.1f}%. In {DROPPED:.0%} of the training "
        "examples all others of layer 0 but one were off."
    )
    return Words(title, caption)


def question(
    measured: dict[str, Any], model: str, pairs: int, steps: int, tries: int, seed: int
) -> Drawing:
    """Draw the head's map, the weights from nouns to adjectives, and the endings without heads."""
    del model  # what was measured says which
    if "sentences" in measured:
        return draw_translator(measured, seed)
    runs, tokens = measured["runs"], measured["tokens"]
    first = runs[0]
    best = first["head"]
    worst = [max(v for head, v in run["wrong"].items() if head != run["head"]) for run in runs]
    wrong = [run["wrong"][run["head"]] for run in runs]
    shown = tokens[: MOST_WORDS + 1]
    numbers: dict[str, Any] = {
        "head": best,
        "heads": list(first["weight"]),
        "weight": list(first["weight"].values()),
        "wrong": list(first["wrong"].values()),
        "wrong_with_all": first["wrong_with_all"],
        "guess": first["guess"],
        "endings": first["endings"],
        "heads_found": [run["head"] for run in runs],
        "weights_found": [run["weight"][run["head"]] for run in runs],
        "wrong_without": wrong,
        "others": worst,
        "stands_out": [
            stands_out(without_head, other, run["endings"])
            for without_head, other, run in zip(wrong, worst, runs, strict=True)
        ],
        "words": len(tokens) - 1,
        "tokens": shown,
        "map": causal_weights(first["scores"], [READ.index(token) for token in shown]),
    }
    with Board(words_question(numbers), (1.3, 1, 1), _details(numbers, pairs, steps, seed),
               limits=f"A decoder of 2 × {HEADS} heads, {steps:,} steps on phrases of "
               f"{len(NOUNS) + len(STEMS)} words, {trainings(tries)}.") as board:  # fmt: skip
        _draw(board, numbers, seed)
        return board.drawing(**numbers)


def _details(numbers: Mapping[str, Any], pairs: int, steps: int, seed: int) -> str:
    return (
        f"A decoder of 2 layers of {HEADS} heads, {DIM} wide, reads {PHRASES} noun phrases and is "
        "asked for the endings of their adjectives, in random order: “fluffy blue creature old dog "
        f"= blau-es alt-er flauschig-es”. {steps} steps of Adam at {RATE:g} with {BATCH} examples, "
        f"seeds from {seed}. In {DROPPED:.0%} of the training examples all heads of layer 0 but "
        f"one were dropped, in {ONE_DROPPED:.0%} one of layer 1. Drawn is seed {seed}, measured "
        f"with {numbers['endings']} endings of {pairs} new examples: "
        f"{numbers['wrong_with_all']:.1f}% are wrong with all heads; guessing the gender that most "
        f"nouns of the example have, {numbers['guess']:.0f}% (dotted). Found in each training: "
        f"{', '.join(map(in_words, numbers['heads_found']))}; the search does not know which head "
        "was spared. Trained in the ordinary way, several heads of layer 0 do this work together: "
        "see docs/lab.md."
    )


def _draw(board: Board, numbers: Mapping[str, Any], seed: int) -> None:
    """Draw the map of the head found, and two bars for each head."""
    heads, best, tokens = numbers["heads"], numbers["head"], numbers["tokens"]
    short = [f"{layer[8:-5]}.{number}" for layer, number in map(split_head, heads)]
    left_out = numbers["words"] - len(tokens) + 1
    key = f"key (the first {len(tokens) - 1} of {numbers['words']} words)" if left_out else "key"
    weights = [
        [weight if column <= row else math.nan for column, weight in enumerate(line)]
        for row, line in enumerate(numbers["map"])
    ]
    heading = f"layer.head {short[heads.index(best)]}, seed {seed}"
    board.matrix(0, heading, weights, positive_scale(), (tokens, tokens), ("query", key))
    colours = [ORANGE if head == best else BLUE for head in heads]
    axes = board.chart(1, "weight", "", "from noun to adjectives", ticks=48)
    said = [f"{value:.2f}" for value in numbers["weight"]]
    draw_bars(axes, short, numbers["weight"], said, colours)
    axes = board.chart(2, "without the head", "", "% of endings wrong", ticks=48)
    said = [f"{value:.1f}%" for value in numbers["wrong"]]
    draw_bars(axes, short, numbers["wrong"], said, colours)
    axes.axvline(numbers["guess"], color=MUTED, linewidth=1.4, linestyle=":")
