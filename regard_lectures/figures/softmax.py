"""Figures of part 3: the softmax, and why its scores are divided by √d_k.

Both are computed with the layers of the models: `masked_softmax` and `DotScore`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

from regard.draw import (
    BLUE,
    LINE_STYLES,
    MUTED,
    ORANGE,
    SMALLEST,
    Chart,
    LineStyle,
    scientific,
    text_width,
)
from regard.errors import InputError
from regard.explain import Board, Drawing, Numbers, Words
from regard.layers import DotScore, masked_softmax
from regard_lectures.limits import COMPUTED

LECTURE_NUMBERS = (-8.96, 8.84, -2.15, 4.1)
"""The lecture's example of a softmax, whose slide computes exp(-x) by mistake."""
MOST_NUMBERS = 12
SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
NEARLY_ALL = 0.9
"""From this share on a number is said to get nearly everything."""
QUERIES = 512
DIMS = tuple(2**power for power in range(2, 11))
"""Widths of q and k, from 4 to 1024."""
LEAST = 1e-12
"""Smaller gradients are drawn as this."""
GROWS, FALLS = 3.0, 1 / 3
"""A ratio of the last to the first value from which on a curve is said to grow or to fall."""


def softmax(text: str | None) -> Drawing:
    """Draw the softmax exp(x_i) / Σ_j exp(x_j) of the lecture's numbers or the user's own."""
    x = torch.tensor(_numbers(text), dtype=torch.float64)
    weights, wrong = masked_softmax(x, None), masked_softmax(-x, None)
    numbers: Numbers = {
        "x": x.tolist(),
        "weights": weights.tolist(),
        "written": [_share(weight, len(x)) for weight in weights.tolist()],
        "sum": float(weights.sum()),
    }
    if text is None:
        numbers["slide_exp_of_minus_x"] = wrong.tolist()
    panels = [("the numbers x", x, BLUE), ("softmax(x)", weights, BLUE)]
    panels += [] if text is not None else [("the slide: exp(−x)", wrong, ORANGE)]
    details = (
        "softmax(x)ᵢ = exp(xᵢ) / Σⱼ exp(xⱼ), computed in double precision. A number that is "
        "larger by 1 gets e = 2.718 times the share."
    )
    with Board(words_softmax(numbers), [1] * len(panels), details, limits=COMPUTED) as board:
        for panel, (heading, values, colour) in enumerate(panels):
            axes = board.chart(panel, heading)
            _draw_numbers(axes, x, values, colour, shares=panel > 0)
        return board.drawing(**numbers)


def words_softmax(numbers: Numbers) -> Words:
    """Which number gets the largest share, whether all are positive, and what their sum is."""
    x, weights, written = numbers["x"], numbers["weights"], numbers["written"]
    best, count = max(range(len(x)), key=weights.__getitem__), len(x)
    named, share = _minus(f"{x[best]:g}"), written[best]
    if count == 1:
        title = f"Softmax of a single number: its share is {share}, whatever it is"
    elif weights.count(weights[best]) == count:
        title = f"Softmax: {count} equal numbers get equal shares, {share} each"
    elif weights.count(weights[best]) > 1:
        title = f"Softmax: the {weights.count(weights[best])} largest numbers get {share} each"
    elif weights[best] >= NEARLY_ALL:
        title = f"Softmax: the largest number, {named}, gets nearly everything: {share}"
    else:
        title = f"Softmax: the largest number, {named}, gets {share}; the others share the rest"
    positive = "Every share is positive"
    if not all(weights):
        zeros = weights.count(0)
        positive = f"{zeros} of the shares {'is' if zeros == 1 else 'are'} below 10⁻³⁰⁸, and 0 here"
    caption = f"{positive}; the sum of all is {numbers['sum']:.6g}{_as_written(numbers)}."
    if "slide_exp_of_minus_x" in numbers:
        slide = numbers["slide_exp_of_minus_x"]
        other = max(range(count), key=slide.__getitem__)
        if other != best:
            caption += (
                f" The slide computes exp(−x) by mistake: there {_minus(f'{x[other]:g}')} gets "
                f"{_share(slide[other], count)}."
            )
    return Words(title, caption)


def _as_written(numbers: Numbers) -> str:
    """A remark if the shares as they are written have another sum; else empty."""
    total = math.fsum(float(text.replace("−", "-")) for text in numbers["written"])
    same = f"{total:.4g}" == f"{numbers['sum']:.4g}"
    return "" if same else f", as rounded in the picture {total:.4g}"


