"""Figures of part 4: sinusoidal positions, their wavelengths, and shifts.

Each is computed from the table that the models add (`sinusoid`). Where words are reordered:
`order.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.draw import (
    BLUE,
    LINE_STYLES,
    MUTED,
    ORANGE,
    SMALLEST,
    positive_scale,
    scientific,
    shorten,
    signed_scale,
)
from regard.errors import InputError
from regard.explain import RASTERIZED, Board, Drawing, Words
from regard.layers import sinusoid
from regard_lectures.limits import COMPUTED

MOST_WORDS = 14
"""The most words of a sentence whose positions are drawn."""
FEATURES = (6, 2)
"""The first and the last features that are drawn of a sentence's positions."""
SLOWER = 2.0
"""The first features count as faster than the last if they change so many times as much."""
EXACT = 1e-3
"""Up to this relative difference, a measured wavelength is that of the formula."""
SAME = 1e-4
"""Up to this difference, two numbers of size 1 are the same in 32 bits."""
STARTS, REACH, LENGTH = (0, 50, 150), 40, 200
"""Where products start, how far apart their positions are, and the number of positions."""


def waves(text: str | None, length: int, dim: int) -> Drawing:
    """Draw the table of sinusoids, some of its columns as waves, and binary numbers beside it.

    Args:
        text: A sentence, whose positions are drawn in place of the table; None: the whole table.
        length: The number of positions of the waves.
        dim: The width of a position's vector.
    """
    _check_even(dim)
    words = [] if text is None else _words_of(text)
    table = sinusoid(max(length, len(words)), dim)  # (length, dim)
    # the mean of |PE(i+1) - PE(i)| over positions and both features of a pair: (pairs,)
    changes = table.diff(dim=0).abs().mean(0).view(-1, 2).mean(1)
    first, last = FEATURES
    shown = list(range(dim)) if dim <= first + last else [*range(first), *range(dim - last, dim)]
    chosen = sorted({0, dim // 8 * 2, dim // 4 * 2} - {dim})  # even features: sines
    count = 16
    bits = torch.tensor([[number >> bit & 1 for bit in range(4)] for number in range(count)])
    numbers: dict[str, Any] = {
        "length": len(table), "dim": dim, "features": chosen,
        "mean_change_of_pairs": changes.tolist(),
        "sign_changes_of_features": [_sign_changes(table[:, j]) for j in range(0, dim, 2)],
        "changes_of_bits": (bits[1:] != bits[:-1]).sum(0).tolist(),
        "first_row": table[0].tolist(), "largest": float(table.abs().max()),
    }  # fmt: skip
    if text is not None:
        shown_words = words[:MOST_WORDS]
        numbers |= {"words": shown_words, "total": len(words), "shown_features": shown,
                    "rows": table[: len(shown_words), shown].tolist()}  # fmt: skip
    details = (
        "PE(i, 2j) = sin(i / 10000^(2j/d)) and PE(i, 2j+1) = cos(i / 10000^(2j/d)) for positions "
        f"i from 0; {len(table)} positions, d = {dim}, from the table that the models add. The "
        "darkest colour is 1, the lightest −1. Each word counts as one token: position 0 is the "
        "first word's, whatever it says. Change: the mean of |PE(i+1) − PE(i)| over positions. "
        "(The lecture's slides write 1000 in places; the paper and the models use 10000.)"
    )
    widths = (1.15, 1.15, 0.85) if text is None else (1.5, 1)
    with Board(words_waves(numbers), widths, details, limits=COMPUTED) as board:
        if text is None:
            _draw_table(board, table)
        else:
            _draw_rows(board, numbers)
        axes = board.chart(1, "some features, as waves", "position", "value")
        for feature, style in zip(chosen, LINE_STYLES, strict=False):
            axes.curve(table[:, feature], style=style, width=2.2, label=f"feature {feature}")
            dots = table[: len(numbers.get("words", [])), feature]
            axes.plot(dots, style.marker or "o", color=style.colour, markersize=7)
        axes.set_ylim(-1.15, 2.3)
        axes.set_yticks([-1, 0, 1])
        axes.draw_legend("upper right")
        if text is None:
            names = [str(number) for number in range(count)], ["1", "2", "4", "8"]
            board.matrix(
                2, "counting in binary", bits, positive_scale(1.4), names, ("number", "bit"), ".0f"
            )
        return board.drawing(**numbers)


def _words_of(text: str) -> list[str]:
    """The words of a sentence, as they are written.

    Raises:
        InputError: If there is none.
    """
    words = text.split()
    if not words:
        raise InputError("--text", got=repr(text), expected="a sentence", fix="as: I am a robot")
    return words


def _draw_table(board: Board, table: Tensor) -> None:
    """Draw the whole table, positions from top to bottom."""
    length, dim = table.shape
    axes = board.chart(0, "the table: 1 is dark, −1 light", "feature", "position")
    axes.grid(visible=False)
    # a light-to-dark scale: both ends of a diverging scale print as the same grey
    axes.pcolormesh(
        np.arange(dim + 1) - 0.5, np.arange(length + 1) - 0.5, table.numpy(),
        cmap=positive_scale().colormap(), vmin=-1, vmax=1,
        rasterized=table.numel() > RASTERIZED,
    )  # fmt: skip
    axes.set_ylim(length - 0.5, -0.5)


def _draw_rows(board: Board, numbers: Mapping[str, Any]) -> None:
    """Draw the positions of a sentence: a row for each word."""
    shown, dim = numbers["shown_features"], numbers["dim"]
    heading = f"the {len(shown)} features of each position"
    if len(shown) < dim:
        first, last = FEATURES
        heading = f"features 0 to {first - 1} and {dim - last} to {dim - 1} of {dim}"
    rows = [f"{i} {shorten(word, 130, SMALLEST)}" for i, word in enumerate(numbers["words"])]
    board.matrix(
        0, heading, numbers["rows"], signed_scale(1.6), (rows, [str(j) for j in shown]),
        ("position and word", "feature"), ".2f",
    )  # fmt: skip


def words_waves(numbers: Mapping[str, Any]) -> Words:
    """Whether the first features change fast and the last ones slowly."""
    changes, bits = numbers["mean_change_of_pairs"], numbers["changes_of_bits"]
    fast = changes[0] > SLOWER * changes[-1]
    steady = all(b <= a for a, b in pairwise(changes))
    speed = (
        "the first features change fast, the last slowly"
        if fast
        else "the first features do not change faster than the last"
    )
    words = numbers.get("words", [])
    whose = f"Positions of “{shorten_words(words, 22)}”" if words else "Sinusoidal positions"
    ever = "ever more slowly from pair to pair" if steady else "not ever more slowly, pair by pair"
    caption = (
        f"From one position to the next, features 0 and 1 change by {changes[0]:.2g}, the last two "
        f"by {scientific(float(f'{changes[-1]:.1e}'))}: {ever}"
    )
    caption += (
        "; dots: the words."
        if words
        else f", as bits do, which change {bits[0]}, {bits[1]}, {bits[2]} and {bits[3]} times."
    )
    if numbers.get("total", 0) > len(words):
        caption += f" Shown: the first {len(words)} of {numbers['total']} words."
    return Words(f"{whose}: {speed}", caption)


def shorten_words(words: list[str], most: int) -> str:
    """The first words of a sentence up to so many characters; an ellipsis stands for others.

    Example:
        >>> shorten_words(["I", "am", "a", "robot"], 6), shorten_words(["robots"], 4)
        ('I am a …', 'robo…')
    """
    shown_words = words[:1]
    for word in words[1:]:
        if len(" ".join([*shown_words, word])) > most:
            break
        shown_words.append(word)
    if len(shown_words[0]) > most:
        return shown_words[0][:most] + "…"
    return " ".join(shown_words) + (" …" if len(shown_words) < len(words) else "")


def _sign_changes(wave: Tensor) -> int:
    signs = wave[wave.abs() > 1e-6].sign()
    return int((signs[1:] != signs[:-1]).sum())


def wavelengths(dim: int) -> Drawing:
    """Draw the wavelength of each pair of features, measured and by formula."""
    _check_even(dim)
    table = sinusoid(3, dim).double()
    # (sin, cos) of a pair rotate by the same angle from each position to the next.
    angle = torch.atan2(table[:, 0::2], table[:, 1::2])  # (position, pair)
    measured = 2 * math.pi / (angle[1] - angle[0])
    pair = torch.arange(dim // 2)
    formula = 2 * math.pi * 10000.0 ** (2 * pair.double() / dim)
    error = float((measured / formula - 1).abs().max())
    shown = sorted({0, dim // 8, dim // 4})
    numbers: dict[str, Any] = {
        "dim": dim, "wavelengths": measured.tolist(), "formula": formula.tolist(), "error": error,
        "shown_pairs": shown,
    }  # fmt: skip
    details = (
        f"d = {dim}. Dots: 2π divided by the angle by which pair j rotates from position 0 to 1 "
        "in the table of the models. Line: 2π · 10000^(2j/d), from 2π to nearly 10000 · 2π; the "
        f"relative difference is at most {scientific(error)}. The pair (sine, cosine) moves on a "
        "circle, each pair with its own speed. Dashed: with 1000, as the slides write in places. "
        "Right: three pairs, sine solid and cosine dashed."
    )
    with Board(words_wavelengths(numbers), (1.3, 1), details, limits=COMPUTED) as board:
        axes = board.chart(0, "positions until a pair repeats", "pair j", "")
        axes.plot(pair, formula, color=MUTED, linewidth=1.5, label="2π · 10000^(2j/d)")
        axes.plot(pair, measured, "o", color=BLUE, markersize=6, label="measured")
        wrong = 2 * math.pi * 1000.0 ** (2 * pair.double() / dim)
        axes.plot(
            pair, wrong, color=ORANGE, linestyle="--", linewidth=1.5, label="with the slide's 1000"
        )
        axes.log_axis("y", [1, 10, 100, 1000, 10000, 100000])
        axes.set_ylim(3, 2e6)
        axes.draw_legend("upper left")
        whole = sinusoid(61, dim)
        for index, j in enumerate(shown):
            is_last = index == len(shown) - 1
            part = (0.31 * index, 1.0 if is_last else 0.31 * (index + 1))
            heading = f"pair {j}: repeats after {float(measured[j]):,.1f}"
            axes = board.chart(1, heading, "position" if is_last else "", "", part)
            axes.plot(whole[:, 2 * j], color=BLUE, linewidth=2)
            axes.plot(whole[:, 2 * j + 1], color=ORANGE, linestyle="--", linewidth=2)
            axes.set_ylim(-1.7, 1.7)
            axes.set_yticks([-1, 1])
            if not is_last:
                axes.tick_params(labelbottom=False)
        return board.drawing(**numbers)


def words_wavelengths(numbers: Mapping[str, Any]) -> Words:
    """Whether the measured wavelengths are those of the formula."""
    measured, error = numbers["wavelengths"], numbers["error"]
    ends = f"{measured[0]:,.1f} to {measured[-1]:,.0f}"
    if error < EXACT:
        title = f"Wavelengths of sinusoidal positions: {ends}, as the formula says"
        agree = f"2π · 10000^(2j/d) says the same (but for {_rounded(error)})"
    else:
        title = f"Wavelengths of sinusoidal positions: {ends}, not those of the formula"
        agree = f"2π · 10000^(2j/d) differs by up to {error:.1%}"
    caption = (
        f"Pair 0 repeats after {measured[0]:,.1f} positions, pair {len(measured) - 1} after "
        f"{measured[-1]:,.0f}: {agree}."
    )
    if measured[-1] < (end := 2 * math.pi * 10000):
        caption += f" That is below 10000 · 2π = {end:,.0f}, since j ends at d/2 − 1."
    return Words(title, caption)


def _check_even(dim: int) -> None:
    if dim % 2:
        raise InputError("dim", got=dim, expected="an even number: a sine and a cosine per pair")


def rotation(by: int, dim: int) -> Tensor:
    """M_k, with PE(i + k) = M_k PE(i): a rotation of each pair by k / 10000^(2j/d).

    sin(a + b) = sin a cos b + cos a sin b and cos(a + b) = cos a cos b - sin a sin b, where a is
    the angle of position i and b that of the shift.
    """
    angle = by * 10000.0 ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    sine, cosine = angle.sin(), angle.cos()
    matrix = torch.zeros(dim, dim, dtype=torch.float64)
    even = torch.arange(0, dim, 2)  # the sines; each is followed by its cosine
    matrix[even, even], matrix[even, even + 1] = cosine, sine
    matrix[even + 1, even], matrix[even + 1, even + 1] = -sine, cosine
    return matrix


def shift(by: int, dim: int) -> Drawing:
    """Draw the rotation that shifts positions, and products that depend only on the distance."""
    _check_even(dim)
    table = sinusoid(LENGTH, dim).double()
    matrix = rotation(by, dim)
    shifted = table[:-by] @ matrix.T  # M_k PE(i), for every i
    error = float((shifted - table[by:]).abs().max())
    products = {i: table[i : i + REACH + 1] @ table[i] for i in STARTS}
    naive = {t: (torch.arange(REACH + 1.0) + t) * t for t in STARTS}
    numbers: dict[str, Any] = {
        "by": by, "dim": dim, "shifted_positions": LENGTH - by, "error": error,
        "orthogonal": float((matrix @ matrix.T - torch.eye(dim)).abs().max()),
        "spread_of_products": _spread(list(products.values())),
        "largest_product": float(products[0].abs().max()),
        "spread_of_naive": _spread(list(naive.values())),
        "products": products[0].tolist(),
    }  # fmt: skip
    details = (
        f"M for a shift of k = {by} with d = {dim}: one 2 × 2 rotation for each pair of features, "
        f"the same for every i; the largest error over {LENGTH - by} positions is "
        f"{scientific(error)}. So PE(i)·PE(i+k) depends on the distance k alone: the three curves "
        f"differ by at most {scientific(numbers['spread_of_products'])}. A position that is "
        "appended to the vector as a number t lacks this property: it adds t·(t+k) to the product, "
        "which depends on t much more than on the distance k. Hatched cells are negative."
    )
    with Board(words_shift(numbers), (1, 1, 1), details, limits=COMPUTED) as board:
        names = [str(feature) for feature in range(dim)]
        shown = matrix.where(matrix.abs() >= 0.05, 0.0)  # else −0.0 would be written
        board.matrix(
            0, f"M for a shift of {by}", shown, signed_scale(1.0), (names, names),
            ("PE(i+k)", "PE(i)"), ".1f",
        )  # fmt: skip
        axes = board.chart(1, "PE(i)·PE(i+k)", "distance k", "")
        line_widths = (6, 3.5, 2)
        for (i, line), style, width in zip(
            products.items(), LINE_STYLES, line_widths, strict=False
        ):
            axes.curve(line, style=style, width=width, label=f"i = {i}")
        axes.draw_legend("upper right")
        axes = board.chart(2, "appended t: t·(t+k)", "distance k", "")
        for (i, line), style in zip(naive.items(), LINE_STYLES, strict=False):
            axes.curve(line, style=style, width=2.4, label=f"t = {i}")
        axes.set_ylim(-1000, 44000)
        axes.draw_legend("upper left")
        return board.drawing(**numbers)


def words_shift(numbers: Mapping[str, Any]) -> Words:
    """Whether one matrix shifts every position, and what products depend on."""
    by, error = numbers["by"], numbers["error"]
    rotates = error < SAME and numbers["orthogonal"] < SAME
    # products are sums of as many numbers as a position has pairs
    relative = numbers["spread_of_products"] < SAME * max(1.0, numbers["largest_product"])
    naive = numbers["spread_of_naive"] < SAME
    title = (
        f"One rotation M shifts every position by {by}: PE(i+{by}) = M PE(i)"
        if rotates
        else f"This matrix does not shift every position by {by}"
    )
    depend = {True: "on the distance k alone", False: "on where they start, too"}
    caption = (
        f"The largest error over {numbers['shifted_positions']} positions: {_rounded(error)}. "
        f"PE(i)·PE(i+k) depends {depend[relative]} (curves differ by "
        f"{_rounded(numbers['spread_of_products'])}), t·(t+k) of an appended t {depend[naive]} (by "
        f"{numbers['spread_of_naive']:,.0f})."
    )
    return Words(title, caption)


def _rounded(value: float) -> str:
    return scientific(float(f"{value:.0e}"))


def _spread(lines: list[Tensor]) -> float:
    """The largest difference between lines at any point."""
    together = torch.stack(lines)
    return float((together.amax(0) - together.amin(0)).max())
