"""Figure of part 5: a model as a diagram, from its config, with the parameters of each part.

Every family is drawn by the same rule: a column for the encoder and one for the decoder, from the
input at the bottom to the output at the top, and in a frame the sub-layers that are repeated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from matplotlib.patches import FancyArrowPatch, Rectangle

from regard import plan
from regard.cost import Plan
from regard.draw import INK, MUTED, RULE, TEXT, Chart, points, short, shorten, text_width
from regard.explain import Board, Drawing, Words

LIMITS = "Counted in the real model, built from its config without weights: nothing is trained."
GROUPS = {
    "attention": "attention",
    "feed-forward": "the feed-forward",
    "embedding": "embeddings and output",
    "output": "embeddings and output",
    "recurrence": "recurrence",
    "convolution": "convolutions",
    "stem": "convolutions",
    "dense layers": "dense layers",
    "task heads": "the head",
}
"""Parts of a plan by a word in their names, and the group that the caption counts them in."""
FILLS = {
    "attention": "#fde3d0", "cross": "#fbd0c4", "feed": "#cfe6f5", "embedding": "#f7d9e6",
    "output": "#dcebd3", "recurrent": "#e8ddf2", "convolution": "#e8ddf2", "input": "#ffffff",
}  # fmt: skip
"""The colours of boxes by kind."""
CELLS = {"rnn": "RNN", "gru": "GRU", "gru_before": "GRU", "lstm": "LSTM"}
NORMS = {
    "post": "each: x = norm(x + sub-layer(x))",
    "pre": "each: x = x + sub-layer(norm(x))",
    "inside": "each: x = x + norm(sub-layer(x))",
}
"""What a block does with each of its sub-layers."""
POSITIONS = {
    "sinusoidal": " + sinusoids", "sinusoidal_2d": " + sinusoids (2-D)", "learned": " + positions",
    "rotary": " (rotary positions)", "buckets": " (relative positions)",
}  # fmt: skip
"""What the embedding gets from each position scheme; the last two act inside attention."""


@dataclass(frozen=True)
class Box:
    """One part of a model: what it is, its number of parameters (0: not counted), its colour."""

    label: str
    parameters: float = 0
    kind: str = "input"


@dataclass(frozen=True)
class Column:
    """One side of a model, from the bottom to the top.

    Attributes:
        name: `encoder` or `decoder`.
        below: The boxes below the layers: input and embedding.
        layers: How often the boxes inside are repeated.
        inside: The boxes of one layer.
        norm: What a layer does with each of its boxes.
        above: The boxes above the layers.
        unit: What is counted: `layer`, `stage` of a convolutional network, or `hidden layer` of a
            network of rows.
    """

    name: str
    below: tuple[Box, ...]
    layers: int
    inside: tuple[Box, ...]
    norm: str
    above: tuple[Box, ...]
    unit: str = "layer"

    @property
    def count(self) -> int:
        """The number of layers, or of stages."""
        return self.layers if self.unit == "layer" else len(self.inside)

    @property
    def boxes(self) -> int:
        """The number of boxes."""
        return len(self.below) + len(self.inside) + len(self.above)


def columns_of(cost: Plan) -> list[Column]:
    """The columns of a model's diagram."""
    config: Any = cost.recipe.model
    sides = [(name, getattr(config, name, None)) for name in ("encoder", "decoder")]
    known = [(name, side) for name, side in sides if side is not None]
    last = known[-1][0]
    return [_column(name, side, cost, is_last=name == last) for name, side in known]


