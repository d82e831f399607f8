"""Figure of part 2: attention is cheaper than recurrence while the text is shorter than its width.

For n tokens of width d, counted without additions of biases, softmax and gates:

    GRU            12 n d²              6 matrices, one step after the other
    attention       8 n d² + 4 n² d     4 matrices, then q·kᵀ and weights·v
    equal at        n = d

Measured is the time of one core, which also depends on how large the matrix products are that a
layer can make: attention multiplies all tokens at once, the GRU one token per step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from statistics import median

import numpy as np
import torch

from regard.draw import LINE_STYLES, MUTED, LineStyle
from regard.explain import Board, Drawing, Numbers, Words
from regard.layers import Attention, Recurrent, plain_context
from regard_lectures.figures.costs import attention_flops, decades
from regard_lectures.timing import FEWEST_ROUNDS, Cost, measured, measured_line, range_of
from regard_lectures.tries import Spread, draw_spread, listed, span

NARROWEST, SHORTEST, LONGEST = 16, 32, 16_384
"""The smallest width; the shortest text, and the longest, after which the search ends."""

EXACT, FAR = 0.01, 2
"""Operations cross at n = d within a hundredth; much longer is more than twice as long."""


def recurrent_flops(layer: Recurrent, length: int) -> int:
    """The FLOPs of the products of a recurrent layer's matrices with each of some tokens."""
    matrices = [parameter for parameter in layer.parameters() if parameter.dim() == 2]
    return sum(2 * length * matrix.numel() for matrix in matrices)


def crossing(
    lengths: Sequence[int], lower: Sequence[float], upper: Sequence[float]
) -> float | None:
    """The length at which a line passes another from below, between points of a log-log plot.

    Args:
        lengths: The lengths.
        lower: The line that is below at first.
        upper: The other.

    Returns:
        None if it stays below. The first length if it begins above.
    """
    above = [math.log(a / b) for a, b in zip(lower, upper, strict=True)]
    for i, gap in enumerate(above):
        if gap >= 0:
            if i == 0:
                return float(lengths[0])
            share = above[i - 1] / (above[i - 1] - gap)
            before, after = math.log(lengths[i - 1]), math.log(lengths[i])
            return math.exp(before + share * (after - before))
    return None


def times(dim: int, rounds: int) -> tuple[list[int], list[Cost], list[Cost]]:
    """Lengths, and what attention and a GRU take at each, until attention is slower each round."""
    attention, recurrent = Attention(dim, 1), Recurrent(dim, cell="gru")
    lengths, taken = [SHORTEST], list[tuple[Cost, Cost]]()
    while True:
        x, ctx = torch.randn(lengths[-1], dim), plain_context((lengths[-1],))
        layers: dict[str, Attention | Recurrent] = {"attention": attention, "gru": recurrent}
        calls = {(name, 0): partial(layer, x, ctx) for name, layer in layers.items()}
        costs = measured(calls, rounds)
        taken.append((costs["attention", 0], costs["gru", 0]))
        if (
            all(a > b for a, b in zip(*(cost.turns for cost in taken[-1]), strict=True))
            or lengths[-1] >= LONGEST
        ):
            return lengths, [attention for attention, _ in taken], [gru for _, gru in taken]
        lengths.append(2 * lengths[-1])


def crossings(
    lengths: Sequence[int], attention: Sequence[Cost], gru: Sequence[Cost]
) -> list[float | None]:
    """The length at which attention becomes slower, in each round."""
    rounds = len(attention[0].turns)
    return [
        crossing(lengths, *([cost.turns[number] for cost in line] for line in (attention, gru)))
        for number in range(rounds)
    ]


