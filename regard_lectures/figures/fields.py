"""Figure of part 2: how far back a token sees after n layers, by formula and by gradients.

                                    tokens that the last output depends on after L layers
    convolution of k tokens         1 + L (k - 1)
    the same, dilated by k^l        k^L                    (layer l sees every k^l-th token)
    attention to the r before       1 + L r
    attention, recurrence           all n, after one layer

All are causal. Depending on a token is not yet remembering it, so the figure also measures how many
of the last tokens have 90% of the gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from regard.draw import LINE_STYLES, LineStyle
from regard.explain import Board, Drawing, Numbers, Words, key_of
from regard.layers import (
    Attention,
    GatedConvolution,
    Mask,
    Mixer,
    Recurrent,
    plain_context,
)
from regard_lectures.tries import draw_spread, span, spread_of, trainings

TEXTS = 16
"""Random texts over which gradients are averaged."""
SHARE = 0.9
"""The share of the gradient that counts as most of it."""
CONVOLUTION, DILATED, RESTRICTED = "convolution", "dilated convolution", "restricted attention"
ATTENTION, RECURRENT = "attention", "recurrent"
KINDS = (CONVOLUTION, DILATED, RESTRICTED, ATTENTION, RECURRENT)


class Sizes(NamedTuple):
    """Sizes of the texts and layers that are compared."""

    length: int
    """Tokens of a text."""
    kernel: int
    """Tokens that a convolution sees, the token itself included."""
    reach: int
    """Tokens before it that a token may attend to in restricted attention."""
    dim: int
    """The width of a token."""


Layer = Callable[[Tensor], Tensor]
"""Maps the tokens of some texts (texts · n, d) to (texts · n, d)."""


def dilated(layer: Mixer, step: int, texts: int = 1) -> Layer:
    """A convolution that sees every `step`-th token.

    The tokens r, r + step, r + 2 step … of a text are a text of their own for each r below `step`,
    and the layer is applied to these texts.
    """

    def apply(x: Tensor) -> Tensor:
        length = len(x) // texts
        rows = [
            torch.arange(text * length + first, (text + 1) * length, step)
            for text in range(texts)
            for first in range(min(step, length))
        ]
        order = torch.cat(rows)
        out = layer(x[order], plain_context([len(row) for row in rows]))
        return out[order.argsort()]

    return apply


def formula(kind: str, layers: int, length: int, kernel: int, reach: int) -> int:
    """On how many tokens the last output depends after some layers, at most `length`."""
    fields = {
        CONVOLUTION: 1 + layers * (kernel - 1),
        DILATED: kernel**layers,
        RESTRICTED: 1 + layers * reach,
    }
    return min(length, fields.get(kind, length))


def new_layer(kind: str, dim: int, kernel: int) -> Mixer:
    """A layer of one kind, in float64, so that small gradients are not rounded to 0."""
    layer: Mixer
    if kind in (CONVOLUTION, DILATED):
        layer = GatedConvolution(dim, kernel=kernel, causal=True)
    elif kind == RECURRENT:
        layer = Recurrent(dim, cell="gru")
    else:
        layer = Attention(dim, 1)
    return layer.double()


def stack(kind: str, layers: int, sizes: Sizes) -> list[Layer]:
    """New layers of one kind, to be applied one after the other, without residuals."""

    def apply(part: Mixer) -> Layer:
        ctx = plain_context((sizes.length,) * TEXTS, causal=True)
        ctx.mask = Mask(causal=True, window=sizes.reach if kind == RESTRICTED else None)
        return lambda x: part(x, ctx)

    parts = [new_layer(kind, sizes.dim, sizes.kernel) for _ in range(layers)]
    if kind != DILATED:
        return [apply(part) for part in parts]
    steps = [sizes.kernel**depth for depth in range(layers)]
    return [  # a step beyond the text would see zeros only: that layer is left out
        dilated(part, step, TEXTS) if step < sizes.length else (lambda x: x)
        for part, step in zip(parts, steps, strict=True)
    ]


def gradients(layers: Sequence[Layer], sizes: Sizes) -> list[Tensor]:
    """How much the last output depends on each token, by distance from the last one.

    Returns:
        After each layer (length,): the mean length of ∂(v·y_n)/∂x_{n-k} over random texts and
        directions v.
    """
    x = torch.randn(TEXTS * sizes.length, sizes.dim, dtype=torch.float64, requires_grad=True)
    direction = torch.randn(TEXTS, sizes.dim, dtype=torch.float64)
    y, lines = x, list[Tensor]()
    for layer in layers:
        y = layer(y)
        last = y.view(TEXTS, sizes.length, sizes.dim)[:, -1]  # (texts, dim)
        [gradient] = torch.autograd.grad((last * direction).sum(), [x], retain_graph=True)
        norms = gradient.view(TEXTS, sizes.length, sizes.dim).norm(dim=2)  # (texts, length)
        lines.append(norms.mean(0).flip(0))
    return lines


def most_of(line: Tensor) -> int:
    """How many of the last tokens have `SHARE` of the gradient together."""
    shares = (line / line.sum()).cumsum(0)
    return int((shares < SHARE).sum()) + 1


def fields(
    length: int, layers: int, kernel: int, reach: int, dim: int, tries: int, seed: int
) -> Drawing:
    """Draw how far back the last token sees after each number of layers.

    Args:
        length: The tokens of a text.
        layers: The largest number of layers.
        kernel: The tokens that a convolution sees, the token itself included.
        reach: The tokens before it that a token may attend to in restricted attention.
        dim: The width of a token.
        tries: How many sets of new weights.
        seed: The seed of weights and texts; further tries have the seeds after it.
    """
    sizes, depths = Sizes(length, kernel, reach, dim), range(1, layers + 1)
    seen: dict[str, list[list[int]]] = {}
    most: dict[str, list[list[int]]] = {}
    for kind in KINDS:
        tables = []
        for one_seed in range(seed, seed + tries):
            torch.manual_seed(one_seed)
            tables.append(gradients(stack(kind, layers, sizes), sizes))
        seen[key_of(kind)] = [[int((line > 0).sum()) for line in lines] for lines in tables]
        most[key_of(kind)] = [[most_of(line) for line in lines] for lines in tables]
    numbers = {
        "length": length,
        "kernel": kernel,
        "reach": reach,
        "tries": tries,
        "layers": list(depths),
        "formula": {
            key_of(kind): [formula(kind, depth, length, kernel, reach) for depth in depths]
            for kind in KINDS
        },
        "measured": seen,
        "most_of_the_gradient": most,
    }
    return _draw(numbers)


def words_fields(numbers: Numbers) -> Words:
    """How far each kind sees, whether the formulas say so, and where most of the gradient is."""
    length, depth = numbers["length"], numbers["layers"][-1]
    seen = {kind: numbers["measured"][key_of(kind)] for kind in KINDS}
    last = {kind: span(line[-1] for line in lines) for kind, lines in seen.items()}
    whole = [kind for kind in KINDS if min(line[0] for line in seen[kind]) == length]
    later = [kind for kind in KINDS if kind not in whole]
    if whole and later:
        title = f"One layer sees all {length} tokens only if it is {' or '.join(whole)}"
    else:
        title = f"One layer of {'each' if whole else 'no'} kind sees all {length} tokens"
    right = all(line == numbers["formula"][key_of(kind)] for kind in KINDS for line in seen[kind])
    agree = "as the formulas say" if right else "not as the formulas say (lines)"
    sees = ", ".join(f"{kind} {last[kind]}" for kind in later)
    most = {kind: [line[0] for line in numbers["most_of_the_gradient"][key_of(kind)]]
            for kind in (RECURRENT, ATTENTION)}  # fmt: skip
    recurrent, attention = (span(most[kind]) for kind in (RECURRENT, ATTENTION))
    less = max(most[RECURRENT]) < min(most[ATTENTION])
    more = min(most[RECURRENT]) > max(most[ATTENTION])
    compared = "fewer than" if less else "more than" if more else "not clearly another number than"
    caption = (
        f"Tokens seen after {depth} layer{'s' * (depth > 1)}, {agree}: {sees or f'all {length}'}. "
        f"After one layer {SHARE:.0%} of a recurrent gradient is on the last {recurrent} tokens, "
        f"{compared} attention's {attention}."
    )
    return Words(title, caption)


def _draw(numbers: Numbers) -> Drawing:
    length, depths = numbers["length"], numbers["layers"]
    kernel, reach = numbers["kernel"], numbers["reach"]
    details = (
        f"Left: the number of tokens on which the last output depends: lines are formulas, points "
        f"count gradients that are not 0. Convolution of k = {kernel} tokens: 1 + L (k − 1) after "
        f"L layers; dilated by k^l in layer l (from 0): k^L; attention to {reach} tokens before: "
        f"1 + L · {reach}; attention and a GRU: all {length}. Right: how many of the last tokens "
        f"have {SHARE:.0%} of the gradient, the mean length of ∂(v·y_n)/∂x over {TEXTS} random "
        "texts: the mean over the seeds, and vertical lines from the least to the largest. All "
        "layers are causal and without residual connections."
    )
    styles = dict(zip(KINDS, LINE_STYLES, strict=True))
    limits = f"New, untrained layers and random texts, {trainings(numbers['tries'])}."
    with Board(words_fields(numbers), (1, 1), details, limits=limits) as board:
        board.legend(styles)
        left = board.chart(0, f"tokens seen, of {length}", "layers", "")
        right = board.chart(1, f"tokens with {SHARE:.0%} of the gradient", "layers", "")
        for kind, style in styles.items():
            key = key_of(kind)
            points = LineStyle(style.colour, "none", style.marker)
            left.curve(depths, numbers["formula"][key], style=style)
            draw_spread(left, depths, spread_of(numbers["measured"][key]), points)
            draw_spread(right, depths, spread_of(numbers["most_of_the_gradient"][key]), style)
        for axes in (left, right):
            axes.set(xticks=depths, ylim=(0, 1.06 * length))
        return board.drawing(**numbers)
