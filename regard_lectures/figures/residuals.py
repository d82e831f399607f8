"""Figure of part 5: why residuals and norms.

Blocks learn to copy a token with and without residual connections and norms (`training`); and
plain and residual layers learn to give back their input (`identity`).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from regard.draw import LINE_STYLES, MUTED, LineStyle
from regard.explain import Board, Drawing, key_of
from regard_lectures.figures.identity import learn_identity
from regard_lectures.figures.training import (
    DIM,
    VOCAB,
    Trial,
    draw_curves,
    draw_gradients,
    first_gradients,
    train_trial,
    trial_numbers,
    trial_styles,
)
from regard_lectures.progress import training_progress

NAMES = ("both", "no norms", "no residuals", "neither")


def measure(layers: int, steps: int, rate: float, seed: int) -> dict[str, Any]:
    """Train the blocks without residuals, norms or both, and chains that learn the identity."""
    whole = Trial("both")
    trials = [
        whole,
        replace(whole, name="no norms", norm="none"),
        replace(whole, name="no residuals", residual=False),
        replace(whole, name="neither", residual=False, norm="none"),
    ]
    depths = sorted({2**i for i in range(layers.bit_length()) if 2**i <= layers} | {layers})
    with training_progress(steps * (len(trials) + 2 * len(depths))) as on_step:
        curves = {
            trial.name: train_trial(trial, layers, steps, rate, seed, on_step) for trial in trials
        }
        errors = {
            f"identity_error_{name}": [
                learn_identity(depth, steps, rate, seed, on_step, residual=residual)
                for depth in depths
            ]
            for name, residual in (("plain", False), ("residual", True))
        }
    gradients = {trial.name: first_gradients(trial, layers, seed) for trial in trials}
    return {**trial_numbers(curves, gradients), "identity_layers": depths, **errors}


def residuals(numbers: dict[str, Any], layers: int, steps: int, rate: float, seed: int) -> Drawing:
    """Draw learning with and without residuals and norms, and how the identity is learned."""
    curves = {name: numbers[key_of(f"curve_{name}")] for name in NAMES}
    gradients = {name: numbers[key_of(f"gradients_{name}")] for name in NAMES}
    ends = {name: numbers[key_of(f"loss_{name}")] for name in NAMES}
    largest = {name: max(values) for name, values in gradients.items()}
    plain, residual = (numbers[f"identity_error_{kind}"] for kind in ("plain", "residual"))
    caption = (
        f"With both, the loss ends at {ends['both']:.2g}; without residuals at "
        f"{ends['no residuals']:.2g}. Trained to return their input, {layers} plain layers keep an "
        f"error of {plain[-1]:.0%}, residual layers one of {residual[-1]:.1%}."
    )
    details = (
        f"Left: {layers} pre-norm blocks of width {DIM} learn to copy the previous token: {steps} "
        f"steps of Adam at a learning rate of {rate:g} without warm-up, seed {seed}. Guessing "
        f"costs ln {VOCAB} = {math.log(VOCAB):.2f}. Without norms the loss ends at "
        f"{ends['no norms']:.2g}, with neither at {ends['neither']:.2g}. Middle: the gradient norm "
        f"of each block's weights at the first step, at most {largest['both']:.2g} with both, "
        f"{largest['no norms']:,.0f} without norms and {largest['neither']:.1g} with neither. "
        "Right: without residuals each layer must first learn to pass its input on. Feed-forward "
        "layers alone, without norms, are trained for as many steps to return random vectors; the "
        "error is |f(x) − x|² / |x|² on new vectors, and 1 for an output of zero."
    )
    with Board(caption, (1.15, 0.9, 0.9), details) as board:
        board.legend({**trial_styles(curves), "guessing": LineStyle(MUTED, ":")})
        draw_curves(board, 0, "learning", curves)
        draw_gradients(board, 1, gradients)
        _draw_identity(board, 2, numbers["identity_layers"], plain, residual)
        return board.drawing(**numbers)


def _draw_identity(
    board: Board, panel: int, depths: list[int], plain: list[float], residual: list[float]
) -> None:
    axes = board.chart(panel, "learning the identity", "layers", "error left")
    for name, values, style in (
        ("plain", plain, LINE_STYLES[2]),
        ("residual", residual, LINE_STYLES[0]),
    ):
        axes.curve(depths, values, style=style, marker=style.marker, label=name)
    axes.log_axis("x", depths)
    low = math.floor(math.log10(max(min(*plain, *residual), 1e-9)))
    axes.log_axis("y", [10.0**exponent for exponent in range(low, 2)])
    axes.set_ylim(10.0**low, max(30.0, 2 * max(*plain, *residual)))
    axes.draw_legend("upper left")
