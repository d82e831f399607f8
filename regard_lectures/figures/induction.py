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

import torch
from torch import Tensor

from regard.draw import BLUE, GREEN, LINE_STYLES, MUTED, ORANGE, TEXT, Chart, points, positive_scale
from regard.errors import InputError
from regard.explain import Board, Drawing, Numbers
from regard.inputs import Ragged
from regard.layers import Tap, knock_out
from regard.models import Decoder, GPTConfig
from regard_lectures.figures.descent import Descent, next_token_loss, warming
from regard_lectures.progress import OnStep, training_progress

VOCAB, LENGTH, BATCH = 64, 64, 32
PERIODS = (16, 48)
"""The shortest and the longest pattern. With a single length, one head could attend to that fixed
distance."""
RATE, WARMUP = 0.003, 50
UNSEEN = 64
"""The number of held-out texts."""
MEASURES = 100
"""The minimum number of measurements during a training."""
FOUND = 0.3
"""A head has a role if its mean weight on the token of that role is at least this."""
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
        low = next((i for i, loss in enumerate(self.losses) if loss < 0.2 * guess), None)
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


def measure(steps: int, dim: int, heads: int, seed: int) -> dict[str, Any]:
    """Train two layers and one; find the heads by their roles and measure losses without them.

    Raises:
        InputError: If the width of a head is not an even number.
    """
    if dim % heads or dim // heads % 2:
        raise InputError(
            "heads", got=heads, expected=f"a number for which dim / heads = {dim} / heads is even"
        )
    texts = Measure(seed)
    with training_progress(2 * steps) as on_step:
        model, deep = train(2, dim, heads, steps, seed, on_step)
        _, shallow = train(1, dim, heads, steps, seed, on_step)
    best = _best_head(deep)
    return {
        "two": asdict(deep),
        "one": asdict(shallow),
        "found": asdict(find(model, texts)),
        "unordered": texts.unordered,
        "map": texts.weights(model)[1][0, best].tolist(),  # (query, key)
    }


def _best_head(two: Course) -> int:
    """The head of the last layer with the largest final weight on the token to copy."""
    last = two.induction[-1]
    return max(range(len(last)), key=last.__getitem__)


def induction(measured: dict[str, Any], steps: int, dim: int, heads: int, seed: int) -> Drawing:
    """Compare two layers with one: losses, heads during training, knock-outs, and one map."""
    deep, shallow = Course(**measured["two"]), Course(**measured["one"])
    knock_outs, unordered, table = (
        KnockOuts(**measured["found"]), measured["unordered"], measured["map"]
    )  # fmt: skip
    best = _best_head(deep)
    caption, details = _said(deep, shallow, knock_outs, unordered, (dim, heads, seed))
    title = f"Learning in context: two layers learn it, one not in {steps} steps"
    with Board(caption, (1, 1, 1.05), details, title) as board:
        losses = board.chart(0, "loss in repetitions", "step", "", (0, 0.54))
        _draw_losses(losses, deep, shallow, unordered)
        _draw_bars(
            board.chart(0, "loss without heads", "", "", (0.56, 1)), knock_outs, deep.losses[-1]
        )
        upper = board.chart(1, "layer 1: token to copy", "", "", (0, 0.47))
        _draw_scores(upper, deep.steps, deep.induction)
        lower = board.chart(1, "layer 0: previous token", "step", "", (0.48, 1))
        _draw_scores(lower, deep.steps, deep.previous)
        labels = [str(i) if i % 8 == 0 else "" for i in range(LENGTH)]
        heading = f"weights of head 1.{best}"
        board.matrix(2, heading, table, positive_scale(), (labels, labels), ("query", "key"))
        shown = {"unordered": unordered, "map": table}
        return board.drawing(**(_numbers(deep, shallow, knock_outs) | shown))


def _numbers(deep: Course, shallow: Course, knock_outs: KnockOuts) -> Numbers:
    guess = math.log(VOCAB)
    return {
        "guess": guess,
        "loss_two_layers": deep.losses[-1],
        "loss_one_layer": shallow.losses[-1],
        "one_layer_still_falls_by": shallow.late_fall(),
        "fall": list(deep.falls(guess) or ()),
        "fall_one_layer": list(shallow.falls(guess) or ()),
        "induction_heads": knock_outs.heads["induction"],
        "previous_token_heads": knock_outs.heads["previous"],
        "same_token_heads": knock_outs.heads["same"],
        "induction_scores": deep.induction[-1],
        "previous_token_scores": deep.previous[-1],
        "induction_scores_one_layer": shallow.induction[-1],
        **{f"loss_without_{role}": loss for role, loss in knock_outs.losses.items()},
        "other_heads": knock_outs.others,
        "loss_without_others": knock_outs.without_others,
        "steps": deep.steps,
        "curve_two_layers": deep.losses,
        "curve_one_layer": shallow.losses,
        "curves_induction": deep.induction,
        "curves_previous": deep.previous,
    }