def _minus(text: str) -> str:
    return text.replace("-", "−")


def _draw_numbers(axes: Chart, x: Tensor, values: Tensor, colour: str, *, shares: bool) -> None:
    """Draw a bar per value, with the value above it if it fits.

    Args:
        axes: The axes.
        x: The input numbers, as tick labels.
        values: The heights of the bars: the numbers, or their softmax.
        colour: The colour of the bars.
        shares: Whether the values are a softmax.
    """
    count = len(x)
    bar_width = axes.get_window_extent().width / count
    names = [_minus(f"{value:g}") for value in x.tolist()]
    if not shares or max(text_width(name, SMALLEST) for name in names) > bar_width:
        names = [f"x{number + 1}".translate(SUBSCRIPTS) for number in range(count)]
    axes.bar(range(count), values.tolist(), color=colour, width=0.6)
    axes.set_xticks(range(count), names)
    axes.grid(visible=False, axis="x")
    written = [_share(value, count) if shares else f"{value:.4g}" for value in values.tolist()]
    if max(text_width(text, SMALLEST) for text in written) > bar_width:
        written = [text.replace("0.", ".") for text in written]  # .25 for 0.25
    if max(text_width(text, SMALLEST) for text in written) <= bar_width:
        for index, (value, text) in enumerate(zip(values.tolist(), written, strict=True)):
            up = value >= 0
            axes.write_beside((index, value), _minus(text), xytext=(0, 4 if up else -4),
                   va="bottom" if up else "top")  # fmt: skip
    if shares:
        axes.set_ylim(0, 1.1)
    else:
        axes.margins(y=0.14)
        axes.axhline(0, color=MUTED, linewidth=1)


def _share(value: float, count: int) -> str:
    """A softmax value as text: two digits if there are many, else four, or as 2e−8."""
    if count > 6:
        return f"{value:.2f}"
    if value > 1e-4 or value == 0:
        return f"{value:.4f}"  # 2e-08 -> 2e−8
    return _minus(f"{value:.0e}").replace("e−0", "e−")


def _numbers(text: str | None) -> list[float]:
    """The user's numbers, or the lecture's.

    Raises:
        InputError: If the text is not 1 to 12 numbers.
    """
    if text is None:
        return list(LECTURE_NUMBERS)
    words = text.replace(",", " ").replace("−", "-").split()
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        numbers = []
    if not 1 <= len(numbers) <= MOST_NUMBERS or not all(map(math.isfinite, numbers)):
        expected = f"1 to {MOST_NUMBERS} numbers, as in '1.0 2.5 -3'"
        raise InputError("--text", got=repr(text), expected=expected)
    return numbers


def scaling(keys: int, seed: int) -> Drawing:
    """Draw the variance of q·k, and the softmax's largest weight and gradient, with and without √d.

    Args:
        keys: The number of keys.
        seed: The seed of queries and keys.
    """
    torch.manual_seed(seed)
    kinds = {"q·k": "plain", "q·k / √d": "scaled"}
    curves: dict[str, list[list[float]]] = {kind: [] for kind in kinds.values()}
    for dim in DIMS:
        q, k = torch.randn(QUERIES, dim), torch.randn(keys, dim)
        for kind, scale in (("plain", 1.0), ("scaled", dim**-0.5)):
            scores = DotScore(scale).scores(q, k)  # (query, key)
            curves[kind].append(_softmax_at(scores))
    numbers: Numbers = {
        "keys": keys,
        "dims": list(DIMS),
        **{
            f"{name}_{kind}": [row[column] for row in curves[kind]]
            for kind in kinds.values()
            for column, name in enumerate(("variance", "largest_weight", "gradient"))
        },
    }
    details = (
        "Queries and keys have independent normal components. The gradient through the softmax is "
        "∂(u·softmax(s))/∂s for a random u, computed by autograd. Lines: the median over the "
        "queries. Bands: the middle half. Dotted: d itself. Gradients below 10⁻¹² are drawn there."
    )
    limits = f"{QUERIES} random queries and {keys} random keys, seed {seed}: no model, no training."
    styles = dict(zip(kinds, LINE_STYLES[1::-1], strict=True))
    with Board(words_scaling(numbers), (1, 1, 1), details, limits=limits) as board:
        board.legend({**styles, "d": LineStyle(MUTED, ":")})
        headings = "variance of scores", "largest weight", "size of the gradient"
        for column, heading in enumerate(headings):
            axes = board.chart(column, heading, "width d of q and k", "")
            for label, kind in kinds.items():
                _draw_curve(axes, curves[kind], column, styles[label])
            axes.log_axis("x", [4, 16, 64, 256, 1024])
            if column == 0:
                axes.plot(DIMS, DIMS, color=MUTED, linewidth=1.6, linestyle=":")
                axes.log_axis("y", [1, 10, 100, 1000])
            elif column == 1:
                axes.set_ylim(0, 1.02)
            else:
                axes.log_axis("y", _decades(curves.values()))
        return board.drawing(**numbers)


