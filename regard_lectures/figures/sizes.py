"""The size table of part 6, drawn; `regard/cost/sizes.py` computes it."""

from __future__ import annotations

from typing import Any

import numpy as np

from regard.cost import PUBLISHED_MODELS, SIZE_COLUMNS, compute_sizes, dollars, format_sizes
from regard.draw import BLUE, GREEN, MUTED, ORANGE, TEXT, shorten
from regard.explain import Board, Drawing, Numbers, Table, Words

CLOSE = 0.05
"""Computed numbers that differ by at most this share from published ones agree with them."""
STEEP = 0.1
"""A power of growth within this of 1 counts as proportional."""
SHOWN = {
    "model": ("model", 0.0), "layers": ("layers", 0.235), "width": ("width", 0.308),
    "heads": ("heads", 0.378), "published params": ("params\npublished", 0.48),
    "computed params": ("params\ncomputed", 0.585), "data": ("data", 0.68),
    "computed memory": ("memory\nto train", 0.775), "published days": ("days\npublished", 0.885),
    "computed days": ("days\ncomputed", 1.0),
}  # fmt: skip
"""The columns shown in the picture: the head of each, and its right end as a share of the width."""
NAMED = {
    "Transformer-Base": ("left", 9, -7),
    "BERT-Base": ("left", 9, -9),
    "XLNet-Large": ("left", 9, 4),
    "GPT-2": ("left", 9, -9),
    "Megatron-LM": ("left", 9, -9),
    "GPT-3": ("right", -9, -4),
    "Gopher": ("left", 7, 4),
}
"""The names that are drawn beside their points, with their alignment and offset in points."""
LONGEST = 300
"""Pixels for the name of one's own model."""


def sizes(price: float = 1.0, share: float = 0.3, model: str = "", part: str = "table") -> Drawing:
    """Draw the table, or training FLOPs against parameters."""
    numbers = {**compute_sizes(price, share, model), "price": price, "share": share, "part": part}
    largest = PUBLISHED_MODELS[-1]
    details = (
        "The lecture's table (Johnson 2022): published numbers, and those computed from our own "
        "configs. Memory: 16 bytes a parameter, for weights, gradients and the moments of Adam, "
        "without activations. FLOPs: all matrix products of forward and backward pass over the "
        "published number of tokens (GPT-2: 20 per parameter). Used: these FLOPs divided by chips "
        "× hours × peak (P100 9.5, V100 125, TPUv3 123 TFLOP/s). Computed days and dollars: on the "
        f"same chips at {share:.0%} of peak and ${price:g} per chip-hour; dollars on V100s, where "
        "no chips were published. Published days have the same price, since the lecture states "
        f"only Gopher's cost: {largest.hours:,.0f} hours ({largest.hours / 24:.1f} days) of "
        f"{largest.chips} chips are ${largest.hours * largest.chips:,.0f} at $1. XLNet and Gopher "
        "include a matrix for relative positions in each layer (dim² parameters), as in `regard "
        "plan`."
    )
    limits = "Counted from sizes as `regard plan` does: nothing was trained. –: not published."
    with Board(words_sizes(numbers), (1,), details, limits=limits) as board:
        if part == "growth":
            _draw_growth(board, numbers)
        else:
            _draw_table(board, numbers)
        _add_whole_table(board, numbers)
        return board.drawing(**numbers)


def words_sizes(numbers: Numbers) -> Words:
    """Whether counts agree with what was published, and what the largest model costs."""
    return _words_growth(numbers) if numbers["part"] == "growth" else _words_table(numbers)


def _words_table(numbers: Numbers) -> Words:
    rows = [
        (name, computed / published - 1)
        for name, computed, published in zip(
            numbers["models"], numbers["parameters_computed"], numbers["parameters_published"],
            strict=True,
        )
        if published is not None
    ]  # fmt: skip
    close = sum(abs(off) <= CLOSE for _, off in rows)
    amount = "All" if close == len(rows) else "Most" if close > len(rows) / 2 else "Few"
    title = (
        f"{amount} counts agree with the published ones: {close} of {len(rows)} within {CLOSE:.0%}"
    )
    name, off = max(rows, key=lambda row: abs(row[1]))
    farthest = f"{name}, by {abs(off):.0%} {'more' if off > 0 else 'less'} than published"
    caption = f"Farthest off: {farthest}. {_said_cost(numbers)}{_said_own(numbers)}"
    return Words(title, caption)


