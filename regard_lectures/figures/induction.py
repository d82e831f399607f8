"""Figure of part 6: in-context learning, which two attention layers learn and one does not.

The texts are repeated random patterns: only the text itself determines the next token. To predict
it, find the previous occurrence of the current token and copy the token that followed. That takes
two heads in consecutive layers: a *previous-token head* writes into each position which token
precedes it; an *induction head* attends to the position whose preceding token is the current one,
and copies its token (Elhage et al. 2021, Olsson et al. 2022). One head is useless without the
other, so the ability appears suddenly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations, islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.draw import positive_scale
from regard.errors import InputError
from regard.explain import Board, Drawing, Numbers, Words
from regard.inputs import Ragged
from regard.layers import Tap, knock_out
from regard.models import Decoder, GPTConfig
from regard_lectures.figures.descent import Descent, next_token_loss, warming
from regard_lectures.figures.induction_panels import (
    FOUND,
    ROLES,
    SHORT_ROLES,
    draw_bars,
    draw_losses,
    draw_scores,
)
from regard_lectures.progress import OnStep, training_progress
from regard_lectures.tries import how_often, listed, span, trainings

VOCAB, LENGTH, BATCH = 64, 64, 32
PERIODS = (16, 48)
"""The shortest and the longest pattern. With a single length, one head could attend to that fixed
distance."""
RATE, WARMUP = 0.003, 50
UNSEEN = 64
"""The number of held-out texts."""
MEASURES = 100
"""The minimum number of measurements during a training."""
LEARNED = 0.2
"""A loss below this share of a guess counts as learned."""
DRAWS = 20
"""The largest number of sets of other heads that are knocked out."""


def draw_texts(count: int, data: torch.Generator) -> Tensor:
    """Random patterns, each repeated up to the full length: (count, LENGTH + 1).

    All tokens of a pattern differ, so that the previous occurrence of a token is unique.
    """
    patterns = torch.rand(count, VOCAB, generator=data).argsort(1)
    periods = torch.randint(PERIODS[0], PERIODS[1] + 1, (count, 1), generator=data)
    return patterns.gather(1, torch.arange(LENGTH + 1) % periods)


def tokens_after(ids: Tensor) -> Tensor:
    """For each query, the keys that directly follow an earlier occurrence of the query's token.

    ids (batch, length) -> (batch, query, key), True for j <= i with ids[j - 1] = ids[i].
    """
    after = torch.zeros(*ids.shape, ids.shape[1], dtype=torch.bool)
    after[:, :, 1:] = ids[:, :, None] == ids[:, None, :-1]
    return after.tril()


class Measure:
    """Held-out texts, on which losses and attention weights are measured."""

    def __init__(self, seed: int) -> None:
        text = draw_texts(UNSEEN, torch.Generator().manual_seed(seed + 1))
        self.ids = text[:, :-1]
        self.texts = Ragged(self.ids.flatten(), (LENGTH,) * UNSEEN)
        self.after = tokens_after(self.ids)  # (batch, query, key)
        self.again = self.after.any(-1)  # (batch, query): the next token can be known from the text
        self.wanted = text[:, 1:][self.again]
        self.unordered = self._unordered(text[:, 1:])

    def _unordered(self, wanted: Tensor) -> float:
        """The loss of predicting all tokens at possible pattern distances with equal probability.

        One layer can weight tokens by their distance only: at best, a token's probability is its
        share among the tokens from the shortest to the longest pattern length back.
        """
        positions = torch.arange(LENGTH)
        back = positions[:, None] + 1 - positions  # (query, key): distance from the next token
        possible = (back >= PERIODS[0]) & (back <= min(PERIODS[1], LENGTH)) & (positions > 0)
        right = possible & (self.ids[:, None] == wanted[:, :, None])  # (batch, query, key)
        shares = right.sum(-1) / possible.sum(-1)  # (batch, query)
        return float(-shares[self.again].log().mean())

    @torch.no_grad()
    def loss(self, model: Decoder, without: Sequence[str] = ()) -> float:
        """The mean loss at repeated positions, with some heads knocked out."""
        x = model.hidden(self.texts, Tap(edits=[knock_out(head) for head in without]))
        return float(model.head.loss(x[self.again.flatten()], self.wanted)) / len(self.wanted)

    @torch.no_grad()
    def weights(self, model: Decoder) -> list[Tensor]:
        """The attention weights of each layer: (batch, heads, query, key)."""
        tap = Tap("decoder.*.self.weights")
        model.hidden(self.texts, tap)
        return [tap.records[f"{layer.name}.weights"] for layer in model.decoder.attentions()]

    def induction(self, weights: Tensor) -> Tensor:
        """The mean weight on the token to copy, at repeated positions: (heads,)."""
        paid = (weights * self.after[:, None]).sum(-1)  # (batch, heads, query)
        return paid.transpose(1, 2)[self.again].mean(0)

    def back(self, weights: Tensor, distance: int) -> Tensor:
        """The mean weight on the token `distance` positions back: (heads,)."""
        return weights.diagonal(-distance, dim1=-2, dim2=-1).mean((0, 2))


@dataclass
class Course:
    """The measurements of a training at several steps."""

    steps: list[int] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    """The losses at repeated positions."""
    induction: list[list[float]] = field(default_factory=list)
    """(measurement, head) Weight on the token to copy, of the last layer's heads."""
    previous: list[list[float]] = field(default_factory=list)
    """(measurement, head) Weight on the previous token, of the first layer's heads."""

    def look(self, model: Decoder, step: int, measure: Measure) -> None:
        """Add the measurements at a step."""
        weights = measure.weights(model)
        self.steps.append(step)
        self.losses.append(measure.loss(model))
        self.induction.append(measure.induction(weights[-1]).tolist())
        self.previous.append(measure.back(weights[0], 1).tolist())

    def falls(self, guess: float) -> tuple[int, int] | None:
        """The last step with a loss above 70% of a guess, and the first below 20%; None if none."""
        low = next((i for i, loss in enumerate(self.losses) if loss < LEARNED * guess), None)
        if low is None:
            return None
        high = max(i for i in range(low) if self.losses[i] > 0.7 * guess)
        return self.steps[high], self.steps[low]

    def late_fall(self) -> float:
        """The decrease of the loss during the last fifth of the steps."""
        begin = next(i for i, step in enumerate(self.steps) if step >= 0.8 * self.steps[-1])
        return self.losses[begin] - self.losses[-1]