def _column(name: str, side: Any, cost: Plan, *, is_last: bool) -> Column:
    counts = cost.parameters

    def per_layer(part: str) -> float:
        return counts.get(f"{name} {part}", 0) / max(1, side.layers)

    above: tuple[Box, ...] = (_output_box(cost),) if is_last else ()
    if hasattr(side, "filters"):  # a convolutional network
        return Column(name, (_image_box(side),), 1, tuple(_convolutions(side)), "", above, "stage")
    if hasattr(side, "features"):  # a network that reads rows of numbers
        row = Box(f"row of {side.features} numbers")
        return Column(name, (row,), 1, tuple(_dense_layers(side)), "", above, "hidden layer")
    below = (_input_box(side, name), _embedding_box(side, name, cost))
    if hasattr(side, "heads_of_stages"):
        return Column(name, below, 1, tuple(_stages(side)), "", above, "stage")
    if not hasattr(side, "block"):  # a recurrent decoder
        inside = [Box(f"{CELLS[side.cell]}, {side.dim} wide", per_layer("recurrence"), "recurrent")]
        attention = getattr(side.attention, "kind", "")
        context = "one context vector" if attention == "none" else f"attention: {attention}"
        inside.insert(0, Box(context, per_layer("cross-attention"), "cross"))
        return Column(name, below, side.layers, tuple(inside), "", above)
    inside = [_sublayer_box(part, side, name, per_layer) for part in side.block]
    norm = NORMS.get(side.norm_place, "") if side.residual and side.norm != "none" else ""
    return Column(name, below, side.layers, tuple(inside), norm, above)


def _sublayer_box(part: Any, side: Any, name: str, per_layer: Any) -> Box:
    """The box of a sub-layer of a stack, with its parameters in one layer."""
    if part.kind in ("attention", "cross_attention", "grid_attention"):
        width = part.head_dim or side.dim // part.heads
        size = f"{part.heads} × {width}"
        if part.kind == "cross_attention":
            return Box(f"cross-attention, {size}", per_layer("cross-attention"), "cross")
        masked = "masked " if name == "decoder" else ""
        return Box(f"{masked}self-attention, {size}", per_layer("self-attention"), "attention")
    if part.kind == "feed_forward":
        label = f"feed-forward {side.dim} → {part.hidden} → {side.dim}"
        return Box(label, per_layer("feed-forward"), "feed")
    if part.kind == "recurrent":
        ways = {"both": ", both ways", "apart": ", two apart", "backward": ", backwards"}
        label = f"{CELLS[part.cell]}, {side.dim} wide{ways.get(part.direction, '')}"
        return Box(label, per_layer("recurrence"), "recurrent")
    label = f"convolution over {part.kernel} tokens"
    return Box(label, per_layer("convolution"), "convolution")


def _input_box(side: Any, name: str) -> Box:
    front = side.front
    if getattr(front, "kind", "") in ("patches", "padded_patches"):
        rows, columns = front.grid
        return Box(f"image: {rows} × {columns} patches of {front.patch} × {front.patch}")
    return Box("tokens written so far" if name == "decoder" else "tokens of the input")


def _embedding_box(side: Any, name: str, cost: Plan) -> Box:
    """The box of the embedding, with the scheme of positions."""
    counts = cost.parameters
    has_two = "target embedding" in counts or "target embedding" in cost.shared
    names = ("target embedding",) if has_two and name == "decoder" else (
        "source embedding", "embedding", "patch embedding", "stem",
    )  # fmt: skip
    size = sum(counts.get(part, 0) for part in names)
    positions = getattr(getattr(side, "positions", None), "kind", "none")
    return Box(f"embedding{POSITIONS.get(positions, '')}", size, "embedding")


def _image_box(side: Any) -> Box:
    height, width = side.image
    return Box(f"image of {height} × {width}, {side.channels} channels")


def _convolutions(side: Any) -> Iterator[Box]:
    """A box for each stage of a convolutional network."""
    depths = getattr(side, "depths", None) or (1,) * len(side.filters)
    for depth, filters in zip(depths, side.filters, strict=True):
        unit = "convolution" if depth == 1 else f"{depth} residual units"
        yield Box(f"{unit}, {filters} channels", 0, "convolution")


def _dense_layers(side: Any) -> Iterator[Box]:
    """A box for each hidden layer of a network of rows."""
    widths = (side.features, *side.hidden)
    for before, after in pairwise(widths):
        label = f"linear {before} → {after}, {side.activation}"
        yield Box(label, (before + 1) * after, "feed")