@torch.inference_mode()
def crossover(dim: int, rounds: int, seed: int) -> Drawing:
    """Draw the length from which attention costs more than recurrence, against the width.

    Args:
        dim: The largest width.
        rounds: The number of rounds.
        seed: The seed of all tensors.
    """
    torch.manual_seed(seed)
    widths = [NARROWEST * 2**i for i in range(int(math.log2(dim / NARROWEST)) + 1)]
    by_time, counted = list[list[float | None]](), list[float | None]()
    for width in widths:
        lengths, *lines = times(width, rounds)
        by_time.append(crossings(lengths, *lines))
        around = [max(2, width // 2), width, 2 * width]
        attention, recurrent = Attention(width, 1), Recurrent(width, cell="gru")
        works = (
            [float(attention_flops(attention, n)) for n in around],
            [float(recurrent_flops(recurrent, n)) for n in around],
        )
        counted.append(crossing(around, *works))
    return _draw(
        {
            "rounds": rounds,
            "widths": widths,
            "slower_from_by_operations": counted,
            "slower_from_by_time": by_time,
            "lengths": lengths,
            "seconds_attention": [range_of(cost.turns) for cost in lines[0]],
            "seconds_recurrent": [range_of(cost.turns) for cost in lines[1]],
        }
    )


def words_crossover(numbers: Numbers) -> Words:
    """Whether the operations cross at n = d, and where the times do."""
    widths, counted = numbers["widths"], numbers["slower_from_by_operations"]
    width, met = widths[-1], numbers["slower_from_by_time"][-1]
    at_the_width = all(n and abs(n / d - 1) < EXACT for d, n in zip(widths, counted, strict=True))
    widths_phrase = (
        "n = d" if at_the_width else listed([f"{n:,.0f}" if n else "never" for n in counted])
    )
    lengths_met = [n for n in met if n is not None]
    known = len(met) >= FEWEST_ROUNDS
    when = f"{span(lengths_met, ',.0f')} tokens" if lengths_met else ""
    if not lengths_met:
        title = f"Up to {LONGEST:,} tokens attention takes less time than a GRU"
    elif not known or len(lengths_met) < len(met):
        title = "From which length on attention takes longer than a GRU, these times cannot tell"
    elif min(lengths_met) > width:
        title = "Attention takes longer than a GRU only in texts much longer than the width"
        if min(lengths_met) <= FAR * width:
            title = "Attention takes longer than a GRU in texts longer than the width"
    else:
        title = "Attention takes longer than a GRU already in texts as long as the width"
    rounds = f"{len(lengths_met)} of {len(met)} rounds" if len(met) > 1 else "a single round"
    caption = (
        f"In operations attention costs more from {widths_phrase} on (widths "
        f"{listed([str(d) for d in widths])}). In time, at d = {width}, it does "
        + (f"from {when} on, in {rounds}." if lengths_met else f"not up to {LONGEST:,} tokens.")
    )
    return Words(title, caption)


def _draw(numbers: Numbers) -> Drawing:
    widths, rounds = numbers["widths"], numbers["rounds"]
    counted, by_time = numbers["slower_from_by_operations"], numbers["slower_from_by_time"]
    details = (
        "FLOPs of one layer for n tokens of width d: GRU 12 n d², attention 8 n d² + 4 n² d, equal "
        "at n = d; without projections, n² d against n d², it is n = d as well. Times: medians of "
        f"{rounds} rounds, vertical lines from quartile to quartile, on the left from the least to "
        f"the largest; texts are doubled from {SHORTEST} tokens until attention takes longer, and "
        "the crossing is interpolated. A GRU multiplies one token at a time by its matrices, and "
        "its steps wait for each other; attention multiplies all tokens at once."
    )
    styles = {
        "n = d": LineStyle(MUTED, ":"),
        "by operations": LINE_STYLES[0],
        "by time": LINE_STYLES[1],
        "attention": LINE_STYLES[2],
        "GRU": LINE_STYLES[3],
    }
    limits = measured_line(rounds)
    with Board(words_crossover(numbers), (1, 1), details, limits=limits) as board:
        board.legend(styles)
        axes = board.chart(0, "attention costs more from n =", "width d", "")
        drawn = [float(n) for n in widths]
        for name, rows in (("by operations", [[n] for n in counted]), ("by time", by_time)):
            known = [
                (d, [n for n in row if n]) for d, row in zip(widths, rows, strict=True) if any(row)
            ]
            if known:
                values = [row for _, row in known]
                drawn += [n for row in values for n in row]
                spread = Spread(
                    *map(
                        list,
                        zip(*((median(row), min(row), max(row)) for row in values), strict=True),
                    )
                )
                draw_spread(axes, [d for d, _ in known], spread, styles[name])
        axes.curve(widths, widths, style=styles["n = d"])
        axes.log_axis("x", widths)
        axes.log_axis("y", decades(drawn))
        _draw_times(board, numbers, {name: styles[name] for name in ("attention", "GRU")})
        return board.drawing(**numbers)


def _draw_times(board: Board, numbers: Numbers, styles: Mapping[str, LineStyle]) -> None:
    """Draw the time of both layers at the largest width."""
    lengths, width = numbers["lengths"], numbers["widths"][-1]
    axes = board.chart(1, f"time at d = {width}, ms", "tokens n", "")
    shown: list[float] = []
    for kind, style in zip(("attention", "recurrent"), styles.values(), strict=True):
        line = 1e3 * np.array(numbers[f"seconds_{kind}"])  # (lengths, middle-low-high)
        draw_spread(axes, lengths, Spread(*line.T.tolist()), style)
        shown += line.flatten().tolist()
    axes.log_axis("x", [n for n in (100, 1000, 10_000) if lengths[0] <= n <= lengths[-1]])
    axes.log_axis("y", decades(shown))
