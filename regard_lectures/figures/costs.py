"""Figure of part 3: what scores and heads cost, measured on this machine.

Additive scores v·tanh(W q + U k) compute a vector for each pair of query and key, dot products
q·k one number by a matrix product. And h heads of width d/h multiply as many numbers as one head of
width d. Time: that of one core, the median of rounds in which all contestants take turns, so that a
slow moment of the machine meets all of them. Memory: the largest sum of what torch had allocated
during a call.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from regard.draw import LINE_STYLES, MUTED, LineStyle
from regard.errors import InputError
from regard.explain import Board, Drawing, Numbers, Words, key_of
from regard.layers import AdditiveScore, Attention, DotScore, Mask, attend_unfused, plain_context
from regard_lectures.timing import (
    Call,
    Cost,
    Name,
    measured,
    measured_line,
    range_of,
    ratio,
    verdict,
)
from regard_lectures.tries import Spread, draw_spread

KINDS = ("additive", "dot product", "dot product, fused")
WIDTHS = ("narrow", "full")
"""Heads of a share of the width, and of all of it."""
SHORTEST = 32
"""The shortest sequence whose scores are measured."""
LENGTH = 128
"""The number of tokens for which heads are measured."""


@torch.inference_mode()
def costs(length: int, dim: int, heads: int, rounds: int, seed: int) -> Drawing:
    """Draw time and memory of additive and dot-product scores, and time and FLOPs of heads.

    Args:
        length: The longest sequence whose scores are measured.
        dim: The width of a head.
        heads: The largest number of heads; the layer is `heads * dim` wide.
        rounds: The number of rounds.
        seed: The seed of all tensors.
    """
    if heads & (heads - 1):
        raise InputError("heads", got=heads, expected="a power of 2, such as 8")
    torch.manual_seed(seed)
    lengths = [SHORTEST * 2**i for i in range(int(math.log2(length / SHORTEST)) + 1)]
    scores = measured(
        {(name, n): call for n in lengths for name, call in score_calls(n, dim).items()}, rounds
    )
    counts = [2**i for i in range(int(math.log2(heads)) + 1)]
    width = heads * dim
    layers = {
        (kind, count): layer
        for count in counts
        for kind, layer in (
            ("narrow", Attention(width, count)),
            ("full", Attention(width, count, head_dim=width)),
        )
    }
    x, ctx = torch.randn(LENGTH, width), plain_context((LENGTH,))
    times = measured({name: partial(layer, x, ctx) for name, layer in layers.items()}, rounds)
    flops = {name: attention_flops(layer, LENGTH) for name, layer in layers.items()}
    result = _Measurements(lengths, dim, scores, counts, times, flops)
    return _draw(result.numbers(rounds), rounds, seed)


def score_calls(length: int, dim: int) -> dict[str, Call]:
    """Attention of one head over random q, k and v (1, 1, length, dim), by three kinds of score."""
    q, k, v = torch.randn(3, 1, 1, length, dim)
    additive, dot, mask = AdditiveScore(1, dim), DotScore(dim**-0.5), Mask()
    return {
        "additive": partial(additive.attend, q, k, v, mask, None, 0.0),
        "dot product": partial(attend_unfused, dot.scores, q, k, v, mask, None, 0.0),
        "dot product, fused": partial(dot.attend, q, k, v, mask, None, 0.0),
    }


def attention_flops(layer: Attention, length: int) -> int:
    """The FLOPs of a self-attention layer: 2·m·n·k for each product of (m, k) and (k, n).

    The projections to q, k and v and W_O, and for each head q·kᵀ and weights·v.
    """
    projections = sum(2 * length * matrix.numel() for matrix in layer.matrices())
    products = 2 * 2 * length**2 * layer.heads * layer.head_dim
    return projections + products


@dataclass(frozen=True)
class _Measurements:
    """All measurements."""

    lengths: list[int]
    dim: int
    scores: dict[Name, Cost]
    """By kind of score and length."""
    counts: list[int]
    """Numbers of heads."""
    times: dict[Name, Cost]
    """By width of a head (`narrow`: d/h, `full`: d) and number of heads."""
    flops: dict[Name, int]

    def numbers(self, rounds: int) -> Numbers:
        """What the picture shows and its words say."""
        n = self.lengths[-1]
        additive, dot = (self.scores[name, n] for name in ("additive", "dot product"))
        single = self.times["narrow", 1]
        return {
            "rounds": rounds,
            "dim": self.dim,
            "lengths": self.lengths,
            **cost_numbers(self.scores, self.lengths),
            "additive_over_dot_seconds": ratio(additive, dot),
            "additive_over_dot_bytes": additive.bytes / dot.bytes,
            "heads": self.counts,
            **{
                f"seconds_heads_{kind}": [ratio(self.times[kind, h], single) for h in self.counts]
                for kind in WIDTHS
            },
            **{
                f"flops_heads_{kind}": [self.flops[kind, count] for count in self.counts]
                for kind in WIDTHS
            },
        }


def cost_numbers(costs: Mapping[Name, Cost], lengths: Sequence[int]) -> Numbers:
    """Seconds (median and quartiles) and bytes at each length, for each kind."""
    kinds = dict.fromkeys(kind for kind, _ in costs)
    seconds, sizes = (
        {f"{what}_{key_of(kind)}": [of(costs[kind, n]) for n in lengths] for kind in kinds}
        for what, of in (
            ("seconds", lambda cost: range_of(cost.turns)),
            ("bytes", lambda cost: cost.bytes),
        )
    )
    return {**seconds, **sizes}


def words_costs(numbers: Numbers) -> Words:
    """Whether additive scores take longer, and whether several heads do."""
    rounds, most = numbers["rounds"], numbers["heads"][-1]
    times, heads = numbers["additive_over_dot_seconds"], numbers["seconds_heads_narrow"][-1]
    scores = {
        "more": f"Additive scores take {times[0]:.0f} × the time of dot products",
        "less": f"Additive scores take {times[0]:.2f} × the time of dot products",
        "the same": "Additive scores take about as long as dot products",
        "unknown": "Additive scores or dot products: these times cannot tell which is slower",
    }[verdict(times, rounds)]
    together = {
        "more": f"{most} heads take longer than one",
        "less": f"{most} heads take less time than one",
        "the same": f"{most} heads as long as one",
        "unknown": "",
    }[verdict(heads, rounds)]
    title = "; ".join(filter(None, (scores, together)))
    width = most * numbers["dim"]
    caption = (
        f"At {numbers['lengths'][-1]} tokens additive scores take {span_of(times)} × the time and "
        f"{numbers['additive_over_dot_bytes']:.1f} × the memory of dot products: "
        f"{_memory(numbers['additive_over_dot_bytes'])}. {most} heads of {numbers['dim']} take "
        f"{span_of(heads)} × the time of one of {width}"
    )
    doubt = "" if together else ": these times cannot tell which is slower"
    return Words(title, f"{caption}{doubt}.")


def _memory(factor: float) -> str:
    """What a ratio of bytes, which is exact, says about additive scores."""
    if factor > 1:
        return "they store a vector for each pair of tokens, not a number"
    return "they store no more than these"


def span_of(times: Sequence[float]) -> str:
    """The quartiles of a ratio in words.

    Example:
        >>> span_of([2, 1.94, 2.11]), span_of([86, 80.2, 91]), span_of([1, 0.96, 1.01])
        ('1.9 to 2.1', '80 to 91', '1.0')
    """
    low, high = (f"{value:.0f}" if value >= 10 else f"{value:.1f}" for value in times[1:])
    return low if low == high else f"{low} to {high}"


def _draw(numbers: Numbers, rounds: int, seed: int) -> Drawing:
    width = numbers["heads"][-1] * numbers["dim"]
    details = (
        f"Medians of {rounds} rounds in which all take turns; vertical lines and ranges: half of "
        f"the rounds lie between. Left and middle: one head of width {numbers['dim']}; additive: "
        "v·tanh(q + k), a vector for each pair of tokens; dot product: q·k / √d_k, a number; "
        "fused: the same in PyTorch's kernel, which never stores all scores. Right: a whole "
        f"self-attention layer of width {width} on {LENGTH} tokens, its projections included, "
        f"beside one head of {width}: FLOPs are the same for every number of heads "
        f"({numbers['flops_heads_narrow'][0] / 1e6:,.0f} million) if each is d/h wide, and grow "
        f"with this number if each is d wide. Seed {seed}."
    )
    styles = dict(zip(KINDS, LINE_STYLES, strict=False))
    limits = measured_line(rounds)
    with Board(words_costs(numbers), (1, 1, 1), details, limits=limits) as board:
        board.legend(styles)
        draw_costs(board, styles, numbers, "tokens", numbers["lengths"])
        _draw_heads(board, numbers)
        return board.drawing(**numbers)


def draw_costs(
    board: Board,
    styles: Mapping[str, LineStyle],
    numbers: Numbers,
    label: str,
    ticks: Sequence[int],
) -> None:
    """Draw time and memory against the length, in the first two panels, a line for each kind."""
    lengths = numbers["lengths"]
    axes, values = board.chart(0, "time, ms", label, ""), list[float]()
    for kind, style in styles.items():
        line = 1e3 * np.array(numbers[f"seconds_{key_of(kind)}"])  # (lengths, middle-low-high)
        values += line.flatten().tolist()
        draw_spread(axes, lengths, Spread(*line.T.tolist()), style)
    axes.log_axis("x", ticks)
    axes.log_axis("y", decades(values))
    axes, values = board.chart(1, "memory, MB", label, ""), list[float]()
    for kind, style in styles.items():
        sizes = [1e-6 * size for size in numbers[f"bytes_{key_of(kind)}"]]
        values += sizes
        axes.curve(lengths, sizes, style=style, marker=style.marker)
    axes.log_axis("x", ticks)
    axes.log_axis("y", decades(values))


def _draw_heads(board: Board, numbers: Numbers) -> None:
    """Time and FLOPs of several heads over those of one, for heads of width d/h and of width d."""
    axes = board.chart(2, "time of h heads", "heads h", "× that of one head")
    counts, single = numbers["heads"], numbers["flops_heads_narrow"][0]
    for kind, name, number in (("full", "of width d", 3), ("narrow", "of width d/h", 4)):
        style, label = LINE_STYLES[number], "FLOPs of both" if kind == "narrow" else None
        line = np.array(numbers[f"seconds_heads_{kind}"])  # (heads, middle-low-high)
        draw_spread(
            axes, counts, Spread(*line.T.tolist()), LineStyle(style.colour, "-", style.marker)
        )
        axes.curve([], [], style=LineStyle(style.colour), marker=style.marker, label=name)
        shares = [flops / single for flops in numbers[f"flops_heads_{kind}"]]
        axes.curve(counts, shares, style=LineStyle(MUTED, ":"), width=2.2, label=label)
    axes.log_axis("x", counts)
    axes.log_axis("y", counts)
    axes.set_ylim(0.5, 2.2 * counts[-1])
    axes.draw_legend("upper left")


def decades(values: Sequence[float]) -> list[float]:
    """The powers of ten from below the smallest value to above the largest."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return [10.0**exponent for exponent in range(low, high + 1)]
