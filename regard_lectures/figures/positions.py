"""Figures of part 4: sinusoidal positions, their wavelengths, shifts, and permuted word order.

Each is computed from the table that the models add (`sinusoid`), or with the encoder itself.
"""

from __future__ import annotations

import itertools
import math
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
from regard.explain import RASTERIZED, Board, Drawing
from regard.inputs import Ragged
from regard.layers import sinusoid
from regard.models import TransformerConfig, build

SENTENCE = "he hit me with a pie"
LECTURE_ORDERS = ("a pie hit me with he", "a hit with me he pie", "he pie me with a hit")
"""The lecture's orders of the sentence that self-attention without positions cannot distinguish."""

MOST_ORDERS = 720  # all orders of six words
SCHEMES = ("none", "sinusoidal", "rotary", "learned", "buckets")


def waves(length: int, dim: int) -> Drawing:
    """Draw the table of sinusoids, some of its columns as waves, and binary numbers beside it."""
    table = sinusoid(length, dim)  # (length, dim)
    chosen = sorted({0, dim // 8 * 2, dim // 4 * 2} - {dim})  # even features: sines
    caption = (
        "The first features change fast and the last ones slowly, as the lowest bit of a binary "
        "number changes at every count and the highest one rarely."
    )
    details = (
        "PE(i, 2j) = sin(i / 10000^(2j/d)) and PE(i, 2j+1) = cos(i / 10000^(2j/d)) for positions "
        f"i from 0; {length} positions, d = {dim}, from the table that the models add. The darkest "
        "colour is 1, the lightest −1. (The lecture's slides write 1000 in places; the paper and "
        "the models use 10000.)"
    )
    with Board(caption, (1.15, 1.15, 0.85), details) as board:
        axes = board.chart(0, "the table", "feature", "position")
        axes.grid(visible=False)
        # a light-to-dark scale: both ends of a diverging scale print as the same grey
        axes.pcolormesh(
            np.arange(dim + 1) - 0.5, np.arange(length + 1) - 0.5, table.numpy(),
            cmap=positive_scale().colormap(), vmin=-1, vmax=1,
            rasterized=table.numel() > RASTERIZED,
        )  # fmt: skip
        axes.set_ylim(length - 0.5, -0.5)
        axes = board.chart(1, "some features, as waves", "position", "value")
        for feature, style in zip(chosen, LINE_STYLES, strict=False):
            axes.curve(table[:, feature], style=style, width=2.2, label=f"feature {feature}")
        axes.set_ylim(-1.15, 2.3)
        axes.set_yticks([-1, 0, 1])
        axes.draw_legend("upper right")
        count = 16
        bits = torch.tensor([[number >> bit & 1 for bit in range(4)] for number in range(count)])
        names = [str(number) for number in range(count)]
        board.matrix(
            2,
            "counting in binary",
            bits,
            positive_scale(1.4),
            (names, ["1", "2", "4", "8"]),
            ("number", "bit"),
            ".0f",
        )
        turns = [_sign_changes(table[:, feature]) for feature in range(0, dim, 2)]
        return board.drawing(
            features=chosen,
            sign_changes_of_features=turns,
            changes_of_bits=(bits[1:] != bits[:-1]).sum(0).tolist(),
            first_row=table[0].tolist(),
            largest=float(table.abs().max()),
        )


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
    caption = (
        "The wavelengths of the feature pairs, measured in the table of the models, go from 2π to "
        f"{float(formula[-1]):,.0f}. Right: three pairs, sine solid and cosine dashed."
    )
    details = (
        f"d = {dim}. Dots: 2π divided by the angle by which pair j rotates from position 0 to 1 "
        "in the table of the models. Line: 2π · 10000^(2j/d), from 2π to nearly 10000 · 2π; the "
        f"relative difference is at most {scientific(error)}. The pair (sine, cosine) moves on a "
        "circle, each pair with its own speed. Dashed: with 1000, as the slides write in places."
    )
    with Board(caption, (1.3, 1), details) as board:
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
        shown = sorted({0, dim // 8, dim // 4})
        whole = sinusoid(61, dim)
        for index, j in enumerate(shown):
            part = (index / len(shown), (index + 1) / len(shown))
            last = index == len(shown) - 1
            axes = board.chart(
                1,
                f"pair {j}: repeats after {float(measured[j]):,.1f}",
                "position" if last else "",
                "",
                part,
            )
            axes.plot(whole[:, 2 * j], color=BLUE, linewidth=2)
            axes.plot(whole[:, 2 * j + 1], color=ORANGE, linestyle="--", linewidth=2)
            axes.set_ylim(-1.15, 1.15)
            axes.set_yticks([-1, 0, 1])
        return board.drawing(wavelengths=measured.tolist(), formula=formula.tolist(), error=error)


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
    length, reach = 200, 40
    table = sinusoid(length, dim).double()
    matrix = rotation(by, dim)
    shifted = table[:-by] @ matrix.T  # M_k PE(i), for every i
    error = float((shifted - table[by:]).abs().max())
    starts = (0, 50, 150)
    products = {i: table[i : i + reach + 1] @ table[i] for i in starts}
    naive = {t: (torch.arange(reach + 1.0) + t) * t for t in starts}
    spread = _spread(list(products.values()))
    naive_spread = _spread(list(naive.values()))
    caption = (
        "One rotation of each feature pair shifts every position (error "
        f"{scientific(error)}), so products depend on the distance alone; with an appended number "
        "t they do not."
    )
    details = (
        f"M for a shift of k = {by} with d = {dim}: one 2 × 2 rotation for each pair of features, "
        f"the same for every i; the largest error over {length - by} positions is "
        f"{scientific(error)}. So PE(i)·PE(i+k) depends on the distance k alone: the three curves "
        f"differ by at most {scientific(spread)}. A position that is appended to the vector as a "
        "number t lacks this property: it adds t·(t+k) to the product, which depends on t much "
        "more than on the distance k. Hatched cells are negative."
    )
    with Board(caption, (1, 1, 1), details) as board:
        names = [str(feature) for feature in range(dim)]
        board.matrix(
            0,
            f"M for a shift of {by}",
            matrix,
            signed_scale(1.0),
            (names, names),
            ("PE(i+k)", "PE(i)"),
            ".1f",
        )
        axes = board.chart(1, "PE(i)·PE(i+k)", "distance k", "")
        widths = (6, 3.5, 2)
        for (i, line), style, width in zip(products.items(), LINE_STYLES, widths, strict=False):
            axes.curve(line, style=style, width=width, label=f"i = {i}")
        axes.draw_legend("upper right")
        axes = board.chart(2, "appended t: t·(t+k)", "distance k", "")
        for (i, line), style in zip(naive.items(), LINE_STYLES, strict=False):
            axes.curve(line, style=style, width=2.4, label=f"t = {i}")
        axes.set_ylim(-1000, 44000)
        axes.draw_legend("upper left")
        return board.drawing(
            error=error,
            orthogonal=float((matrix @ matrix.T - torch.eye(dim)).abs().max()),
            spread_of_products=spread,
            spread_of_naive=naive_spread,
            products=products[0].tolist(),
        )


def _spread(lines: list[Tensor]) -> float:
    """The largest difference between lines at any point."""
    together = torch.stack(lines)
    return float((together.amax(0) - together.amin(0)).max())


def order(text: str | None, positions: str, seed: int) -> Drawing:
    """Draw how much each word's output vector changes when the words are reordered."""
    words = (SENTENCE if text is None else text).split()
    if not 2 <= len(words) <= 12:
        raise InputError(
            "--text", got=f"{len(words)} words", expected="a sentence of 2 to 12 words"
        )
    orders = _orders(len(words), seed)
    changes = {scheme: _changes(words, orders, scheme, seed) for scheme in SCHEMES}
    shown = _shown_orders(words if text is not None else None, orders)
    means = {scheme: float(change.mean()) for scheme, change in changes.items()}
    every = "every order" if math.factorial(len(words)) <= MOST_ORDERS else "random orders"
    caption = (
        "How much each word's output changes when the words are reordered: without positions "
        f"not at all (at most {scientific(float(changes['none'].max()))}, by rounding)."
    )
    details = (
        f"An untrained encoder of 2 layers, width 64, 4 heads, seed {seed}. Shown is the change of "
        "a word's output vector when the sentence is reordered, relative to the vector's length. "
        "Without positions self-attention is equivariant to "
        f"permutations. Right: the mean over {every} ({len(orders)}). Learned positions are small "
        "before training; buckets are T5's relative positions."
    )
    title = f"Without positions, “{' '.join(words)}” is a bag of words"
    with Board(caption, (1, 1, 0.72), details, title) as board:
        for panel, scheme in enumerate(("none", positions)):
            heading = "without positions" if scheme == "none" else f"{scheme} positions"
            chosen = [(orders[number], changes[scheme][number]) for number in shown]
            _draw_orders(board, panel, heading, words, chosen)
        axes = board.chart(2, "mean change", ticks=10)
        axes.barh(range(len(SCHEMES)), list(means.values()), color=BLUE, height=0.55)
        axes.set_yticks([])
        axes.set_ylim(len(SCHEMES) - 0.4, -0.75)
        axes.set_xlim(0, max(means.values()) * 1.3)
        axes.grid(visible=False, axis="y")
        for index, (scheme, mean) in enumerate(means.items()):
            said = f" {scheme}: {mean:.2f}" if mean > 0.005 else f" {scheme}: {scientific(mean)}"
            axes.write((0, index - 0.32), said, va="bottom")
        return board.drawing(
            orders=len(orders),
            largest_change_without_positions=float(changes["none"].max()),
            **{f"mean_change_{scheme}": mean for scheme, mean in means.items()},
        )


def _draw_orders(
    board: Board,
    panel: int,
    heading: str,
    words: list[str],
    chosen: list[tuple[tuple[int, ...], Tensor]],
) -> None:
    """Draw one row of cells per order; each cell has the word at that position and its change."""
    table = torch.stack([change[list(order)] for order, change in chosen])  # (order, position)
    scale = positive_scale(1.0, "relative change")
    rows = ["as is", *(str(number) for number in range(1, len(chosen)))]
    columns = [str(number + 1) for number in range(len(words))]
    axes = board.matrix(panel, heading, table, scale, (rows, columns), ("order", "place"))
    box = axes.get_window_extent()
    wide, tall = box.width / len(words), box.height / len(chosen)
    turned = len(words) > 6
    cell_width = (tall if turned else wide) - 4  # pixels a word has in its cell
    for row, (order, _) in enumerate(chosen):
        for column, index in enumerate(order):
            value = float(table[row, column])
            axes.write((column + 0.5, row + 0.5),
                f"{shorten(words[index], cell_width, SMALLEST)}\n{value:.2f}",
                ha="center", va="center", color=scale.ink(value), rotation=90 if turned else 0,
                linespacing=1.0,
            )  # fmt: skip


def _orders(length: int, seed: int) -> list[tuple[int, ...]]:
    """The original order, then all others or `MOST_ORDERS - 1` random ones, as word indices."""
    if math.factorial(length) <= MOST_ORDERS:
        return list(itertools.permutations(range(length)))
    random = np.random.default_rng(seed)
    return [tuple(range(length))] + [
        tuple(random.permutation(length).tolist()) for _ in range(MOST_ORDERS - 1)
    ]


def _shown_orders(given: list[str] | None, orders: list[tuple[int, ...]]) -> list[int]:
    """The indices of the orders to draw: the first and the lecture's three, or four of all."""
    if given is None:
        words = SENTENCE.split()
        return [0] + [
            orders.index(tuple(words.index(word) for word in line.split()))
            for line in LECTURE_ORDERS
        ]
    return sorted({0, len(orders) // 3, 2 * len(orders) // 3, len(orders) - 1})


def new_transformer(vocab: int, scheme: str, *, hidden: int, layers: int, length: int) -> Any:
    """An untrained Transformer of width 64 with a position scheme, to look into its encoder."""
    config = TransformerConfig.model_validate(
        {
            "dim": 64,
            "heads": 4,
            "hidden": hidden,
            "encoder": {"layers": layers},
            "decoder": {"layers": 1},
            "positions": scheme,
            "max_length": length,
            "dropout": 0.0,
        }
    )
    return build(config, vocab, vocab).eval()


@torch.no_grad()
def _changes(words: list[str], orders: list[tuple[int, ...]], scheme: str, seed: int) -> Tensor:
    """|output in this order - original output| / |original output| of each word: (order, word)."""
    torch.manual_seed(seed)
    vocabulary = {word: number for number, word in enumerate(dict.fromkeys(words))}
    model = new_transformer(len(vocabulary), scheme, hidden=128, layers=2, length=16)
    ids = [vocabulary[word] for word in words]
    source = Ragged.of([[ids[index] for index in chosen] for chosen in orders])
    vectors = model.encode(source).x.view(len(orders), len(words), -1)  # (order, position, dim)
    back = torch.tensor(orders).argsort(-1)  # the position of each word in each order
    outputs = torch.stack([row[at] for row, at in zip(vectors, back, strict=True)])
    first = outputs[0]  # (word, dim)
    return (outputs - first).norm(dim=-1) / first.norm(dim=-1)
