"""Figure of part 2: the parameters of recurrent cells, by formula and counted.

    rnn    a candidate                   1 · (d m + d² + 2 d)
    gru    2 gates and a candidate       3 · (d m + d² + 2 d)
    lstm   3 gates and a candidate       4 · (d m + d² + 2 d)

A gate or candidate has W (d × m) for an input of width m, U (d × d) for the state of width d, and a
bias for each of the two products, as in PyTorch. Beside them: self-attention and a gated
convolution.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch

from regard.draw import LINE_STYLES, LineStyle
from regard.explain import Board, Drawing, Numbers, Words
from regard.layers import Attention, GatedConvolution, Mixer, Recurrent
from regard_lectures.figures.costs import decades

WIDTHS = (16, 32, 64, 128, 256, 512, 1024)
KERNEL = 3
"""Tokens that the convolution sees."""
RECURRENT = ("rnn", "gru", "lstm")
LIMITS = "Counted in the layers' tensors, built without weights: nothing is trained."


class Kind(NamedTuple):
    """A layer whose input and output are d wide: its number of parameters, and how it is built."""

    formula: str
    count: Callable[[int], int]
    build: Callable[[int], Mixer]


KINDS = {
    "rnn": Kind("2d² + 2d", lambda d: 2 * d * d + 2 * d, lambda d: Recurrent(d, cell="rnn")),
    "gru": Kind("3 (2d² + 2d)", lambda d: 6 * d * d + 6 * d, lambda d: Recurrent(d, cell="gru")),
    "lstm": Kind("4 (2d² + 2d)", lambda d: 8 * d * d + 8 * d, lambda d: Recurrent(d, cell="lstm")),
    "attention": Kind("4 (d² + d)", lambda d: 4 * d * d + 4 * d, lambda d: Attention(d, 1)),
    "convolution": Kind(
        f"2 ({KERNEL}d² + d)",
        lambda d: 2 * (KERNEL * d * d + d),
        lambda d: GatedConvolution(d, kernel=KERNEL),
    ),
}


def counted(kind: Kind, dim: int) -> int:
    """The number of parameters of a layer of this width, counted in its tensors."""
    with torch.device("meta"):  # without storing them
        return sum(parameter.numel() for parameter in kind.build(dim).parameters())


def words_cells(numbers: Numbers) -> Words:
    """How many times an RNN's parameters a GRU and an LSTM have, and of what they consist."""
    counts = {name: numbers[f"counted_{name}"] for name in ("rnn", "gru", "lstm")}
    ratios = {name: round(count / counts["rnn"], 1) for name, count in counts.items()}
    title = (
        f"A GRU has {ratios['gru']:g} times, an LSTM {ratios['lstm']:g} times the parameters of an "
        "RNN"
    )
    pairs = numbers["pairs_of_matrices"]
    explained = all(ratios[name] == pairs[name] for name in ("gru", "lstm"))
    if not explained:
        title += ", not as many as pairs of matrices"
    agree = all(
        numbers[f"computed_{name}"] == numbers[f"counted_{name}"] for name in KINDS
    ) and all(
        KINDS[name].count(width) == count
        for name in KINDS
        for width, count in zip(numbers["widths"], numbers[f"parameters_{name}"], strict=True)
    )
    caption = (
        f"A pair of matrices W and U for a candidate and for each gate: a GRU has "
        f"{pairs['gru'] - 1} gates, {pairs['gru']} pairs; an LSTM {pairs['lstm'] - 1} gates, "
        f"{pairs['lstm']} pairs; an RNN no gate. Counted in the layers' tensors: "
        f"{'as' if agree else 'other than'} the formulas say."
    )
    return Words(title, caption)


def pairs_of_matrices(name: str, dim: int) -> int:
    """How many matrices W a recurrent cell has, each with its U: read off its tensors."""
    with torch.device("meta"):
        weight = next(iter(KINDS[name].build(dim).parameters()))  # all W below each other
    return weight.shape[0] // dim


def cells(dim: int) -> Drawing:
    """Draw the number of parameters of each kind of layer against its width.

    Args:
        dim: The width of the table's layers.
    """
    counts = {name: [counted(kind, width) for width in WIDTHS] for name, kind in KINDS.items()}
    here = {name: counted(kind, dim) for name, kind in KINDS.items()}
    numbers: Numbers = {
        "dim": dim,
        "widths": list(WIDTHS),
        "pairs_of_matrices": {name: pairs_of_matrices(name, dim) for name in RECURRENT},
        **{f"parameters_{name}": line for name, line in counts.items()},
        **{f"computed_{name}": kind.count(dim) for name, kind in KINDS.items()},
        **{f"counted_{name}": count for name, count in here.items()},
    }
    details = (
        "Input and state are d wide; lines are the formulas, points are counted. For an input of "
        "width m a gate or candidate has d m + d² + 2d parameters: W, U and a bias for each "
        "product, as in PyTorch; with one bias, as the equations are mostly written, d fewer. An "
        "RNN has a candidate alone; a GRU two gates (reset, update) and a candidate; an LSTM three "
        "gates (input, forget, output) and a candidate. Attention: W_Q, W_K, W_V and W_O. "
        f"Convolution: {KERNEL} tokens, values and gates. None of them depends on the length of "
        "the text."
    )
    styles = dict(zip(KINDS, LINE_STYLES, strict=True))
    with Board(words_cells(numbers), (1, 1.25), details, limits=LIMITS) as board:
        board.legend(styles)
        axes = board.chart(0, "parameters of one layer", "width d", "")
        for name, style in styles.items():
            axes.curve(WIDTHS, [KINDS[name].count(d) for d in WIDTHS], style=style)
            axes.curve(WIDTHS, counts[name], style=LineStyle(style.colour, "none"),
                       marker=style.marker, markersize=9)  # fmt: skip
        axes.log_axis("x", WIDTHS[::2])
        axes.log_axis("y", decades([count for line in counts.values() for count in line]))
        rows = [
            (name, kind.formula, f"{kind.count(dim):,}", f"{here[name]:,}")
            for name, kind in KINDS.items()
        ]
        columns = (("", 0), ("formula", 0.52), ("computed", 0.76), ("counted", 1.0))
        board.table(1, f"width d = {dim:,}", columns, rows)
        return board.drawing(**numbers)
