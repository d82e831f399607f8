"""Figure of part 6: scaling laws, the loss as a power law of size, data and compute.

Five decoders of different sizes are trained on the bytes of Python's own documentation, or of a
person's own file, each row once. The loss on held-out text is measured several times during
training, and a law is fitted to the four smaller sizes; the largest one tests its extrapolation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.optim.swa_utils import AveragedModel

from regard.data import python_text
from regard.draw import INK, LINE_STYLES, MUTED, TEXT, Chart, shorten
from regard.errors import InputError
from regard.explain import Board, Drawing, Numbers, Words
from regard.models import Decoder, GPTConfig
from regard_lectures.figures.descent import Descent, next_token_loss, warming
from regard_lectures.figures.fitting import Array, Law, fit
from regard_lectures.progress import OnStep, training_progress

BYTES, LENGTH, BATCH = 256, 64, 16
UNSEEN = 256
"""The number of held-out rows of text."""
MARKS = 7
"""The number of measurements during a training, at geometrically spaced amounts of data."""
RANGE = 4
"""The ratio of the last to the first measured amount of data; with less data, a model has hardly
begun to learn."""
RATE, WARMUP = 0.005, 30
"""The learning rate at width 64, scaled with 1/√dim, and the warm-up steps."""
AVERAGE = 8
"""The exponent of the weight average: the weights of step t count with t^AVERAGE."""

NEAR = 0.05
"""A fit with larger differences than this share is called poor."""
LAYERS = 2
SHAPES = {8: 2, 14: 1, 24: 4, 42: 3, 72: 6}
"""Width -> heads: from two thousand to a hundred thousand parameters, by factors of three. So few
that size limits the loss: with half a million, two megabytes of text would be the limit."""


@dataclass(frozen=True)
class Run:
    """One size: its parameters without embeddings, and its losses at each amount of data."""

    size: int
    losses: list[float]


def read_rows(count: int, seed: int, file: str = "") -> Tensor:
    """Rows of Python's own documentation, or of a file, in random order: (count, LENGTH + 1) bytes.

    Raises:
        InputError: If there is not enough text.
    """
    needed, parts, size = count * (LENGTH + 1), [], 0
    for text in (_read_file(file),) if file else (text for _, text in python_text()):
        parts.append(text.encode() + b"\n\n")
        size += len(parts[-1])
        if size >= needed:
            break
    else:
        most = max(0, (size // (LENGTH + 1) - UNSEEN) // BATCH)
        raise InputError(
            "steps",
            got=(count - UNSEEN) // BATCH,
            expected=f"at most {most}, since no text is read twice",
        )
    read = torch.frombuffer(bytearray(b"".join(parts)[:needed]), dtype=torch.uint8)
    rows = read.view(count, LENGTH + 1)
    return rows[torch.randperm(count, generator=torch.Generator().manual_seed(seed))].long()


def _read_file(path: str) -> str:
    """The text of a person's own file.

    Raises:
        InputError: If it cannot be read, or is no text.
    """
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise InputError(f"file: cannot read {path}", expected="a text file in UTF-8") from None


def marks(steps: int) -> list[int]:
    """The steps at which the loss is measured.

    Example:
        >>> marks(640)
        [160, 202, 254, 320, 403, 508, 640]
    """
    return sorted({max(1, round(steps * RANGE ** (k / (MARKS - 1) - 1))) for k in range(MARKS)})


def train(dim: int, rows: Tensor, at: Sequence[int], seed: int, on_step: OnStep) -> Run:
    """Train one size, and measure its loss at the given steps.

    A scaling law needs, for each amount of data, the loss of a training that ends there with its
    learning rate decayed to zero. A single training replaces them: its rate stays constant, and
    the loss is that of a weight average in which recent weights count most, with the same effect.
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
    descent = Descent(model.parameters(), rate, on_step, warming(WARMUP), beta=0.95)
    averaged = AveragedModel(model, avg_fn=_average)
    unseen, losses = rows[:UNSEEN], []
    for step in range(1, at[-1] + 1):
        batch = rows[UNSEEN + (step - 1) * BATCH : UNSEEN + step * BATCH]
        descent.step(next_token_loss(model, batch), BATCH * LENGTH)
        averaged.update_parameters(model)
        if step in at:
            with torch.no_grad():
                losses.append(float(next_token_loss(cast(Decoder, averaged.module), unseen)))
    return Run(sum(p.numel() for p in model.decoder.parameters()), losses)


def _average(average: Tensor, new: Tensor, count: Tensor | int) -> Tensor:
    """Polynomial-decay averaging (Shamir and Zhang 2013): the weights of step t count ∝ t^AVERAGE.

    Unlike a decay schedule it does not need to know the last step.
    """
    return torch.lerp(average, new, (AVERAGE + 1) / (float(count) + AVERAGE + 1))