def _said_cost(numbers: Numbers) -> str:
    """What training costs as computed and by its published hours, for the last model with both."""
    costs = zip(
        numbers["models"], numbers["cost_of_hours_computed"], numbers["cost_of_hours_published"],
        strict=True,
    )  # fmt: skip
    name, computed, published = [row for row in costs if row[2] is not None][-1]
    price = (
        f"At ${numbers['price']:g} per chip-hour and {numbers['share']:.0%} of a chip's peak "
        f"{name} costs {dollars(computed)} as computed"
    )
    if abs(computed / published - 1) <= CLOSE:
        return f"{price}, about as much as its published hours ({dollars(published)})."
    than = "more" if computed > published else "less"
    return f"{price}, {than} than its published hours ({dollars(published)})."


def _words_growth(numbers: Numbers) -> Words:
    names = ("models", "parameters_computed", "flops_computed", "parameters_published")
    rows = [row for row in zip(*(numbers[key] for key in names), strict=True) if row[3] is not None]
    logarithms = np.log([row[1:3] for row in rows])  # (model, parameters and FLOPs)
    power = float(np.polyfit(logarithms[:, 0], logarithms[:, 1], 1)[0])
    pace = (
        "faster than" if power > 1 + STEEP else "more slowly than" if power < 1 - STEEP
        else "in proportion to"
    )  # fmt: skip
    title = f"Training FLOPs grew {pace} the parameters: as their power {power:.2f}"
    least, most = (pick(rows, key=lambda row: row[2]) for pick in (min, max))
    larger, longer = most[1] / least[1], most[2] / least[2]
    tokens = "more" if power > 1 + STEEP else "fewer" if power < 1 - STEEP else "as many"
    caption = (
        f"From {least[0]} to {most[0]}: {larger:,.0f} times the parameters, {_power(longer)} times "
        f"the FLOPs: larger models read {tokens} tokens. Hollow: parameters as published. "
        f"Triangles: chips not published.{_said_own(numbers)}"
    )
    return Words(title, caption)


def _said_own(numbers: Numbers) -> str:
    """A sentence about a model of one's own; empty if there is none."""
    if numbers["parameters_published"][-1] is not None:
        return ""
    name, count, flops = (
        numbers[key][-1] for key in ("models", "parameters_computed", "flops_computed")
    )
    label = shorten(name, LONGEST, TEXT)
    return f" {label}: {_power(count)} parameters, {_power(flops)} FLOPs."


def _power(number: float) -> str:
    """Two digits and a power of ten.

    Example:
        >>> _power(497_831)
        '5.0e5'
    """
    return f"{number:.1e}".replace("e+0", "e").replace("e+", "e")


def _draw_table(board: Board, numbers: Numbers) -> None:
    """Draw the columns of `SHOWN`."""
    rows = format_sizes(_columns(numbers))
    indices = [SIZE_COLUMNS.index(name) for name in SHOWN]
    cells = [
        [shorten(row[0], LONGEST, TEXT), *(row[index] or "–" for index in indices[1:])]
        for row in rows
    ]
    own_rows = [index for index in range(len(rows)) if index >= len(PUBLISHED_MODELS)]
    board.table(0, "", list(SHOWN.values()), cells, own_rows)


def _columns(numbers: Numbers) -> dict[str, list[Any]]:
    return {name: values for name, values in numbers.items() if isinstance(values, list)}


def _add_whole_table(board: Board, numbers: Numbers) -> None:
    """Add all columns to the page."""
    rows = format_sizes(_columns(numbers))
    whole = [(*row, note or "") for row, note in zip(rows, numbers["notes"], strict=True)]
    board.tables.append(Table((*SIZE_COLUMNS, "note"), whole, "The whole table."))


def _draw_growth(board: Board, numbers: Numbers) -> None:
    axes = board.chart(0, "", "parameters", "training FLOPs")
    names = ("models", "parameters_computed", "parameters_published", "flops_computed", "chips")
    for name, n, published, flops, chips in zip(*(numbers[key] for key in names), strict=True):
        own_rows = published is None
        if not own_rows:
            axes.plot(published, flops, "s", color=MUTED, markersize=11, markerfacecolor="none")
        colour, mark = (GREEN, "D") if own_rows else (BLUE, "o") if chips else (ORANGE, "^")
        axes.plot(n, flops, mark, color=colour, markersize=7)
        if own_rows or name in NAMED:
            side, across, up = NAMED.get(name, ("left", 9, -7))
            axes.write_beside((n, flops), shorten(name, LONGEST, TEXT), xytext=(across, up),
                              ha=side, color=colour if own_rows else MUTED)  # fmt: skip
    axes.log_axis("x", [1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11])
    axes.log_axis("y", [1e12, 1e15, 1e18, 1e20, 1e22, 1e24])
    least = [min(numbers[key]) for key in ("parameters_computed", "flops_computed")]
    axes.set_xlim(min(2e7, least[0] / 3), 3e12)
    axes.set_ylim(min(2e17, least[1] / 5), 5e24)
