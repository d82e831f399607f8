"""Figures of part 5: the effect of norms, their place, and residuals in small trainings.

The trainings differ only in what is compared: a stack of the models' own blocks learns to copy the
previous token at each position (the first position copies the last token). One attention layer
would be enough; the depth makes the effects visible.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.draw import LINE_STYLES, MUTED, LineStyle
from regard.explain import Board, Drawing, Numbers, Words, key_of
from regard.layers import Context, Embed, Layout, Mask, SequenceStack, Stack, VocabularyHead
from regard_lectures.figures.costs import decades
from regard_lectures.figures.descent import Descent, running_median, warming
from regard_lectures.progress import OnStep, training_progress
from regard_lectures.tries import draw_spread, how_often, span, spread_of, trainings

DIM, HEADS, HIDDEN, VOCAB, LENGTH, BATCH = 32, 4, 64, 16, 8, 32
LEARNED = math.log(VOCAB) / 4
"""A stack counts as trained if its loss ends below this: a quarter of the loss of guessing."""
NORMS = ("pre-norm", "post-norm", "pre-norm, warm-up", "post-norm, warm-up")
"""The trainings of the figure of norms."""


@dataclass(frozen=True)
class Trial:
    """One training: its name, and its settings."""

    name: str
    norm_place: str = "pre"
    norm: str = "layer"
    residual: bool = True
    warmup: int = 0
    cell: str = ""
    """Recurrent layers of this cell, in both directions, in place of Transformer blocks."""


class Copier(nn.Module):
    """Embedding, a stack of blocks with rotary positions, and an output layer."""

    def __init__(self, trial: Trial, layers: int) -> None:
        super().__init__()
        mixing: dict[str, Any] = {"positions": "rotary", "heads": HEADS, "hidden": HIDDEN}
        if trial.cell:
            mixing = {"positions": "none", "block": ("recurrent",), "direction": "both"}
            mixing["cell"] = trial.cell
        config = SequenceStack.model_validate(
            {
                "dim": DIM,
                "layers": layers,
                "norm": trial.norm,
                "norm_place": trial.norm_place,
                "residual": trial.residual,
                "dropout": 0.0,
                "max_length": LENGTH,
                **mixing,
            }
        )
        self.embed = Embed(VOCAB, DIM)
        self.stack = Stack(config, "encoder")
        self.head = VocabularyHead(DIM, VOCAB)
        for parameter in self.parameters():  # as in the models: Glorot matrices, zero biases
            if parameter.dim() == 2:
                nn.init.xavier_uniform_(parameter)
        for module in self.stack.modules():
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)

    def forward(self, ids: Tensor) -> Tensor:
        """ids (batch, length) -> logits (tokens, vocab)."""
        layout = Layout((ids.shape[1],) * ids.shape[0])
        ctx = Context(layout, layout.positions, Mask(), self.stack.positions)
        x = self.embed(ids.flatten(), ctx.positions, ctx.scheme)
        return self.head(self.stack(x, ctx))


def measure_norms(layers: int, steps: int, rate: float, tries: int, seed: int) -> dict[str, Any]:
    """Train with post-norm and with pre-norm, each with and without warm-up, by several seeds."""
    warmup = max(1, steps // 2)
    trials = [
        Trial(
            name,
            norm_place=name.partition("-")[0],
            warmup=warmup if name.endswith("warm-up") else 0,
        )
        for name in NORMS
    ]
    return train_all(trials, layers, steps, rate, tries, seed)


def train_all(
    trials: list[Trial], layers: int, steps: int, rate: float, tries: int, seed: int
) -> dict[str, Any]:
    """Train every trial with several seeds.

    Returns:
        `curves` and `gradients`: the losses (tries, steps) and the gradients of the blocks at the
        first step (tries, layers) of each trial, by its name.
    """
    seeds = range(seed, seed + tries)
    with training_progress(steps * tries * len(trials)) as on_step:
        curves = {
            trial.name: [
                train_trial(trial, layers, steps, rate, one_seed, on_step) for one_seed in seeds
            ]
            for trial in trials
        }
    gradients = {
        trial.name: [first_gradients(trial, layers, one_seed) for one_seed in seeds]
        for trial in trials
    }
    return {"curves": curves, "gradients": gradients}


def words_norms(numbers: Numbers) -> Words:
    """Which of the four trainings learn, and where they end."""
    ends = {name: numbers[key_of(f"loss_{name}")] for name in NORMS}
    learns = {
        name: how_often([loss < numbers["learned_below"] for loss in losses])
        for name, losses in ends.items()
    }
    pre, post, warm_pre, warm_post = (learns[name] for name in NORMS)

    def told(first: str, second: str) -> str:
        if first == second:
            plural = {"learns": "learn", "does not learn": "do not learn"}
            return f"both {plural.get(first, first.replace('learns', 'learn'))}"
        return f"pre-norm {first}, post-norm {second}"

    title = f"Without warm-up {told(pre, post)}; with warm-up {told(warm_pre, warm_post)}"
    spans = [span(ends[name], ".2f") for name in NORMS]
    first, last = (
        [gradients[index] for gradients in numbers["gradients_post_norm"]] for index in (0, -1)
    )
    ratios = [b / a for a, b in zip(first, last, strict=True)]
    grows = (
        "larger"
        if min(ratios) > 1.5
        else "smaller"
        if max(ratios) < 1 / 1.5
        else "not clearly larger or smaller"
    )
    caption = (
        f"Loss at the end: pre-norm {spans[0]}, post-norm {spans[1]}; with warm-up {spans[2]} and "
        f"{spans[3]}. Post-norm's first gradient is {grows} in the last block than in the first: "
        f"{span(ratios, '.1f')} times."
    )
    return Words(title, caption)


def norms(
    measured: dict[str, Any], layers: int, steps: int, rate: float, tries: int, seed: int
) -> Drawing:
    """Compare post-norm and pre-norm, each with and without warm-up."""
    curves, gradients = measured["curves"], measured["gradients"]
    gradients = {name: gradients[name] for name in NORMS[:2]}  # warm-up changes no first gradient
    numbers = {"steps": steps, "tries": tries, **trial_numbers(curves, gradients)}
    warmup = max(1, steps // 2)
    details = (
        f"{layers} blocks of width {DIM} learn to copy the previous token: {steps} steps of Adam "
        f"at a learning rate of {rate:g}, from the first step or after a warm-up of {warmup} "
        f"steps; seeds from {seed}, of which the curves are the mean. The original paper uses "
        "post-norm, LayerNorm(x + sublayer(x)); today's models use pre-norm, "
        "x + sublayer(LayerNorm(x)). Guessing costs "
        f"ln {VOCAB} = {math.log(VOCAB):.2f}; a loss below {LEARNED:.2f}, a quarter of it, counts "
        "as learned. Right: the gradient norm of each block's weights at the first step, from the "
        "first block to the last. Which numbers a norm averages over: `regard show batchnorm`."
    )
    limits = f"{layers} blocks of width {DIM}, copying a token, {steps:,} steps at a rate of "
    limits += f"{rate:g}, {trainings(tries)}."
    with Board(words_norms(numbers), (1, 1, 0.85), details, limits=limits) as board:
        board.legend({**trial_styles(NORMS[:2]), "guessing": LineStyle(MUTED, ":")})
        at_once = {name: curves[name] for name in NORMS[:2]}
        warm = {name: curves[f"{name}, warm-up"] for name in NORMS[:2]}
        draw_curves(board, 0, "without warm-up", at_once)
        draw_curves(board, 1, "with warm-up", warm)
        draw_gradients(board, 2, gradients)
        return board.drawing(**numbers)


def _batch(data: torch.Generator) -> tuple[Tensor, Tensor]:
    ids = torch.randint(VOCAB, (BATCH, LENGTH), generator=data)
    return ids, ids.roll(1, dims=1)


def _loss(model: Copier, data: torch.Generator) -> Tensor:
    ids, wanted = _batch(data)
    return F.cross_entropy(model(ids), wanted.flatten())


def train_trial(
    trial: Trial, layers: int, steps: int, rate: float, seed: int, on_step: OnStep
) -> list[float]:
    """The loss at each step; after a non-finite loss, the last finite one is repeated."""
    torch.manual_seed(seed)
    model = Copier(trial, layers)
    course = warming(max(1, trial.warmup))
    descent = Descent(model.parameters(), rate, on_step, course, beta=0.98)
    data = torch.Generator().manual_seed(seed)  # the same batches for every trial
    losses = descent.losses
    for _ in range(steps):
        loss = _loss(model, data)
        if not torch.isfinite(loss):
            return losses + [losses[-1]] * (steps - len(losses))
        descent.step(loss, BATCH * LENGTH)
    return losses


def first_gradients(trial: Trial, layers: int, seed: int) -> list[float]:
    """The gradient norm of each block's matrices at initialisation, from first to last block."""
    torch.manual_seed(seed)
    model = Copier(trial, layers)
    torch.autograd.backward(_loss(model, torch.Generator().manual_seed(seed)))
    norms = []
    for block in model.stack.layers():
        matrices = [p.grad for p in block.parameters() if p.dim() == 2 and p.grad is not None]
        norms.append(float(torch.stack([grad.norm() for grad in matrices]).norm()))
    return norms


