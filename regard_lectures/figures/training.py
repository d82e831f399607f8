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

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.draw import LINE_STYLES, MUTED, LineStyle
from regard.explain import Board, Drawing, Numbers, key_of
from regard.layers import Context, Embed, Layout, Mask, SequenceStack, Stack, VocabularyHead
from regard_lectures.figures.costs import decades
from regard_lectures.figures.descent import Descent, running_median, warming
from regard_lectures.progress import OnStep, training_progress

DIM, HEADS, HIDDEN, VOCAB, LENGTH, BATCH = 32, 4, 64, 16, 8, 32
SOLVED = 0.1  # the task counts as learned below this loss


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


def measure_norms(layers: int, steps: int, rate: float, seed: int) -> dict[str, Any]:
    """Train with post-norm and with pre-norm, each with and without warm-up."""
    warmup = max(1, steps // 2)
    trials = [
        Trial("pre-norm"),
        Trial("post-norm", norm_place="post"),
        Trial("pre-norm, warm-up", warmup=warmup),
        Trial("post-norm, warm-up", norm_place="post", warmup=warmup),
    ]
    with training_progress(steps * len(trials)) as on_step:
        curves = {
            trial.name: train_trial(trial, layers, steps, rate, seed, on_step) for trial in trials
        }
    gradients = {trial.name: first_gradients(trial, layers, seed) for trial in trials[:2]}
    return {"curves": curves, "gradients": gradients}


def norms(measured: dict[str, Any], layers: int, steps: int, rate: float, seed: int) -> Drawing:
    """Compare post-norm and pre-norm, each with and without warm-up."""
    curves, gradients = measured["curves"], measured["gradients"]
    warmup = max(1, steps // 2)
    stuck = final_loss(curves["post-norm"])
    caption = (
        f"Without warm-up, post-norm ends at a loss of {stuck:.2f} and pre-norm at "
        f"{final_loss(curves['pre-norm']):.2f}; with warm-up, post-norm ends at "
        f"{final_loss(curves['post-norm, warm-up']):.2f} and pre-norm at "
        f"{final_loss(curves['pre-norm, warm-up']):.2f}."
    )
    details = (
        f"{layers} blocks of width {DIM} learn to copy the previous token: {steps} steps of Adam "
        f"at a learning rate of {rate:g}, from the first step or after a warm-up of {warmup} "
        f"steps; seed {seed}. The original paper uses post-norm, LayerNorm(x + sublayer(x)); "
        "today's models use pre-norm, x + sublayer(LayerNorm(x)). Guessing costs "
        f"ln {VOCAB} = {math.log(VOCAB):.2f}. Right: the gradient norm of each block's weights at "
        "the first step, from the first block to the last."
    )
    with Board(caption, (1, 1, 0.85), details) as board:
        names = "pre-norm", "post-norm"
        board.legend({**trial_styles(names), "guessing": LineStyle(MUTED, ":")})
        at_once = {name: curves[name] for name in ("pre-norm", "post-norm")}
        warm = {name: curves[f"{name}, warm-up"] for name in ("pre-norm", "post-norm")}
        draw_curves(board, 0, "without warm-up", at_once)
        draw_curves(board, 1, "with warm-up", warm)
        draw_gradients(board, 2, gradients)
        return board.drawing(**trial_numbers(curves, gradients))


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


def draw_curves(board: Board, panel: int, heading: str, curves: dict[str, list[float]]) -> None:
    """Draw the loss of each trial by step, in a panel of the board."""
    axes = board.chart(panel, heading, "step", "cross-entropy")
    highest = max(max(line) for line in curves.values())
    for line, style in zip(curves.values(), LINE_STYLES, strict=False):
        every = max(1, len(line) // 6)
        axes.curve(running_median(line), style=style, marker=style.marker, markevery=every)
    axes.axhline(math.log(VOCAB), color=MUTED, linewidth=1.4, linestyle=":")
    if highest > 3 * math.log(VOCAB):  # diverged: use a logarithmic axis
        exponents = range(-3, math.ceil(math.log10(highest)) + 1)
        axes.log_axis("y", [10.0**exponent for exponent in exponents])
        axes.set_ylim(2e-3, 10.0 ** exponents[-1])
    else:
        axes.set_ylim(0, math.log(VOCAB) * 1.2)


def draw_gradients(board: Board, panel: int, gradients: dict[str, list[float]]) -> None:
    """Draw the first gradient of each block, for each trial."""
    axes = board.chart(panel, "first gradient", "block", "norm")
    for values, style in zip(gradients.values(), LINE_STYLES, strict=False):
        axes.curve(values, style=style, width=2.4, marker=style.marker)
    every = [value for values in gradients.values() for value in values]
    if max(every) > 30 * min(every) > 0:
        ticks = decades(every)
        axes.log_axis("y", ticks)
        axes.set_ylim(ticks[0], ticks[-1])
    else:
        axes.set_ylim(0, 1.2 * max(every))


def final_loss(losses: list[float]) -> float:
    """The mean of the last ten losses."""
    last = losses[-10:]
    return sum(last) / len(last)


def trial_numbers(curves: dict[str, list[float]], gradients: dict[str, list[float]]) -> Numbers:
    """The last loss, the first gradients and the curve of each trial, by name."""
    return {
        **{key_of(f"loss_{name}"): final_loss(line) for name, line in curves.items()},
        **{key_of(f"gradients_{name}"): values for name, values in gradients.items()},
        **{key_of(f"curve_{name}"): line for name, line in curves.items()},
    }
