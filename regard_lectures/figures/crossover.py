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
from collections.abc import Sequence
from functools import partial

import torch

from regard.draw import LINE_STYLES, MUTED, LineStyle
from regard.explain import Board, Drawing
from regard.layers import Attention, Recurrent, plain_context
from regard_lectures.figures.costs import attention_flops, decades, measured

NARROWEST, SHORTEST, LONGEST = 16, 32, 16_384
"""The smallest width; the shortest text, and the longest, after which the search ends."""


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


def times(dim: int, rounds: int) -> tuple[list[int], list[float], list[float]]:
    """Lengths, and the seconds of attention and of a GRU at each, until attention takes longer."""
    attention, recurrent = Attention(dim, 1), Recurrent(dim, cell="gru")
    lengths, seconds = [SHORTEST], list[tuple[float, float]]()
    while True:
        x, ctx = torch.randn(lengths[-1], dim), plain_context((lengths[-1],))
        layers: dict[str, Attention | Recurrent] = {"attention": attention, "gru": recurrent}
        calls = {(name, 0): partial(layer, x, ctx) for name, layer in layers.items()}
        costs = measured(calls, rounds)
        seconds.append((costs["attention", 0].seconds, costs["gru", 0].seconds))
        if seconds[-1][0] > seconds[-1][1] or lengths[-1] >= LONGEST:
            return lengths, [attention for attention, _ in seconds], [gru for _, gru in seconds]
        lengths.append(2 * lengths[-1])


@torch.inference_mode()
def crossover(dim: int, rounds: int, seed: int) -> Drawing:
    """Draw the length from which attention costs more than recurrence, against the width.

    Args:
        dim: The largest width.
        rounds: The number of rounds of which a time is the median.
        seed: The seed of all tensors.
    """
    torch.manual_seed(seed)
    widths = [NARROWEST * 2**i for i in range(int(math.log2(dim / NARROWEST)) + 1)]
    by_time, counted = list[float | None](), list[float | None]()
    curves: tuple[list[int], list[float], list[float]] = ([], [], [])
    for width in widths:
        curves = times(width, rounds)
        by_time.append(crossing(*curves))
        lengths = [max(2, width // 2), width, 2 * width]
        attention, recurrent = Attention(width, 1), Recurrent(width, cell="gru")
        works = (
            [float(attention_flops(attention, n)) for n in lengths],
            [float(recurrent_flops(recurrent, n)) for n in lengths],
        )
        counted.append(crossing(lengths, *works))
    return _draw(widths, counted, by_time, curves, rounds)


def _draw(
    widths: list[int],
    counted: list[float | None],
    by_time: list[float | None],
    curves: tuple[list[int], list[float], list[float]],
    rounds: int,
) -> Drawing:
    width, met = widths[-1], by_time[-1]
    when = f"from {met:,.0f} tokens on" if met else f"never up to {LONGEST:,} tokens"
    caption = (
        "Counted in operations, attention costs more than a GRU as soon as the text is longer than "
        f"the width, n > d; in time, on this machine, at d = {width} {when}."
    )
    details = (
        "FLOPs of one layer for n tokens of width d: GRU 12 n d², attention 8 n d² + 4 n² d, equal "
        "at n = d; without projections, n² d against n d², it is n = d as well. Times are those of "
        f"one core, medians of {rounds} rounds; texts are doubled from {SHORTEST} tokens until "
        "attention takes longer, and the crossing is interpolated. A GRU multiplies one token at a "
        "time by its matrices, and its steps wait for each other, so that it reaches a smaller "
        "share of the machine's speed; on hardware with many cores even more so."
    )
    styles = {
        "n = d": LineStyle(MUTED, ":"),
        "by operations": LINE_STYLES[0],
        "by time": LINE_STYLES[1],
        "attention": LINE_STYLES[2],
        "GRU": LINE_STYLES[3],
    }
    with Board(caption, (1, 1), details) as board:
        board.legend(styles)
        axes = board.chart(0, "attention costs more from n =", "width d", "")
        for name, values in (("by operations", counted), ("by time", by_time)):
            known = [(d, n) for d, n in zip(widths, values, strict=True) if n is not None]
            across, up = zip(*known, strict=True)
            axes.curve(across, up, style=styles[name], marker=styles[name].marker, markersize=9)
        axes.curve(widths, widths, style=styles["n = d"])
        axes.log_axis("x", widths)
        axes.log_axis("y", decades([widths[0], *(n for n in (*counted, *by_time) if n)]))
        lengths, *lines = curves
        axes = board.chart(1, f"time at d = {width}, ms", "tokens n", "")
        for name, line in zip(("attention", "GRU"), lines, strict=True):
            shown = [1e3 * seconds for seconds in line]
            axes.curve(lengths, shown, style=styles[name], marker=styles[name].marker)
        axes.log_axis("x", [n for n in (100, 1000, 10_000) if lengths[0] <= n <= lengths[-1]])
        axes.log_axis("y", decades([1e3 * seconds for line in lines for seconds in line]))
        return board.drawing(
            widths=widths,
            slower_from_by_operations=counted,
            slower_from_by_time=by_time,
            lengths=lengths,
            seconds_attention=lines[0],
            seconds_recurrent=lines[1],
        )
