"""Figure of part 2: max-pooling, and where its gradient goes.

    Y_b = max of block b            ∂L/∂X = ∂L/∂Y_b at the block's largest number, 0 elsewhere

Of equal largest numbers the first gets the whole gradient, row by row. Both are computed with the
function of the convolutional networks, and with its own backward pass.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from matplotlib.patches import Rectangle

from regard.draw import (
    INK,
    ORANGE,
    SMALLEST,
    Chart,
    Scale,
    positive_scale,
    signed_scale,
    text_width,
)
from regard.errors import InputError
from regard.explain import Board, Drawing, Numbers, Words
from regard_lectures.limits import COMPUTED

Table = Sequence[Sequence[float]]

LECTURE = ((1, 3, 2, 0), (4, 6, 1, 2), (5, 2, 7, 3), (0, 1, 4, 8))
"""The input of lecture D0, whose gradients are 10, 20, 30 and 40."""
MOST_SIDE = 6
"""The most rows and columns of an input."""
WIDE = 268.0
"""Pixels of a row of cells."""
EXAMPLE = "'1 3 2 9; 4 6 1 2'"


def pooling(text: str | None, gradient: str, window: int) -> Drawing:
    """Draw the max-pooling of the lecture's numbers or the user's own, and its backward pass.

    Args:
        text: Rows of numbers with semicolons between them.
        gradient: The gradient of the output in the same form; empty: 10, 20, 30 and so on.
        window: Height and width of a block, and the step from block to block.
    """
    x = LECTURE if text is None else _read_rows("--text", text, window)
    rows, columns = len(x) // window, len(x[0]) // window
    upstream = _steps(rows, columns)
    if gradient:
        upstream = _read_gradient(gradient, rows, columns, len(x[0]))
    numbers = pooled(x, upstream, window)
    numbers["is_lecture"] = text is None and not gradient and window == 2
    details = (
        "Y: the largest number of each block. ∂L/∂X: the gradient of the loss L with respect to "
        "each input. An input that is not the largest of its block does not change Y if it changes "
        "a little, so its gradient is 0. Where several numbers of a block are the largest, the "
        "derivative does not exist; the program chooses one of them. Outlined: the numbers of X "
        "that were chosen, and where the gradient went. Computed with the max-pooling of the "
        "convolutional networks (PyTorch's), forward and backward."
    )
    with Board(words_pooling(numbers), (1, 1, 1, 1), details, limits=COMPUTED) as board:
        forward, backward = _scale(x), _scale(upstream)
        panels = [
            ("input X", x, forward, window),
            ("output Y", numbers["y"], forward, 1),
            ("∂L/∂Y, given", upstream, backward, 1),
            ("∂L/∂X", numbers["x_gradient"], backward, window),
        ]
        for panel, (heading, table, scale, side) in enumerate(panels):
            empty = [""] * len(table), [""] * len(table[0])
            axes = board.matrix(panel, heading, table, scale, empty, number_format="g")
            if side > 1:
                _outline(axes, numbers, window)
        return board.drawing(**numbers)


def pooled(x: Table, upstream: Table, window: int) -> dict[str, Any]:
    """The max-pooling of a table, the gradient of its input, and what was chosen in each block.

    Args:
        x: (row, column) The input.
        upstream: (row of blocks, column of blocks) The gradient of the output.
        window: Height and width of a block.
    """
    values = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    output = F.max_pool2d(values[None, None], window)[0, 0]
    [gradient] = torch.autograd.grad(output, values, torch.tensor(upstream, dtype=torch.float64))
    # Which input each output was taken from, also where the gradient that it gets is 0.
    _, chosen = F.max_pool2d(values.detach()[None, None], window, return_indices=True)
    y = output.detach()
    cells = [divmod(int(index), len(x[0])) for index in chosen.flatten().tolist()]
    blocks = [(row, column) for row in range(y.shape[0]) for column in range(y.shape[1])]
    equal = []  # the cells of each block that hold its largest number, row by row
    for row, column in blocks:
        inside = [
            (row * window + i, column * window + j) for i in range(window) for j in range(window)
        ]
        equal.append([[i, j] for i, j in inside if x[i][j] == float(y[row, column])])
    return {
        "x": [list(map(float, line)) for line in x],
        "window": window,
        "y": y.tolist(),
        "y_gradient": [list(map(float, line)) for line in upstream],
        "x_gradient": gradient.tolist(),
        "chosen": [list(cell) for cell in cells],
        "equal": equal,
    }


def words_pooling(numbers: Mapping[str, Any]) -> Words:
    """How many numbers get the gradient, and which of equal ones does."""
    x, equal, chosen = numbers["x"], numbers["equal"], numbers["chosen"]
    count, winners = sum(map(len, x)), len(chosen)
    tied = [index for index, cells in enumerate(equal) if len(cells) > 1]
    first = sum(chosen[index] == equal[index][0] for index in tied)
    if not tied:
        title = f"Max-pooling: {winners} of {count} numbers get the gradient, each block's largest"
    else:
        which = "the first" if first == len(tied) else "not always the first"
        ties = "one tie" if len(tied) == 1 else f"{len(tied)} ties"
        title = f"Max-pooling: the largest gets the gradient; of equal ones {which} ({ties})"
    side = numbers["window"]
    losers = count - winners
    caption = (
        f"Y keeps the largest number of each {side} × {side} block; its gradient goes there, and "
        f"the other {losers} get 0."
    )
    if tied:
        caption += f" {_tie(numbers, tied[0])}"
        if numbers["is_lecture"]:
            caption += " The slide's picture gives it to the last; its text says the first."
    return Words(title, " ".join(filter(None, (caption, _left_out(x, side)))))


def _tie(numbers: Mapping[str, Any], block: int) -> str:
    """What happened in a block with several largest numbers; rows and columns count from 1."""
    (row, column), cells = numbers["chosen"][block], numbers["equal"][block]
    value, gradient = (
        f"{numbers[name][row][column]:g}".replace("-", "−") for name in ("x", "x_gradient")
    )
    times = "twice" if len(cells) == 2 else f"{len(cells)} times"
    named = [f"row {i + 1}, column {j + 1}" for i, j in cells]
    listed = " and ".join(named) if len(cells) == 2 else f"{named[0]} first"
    winner = f"row {row + 1}, column {column + 1}"
    return f"In a block {value} stands {times}, in {listed}: {winner} gets {gradient}."


def _left_out(x: Table, window: int) -> str:
    """Which rows and columns are in no block; empty if all are."""
    sides = {"row": len(x) % window, "column": len(x[0]) % window}
    said = [f"{count} {name}{'s' * (count > 1)}" for name, count in sides.items() if count]
    return f"In no block, left out: {' and '.join(said)}." if said else ""


def _outline(axes: Chart, numbers: Numbers, window: int) -> None:
    """Draw the borders of the blocks, and a frame around the cells that were chosen."""
    rows, columns = len(numbers["y"]), len(numbers["y"][0])
    for row, column in np.ndindex(rows, columns):
        corner = (column * window, row * window)
        axes.add_patch(Rectangle(corner, window, window, fill=False, ec=INK, lw=1.6, clip_on=False))
    for row, column in numbers["chosen"]:
        frame = (column + 0.07, row + 0.07)
        axes.add_patch(Rectangle(frame, 0.86, 0.86, fill=False, ec=ORANGE, lw=3.2))


def _scale(table: Table) -> Scale:
    """A colour scale for a table: from 0, or signed if it has negative numbers."""
    reach = max(abs(value) for row in table for value in row) or 1.0
    has_negative = any(value < 0 for row in table for value in row)
    return signed_scale(reach) if has_negative else positive_scale(1.6 * reach)  # not too dark


def _steps(rows: int, columns: int) -> list[list[float]]:
    """10, 20, 30 and so on, row by row."""
    return [
        [10.0 * (row * columns + column + 1) for column in range(columns)] for row in range(rows)
    ]


def _read_gradient(text: str, rows: int, columns: int, cells: int) -> list[list[float]]:
    """The gradient of the output that was given; it also stands in a row of so many cells.

    Raises:
        InputError: It is not as large as the output.
    """
    table = _read_rows("gradient", text, 1, cells)
    if (len(table), len(table[0])) != (rows, columns):
        got = f"{len(table)} × {len(table[0])} numbers"
        raise InputError("gradient", got=got, expected=f"{rows} × {columns}, one for each block")
    return table


def _read_rows(what: str, text: str, least: int, cells: int = 0) -> list[list[float]]:
    """Rows of numbers with semicolons between them.

    Args:
        what: The option that has them.
        text: The rows.
        least: The fewest rows and columns.
        cells: The cells of a row in which they must fit; by default as many as they are.

    Raises:
        InputError: It is something else, has rows of several lengths, or is too small or too large.
    """
    expected = f"rows of {least} to {MOST_SIDE} numbers with ; between them, as in {EXAMPLE}"
    rows: list[list[float]] = []
    for line in text.replace("−", "-").strip().strip(";").split(";"):
        words = line.replace(",", " ").split()
        try:
            rows.append([float(word) for word in words])
        except ValueError:
            raise InputError(what, got=repr(text)[:60], expected=expected) from None
    lengths = {len(row) for row in rows}
    if len(lengths) > 1:
        got = f"rows of {', '.join(str(len(row)) for row in rows)} numbers"
        raise InputError(what, got=got, expected="rows of one length")
    [length] = lengths
    if not (least <= length <= MOST_SIDE and least <= len(rows) <= MOST_SIDE):
        got = f"{len(rows)} × {length} numbers"
        wanted = f"{least} to {MOST_SIDE} rows and columns, as in {EXAMPLE}"
        raise InputError(what, got=got, expected=wanted)
    cells = cells or length
    width = WIDE / cells - 8
    for value in (value for row in rows for value in row):
        if not math.isfinite(value):
            raise InputError(what, got=f"{value:g}", expected="a finite number")
        written = f"{value:g}".replace("-", "−").replace("0.", ".", 1)
        if text_width(written, SMALLEST) > width:
            digits = int(width / text_width("0", SMALLEST))
            wanted = f"shorter ones: {cells} cells in a row have room for {digits} digits each"
            raise InputError(what, got=f"{value:g}", expected=wanted)
    return rows