@dataclass(frozen=True)
class Measured:
    """All runs, the law fitted to the smaller ones, and its predictions for the largest."""

    sizes: list[int]
    data: list[int]
    """The number of training tokens at each measurement."""
    losses: list[list[float]]
    """(size, data) The measured losses."""
    law: Law
    predicted: list[float]
    """The losses of the largest size predicted by `law`, for each amount of data."""
    whole: Law
    """The law fitted to all sizes."""

    @property
    def off(self) -> list[float]:
        """The relative error of each prediction."""
        return [
            abs(said / true - 1) for said, true in zip(self.predicted, self.losses[-1], strict=True)
        ]

    @property
    def misfit(self) -> float:
        """The largest relative difference of the law from a point that it was fitted to."""
        fits = self.law.loss(np.array(self.sizes[:-1])[:, None], self.data)
        return float(np.abs(fits / np.array(self.losses[:-1]) - 1).max())

    @property
    def compute(self) -> Array:
        """C = 6 N D of each measured point: (size, data)."""
        return np.asarray(6.0 * np.outer(self.sizes, self.data), dtype=np.float64)

    def below(self) -> tuple[int, float]:
        """The number of points below the law's compute frontier, and the largest relative gap."""
        short = 1 - np.array(self.losses) / self.law.frontier(self.compute)
        return int((short > 0).sum()), float(max(0.0, short.max()))


def fit_runs(runs: Sequence[Run], data: list[int]) -> Measured:
    """Fit the law to all runs except the last, which is the largest."""
    sizes, losses = [run.size for run in runs], [run.losses for run in runs]

    def law(count: int) -> Law:
        n, d = np.repeat(sizes[:count], len(data)), np.tile(data, count)
        return fit(n, d, np.ravel(losses[:count]))

    smaller = law(len(runs) - 1)
    predicted = smaller.loss(sizes[-1], data).tolist()
    return Measured(sizes, data, losses, smaller, predicted, law(len(runs)))


def measure(steps: int, file: str, seed: int) -> dict[str, Any]:
    """Train all sizes, and measure their losses at several amounts of data."""
    at = marks(steps)
    rows = read_rows(UNSEEN + steps * BATCH, seed, file)
    with training_progress(
        steps * len(SHAPES)
    ) as on_step:  # largest first, for a realistic time left
        runs = [train(dim, rows, at, seed, on_step) for dim in reversed(SHAPES)][::-1]
    data = [step * BATCH * LENGTH for step in at]
    return {"runs": [asdict(run) for run in runs], "data": data}


def laws(measured: dict[str, Any], steps: int, file: str, seed: int) -> Drawing:
    """Draw the loss by size, by data and by compute, with the law of the four smaller sizes."""
    fitted = fit_runs([Run(**run) for run in measured["runs"]], measured["data"])
    numbers = _numbers(fitted)
    source = shorten(Path(file).name, 300, TEXT) if file else "Python's documentation"
    limits = f"One training of {steps:,} steps for each size, on bytes of {source}; seed {seed}."
    board_words = words_laws(numbers), (1, 1, 1), _details(fitted, source, seed)
    with Board(*board_words, limits=limits) as board:
        names = [f"N = {_short(size)}" for size in fitted.sizes]
        board.legend(dict(zip(names, LINE_STYLES, strict=True)))
        _draw_by_size(board, fitted)
        _draw_by_data(board, fitted)
        _draw_by_compute(board, fitted)
        return board.drawing(**numbers)


def words_laws(numbers: Numbers) -> Words:
    """Whether the law of the smaller sizes predicts the largest, better than no growth does."""
    losses, off, same = numbers["losses"], _mean(numbers["off"]), numbers["off_by_the_fourth"]
    if off < same / 2:
        title = f"A power law of four sizes predicts the fifth: it is off by {off:.1%} on average"
    elif off > same:
        title = f"A power law of four sizes does not predict the fifth: off by {off:.1%} on average"
    else:
        title = f"A power law of four sizes hardly helps to predict the fifth, off by {off:.1%}"
    fits = numbers["fit_is_off_by_at_most"]
    poor = "" if fits <= NEAR else ", a poor fit"
    law = f"L = {numbers['floor']:.2f} + A/N^{numbers['size_power']:.2f} + B/D^"
    law += f"{numbers['data_power']:.2f}"
    caption = (
        f"Fitted {law}, off by at most {fits:.1%}{poor}; for the fifth size (hollow) it says "
        f"{numbers['predicted'][-1]:.2f}, measured {losses[-1][-1]:.2f} in this training. The "
        f"fourth size's own loss would be off by {same:.1%}."
    )
    return Words(title, caption)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _details(fitted: Measured, source: str, seed: int) -> str:
    law, data = fitted.law, fitted.data[-1]
    grows = law.data_power / (law.size_power + law.data_power)
    below, most = fitted.below()
    return (
        f"Five decoders of {LAYERS} layers and {fitted.sizes[0]:,} to {fitted.sizes[-1]:,} "
        f"parameters (without embeddings) read {data / 1e6:.2g} million bytes of {source} once; "
        f"Adam at {RATE:g} · √(64 / dim), averaged weights, seed {seed}. "
        "Fitted to the four smaller sizes by least squares of ln L: L = E + A/N^α + B/D^β with "
        f"E = {law.floor:.2f}, A = {law.size_factor:.3g}, α = {law.size_power:.2f}, "
        f"B = {law.data_factor:.3g}, β = {law.data_power:.2f} (Hoffmann et al. 2022, other text: "
        f"1.69, 406, 0.34, 411, 0.28). The fourth size reaches {fitted.losses[-2][-1]:.3f}. For "
        f"C = 6ND FLOPs the best size grows as C^{grows:.2f}. The black line is the smallest loss "
        f"that the law gives for a number of FLOPs, which is an estimate and no bound: {below} of "
        f"{np.size(fitted.losses)} measured points lie below it, by {most:.1%} at most."
    )