def _stages(side: Any) -> Iterator[Box]:
    """A box for each stage of a Swin."""
    stages = zip(side.depths, side.widths, side.heads_of_stages, side.grids, strict=True)
    for depth, width, heads, (rows, columns) in stages:
        blocks = "block" if depth == 1 else "blocks"
        label = f"{depth} {blocks}, {width} wide, {heads} heads, {rows} × {columns} cells"
        yield Box(label, 0, "attention")


def _output_box(cost: Plan) -> Box:
    """The box of what stands on top: the vocabulary's matrix, or the heads of the tasks."""
    size = cost.parameters.get("output", 0) + cost.parameters.get("task heads", 0)
    if numbers := getattr(getattr(cost.recipe.model, "head", None), "numbers", ()):
        return Box(f"linear: {len(numbers)} number{'s' * (len(numbers) > 1)}", size, "output")
    shared = "output" in cost.shared
    return Box("linear (the embedding's matrix), softmax" if shared else "linear, softmax",
               size, "output")  # fmt: skip


def groups_of(cost: Plan) -> dict[str, int]:
    """The parameters by group, largest first; groups without any are left out."""
    groups: dict[str, int] = {}
    for part, count in cost.parameters.items():
        names = [group for word, group in GROUPS.items() if word in part]
        group = names[0] if names else "norms and the rest"
        groups[group] = groups.get(group, 0) + count
    return dict(sorted(((g, n) for g, n in groups.items() if n), key=lambda item: -item[1]))


def words_architecture(numbers: Mapping[str, Any]) -> Words:
    """Layers, width and parameters; which group of parts has most of them."""
    sides = [
        f"{side['count']} {name} {side['unit']}{'' if side['count'] == 1 else 's'}"
        for name, side in numbers["sides"].items()
    ]
    total, groups = numbers["total"], numbers["groups"]
    title = f"{numbers['model']}: {' and '.join(sides)}, {short(total)} parameters"
    if not groups:
        return Words(title, "Nothing stands before the output, whose size the data decides.")
    shares = [f"{group} ({count / total:.0%})" for group, count in groups.items()]
    first = next(iter(groups))
    most = "Most parameters are" if groups[first] > total / 2 else "The most parameters are"
    then = f"; then {', '.join(shares[1:3])}" if shares[1:] else ""
    caption = f"{most} in {shares[0]}{then}."
    parts = numbers["sides"].get("decoder", {"parts": []})["parts"]
    if any(part.startswith("cross-attention") for part in parts):
        caption += " Every decoder layer reads the top of the encoder, not the layer beside it."
    return Words(title, caption)


def architecture(model: str, change: str) -> Drawing:
    """Draw the parts of a model from input to output, with their parameters."""
    cost = plan(model, change.split(), flops=1e12)
    columns = columns_of(cost)
    numbers: dict[str, Any] = {
        "model": f"{model} {change}".strip(),
        "family": cost.recipe.model.family,
        "sides": {
            column.name: {
                "count": column.count,
                "unit": column.unit,
                "norm": column.norm,
                "parts": [box.label for box in (*column.below, *column.inside, *column.above)],
                "parameters": [
                    round(box.parameters) for box in (*column.below, *column.inside, *column.above)
                ],
            }
            for column in columns
        },
        "groups": groups_of(cost),
        "parts": dict(cost.parameters),
        "total": cost.total,
    }
    details = (
        f"{model} with a vocabulary of {cost.vocab:,} ({cost.vocab_from}). Boxes in a frame are "
        "those of one layer, with the parameters of one layer; the number beside the frame says "
        "how often it is repeated: layers are copies of one form, each with weights of its own. "
        "8 × 64 means 8 heads of 64 numbers. "
        f"`regard plan {model}` counts FLOPs and memory, too."
    )
    with Board(words_architecture(numbers), (1,) * len(columns), details, limits=LIMITS) as board:
        axes = board.sheet.axes(0, board.top, board.sheet.width, board.bottom - board.top)
        size = board.sheet.width, board.bottom - board.top
        axes.set(xlim=(0, size[0]), ylim=(size[1], 0))
        axes.set_axis_off()
        tops = []
        for panel, column in enumerate(columns):
            left, _, width, _ = board.panel_box(panel)
            tops.append(_draw_column(axes, column, left, width, size[1]))
        if len(tops) == 2:
            _join(axes, board.panel_box(0), board.panel_box(1), tops)
        return board.drawing(**numbers)


