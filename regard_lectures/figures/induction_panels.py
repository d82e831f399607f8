"""The panels of the figure `induction`: losses, losses without heads, and heads in training."""

from __future__ import annotations

import numpy as np

from regard.draw import BLUE, GREEN, INK, LINE_STYLES, MUTED, ORANGE, Chart
from regard.explain import Numbers

ROLES = ("induction", "previous", "same")
SHORT_ROLES = {"induction": "copying", "previous": "previous", "same": "itself"}
"""The roles of heads, and what each attends to: the token to copy, the previous one, itself."""
FOUND = 0.3
"""A head has a role if its mean weight on the token of that role is at least this."""


def draw_losses(axes: Chart, numbers: Numbers) -> None:
    """Draw the losses of one and of two layers: the mean and the range over the seeds."""
    guess, steps = numbers["guess"], numbers["steps"]
    for name, label, style in (
        ("one_layer", "1 layer", LINE_STYLES[1]), ("two_layers", "2 layers", LINE_STYLES[0])
    ):  # fmt: skip
        lines = np.array(numbers[f"curve_{name}"])
        axes.curve(steps, lines.mean(0), style=style, label=label)
        axes.fill_between(steps, lines.min(0), lines.max(0), color=style.colour, alpha=0.2, lw=0)
    axes.axhline(guess, color=MUTED, linewidth=1.4, linestyle=":")
    axes.axhline(numbers["unordered"], color=GREEN, linewidth=1.4, linestyle="-.")
    axes.write((0, guess * 1.02), "a guess", va="bottom", color=MUTED)
    axes.set_ylim(0, guess * 1.3)
    axes.draw_legend("center right")


def draw_bars(axes: Chart, numbers: Numbers) -> None:
    """Draw the loss of two layers, and without the heads of each role."""
    bars = {"none": numbers["loss_two_layers"]}
    bars |= {role: numbers[f"loss_without_{role}"] for role in ROLES}
    bars["others"] = numbers["loss_without_others"]
    highest = 1.35 * max(numbers["guess"], *(max(losses) for losses in bars.values()))
    for index, (role, losses) in enumerate(bars.items()):
        mean = sum(losses) / len(losses)
        axes.barh(index, mean, 0.7, color=ORANGE if role in ROLES else BLUE)
        axes.hlines(index, min(losses), max(losses), color=INK, linewidth=2)
        axes.write((max(losses) + 0.02 * highest, index), f"{mean:.1f}", va="center")
    axes.axvline(numbers["guess"], color=MUTED, linewidth=1.4, linestyle=":")
    axes.set_yticks(range(len(bars)), [SHORT_ROLES.get(role, role) for role in bars])
    axes.set_xticks([])
    axes.set_xlim(0, highest)
    axes.set_ylim(len(bars) - 0.5, -0.5)
    axes.grid(visible=False)


def draw_scores(axes: Chart, steps: list[int], scores: list[list[float]]) -> None:
    """Draw one curve per head; scores are (measurement, head)."""
    for number, line in enumerate(zip(*scores, strict=True)):
        axes.curve(steps, line, style=LINE_STYLES[number % len(LINE_STYLES)], width=2.2)
    numbers = [str(number) for number, score in enumerate(scores[-1]) if score >= FOUND]
    if numbers:
        said = f"head{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}"
        axes.write((0.02, 0.97), said, va="top", transform=axes.transAxes)
    axes.set_ylim(0, 1.4)
    axes.set_yticks([0, 0.5, 1])