def _draw_by_size(board: Board, fitted: Measured) -> None:
    axes = board.chart(0, "by size", "parameters N", "nats per byte")
    span = np.geomspace(fitted.sizes[0] / 1.3, fitted.sizes[-1] * 1.3, 50)
    indices = sorted({0, len(fitted.data) // 3, 2 * len(fitted.data) // 3, len(fitted.data) - 1})
    for index in indices:
        axes.plot(span, fitted.law.loss(span, fitted.data[index]), color=MUTED, linewidth=1.6)
    for number in range(len(fitted.sizes)):
        losses = [fitted.losses[number][index] for index in indices]
        _points(axes, [fitted.sizes[number]] * len(losses), losses, fitted, number)
    for index, side in ((indices[0], "bottom"), (indices[-1], "top")):
        least = fitted.law.loss(span, fitted.data[index])
        middle = len(span) // 2
        away = 1.06 if side == "bottom" else 1 / 1.06
        axes.write((float(span[middle]), float(least[middle]) * away),
              f"D = {_short(fitted.data[index])}", ha="left" if side == "bottom" else "right",
              va=side)  # fmt: skip
    axes.log_axis("x", [1e4, 1e5, 1e6])
    axes.set_xlim(span[0], span[-1])
    _loss_axis(axes, fitted)


def _draw_by_data(board: Board, fitted: Measured) -> None:
    axes = board.chart(1, "by data", "tokens read D", "nats per byte")
    span = np.geomspace(fitted.data[0] / 1.3, fitted.data[-1] * 1.3, 50)
    for number, (size, line) in enumerate(zip(fitted.sizes, fitted.losses, strict=True)):
        axes.curve(span, fitted.law.loss(size, span), style=LINE_STYLES[number], width=1.6)
        _points(axes, fitted.data, line, fitted, number)
    axes.log_axis("x", [1e3, 1e4, 1e5, 1e6, 1e7])
    axes.set_xlim(span[0], span[-1])
    _loss_axis(axes, fitted)


def _draw_by_compute(board: Board, fitted: Measured) -> None:
    axes = board.chart(2, "by compute", "FLOPs, 6 N D", "black: the law's best")
    for number, line in enumerate(fitted.losses):
        axes.curve(fitted.compute[number], line, style=LINE_STYLES[number], width=1.2)
        _points(axes, fitted.compute[number], line, fitted, number)
    span = np.geomspace(fitted.compute.min(), fitted.compute.max(), 50)
    axes.plot(span, fitted.law.frontier(span), color=INK, linewidth=2.4)
    axes.log_axis("x", [10.0**exponent for exponent in range(8, 14, 2)])
    axes.set_xlim(fitted.compute.min() / 1.5, fitted.compute.max() * 1.5)
    _loss_axis(axes, fitted)


def _points(
    axes: Chart, across: npt.ArrayLike, up: Sequence[float], fitted: Measured, number: int
) -> None:
    """Draw the points of one size; hollow for the largest, which was not fitted."""
    style = LINE_STYLES[number]
    inside = "white" if number == len(fitted.sizes) - 1 else style.colour
    axes.plot(
        np.asarray(across), up, style.marker, color=style.colour, markersize=8,
        markerfacecolor=inside,
    )  # fmt: skip


def _short(count: float) -> str:
    """A number with two digits and a unit: 43776 -> `44k`."""
    size, unit = (1e6, "M") if count >= 0.995e6 else (1e3, "k")
    return f"{count / size:.2g}{unit}" if count < 100 * size else f"{count / size:.0f}{unit}"


def _loss_axis(axes: Chart, fitted: Measured) -> None:
    every = np.array(fitted.losses)
    axes.log_axis("y", [1, 1.2, 1.5, 1.8, 2, 2.5, 3, 4, 5])
    axes.set_ylim(every.min() / 1.08, every.max() * 1.08)


def _numbers(fitted: Measured) -> Numbers:
    laws = {"": fitted.law, "_of_all": fitted.whole}
    return {
        "sizes": fitted.sizes,
        "data": fitted.data,
        "losses": fitted.losses,
        **{
            f"{name}{end}": value
            for end, law in laws.items()
            for name, value in asdict(law).items()
        },
        "predicted": fitted.predicted,
        "off": fitted.off,
        "off_by_the_fourth": _mean(
            [fourth / fifth - 1 for fourth, fifth in zip(*fitted.losses[-2:], strict=True)]
        ),
        "fit_is_off_by_at_most": fitted.misfit,
        "points_below_the_best_by_the_law": fitted.below()[0],
        "below_by_at_most": fitted.below()[1],
    }
