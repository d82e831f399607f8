"""The size table of part 6, drawn; `regard/cost/sizes.py` computes it."""

from __future__ import annotations

from typing import Any

from regard.cost import PUBLISHED_MODELS, SIZE_COLUMNS, compute_sizes, dollars, format_sizes
from regard.draw import BLUE, MUTED, ORANGE
from regard.explain import Board, Drawing, Table


def sizes(price: float = 1.0, share: float = 0.3) -> Drawing:
    """Draw the table, and training FLOPs against parameters."""
    columns = compute_sizes(price, share)
    largest = PUBLISHED_MODELS[-1]
    cost = columns["cost_of_hours_computed"][-1]
    caption = (
        f"At {share:.0%} of a chip's peak and ${price:g} per chip-hour, training {largest.name} "
        f"costs {dollars(cost)} as computed; its published {largest.hours:g} hours cost "
        f"{dollars(columns['cost_of_hours_published'][-1])}."
    )
    details = (
        "The lecture's table (Johnson 2022): published numbers, and those computed from our own "
        "configs. FLOPs: all matrix products of forward and backward pass over the published "
        "number of tokens (GPT-2: 20 per parameter). Used: these FLOPs divided by chips × hours × "
        "peak (P100 9.5, V100 125, TPUv3 123 TFLOP/s). Computed days and dollars: on the same "
        f"chips (triangles: V100s, where none were published) at {share:.0%} of peak and "
        f"${price:g} per chip-hour. Published days have the same price, since the lecture states "
        f"only Gopher's cost: {largest.hours:,.0f} hours ({largest.hours / 24:.1f} days) of "
        f"{largest.chips} chips are ${largest.hours * largest.chips:,.0f} at $1. XLNet and Gopher "
        "include a matrix for relative positions in each layer (dim² parameters). Hollow squares: "
        "published."
    )
    with Board(caption, (1.9, 1), details) as board:
        _draw_table(board, columns)
        _draw_growth(board, columns)
        return board.drawing(**columns, price=price, share=share)


TELLING = {"model": 0.0, "published params": 0.47, "computed params": 0.65, "computed FLOPs": 0.83,
           "computed days cost": 1.0}  # fmt: skip
"""The columns shown in the picture, and the right end of each as a share of its width."""


def _draw_table(board: Board, columns: dict[str, list[Any]]) -> None:
    """Draw the columns of `TELLING`, and add the whole table to the page."""
    rows = format_sizes(columns)
    indices = [SIZE_COLUMNS.index(name) for name in TELLING]
    heads = [("\n".join(name.rsplit(" ", 1)), end) for name, end in TELLING.items()]
    heads[-1] = ("computed\ncost", 1.0)
    board.table(0, "", heads, [[row[index] for index in indices] for row in rows])
    whole = [(*row, note or "") for row, note in zip(rows, columns["notes"], strict=True)]
    board.tables.append(Table((*SIZE_COLUMNS, "note"), whole, "The whole table."))


def _draw_growth(board: Board, columns: dict[str, list[Any]]) -> None:
    axes = board.chart(1, "larger and larger", "parameters", "training FLOPs")
    points = zip(
        PUBLISHED_MODELS, columns["parameters_computed"], columns["parameters_published"],
        columns["flops_computed"], strict=True,
    )  # fmt: skip
    for row, computed, published, flops in points:
        axes.plot(published, flops, "s", color=MUTED, markersize=11, markerfacecolor="none")
        colour, mark = (BLUE, "o") if row.chips else (ORANGE, "^")
        axes.plot(computed, flops, mark, color=colour, markersize=7)
        if row.name in LABELS:
            side, across, up = LABELS[row.name]
            point = (computed, flops)
            axes.write_beside(point, row.name, xytext=(across, up), ha=side, color=MUTED)
    axes.log_axis("x", [1e8, 1e9, 1e10, 1e11])
    axes.log_axis("y", [1e18, 1e20, 1e22, 1e24])
    axes.set_xlim(2e7, 3e13)
    axes.set_ylim(2e17, 5e24)


LABELS = {
    "Transformer-Base": ("left", 9, -7),
    "BERT-Base": ("left", 9, -9),
    "XLNet-Large": ("left", 9, 4),
    "GPT-2": ("left", 9, -9),
    "Megatron-LM": ("left", 9, -9),
    "GPT-3": ("right", -9, -4),
    "Gopher": ("left", 7, 4),
}
"""The names that are drawn, with their alignment and offset in points."""