def trial_styles(names: Iterable[str]) -> dict[str, LineStyle]:
    """A line style for each name."""
    return dict(zip(names, LINE_STYLES, strict=False))


def draw_curves(
    board: Board, panel: int, heading: str, curves: dict[str, list[list[float]]]
) -> None:
    """Draw the loss of each trial by step, as a mean over its tries, in a panel of the board."""
    axes = board.chart(panel, heading, "step", "cross-entropy")
    highest = max(max(line) for lines in curves.values() for line in lines)
    for lines, style in zip(curves.values(), LINE_STYLES, strict=False):
        smooth = np.array([running_median(line) for line in lines])
        every = max(1, smooth.shape[1] // 6)
        axes.curve(smooth.mean(0), style=style, marker=style.marker, markevery=every)
        axes.fill_between(
            range(smooth.shape[1]),
            smooth.min(0),
            smooth.max(0),
            color=style.colour,
            alpha=0.2,
            linewidth=0,
        )
    axes.axhline(math.log(VOCAB), color=MUTED, linewidth=1.4, linestyle=":")
    if highest > 3 * math.log(VOCAB):  # diverged: use a logarithmic axis
        exponents = range(-3, math.ceil(math.log10(highest)) + 1)
        axes.log_axis("y", [10.0**exponent for exponent in exponents])
        axes.set_ylim(2e-3, 10.0 ** exponents[-1])
    else:
        axes.set_ylim(0, math.log(VOCAB) * 1.2)


def draw_gradients(board: Board, panel: int, gradients: dict[str, list[list[float]]]) -> None:
    """Draw the first gradient of each block, for each trial: mean and range over its tries."""
    axes = board.chart(panel, "first gradient", "block", "norm")
    for lines, style in zip(gradients.values(), LINE_STYLES, strict=False):
        draw_spread(axes, range(len(lines[0])), spread_of(lines), style)
    values = [value for lines in gradients.values() for line in lines for value in line]
    if max(values) > 30 * min(values) > 0:
        ticks = decades(values)
        axes.log_axis("y", ticks)
        axes.set_ylim(ticks[0], ticks[-1])
    else:
        axes.set_ylim(0, 1.2 * max(values))


def final_loss(losses: list[float]) -> float:
    """The mean of the last ten losses."""
    last = losses[-10:]
    return sum(last) / len(last)


def trial_numbers(
    curves: dict[str, list[list[float]]], gradients: dict[str, list[list[float]]]
) -> Numbers:
    """The last loss, the first gradients and the curve of each trial and try, by name."""
    return {
        "learned_below": LEARNED,
        **{
            key_of(f"loss_{name}"): [final_loss(line) for line in lines]
            for name, lines in curves.items()
        },
        **{key_of(f"gradients_{name}"): lines for name, lines in gradients.items()},
        **{key_of(f"curve_{name}"): lines for name, lines in curves.items()},
    }
