"""A figure of part 6: scaling laws, the loss as powers of size, data and compute.

Five decoders of different sizes read the same text, Python's own documentation byte by byte, and
each piece of it once. What they lose on unseen text is measured several times on the way, and a
law is fitted to the four smaller; the largest shows whether it can be trusted beyond.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from matplotlib.axes import Axes
from torch import Tensor
from torch.optim.swa_utils import AveragedModel

from regard.atlas.drawing import STROKES, Board, Drawing, Numbers, floats, key, power, powers
from regard.atlas.figures.descent import descend
from regard.atlas.figures.fitting import Law, fit
from regard.atlas.progress import Tell, training_progress
from regard.data.input import Ragged
from regard.data.text.python_docs import python_text
from regard.errors import InputError
from regard.explain.colours import INK
from regard.models import GPTConfig
from regard.models.decoder import Decoder
from regard.train.adam import Adam

BYTES, LENGTH, BATCH = 256, 64, 16
UNSEEN = 256
"""Rows of text that are set aside to measure with."""
MARKS = 7
"""How often the loss is measured on the way, at amounts of data that grow by the same factor."""
RANGE = 4
"""The last amount of data over the first: before it, a model has hardly begun."""
RATE, WARMUP = 0.005, 30
"""The rate at width 64; at others it is ∝ 1/√dim."""
AVERAGE = 8
"""How much more the latest weights count in the average that is measured."""

LAYERS = 2
SHAPES = {8: 2, 14: 1, 24: 4, 42: 3, 72: 6}
"""Width -> heads: from two thousand parameters to a hundred thousand, three times more each time.
So few that size is what they lack: with half a million, two megabytes of text are."""


@dataclass(frozen=True)
class Run:
    """One size: its parameters without embeddings, and its losses at each amount of data."""

    size: int
    losses: list[float]


def read_rows(count: int, seed: int) -> Tensor:
    """Rows of Python's own text, in a random order: (count, LENGTH + 1) bytes.

    Raises:
        InputError: If there is less of it.
    """
    needed, parts, size = count * (LENGTH + 1), [], 0
    for _, text in python_text():
        parts.append(text.encode() + b"\n\n")
        size += len(parts[-1])
        if size >= needed:
            break
    else:
        most = (size // (LENGTH + 1) - UNSEEN) // BATCH
        raise InputError(
            "steps",
            got=(count - UNSEEN) // BATCH,
            expected=f"at most {most}, since no text is read twice",
        )
    read = torch.frombuffer(bytearray(b"".join(parts)[:needed]), dtype=torch.uint8)
    rows = read.view(count, LENGTH + 1)
    return rows[torch.randperm(count, generator=torch.Generator().manual_seed(seed))].long()


def marks(steps: int) -> list[int]:
    """The steps at which the loss is measured.

    Example:
        >>> marks(640)
        [160, 202, 254, 320, 403, 508, 640]
    """
    return sorted({max(1, round(steps * RANGE ** (k / (MARKS - 1) - 1))) for k in range(MARKS)})


def train(dim: int, rows: Tensor, at: Sequence[int], seed: int, tell: Tell) -> Run:
    """Trains one size, and measures it at the given steps.

    At every amount of data the loss should be that of a training that ends there, whose rate has
    come down to nothing. One training serves for all: its rate stays, and what is measured is an
    average of its weights, the latest counting most, which has the same effect.
    """
    torch.manual_seed(seed)
    model = Decoder(
        GPTConfig(
            layers=LAYERS, dim=dim, heads=SHAPES[dim], hidden=4 * dim,
            positions="rotary", tied=False, dropout=0.0, max_length=LENGTH,
        ),
        BYTES,
    )  # fmt: skip
    rate = RATE * (64 / dim) ** 0.5
    optimizer = Adam(model.parameters(), lr=rate, betas=(0.9, 0.95), fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / WARMUP)
    )
    averaged = AveragedModel(model, avg_fn=_average)
    unseen, losses = rows[:UNSEEN], []
    for step in range(1, at[-1] + 1):
        batch = rows[UNSEEN + (step - 1) * BATCH : UNSEEN + step * BATCH]
        tell(descend(optimizer, _loss(model, batch)), BATCH * LENGTH)
        schedule.step()
        averaged.update_parameters(model)
        if step in at:
            with torch.no_grad():
                losses.append(float(_loss(cast(Decoder, averaged.module), unseen)))
    return Run(sum(p.numel() for p in model.decoder.parameters()), losses)


def _average(average: Tensor, new: Tensor, count: Tensor | int) -> Tensor:
    """The t-th weights count ∝ t^AVERAGE (Shamir and Zhang 2013): no end need be known."""
    return torch.lerp(average, new, (AVERAGE + 1) / (float(count) + AVERAGE + 1))


def _loss(model: Decoder, rows: Tensor) -> Tensor:
    texts = Ragged(rows[:, :-1].flatten(), (LENGTH,) * len(rows))
    return model.loss(texts, rows[:, 1:].flatten()) / texts.ids.numel()


@dataclass(frozen=True)
class Measured:
    """All runs, the law of the smaller ones, and what it says of the largest."""

    sizes: list[int]
    data: list[int]
    """Tokens read when the losses were measured."""
    losses: list[list[float]]
    """(size, data)"""
    law: Law
    predicted: list[float]
    """Of the largest size at each amount of data, by the law of the others."""
    whole: Law
    """The law of all sizes."""

    @property
    def off(self) -> list[float]:
        """How far each prediction is off, as a share of what was measured."""
        return [
            abs(said / true - 1) for said, true in zip(self.predicted, self.losses[-1], strict=True)
        ]


def fit_runs(runs: Sequence[Run], data: list[int]) -> Measured:
    """Fits the law to all runs but the last, which is the largest."""
    sizes, losses = [run.size for run in runs], [run.losses for run in runs]

    def law(count: int) -> Law:
        n, d = np.repeat(sizes[:count], len(data)), np.tile(data, count)
        return fit(n, d, np.ravel(losses[:count]))

    smaller = law(len(runs) - 1)
    predicted = floats(smaller.loss(sizes[-1], data))
    return Measured(sizes, data, losses, smaller, predicted, law(len(runs)))


def laws(steps: int, seed: int) -> Drawing:
    """Loss by size, by data and by compute, with the law of the four smaller sizes."""
    at = marks(steps)
    rows = read_rows(UNSEEN + steps * BATCH, seed)
    with training_progress(
        steps * len(SHAPES)
    ) as tell:  # the largest first: then time left is no lie
        runs = [train(dim, rows, at, seed, tell) for dim in reversed(SHAPES)][::-1]
    found = fit_runs(runs, [step * BATCH * LENGTH for step in at])
    with Board(
        "Scaling laws: the loss is a power of size, of data, and of compute",
        _caption(found, seed),
        (1, 1, 1),
    ) as board:
        _draw_by_size(board, found)
        _draw_by_data(board, found)
        _draw_by_compute(board, found)
        return board.drawing(_numbers(found))


def _caption(found: Measured, seed: int) -> str:
    law, data = found.law, found.data[-1]
    grows = law.data_power / (law.size_power + law.data_power)
    last = [line[-1] for line in found.losses]
    return (
        f"Five decoders of {LAYERS} layers and {found.sizes[0]:,} to {found.sizes[-1]:,} "
        f"parameters (embeddings not counted) read {data / 1e6:.2g} million bytes of Python's own "
        f"documentation, each once; Adam at {RATE:g} · √(64 / dim), weights averaged; seed "
        f"{seed}. Least squares of ln L on the four smaller: L = E + A/N^α + B/D^β with "
        f"E = {law.floor:.2f}, A = {law.size_factor:.3g}, α = {law.size_power:.2f}, "
        f"B = {law.data_factor:.3g}, β = {law.data_power:.2f} (Hoffmann et al. 2022, other text: "
        f"1.69, 406, 0.34, 411, 0.28). The largest, not fitted (hollow): {found.predicted[-1]:.3f} "
        f"foretold, {last[-1]:.3f} measured, where the fourth has {last[-2]:.3f}; off by "
        f"{np.mean(found.off):.1%} on average. For C = 6ND FLOPs the best size grows as "
        f"C^{grows:.2f}."
    )


def _draw_by_size(board: Board, found: Measured) -> None:
    axes = board.chart(0, "by size", "parameters N", "loss in nats a byte")
    span = np.geomspace(found.sizes[0] / 1.3, found.sizes[-1] * 1.3, 50)
    places = sorted({0, len(found.data) // 3, 2 * len(found.data) // 3, len(found.data) - 1})
    for place, (colour, dash) in zip(places, STROKES, strict=False):
        name, said = f"D = {power(found.data[place])}", found.law.loss(span, found.data[place])
        axes.plot(span, said, color=colour, linestyle=dash, linewidth=1.6, label=name)
        _points(axes, found.sizes, [line[place] for line in found.losses], colour, 1)
    powers(axes, "x", [1e4, 1e5, 1e6])
    axes.set_xlim(span[0], span[-1])
    _loss_axis(axes, found)


def _draw_by_data(board: Board, found: Measured) -> None:
    axes = board.chart(1, "by data", "tokens read D", "loss in nats a byte")
    span = np.geomspace(found.data[0] / 1.3, found.data[-1] * 1.3, 50)
    for number, (size, line) in enumerate(zip(found.sizes, found.losses, strict=True)):
        colour, dash = STROKES[number]
        hollow = len(line) if number == len(found.sizes) - 1 else 0
        name, said = f"N = {power(size)}", found.law.loss(size, span)
        axes.plot(span, said, color=colour, linestyle=dash, linewidth=1.6, label=name)
        _points(axes, found.data, line, colour, hollow)
    powers(axes, "x", [1e3, 1e4, 1e5, 1e6, 1e7])
    axes.set_xlim(span[0], span[-1])
    _loss_axis(axes, found)


def _draw_by_compute(board: Board, found: Measured) -> None:
    axes = board.chart(2, "by compute", "FLOPs, 6 N D", "loss in nats a byte")
    spent = 6 * np.outer(found.sizes, found.data)  # (size, data)
    for number, (compute, line) in enumerate(zip(spent, found.losses, strict=True)):
        colour, dash = STROKES[number]
        axes.plot(compute, line, color=colour, linestyle=dash, linewidth=1.2)
        hollow = len(line) if number == len(found.sizes) - 1 else 0
        _points(axes, compute, line, colour, hollow)
    span = np.geomspace(spent.min(), spent.max(), 50)
    axes.plot(span, found.law.frontier(span), color=INK, linewidth=2.4, label="the law's frontier")
    powers(axes, "x", [10.0**exponent for exponent in range(8, 14, 2)])
    axes.set_xlim(spent.min() / 1.5, spent.max() * 1.5)
    _loss_axis(axes, found)


def _points(
    axes: Axes, across: npt.ArrayLike, up: Sequence[float], colour: str, hollow: int
) -> None:
    """Dots, of which the last few, which were not fitted, are hollow."""
    x, solid = np.asarray(across), len(up) - hollow
    axes.plot(x[:solid], up[:solid], "o", color=colour, markersize=6)
    axes.plot(x[solid:], up[solid:], "o", color=colour, markersize=7, markerfacecolor="white")


def _loss_axis(axes: Axes, found: Measured) -> None:
    every = np.array(found.losses)
    powers(axes, "y", [1, 1.2, 1.5, 1.8, 2, 2.5, 3, 4, 5])
    axes.set_ylim(every.min() / 1.08, every.max() * 1.08)
    key(axes, "best")


def _numbers(found: Measured) -> Numbers:
    laws = {"": found.law, "_of_all": found.whole}
    return {
        "sizes": found.sizes,
        "data": found.data,
        "losses": found.losses,
        **{
            f"{name}{end}": value
            for end, law in laws.items()
            for name, value in asdict(law).items()
        },
        "predicted": found.predicted,
        "off": found.off,
    }