def _draw_column(
    axes: Chart, column: Column, left: float, width: float, height: float
) -> tuple[float, float]:
    """Draw a column; returns the y of its top, and of its box with cross-attention (or 0)."""
    margin, extra = 66.0, 34.0
    pitch = min(76.0, (height - 2 * extra - 8) / max(6, column.boxes))
    y, cross_y, inner = height - 4.0, 0.0, width - margin - 8
    parts = [
        *((box, "below") for box in column.below),
        *((box, "inside") for box in column.inside),
        *((box, "above") for box in column.above),
    ]
    frame_bottom = frame_top = 0.0
    for index, (box, where) in enumerate(parts):
        if where == "inside" and not frame_bottom:
            y -= 8
            frame_bottom = y + 4
        y -= pitch
        if box.kind == "cross":
            cross_y = y + pitch / 2
        _draw_box(axes, box, (left + margin, y + 5, inner, pitch - 10))
        if index:
            _arrow(axes, (left + margin + inner / 2, y + pitch + 5), 10)
        is_last_inside = where == "inside" and (
            index + 1 == len(parts) or parts[index + 1][1] != "inside"
        )
        if is_last_inside:
            label = f"{column.name}: {column.norm}" if column.norm else column.name
            y -= extra
            axes.write((left + margin, y + extra / 2 + 6), label, color=MUTED, va="center")
            frame_top = y + 2
    axes.add_patch(
        Rectangle((left + margin - 10, frame_top), inner + 18, frame_bottom - frame_top,
                  fill=False, edgecolor=MUTED, linewidth=1.4, linestyle="--")
    )  # fmt: skip
    axes.write((left + margin - 18, (frame_top + frame_bottom) / 2), f"{column.layers} ×",
               ha="right", va="center", weight="bold")  # fmt: skip
    return y, cross_y


def _draw_box(axes: Chart, box: Box, corners: tuple[float, float, float, float]) -> None:
    """Draw one box with its label and its parameters."""
    left, top, width, height = corners
    axes.add_patch(Rectangle((left, top), width, height, facecolor=FILLS[box.kind], edgecolor=RULE))
    count = short(box.parameters) if box.parameters else ""
    free_width = width - 24 - (text_width(count, TEXT) + 16 if count else 0)
    axes.write((left + 12, top + height / 2), shorten(box.label, free_width, TEXT), va="center")
    axes.write((left + width - 12, top + height / 2), count, va="center", ha="right", color=MUTED)


def _arrow(axes: Chart, point: tuple[float, float], length: float) -> None:
    """Draw a small arrow upwards that starts at a point."""
    x, y = point
    style: Any = {"arrowstyle": "-|>", "mutation_scale": points(16), "color": INK}
    axes.add_patch(FancyArrowPatch((x, y), (x, y - length), shrinkA=0, shrinkB=0, **style))


def _join(
    axes: Chart,
    first: tuple[float, float, float, float],
    second: tuple[float, float, float, float],
    tops: list[tuple[float, float]],
) -> None:
    """Draw the way from the top of the encoder to the decoder's cross-attention."""
    (top, _), (_, cross_y) = tops
    if not cross_y:
        return
    x, middle, end = first[0] + first[2] / 2 + 33, second[0] - 8, second[0] + 66
    line: Any = {"color": INK, "linewidth": 2.0}
    axes.plot([x, x, middle, middle], [top + 2, top - 14, top - 14, cross_y], **line)
    axes.add_patch(
        FancyArrowPatch(
            (middle, cross_y),
            (end, cross_y),
            arrowstyle="-|>",
            shrinkA=0,
            shrinkB=0,
            mutation_scale=points(24),
            **line,
        )
    )