def _decades(curves: Iterable[list[list[float]]]) -> list[float]:
    """Powers of ten for the axis of the gradients, at most ten of them."""
    values = [value for rows in curves for row in rows for value in (row[2], row[4], row[6])]
    low, high = (math.floor(math.log10(max(pick(values), LEAST))) for pick in (min, max))
    step = 1 + (high - low) // 9
    return [10.0**exponent for exponent in range(low, high + 1, step)]


def _draw_curve(axes: Chart, rows: list[list[float]], column: int, style: LineStyle) -> None:
    """Draw one statistic of `_softmax_at` over the widths, with its quartiles as a band."""
    line = [max(row[column], LEAST) for row in rows]
    axes.curve(DIMS, line, style=style, marker=style.marker)
    if column:
        low, high = ([max(row[column + shift], LEAST) for row in rows] for shift in (2, 4))
        axes.fill_between(DIMS, low, high, color=style.colour, alpha=0.15, linewidth=0)


def words_scaling(numbers: Numbers) -> Words:
    """How variance, weights and gradients change with the width, with and without √d."""
    first, last = numbers["dims"][0], numbers["dims"][-1]
    plain, scaled = (numbers[f"gradient_{kind}"] for kind in ("plain", "scaled"))
    ratios = [line[-1] / max(line[0], 1e-30) for line in (plain, scaled)]
    plain_falls, scaled_falls = (ratio < FALLS for ratio in ratios)
    if plain_falls and not scaled_falls:
        title = "Without √d_k the gradient vanishes as d grows; with it, the gradient stays"
    elif plain_falls:
        title = "The gradient shrinks as d grows, divided by √d_k or not"
    else:
        title = "Here the gradient does not shrink as d grows, even without √d_k"
    slope = np.polyfit(np.log(numbers["dims"]), np.log(numbers["variance_plain"]), 1)[0]
    low, high = (pick(numbers["variance_scaled"]) for pick in (min, max))
    after = f"stays at {low:.2f} to {high:.2f}"
    if high > GROWS * low:
        after = (
            f"goes from {numbers['variance_scaled'][0]:.2g} to {numbers['variance_scaled'][-1]:.2g}"
        )
    weights = [numbers[f"largest_weight_{kind}"][-1] for kind in ("plain", "scaled")]
    course = f"{_fold(ratios[0])} without and {_fold(ratios[1])} with √d"
    caption = (
        f"The variance of q·k grows as d^{slope:.1f}; divided by √d it {after}. At d = {last} the "
        f"largest weight is {weights[0]:.2f} and {weights[1]:.2f}; from d = {first} the "
        f"gradient {course}."
    )
    return Words(title, caption)


def _fold(ratio: float) -> str:
    """How a value changes, as a predicate.

    Example:
        >>> _fold(0.001), _fold(1.2), _fold(5.0)
        ('falls 1,000-fold', 'stays', 'grows 5-fold')
    """
    if FALLS <= ratio <= GROWS:
        return "stays"
    verb, times = ("grows", ratio) if ratio > 1 else ("falls", 1 / max(ratio, 1e-30))
    said = scientific(times) if times > 1e6 else f"{float(format(times, '.2g')):,.0f}"
    return f"{verb} {said}-fold"


def _softmax_at(scores: Tensor) -> list[float]:
    """Statistics of a softmax over scores (query, key), with a random upstream gradient.

    Returns:
        Variance of the scores, median largest weight, median gradient norm; then the first
        quartiles of the latter two, then their third quartiles.
    """
    scores = scores.detach().requires_grad_()
    weights = masked_softmax(scores, None)
    upstream = torch.randn_like(weights)
    (gradient,) = torch.autograd.grad((weights * upstream).sum(), scores)
    largest, norm = weights.amax(-1).detach(), gradient.norm(dim=-1)
    quartiles = torch.tensor([0.25, 0.75])
    (low, high), (small, great) = largest.quantile(quartiles), norm.quantile(quartiles)
    figures = [scores.detach().var(), largest.median(), norm.median(), low, small, high, great]
    return [float(figure) for figure in figures]