def train(
    layers: int, dim: int, heads: int, steps: int, seed: int, on_step: OnStep
) -> tuple[Decoder, Course]:
    """Train an attention-only decoder and measure it at several steps."""
    torch.manual_seed(seed)
    config = GPTConfig(
        layers=layers, dim=dim, heads=heads, feed_forward=False, positions="rotary",
        tied=False, dropout=0.0, max_length=LENGTH,
    )  # fmt: skip
    model, measure = Decoder(config, VOCAB), Measure(seed)
    descent = Descent(model.parameters(), RATE, on_step, warming(WARMUP), beta=0.98)
    data = torch.Generator().manual_seed(seed)  # the same texts for any number of layers
    course, every = Course(), max(1, steps // MEASURES)
    course.look(model, 0, measure)
    for step in range(1, steps + 1):
        descent.step(next_token_loss(model, draw_texts(BATCH, data)), BATCH * LENGTH)
        if step % every == 0 or step == steps:
            course.look(model, step, measure)
    return model, course


@dataclass(frozen=True)
class KnockOuts:
    """The heads of each role, and the loss at repeated positions when they are knocked out.

    Attributes:
        heads: The names of the heads, by role: `induction`, `previous` and `same`. Heads of the
            first layer that attend to the `same` token act as a per-token layer, which models
            without feed-forward layers lack.
        losses: The loss without the heads of each role.
        others: The number of other heads that were knocked out at a time.
        without_others: The loss for each set of other heads.
    """

    heads: dict[str, list[str]]
    losses: dict[str, float]
    others: int
    without_others: list[float]


def find(model: Decoder, measure: Measure) -> KnockOuts:
    """Find the heads of each role by their attention weights, and measure losses without them."""
    weights = measure.weights(model)

    def named(layer: int, scores: Tensor) -> list[str]:
        return [f"decoder.{layer}.self.{n}" for n, s in enumerate(scores.tolist()) if s >= FOUND]

    induction = named(len(weights) - 1, measure.induction(weights[-1]))
    previous = named(0, measure.back(weights[0], 1))
    same = [head for head in named(0, measure.back(weights[0], 0)) if head not in previous]
    heads = {"induction": induction, "previous": previous, "same": same}
    remaining = [head for head in model.heads() if head not in {*induction, *previous, *same}]
    others = min(len(remaining), max(len(induction), len(previous)))
    return KnockOuts(
        heads,
        {role: measure.loss(model, removed) for role, removed in heads.items()},
        others,
        [
            measure.loss(model, removed)
            for removed in islice(combinations(remaining, others), DRAWS)
        ],
    )


def measure(steps: int, dim: int, heads: int, tries: int, seed: int) -> dict[str, Any]:
    """Train two layers and one by several seeds; find the heads by their roles and remove them.

    Returns:
        `two` and `one`: the courses of each try; `found`: the heads of the roles and the losses
        without them; `unordered`: the loss of knowing the tokens but not their order; `map`: the
        weights of the best head of the first try for one text (query, key).

    Raises:
        InputError: If the width of a head is not an even number.
    """
    if dim % heads or dim // heads % 2:
        raise InputError(
            "heads", got=heads, expected=f"a number for which dim / heads = {dim} / heads is even"
        )
    result: dict[str, Any] = {"two": [], "one": [], "found": [], "unordered": []}
    with training_progress(2 * steps * tries) as on_step:
        for one_seed in range(seed, seed + tries):
            texts = Measure(one_seed)
            model, deep = train(2, dim, heads, steps, one_seed, on_step)
            _, shallow = train(1, dim, heads, steps, one_seed, on_step)
            result["two"].append(asdict(deep))
            result["one"].append(asdict(shallow))
            result["found"].append(asdict(find(model, texts)))
            result["unordered"].append(texts.unordered)
            if one_seed == seed:
                result["map"] = texts.weights(model)[1][0, _best_head(deep)].tolist()
            else:  # the curves of heads are drawn for the first seed alone
                for course in (result["two"][-1], result["one"][-1]):
                    course |= {role: course[role][-1:] for role in ("induction", "previous")}
    return result


def _best_head(two: Course) -> int:
    """The head of the last layer with the largest final weight on the token to copy."""
    last = two.induction[-1]
    return max(range(len(last)), key=last.__getitem__)


def numbers_of(measured: dict[str, Any]) -> Numbers:
    """What the picture shows and its words say; lists with a value for each try."""
    deep, shallow = ([Course(**course) for course in measured[name]] for name in ("two", "one"))
    knock_outs, guess = [KnockOuts(**run) for run in measured["found"]], math.log(VOCAB)
    return {
        "steps": deep[0].steps,
        "tries": len(deep),
        "guess": guess,
        "unordered": _mean(measured["unordered"]),
        "loss_two_layers": [course.losses[-1] for course in deep],
        "loss_one_layer": [course.losses[-1] for course in shallow],
        "one_layer_still_falls_by": [course.late_fall() for course in shallow],
        "fall": [list(course.falls(guess) or ()) for course in deep],
        "fall_one_layer": [list(course.falls(guess) or ()) for course in shallow],
        "heads_by_role": {role: [run.heads[role] for run in knock_outs] for role in ROLES},
        **{f"loss_without_{role}": [run.losses[role] for run in knock_outs] for role in ROLES},
        "other_heads": [run.others for run in knock_outs],
        "loss_without_others": [max(run.without_others) for run in knock_outs],
        "curve_two_layers": [course.losses for course in deep],
        "curve_one_layer": [course.losses for course in shallow],
        "curves_induction": deep[0].induction,
        "curves_previous": deep[0].previous,
        "induction_scores_one_layer": [course.induction[-1] for course in shallow],
        "best_head": _best_head(deep[0]),
        "map": measured["map"],
    }


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def words_induction(numbers: Numbers) -> Words:
    """Whether two layers learn it, whether one does, when, and whether the heads are needed."""
    guess, steps = numbers["guess"], numbers["steps"][-1]
    two, one_layer = (numbers[f"loss_{name}"] for name in ("two_layers", "one_layer"))
    deep, shallow = (
        how_often([loss < LEARNED * guess for loss in losses], verb, "learn it")
        for losses, verb in ((two, "learn it"), (one_layer, "learns it"))
    )
    deep = deep.replace("does not", "do not")
    if shallow.startswith("does not"):
        shallow = "nor does one" if deep.startswith("do not") else "one does not"
    else:
        shallow = f"one {shallow}"
    title = f"Copying from the context in {steps:,} steps: two layers {deep}, {shallow}"
    falls = [fall for fall in numbers["fall"] if fall]
    if falls:
        begin, end = (span(fall[side] for fall in falls) for side in (0, 1))
        when = f"falls from steps {begin} on, is low at {end}"
    else:
        when = f"does not fall to {LEARNED:.0%} of a guess"
    late = max(numbers["one_layer_still_falls_by"])
    still = "still falling" if late > 0.02 * guess else "no longer falling"
    caption = (
        f"Two layers: the loss {when}, ends at {span(two, '.2f')}; one: it ends at "
        f"{span(one_layer, '.2f')}, {still}. {_without(numbers)}"
    )
    return Words(title, caption)


def _without(numbers: Numbers) -> str:
    """Whether the heads that were found are needed: a sentence."""
    whole, others = numbers["loss_two_layers"], numbers["loss_without_others"]
    roles = [role for role in ROLES if any(numbers["heads_by_role"][role])]
    if not roles:
        return "No head of a role was found."
    needed = [
        role for role in roles
        if min(numbers[f"loss_without_{role}"]) - max(others) > 0.2 * numbers["guess"]
    ]  # fmt: skip
    rise = span((b - a for a, b in zip(whole, others, strict=True)), ".1f")
    if not needed:
        return f"No role is needed more than other heads, without which it rises by {rise}."
    names = listed([SHORT_ROLES[role] for role in needed])
    return f"Heads needed: {names}; without as many others it rises by {rise}."


def induction(
    measured: dict[str, Any], steps: int, dim: int, heads: int, tries: int, seed: int
) -> Drawing:
    """Compare two layers with one: losses, heads during training, knock-outs, and one map."""
    numbers = numbers_of(measured)
    limits = (
        f"Attention-only, width {dim}, {steps:,} steps on random patterns, {trainings(tries)}; "
        f"heads and map: seed {seed}."
    )
    words, details = words_induction(numbers), _details(numbers, dim, heads, seed)
    with Board(words, (1, 1, 1.05), details, limits=limits) as board:
        draw_losses(board.chart(0, "loss in repetitions", "step", "", (0, 0.54)), numbers)
        draw_bars(board.chart(0, "loss without heads", "", "", (0.56, 1), 120), numbers)
        upper = board.chart(1, "layer 1: token to copy", "", "", (0, 0.47))
        draw_scores(upper, numbers["steps"], numbers["curves_induction"])
        lower = board.chart(1, "layer 0: previous token", "step", "", (0.48, 1))
        draw_scores(lower, numbers["steps"], numbers["curves_previous"])
        labels = [str(i) if i % 8 == 0 else "" for i in range(LENGTH)]
        table = np.where(np.triu(np.ones((LENGTH, LENGTH)), 1) > 0, np.nan, numbers["map"])
        heading = f"weights of layer 1, head {numbers['best_head']}"
        board.matrix(2, heading, table, positive_scale(), (labels, labels), ("query", "key"))
        return board.drawing(**numbers)


def _details(numbers: Numbers, dim: int, heads: int, seed: int) -> str:
    guess = numbers["guess"]
    roles = "; ".join(
        f"{SHORT_ROLES[role]}: {_short(numbers['heads_by_role'][role][0])}, loss "
        f"{numbers[f'loss_without_{role}'][0]:.2f} without"
        for role in ROLES
    )
    return (
        f"Attention-only decoders of width {dim} with {heads} heads and rotary positions read "
        f"repeated patterns of {PERIODS[0]} to {PERIODS[1]} random tokens, out of {VOCAB}: "
        f"{numbers['steps'][-1]} steps of Adam at {RATE:g}, seeds from {seed}. The loss is "
        f"measured on {UNSEEN} new texts, where the pattern repeats; below {LEARNED:.0%} of a "
        f"guess it counts as learned. Guessing costs ln {VOCAB} = {guess:.2f}; knowing which "
        f"tokens are possible but not their order costs {numbers['unordered']:.2f} (green line): a "
        "single layer cannot find the token after an earlier occurrence of the current one. Heads "
        f"found with seed {seed} (layer.head, a mean weight of {FOUND:g} or more on the token of "
        f"the role): {roles}; without as many other heads: {numbers['loss_without_others'][0]:.2f} "
        "at worst. Bars: the mean over the seeds, lines from the least to the largest. Middle: "
        "each head's mean weight."
    )


def _short(heads: Sequence[str]) -> str:
    """`decoder.1.self.3` -> `1.3`."""
    return ", ".join(head.removeprefix("decoder.").replace("self.", "") for head in heads) or "none"
