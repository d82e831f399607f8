"""Figure of part 2: how many layers of each kind can be trained, with and without residuals.

Stacks of recurrent layers and of Transformer blocks learn the task of `training`: to copy the
previous token at each position. All see the whole text; recurrent layers read both directions.
"""

from __future__ import annotations

import math
from typing import Any

from regard.draw import LINE_STYLES, MUTED, LineStyle
from regard.explain import Board, Drawing, Numbers, Words
from regard_lectures.figures.training import (
    BATCH,
    DIM,
    LEARNED,
    LENGTH,
    VOCAB,
    Trial,
    final_loss,
    train_trial,
)
from regard_lectures.progress import training_progress
from regard_lectures.tries import draw_spread, listed, span, spread_of, trainings

KINDS = ("rnn", "gru", "lstm", "transformer")
DEPTHS = (1, 2, 4, 8, 16)
PLAIN, RESIDUAL = "plain", "residual"


def trial_of(kind: str, *, residual: bool) -> Trial:
    """The training of a stack: plain layers, or with residual connections and norms."""
    norm = "layer" if residual else "none"
    if kind == "transformer":
        return Trial(kind, residual=residual, norm=norm)
    return Trial(kind, residual=residual, norm=norm, cell=kind)


def measure(steps: int, rate: float, tries: int, seed: int) -> dict[str, Any]:
    """Train every kind at every depth with several seeds.

    Returns:
        The losses at the end by way and kind: (tries, depths).
    """
    losses: dict[str, Any] = {PLAIN: {}, RESIDUAL: {}}
    with training_progress(steps * tries * 2 * len(KINDS) * len(DEPTHS)) as on_step:
        for way, lines in losses.items():
            for kind in KINDS:
                trial = trial_of(kind, residual=way == RESIDUAL)
                lines[kind] = [
                    [
                        final_loss(train_trial(trial, layers, steps, rate, one_seed, on_step))
                        for layers in DEPTHS
                    ]
                    for one_seed in range(seed, seed + tries)
                ]
    return losses


def deepest(losses: list[float]) -> int:
    """The largest number of layers that is trained; 0 if there is none."""
    pairs = zip(DEPTHS, losses, strict=False)
    return max((layers for layers, loss in pairs if loss < LEARNED), default=0)


def words_depth(numbers: Numbers) -> Words:
    """How many layers learn, and whether residual connections and norms make it more."""
    most = {
        way: {kind: numbers[f"trained_{way}_{kind}"] for kind in KINDS} for way in (PLAIN, RESIDUAL)
    }
    deeper = [kind for kind in KINDS if min(most[RESIDUAL][kind]) > max(most[PLAIN][kind])]
    within = f"In {numbers['steps']:,} steps residuals and norms"
    if len(deeper) == len(KINDS):
        title = f"{within} let deeper stacks of every kind learn"
    elif deeper:
        others = [kind for kind in KINDS if kind not in deeper]
        title = f"{within} let deeper stacks learn: {listed(deeper)}, not surely {listed(others)}"
    else:
        title = f"{within} do not surely let deeper stacks learn, of any kind"

    def told(way: str) -> str:
        return ", ".join(f"{kind} {span(layers)}" for kind, layers in most[way].items())

    short = all(max(lines) < numbers["layers"][-1] for lines in most[PLAIN].values())
    caption = (
        f"The most plain layers that learn: {told(PLAIN)}; with residuals and norms: "
        f"{told(RESIDUAL)}. Of the plain stacks of {numbers['layers'][-1]}, the deepest tried, "
        f"{'none learns' if short else 'at least one learns'}."
    )
    return Words(title, caption)


def depth(losses: dict[str, Any], steps: int, rate: float, tries: int, seed: int) -> Drawing:
    """Draw the loss at the end of training against the number of layers."""
    numbers: Numbers = {
        "steps": steps,
        "tries": tries,
        "layers": list(DEPTHS),
        **{f"{way}_{kind}": losses[way][kind] for way in losses for kind in KINDS},
        **{
            f"trained_{way}_{kind}": [deepest(line) for line in losses[way][kind]]
            for way in losses
            for kind in KINDS
        },
    }
    details = (
        f"Stacks of width {DIM} learn to copy the previous of {LENGTH} random tokens of {VOCAB}: "
        f"{steps} steps of {BATCH} texts, Adam at a learning rate of {rate:g}, seeds from {seed}, "
        "without warm-up. Drawn is the mean loss of the last ten steps, its mean and range over "
        f"the seeds; a stack counts as trained below {LEARNED:.2f}, a quarter of guessing; depths: "
        f"{', '.join(map(str, DEPTHS))}. "
        "Recurrent layers read both directions. The first token copies the last one; if it is "
        f"guessed, that alone costs {math.log(VOCAB) / LENGTH:.2f}. A Transformer's layer is "
        "attention and a feed-forward, with rotary positions. "
        f"Residual: x + layer(norm(x)). Guessing costs ln {VOCAB} = {math.log(VOCAB):.2f}. More "
        "steps or another rate move the borders."
    )
    limits = f"Width {DIM}, copying a token, {steps:,} steps at a rate of {rate:g}, "
    limits += f"{trainings(tries)}."
    styles = dict(zip(KINDS, LINE_STYLES, strict=False))
    headings = {PLAIN: "plain layers", RESIDUAL: "with residuals and norms"}
    with Board(words_depth(numbers), (1, 1), details, limits=limits) as board:
        board.legend({**styles, "guessing": LineStyle(MUTED, ":")})
        for panel, (way, heading) in enumerate(headings.items()):
            axes = board.chart(panel, heading, "layers", "loss at the end")
            for kind, style in styles.items():
                draw_spread(axes, DEPTHS, spread_of(losses[way][kind]), style)
            axes.axhline(math.log(VOCAB), color=MUTED, linewidth=1.4, linestyle=":")
            axes.log_axis("x", DEPTHS)
            axes.set_ylim(0, 1.15 * math.log(VOCAB))
        return board.drawing(**numbers)
