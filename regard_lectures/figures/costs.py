"""Figure of part 3: what scores and heads cost, measured on this machine.

Additive scores v·tanh(W q + U k) compute a vector for each pair of query and key, dot products
q·k one number by a matrix product. And h heads of width d/h multiply as many numbers as one head of
width d. Time: that of one core, the median of rounds in which all contestants take turns, so that a
slow moment of the machine meets all of them. Memory: the largest sum of what torch had allocated
during a call.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import torch
from torch.profiler import ProfilerActivity, profile

from regard.draw import LINE_STYLES, MUTED, LineStyle
from regard.errors import InputError
from regard.explain import Board, Drawing, key_of
from regard.layers import AdditiveScore, Attention, DotScore, Mask, attend_unfused, plain_context

SHORTEST = 32
"""The shortest sequence whose scores are measured."""
LENGTH = 128
"""The number of tokens for which heads are measured."""
TURN = 0.002
"""Seconds that a turn takes at least: a quick call is repeated."""

Call = Callable[[], object]
Name = tuple[str, int]
"""A contestant: its kind, and a length or a number of heads."""


@dataclass(frozen=True)
class Cost:
    """What a call takes."""

    seconds: float
    """The median over all rounds."""
    bytes: int
    """The peak of its allocations."""


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
    return _draw(_Measurements(lengths, dim, scores, counts, times, flops), rounds, seed)


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


def measured(calls: Mapping[Name, Call], rounds: int) -> dict[Name, Cost]:
    """Time and memory of each call.

    Args:
        calls: The contestants.
        rounds: How often each takes a turn; each round begins with another contestant.
    """
    names, threads = list(calls), torch.get_num_threads()
    memory = {name: peak_bytes(call) for name, call in calls.items()}
    turns: dict[Name, list[float]] = {name: [] for name in names}
    torch.set_num_threads(1)
    try:
        again = {name: max(1, math.ceil(TURN / _seconds(call, 1))) for name, call in calls.items()}
        for number in range(rounds):
            first = number % len(names)
            for name in names[first:] + names[:first]:
                turns[name].append(_seconds(calls[name], again[name]))
    finally:
        torch.set_num_threads(threads)
    return {name: Cost(statistics.median(turns[name]), memory[name]) for name in names}


def _seconds(call: Call, again: int) -> float:
    """The mean CPU time of this thread in some calls in a row."""
    begun = time.thread_time()  # other programs on the machine do not count
    for _ in range(again):
        call()
    return max((time.thread_time() - begun) / again, 1e-9)


def peak_bytes(call: Call) -> int:
    """The largest sum of the memory that torch allocated and had not yet freed during a call."""
    with (
        _silent_profiler(),
        profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watched,
    ):
        call()
    now = peak = 0
    for event in watched.profiler.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            peak = max(peak, now)
    return peak


@contextmanager
def _silent_profiler() -> Iterator[None]:
    """Keep the profiler from printing when it starts and stops."""
    before = os.environ.get("KINETO_LOG_LEVEL")
    os.environ["KINETO_LOG_LEVEL"] = "99"
    try:
        yield
    finally:
        if before is None:
            del os.environ["KINETO_LOG_LEVEL"]
        else:
            os.environ["KINETO_LOG_LEVEL"] = before


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

    @property
    def kinds(self) -> list[str]:
        """The kinds of scores."""
        return list(dict.fromkeys(name for name, _ in self.scores))

    def factor(self, what: str) -> float:
        """Additive over dot product at the longest sequence, in `seconds` or `bytes`."""
        additive, dot = (
            self.scores[name, self.lengths[-1]] for name in ("additive", "dot product")
        )
        return float(getattr(additive, what) / getattr(dot, what))

    def slower(self, kind: str, what: str = "times") -> list[float]:
        """Time or FLOPs for each number of heads, relative to one head."""
        values = [
            self.times[kind, count].seconds if what == "times" else self.flops[kind, count]
            for count in self.counts
        ]
        single = self.times["narrow", 1].seconds if what == "times" else self.flops["narrow", 1]
        return [value / single for value in values]


def _draw(result: _Measurements, rounds: int, seed: int) -> Drawing:
    most, width = result.counts[-1], result.counts[-1] * result.dim
    caption = (
        f"At {result.lengths[-1]} tokens additive scores take {result.factor('seconds'):.0f} × the "
        f"time and {result.factor('bytes'):.0f} × the memory of dot products; {most} heads of "
        f"{result.dim} take {result.slower('narrow')[-1]:.1f} × the time of one of {width}."
    )
    details = (
        f"Measured now on one core: medians of {rounds} rounds in which all take turns. "
        f"Left and middle: one head of width {result.dim}; additive: "
        "v·tanh(q + k), a vector for each pair of tokens; dot product: q·k / √d_k, a number; "
        "fused: the same in PyTorch's kernel, which never stores all scores. Right: a whole "
        f"self-attention layer of width {width} on {LENGTH} tokens, its projections included, "
        f"beside one head of {width}: FLOPs are the same for every number of heads "
        f"({result.flops['narrow', 1] / 1e6:,.0f} million) if each is d/h wide, and grow with this "
        f"number if each is d wide. Seed {seed}."
    )
    styles = dict(zip(result.kinds, LINE_STYLES, strict=False))
    with Board(caption, (1, 1, 1), details) as board:
        board.legend(styles)
        draw_costs(board, styles, result.lengths, result.scores, "tokens", result.lengths)
        _draw_heads(board, result)
        return board.drawing(**_numbers(result))


def draw_costs(
    board: Board,
    styles: Mapping[str, LineStyle],
    lengths: Sequence[int],
    costs: Mapping[Name, Cost],
    label: str,
    ticks: Sequence[int],
) -> None:
    """Draw time and memory against the length, in the first two panels, a line for each kind."""
    for panel, (heading, what, scale) in enumerate(
        (("time, ms", "seconds", 1e3), ("memory, MB", "bytes", 1e-6))
    ):
        axes = board.chart(panel, heading, label, "")
        values: list[float] = []
        for kind, style in styles.items():
            line = [scale * getattr(costs[kind, n], what) for n in lengths]
            values += line
            axes.curve(lengths, line, style=style, marker=style.marker)
        axes.log_axis("x", ticks)
        axes.log_axis("y", decades(values))


def _draw_heads(board: Board, result: _Measurements) -> None:
    """Time and FLOPs of several heads over those of one, for heads of width d/h and of width d."""
    axes = board.chart(2, "time of h heads", "heads h", "× that of one head")
    for kind, name, number in (("full", "of width d", 3), ("narrow", "of width d/h", 4)):
        style, flops = LINE_STYLES[number], "FLOPs of both" if kind == "narrow" else None
        solid = LineStyle(style.colour)
        axes.curve(result.counts, result.slower(kind), style=solid, marker=style.marker, label=name)
        axes.curve(
            result.counts, result.slower(kind, "flops"), style=LineStyle(MUTED, ":"), width=2.2,
            label=flops,
        )  # fmt: skip
    axes.log_axis("x", result.counts)
    axes.log_axis("y", result.counts)
    axes.set_ylim(0.5, 2.2 * result.counts[-1])
    axes.draw_legend("upper left")


def decades(values: Sequence[float]) -> list[float]:
    """The powers of ten from below the smallest value to above the largest."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return [10.0**exponent for exponent in range(low, high + 1)]


def _numbers(result: _Measurements) -> dict[str, object]:
    return {
        "lengths": result.lengths,
        **{
            f"{what}_{key_of(name)}": [
                getattr(result.scores[name, n], what) for n in result.lengths
            ]
            for name in result.kinds
            for what in ("seconds", "bytes")
        },
        "additive_times_dot_seconds": result.factor("seconds"),
        "additive_times_dot_bytes": result.factor("bytes"),
        "heads": result.counts,
        **{
            f"{what}_heads_{kind}": values
            for kind in ("narrow", "full")
            for what, values in (
                ("seconds", [result.times[kind, count].seconds for count in result.counts]),
                ("flops", [result.flops[kind, count] for count in result.counts]),
            )
        },
    }
