"""Figure of part 2: the parameters of recurrent cells, by formula and counted.

    rnn  1 gate    gru  3 gates    lstm  4 gates        gates · (d m + d² + 2 d)

A gate has W (d × m) for an input of width m, U (d × d) for the state of width d, and a bias for
each of the two products, as in PyTorch. Beside them: self-attention and a gated convolution.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch

from regard.draw import LINE_STYLES, LineStyle
from regard.explain import Board, Drawing
from regard.layers import Attention, GatedConvolution, Mixer, Recurrent
from regard_lectures.figures.costs import decades

WIDTHS = (16, 32, 64, 128, 256, 512, 1024)
KERNEL = 3
"""Tokens that the convolution sees."""


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


def cells(dim: int) -> Drawing:
    """Draw the number of parameters of each kind of layer against its width.

    Args:
        dim: The width of the table's layers.
    """
    counts = {name: [counted(kind, d) for d in WIDTHS] for name, kind in KINDS.items()}
    here = {name: counted(kind, dim) for name, kind in KINDS.items()}
    right = all(kind.count(dim) == here[name] for name, kind in KINDS.items()) and all(
        kind.count(d) == count
        for name, kind in KINDS.items()
        for d, count in zip(WIDTHS, counts[name], strict=True)
    )
    agree = "as the formulas say" if right else "other than the formulas say"
    caption = (
        f"A GRU has {here['gru'] / here['rnn']:.0f} times and an LSTM "
        f"{here['lstm'] / here['rnn']:.0f} times the parameters of an RNN, one time for each gate, "
        f"counted in the layers' tensors {agree}."
    )
    details = (
        "Input and state are d wide; lines are the formulas, points are counted. For an input of "
        "width m a gate has d m + d² + 2d parameters: W, U and a bias for each product, as in "
        "PyTorch; with one bias, as the equations are mostly written, d fewer. An RNN has one "
        "gate, a GRU three (reset, update, candidate), an LSTM four (input, forget, candidate, "
        f"output). Attention: W_Q, W_K, W_V and W_O. Convolution: {KERNEL} tokens, values and "
        "gates. None of them depends on the length of the text."
    )
    styles = dict(zip(KINDS, LINE_STYLES, strict=True))
    with Board(caption, (1, 1.1), details) as board:
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
        columns = (("", 0), ("formula", 0.56), ("computed", 0.78), ("counted", 1.0))
        board.table(1, f"width d = {dim:,}", columns, rows)
        return board.drawing(
            widths=list(WIDTHS),
            **{f"parameters_{name}": line for name, line in counts.items()},
            **{f"computed_{name}": kind.count(dim) for name, kind in KINDS.items()},
            **{f"counted_{name}": count for name, count in here.items()},
        )
