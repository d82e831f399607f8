"""Figure of part 5: why residuals and norms.

Blocks learn to copy a token with and without residual connections and norms (`training`); and
plain and residual layers learn to give back their input (`identity`).
"""

from __future__ import annotations

import math
from typing import Any

from regard.draw import LINE_STYLES, MUTED, LineStyle
from regard.explain import Board, Drawing, Numbers, Words, key_of
from regard_lectures.figures.identity import learn_identity
from regard_lectures.figures.training import (
    DIM,
    LEARNED,
    VOCAB,
    Trial,
    draw_curves,
    draw_gradients,
    train_all,
    trial_numbers,
    trial_styles,
)
from regard_lectures.progress import training_progress
from regard_lectures.tries import draw_spread, listed, span, spread_of, trainings

NAMES = ("both", "no norms", "no residuals", "neither")
WITHOUT = {
    "both": "with both",
    "no norms": "without norms",
    "no residuals": "without residuals",
    "neither": "with neither",
}
IDENTITY = ("plain", "residual")


def measure(layers: int, steps: int, rate: float, tries: int, seed: int) -> dict[str, Any]:
    """Train the blocks without residuals, norms or both, and chains that learn the identity."""
    trials = [
        Trial(
            name,
            norm="layer" if name in ("both", "no residuals") else "none",
            residual=name in ("both", "no norms"),
        )
        for name in NAMES
    ]
    result = train_all(trials, layers, steps, rate, tries, seed)
    depths = sorted({2**i for i in range(layers.bit_length()) if 2**i <= layers} | {layers})
    with training_progress(steps * tries * 2 * len(depths)) as on_step:
        errors = {
            f"identity_error_{kind}": [
                [
                    learn_identity(
                        depth, steps, rate, one_seed, on_step, residual=kind == "residual"
                    )
                    for depth in depths
                ]
                for one_seed in range(seed, seed + tries)
            ]
            for kind in IDENTITY
        }
    return {**result, "identity_layers": depths, **errors}


def words_residuals(numbers: Numbers) -> Words:
    """Which trainings learn, and whether residual layers learn the identity better."""
    ends = {name: numbers[key_of(f"loss_{name}")] for name in NAMES}
    learned = {
        name: sum(loss < numbers["learned_below"] for loss in losses)
        for name, losses in ends.items()
    }
    tries = len(ends["both"])
    always = [WITHOUT[name] for name in NAMES if learned[name] == tries]
    never = [WITHOUT[name] for name in NAMES if learned[name] == 0]
    at_times = [WITHOUT[name] for name in NAMES if 0 < learned[name] < tries]
    blocks = f"{numbers['blocks']} blocks"
    parts = [
        f"{blocks} learn {listed(always)}" if always else "",
        f"not {listed(never)}" if always and never else "",
        f"in part {listed(at_times)}" if always and at_times else "",
        f"{blocks} learn in some of the trainings {listed(at_times)}" if not always else "",
    ]
    title = ", ".join(filter(None, parts))
    if always == ["with both"] and not at_times:
        title = f"{blocks} learn with residuals and norms; with one of them or neither, not"
    elif len(never) == len(NAMES):
        title = f"{blocks} learn neither with residuals and norms nor without"
    plain, residual = (
        [line[-1] for line in numbers[f"identity_error_{kind}"]] for kind in IDENTITY
    )
    better = (
        "err less than"
        if 1.25 * max(residual) < min(plain)
        else "err more than"
        if min(residual) > 1.25 * max(plain)
        else "do not clearly differ from"
    )
    caption = (
        f"Loss at the end: {span(ends['both'], '.2g')} with both, "
        f"{span(ends['no residuals'], '.2g')} without residuals. Trained to return their input, "
        f"{numbers['identity_layers'][-1]} residual layers {better} plain ones: by "
        f"{span(residual, '.0%')}, not {span(plain, '.0%')}."
    )
    return Words(title, caption)


def residuals(
    measured: dict[str, Any], layers: int, steps: int, rate: float, tries: int, seed: int
) -> Drawing:
    """Draw learning with and without residuals and norms, and how the identity is learned."""
    curves, gradients = measured["curves"], measured["gradients"]
    errors = {f"identity_error_{kind}": measured[f"identity_error_{kind}"] for kind in IDENTITY}
    numbers: Numbers = {
        "blocks": layers,
        "steps": steps,
        "tries": tries,
        **trial_numbers(curves, gradients),
        "identity_layers": measured["identity_layers"],
        **errors,
    }
    largest = {
        name: span([max(line) for line in lines], ".2g") for name, lines in gradients.items()
    }
    ends = {name: span(numbers[key_of(f"loss_{name}")], ".2g") for name in NAMES}
    details = (
        f"Left: {layers} pre-norm blocks of width {DIM} learn to copy the previous token: {steps} "
        f"steps of Adam at a learning rate of {rate:g} without warm-up, seeds from {seed}; mean "
        f"and range. Guessing costs ln {VOCAB} = {math.log(VOCAB):.2f}; below {LEARNED:.2f} counts "
        f"as learned. Without norms the loss ends at {ends['no norms']}, with neither at "
        f"{ends['neither']}. Middle: the gradient norm "
        f"of each block's weights at the first step, at most {largest['both']} with both, "
        f"{largest['no norms']} without norms and {largest['neither']} with neither. "
        "Right: without residuals each layer must first learn to pass its input on. Feed-forward "
        "layers alone, without norms, are trained for as many steps to return random vectors; the "
        "error is |f(x) − x|² / |x|² on new vectors, and 1 for an output of zero."
    )
    limits = f"Width {DIM}, copying a token, {steps:,} steps at a rate of {rate:g}, "
    limits += f"{trainings(tries)}."
    with Board(words_residuals(numbers), (1.15, 0.9, 0.9), details, limits=limits) as board:
        board.legend({**trial_styles(NAMES), "guessing": LineStyle(MUTED, ":")})
        draw_curves(board, 0, "learning", curves)
        draw_gradients(board, 1, gradients)
        _draw_identity(board, 2, numbers["identity_layers"], errors)
        return board.drawing(**numbers)


def _draw_identity(
    board: Board, panel: int, depths: list[int], errors: dict[str, list[list[float]]]
) -> None:
    axes = board.chart(panel, "learning the identity", "layers", "error left")
    values = []
    for kind, style in zip(IDENTITY, (LINE_STYLES[2], LINE_STYLES[0]), strict=True):
        lines = errors[f"identity_error_{kind}"]
        draw_spread(axes, depths, spread_of(lines), style)
        axes.curve([], [], style=style, marker=style.marker, label=kind)
        values += [value for line in lines for value in line]
    axes.log_axis("x", depths)
    low = math.floor(math.log10(max(min(values), 1e-9)))
    axes.log_axis("y", [10.0**exponent for exponent in range(low, 2)])
    axes.set_ylim(10.0**low, max(30.0, 2 * max(values)))
    axes.draw_legend("upper left")