def _said(
    deep: Course,
    shallow: Course,
    knock_outs: KnockOuts,
    unordered: float,
    options: tuple[int, int, int],
) -> tuple[str, str]:
    """The caption and the details; the options are dim, heads and seed."""
    (dim, heads, seed), guess = options, math.log(VOCAB)
    fall = deep.falls(guess)
    when = f"drops between steps {fall[0]} and {fall[1]}" if fall else "has not dropped yet"
    falls = shallow.late_fall()
    still = (
        f"after falling by {falls:.2f} in the last fifth" if falls > 0.005 else "and is constant"
    )
    names = ("induction heads", "previous-token heads", "same-token heads")
    said = "; ".join(
        f"{name}: {_short(group)}, loss {loss:.2f} without" if group else f"{name}: none"
        for name, group, loss in zip(
            names, knock_outs.heads.values(), knock_outs.losses.values(), strict=True
        )
    )
    caption = (
        f"The loss of two layers {when} and ends at {deep.losses[-1]:.2f}; that of one layer ends "
        f"at {shallow.losses[-1]:.2f} {still}."
    )
    details = (
        f"Attention-only decoders of width {dim} with {heads} heads and rotary "
        f"positions read repeated patterns of {PERIODS[0]} to {PERIODS[1]} random tokens, out of "
        f"{VOCAB}: {deep.steps[-1]} steps of Adam at {RATE:g}, seed {seed}. The loss is measured "
        f"on {UNSEEN} new texts, where the pattern repeats. Guessing costs ln {VOCAB} = "
        f"{guess:.2f}; knowing which tokens are possible but not their order costs "
        f"{unordered:.2f} (green line): a single layer cannot find the token after an "
        "earlier occurrence of the current one. Heads found (layer.head): "
        f"{said}; without as many other heads: {max(knock_outs.without_others):.2f} at worst. "
        "Middle: the mean weight of each head on the token to copy (layer 1) and on the previous "
        "token (layer 0)."
    )
    return caption, details


def _short(heads: Sequence[str]) -> str:
    """`decoder.1.self.3` -> `1.3`."""
    return ", ".join(head.removeprefix("decoder.").replace("self.", "") for head in heads) or "none"


def _draw_losses(axes: Chart, deep: Course, shallow: Course, unordered: float) -> None:
    guess, last = math.log(VOCAB), deep.steps[-1]
    under = shallow.losses[-1] - 0.04 * guess
    beyond = min(deep.losses[-1] + 0.25 * guess, under - 0.27 * guess)  # if both end alike
    for name, course, height, style in (
        ("1 layer", shallow, under, LINE_STYLES[1]),
        ("2 layers", deep, beyond, LINE_STYLES[0]),
    ):
        axes.curve(course.steps, course.losses, style=style)
        axes.write((last, height), name, ha="right", va="top", color=style.colour,
              fontsize=points(TEXT), bbox={"color": "white", "alpha": 0.8, "pad": 0})  # fmt: skip
    axes.axhline(guess, color=MUTED, linewidth=1.4, linestyle=":")
    axes.axhline(unordered, color=GREEN, linewidth=1.4, linestyle="-.")
    axes.write((0, guess * 1.02), "a guess", va="bottom", color=MUTED)
    axes.set_ylim(0, guess * 1.3)


def _draw_bars(axes: Chart, knock_outs: KnockOuts, whole: float) -> None:
    """Draw the loss of the whole model, and without the heads of each role."""
    bars = {
        "none": whole,
        "copy": knock_outs.losses["induction"],
        "before": knock_outs.losses["previous"],
        "itself": knock_outs.losses["same"],
        "others": max(knock_outs.without_others),
    }
    axes.bar(range(len(bars)), list(bars.values()), 0.6, color=[BLUE, ORANGE, ORANGE, ORANGE, BLUE])
    for index, loss in enumerate(bars.values()):
        axes.write((index, loss + 0.1), f"{loss:.1f}", ha="center")
    axes.axhline(math.log(VOCAB), color=MUTED, linewidth=1.4, linestyle=":")
    axes.set_xticks(range(len(bars)), list(bars))
    axes.set_ylim(0, 1.4 * max(math.log(VOCAB), *bars.values()))


def _draw_scores(axes: Chart, steps: list[int], scores: list[list[float]]) -> None:
    """Draw one curve per head; scores are (measurement, head)."""
    for number, line in enumerate(zip(*scores, strict=True)):
        axes.curve(steps, line, style=LINE_STYLES[number % len(LINE_STYLES)], width=2.2)
    numbers = [str(number) for number, score in enumerate(scores[-1]) if score >= FOUND]
    if numbers:
        said = f"head{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}"
        axes.write((0.02, 0.97), said, va="top", transform=axes.transAxes)
    axes.set_ylim(0, 1.2)
    axes.set_yticks([0, 0.5, 1])
