"""Figure of part 2: how many layers of each kind can be trained, with and without residuals.

Stacks of recurrent layers and of Transformer blocks learn the task of `training`: to copy the
previous token at each position. All see the whole text; recurrent layers read both directions.
"""

from __future__ import annotations

import math
from typing import Any

from regard.draw import LINE_STYLES, MUTED, LineStyle
from regard.explain import Board, Drawing
from regard_lectures.figures.training import (
    BATCH,
    DIM,
    LENGTH,
    VOCAB,
    Trial,
    final_loss,
    train_trial,
)
from regard_lectures.progress import training_progress

KINDS = ("rnn", "gru", "lstm", "transformer")
DEPTHS = (1, 2, 4, 8, 16)
LEARNED = math.log(VOCAB) / 4
"""A stack counts as trained if its loss ends below this: a quarter of the loss of guessing."""
PLAIN, RESIDUAL = "plain", "residual"


def trial_of(kind: str, *, residual: bool) -> Trial:
    """The training of a stack: plain layers, or with residual connections and norms."""
    norm = "layer" if residual else "none"
    if kind == "transformer":
        return Trial(kind, residual=residual, norm=norm)
    return Trial(kind, residual=residual, norm=norm, cell=kind)


def measure(steps: int, rate: float, seed: int) -> dict[str, Any]:
    """Train every kind at every depth; returns the loss at the end, by kind and depth."""
    losses: dict[str, Any] = {PLAIN: {}, RESIDUAL: {}}
    with training_progress(steps * 2 * len(KINDS) * len(DEPTHS)) as on_step:
        for way, lines in losses.items():
            for kind in KINDS:
                trial = trial_of(kind, residual=way == RESIDUAL)
                lines[kind] = [
                    final_loss(train_trial(trial, layers, steps, rate, seed, on_step))
                    for layers in DEPTHS
                ]
    return losses


def deepest(losses: list[float]) -> int:
    """The largest number of layers that is trained; 0 if there is none."""
    pairs = zip(DEPTHS, losses, strict=False)
    return max((layers for layers, loss in pairs if loss < LEARNED), default=0)


def depth(losses: dict[str, Any], steps: int, rate: float, seed: int) -> Drawing:
    """Draw the loss at the end of training against the number of layers."""
    most = {way: {kind: deepest(line) for kind, line in losses[way].items()} for way in losses}

    def told(way: str) -> str:
        return ", ".join(f"{kind} {layers}" for kind, layers in most[way].items())

    caption = (
        f"So many plain layers can be trained: {told(PLAIN)}. With residual connections and norms: "
        f"{told(RESIDUAL)}."
    )
    details = (
        f"Stacks of width {DIM} learn to copy the previous of {LENGTH} random tokens of {VOCAB}: "
        f"{steps} steps of {BATCH} texts, Adam at a learning rate of {rate:g}, seed {seed}, "
        "without warm-up. Drawn is the mean loss of the last ten steps; a stack counts as trained "
        f"below {LEARNED:.2f}, a quarter of guessing; depths: {', '.join(map(str, DEPTHS))}. "
        "Recurrent layers read both directions. The first token copies the last one; if it is "
        f"guessed, that alone costs {math.log(VOCAB) / LENGTH:.2f}. A Transformer's layer is "
        "attention and a feed-forward, with rotary positions. "
        f"Residual: x + layer(norm(x)). Guessing costs ln {VOCAB} = {math.log(VOCAB):.2f}. More "
        "steps or another rate move the borders."
    )
    styles = dict(zip(KINDS, LINE_STYLES, strict=False))
    headings = {PLAIN: "plain layers", RESIDUAL: "with residuals and norms"}
    with Board(caption, (1, 1), details) as board:
        board.legend({**styles, "guessing": LineStyle(MUTED, ":")})
        for panel, (way, heading) in enumerate(headings.items()):
            axes = board.chart(panel, heading, "layers", "loss at the end")
            for kind, style in styles.items():
                axes.curve(DEPTHS, losses[way][kind], style=style, marker=style.marker)
            axes.axhline(math.log(VOCAB), color=MUTED, linewidth=1.4, linestyle=":")
            axes.log_axis("x", DEPTHS)
            axes.set_ylim(0, 1.15 * math.log(VOCAB))
        return board.drawing(
            layers=list(DEPTHS),
            **{f"{way}_{kind}": line for way in losses for kind, line in losses[way].items()},
            **{f"trained_{way}_{kind}": most[way][kind] for way in losses for kind in KINDS},
        )
