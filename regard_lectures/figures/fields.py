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

from collections.abc import Callable

import torch
from torch import Tensor

from regard.draw import LINE_STYLES, LineStyle
from regard.explain import Board, Drawing, key_of
from regard.layers import (
    Attention,
    Context,
    GatedConvolution,
    Mask,
    Mixer,
    Recurrent,
    plain_context,
)

TEXTS = 16
"""Random texts over which gradients are averaged."""
SHARE = 0.9
"""The share of the gradient that counts as most of it."""
CONVOLUTION, DILATED, RESTRICTED = "convolution", "dilated convolution", "restricted attention"
ATTENTION, RECURRENT = "attention", "recurrent"
KINDS = (CONVOLUTION, DILATED, RESTRICTED, ATTENTION, RECURRENT)

Layer = Callable[[Tensor], Tensor]
"""Maps the tokens of a text (n, d) to (n, d)."""


def dilated(layer: Mixer, step: int) -> Layer:
    """A convolution that sees every `step`-th token.

    The tokens r, r + step, r + 2 step … are a text of their own for each r below `step`, and the
    layer is applied to these texts.
    """

    def apply(x: Tensor) -> Tensor:
        order = torch.cat([torch.arange(first, len(x), step) for first in range(step)])
        lengths = [len(range(first, len(x), step)) for first in range(step)]
        out = layer(x[order], plain_context([n for n in lengths if n]))
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


def stack(kind: str, layers: int, dim: int, kernel: int, reach: int) -> Layer:
    """New layers of one kind, applied one after the other, without residuals."""
    parts = [new_layer(kind, dim, kernel) for _ in range(layers)]

    def context(length: int) -> Context:
        ctx = plain_context((length,), causal=True)
        ctx.mask = Mask(causal=True, window=reach if kind == RESTRICTED else None)
        return ctx

    def apply(x: Tensor) -> Tensor:
        for depth, layer in enumerate(parts):
            step = kernel**depth if kind == DILATED else 1
            if step < len(x):  # a wider one sees zeros only
                x = dilated(layer, step)(x) if step > 1 else layer(x, context(len(x)))
        return x

    return apply


def gradients(layer: Layer, length: int, dim: int) -> Tensor:
    """How much the last output depends on each token, by distance from the last one: (length,).

    The mean length of ∂(v·y_n)/∂x_{n-k} over random texts and directions v.
    """
    total = torch.zeros(length, dtype=torch.float64)
    for _ in range(TEXTS):
        x = torch.randn(length, dim, dtype=torch.float64, requires_grad=True)
        direction = torch.randn(dim, dtype=torch.float64)
        [gradient] = torch.autograd.grad((layer(x)[-1] * direction).sum(), [x])
        total += gradient.norm(dim=1).flip(0) / TEXTS
    return total


def most_of(line: Tensor) -> int:
    """How many of the last tokens have `SHARE` of the gradient together."""
    shares = (line / line.sum()).cumsum(0)
    return int((shares < SHARE).sum()) + 1


def fields(length: int, layers: int, kernel: int, reach: int, dim: int, seed: int) -> Drawing:
    """Draw how far back the last token sees after each number of layers.

    Args:
        length: The tokens of a text.
        layers: The largest number of layers.
        kernel: The tokens that a convolution sees, the token itself included.
        reach: The tokens before it that a token may attend to in restricted attention.
        dim: The width of a token.
        seed: The seed of weights and texts.
    """
    depths = list(range(1, layers + 1))
    expected = {
        kind: [formula(kind, depth, length, kernel, reach) for depth in depths] for kind in KINDS
    }
    seen: dict[str, list[int]] = {kind: [] for kind in KINDS}
    most: dict[str, list[int]] = {kind: [] for kind in KINDS}
    for kind in KINDS:
        for depth in depths:
            torch.manual_seed(seed)
            line = gradients(stack(kind, depth, dim, kernel, reach), length, dim)
            seen[kind].append(int((line > 0).sum()))
            most[kind].append(most_of(line))
    return _draw(length, kernel, reach, depths, expected, seen, most)


def _draw(
    length: int,
    kernel: int,
    reach: int,
    depths: list[int],
    expected: dict[str, list[int]],
    seen: dict[str, list[int]],
    most: dict[str, list[int]],
) -> Drawing:
    last = {kind: line[-1] for kind, line in seen.items()}
    caption = (
        f"After {depths[-1]} layers a convolution sees {last[CONVOLUTION]} tokens, a dilated one "
        f"{last[DILATED]}; attention and recurrence see all {length} after one, but "
        f"{SHARE:.0%} of the recurrent gradient is on the last {most[RECURRENT][0]}."
    )
    details = (
        f"Left: the number of tokens on which the last output depends: lines are formulas, points "
        f"count gradients that are not 0. Convolution of k = {kernel} tokens: 1 + L (k − 1) after "
        f"L layers; dilated by k^l in layer l: k^L; attention to the {reach} tokens before: "
        f"1 + L · {reach}; attention and a GRU: all {length}. Right: how many of the last tokens "
        f"have {SHARE:.0%} of the gradient, the mean length of ∂(v·y_n)/∂x over {TEXTS} random "
        "texts. All layers are causal, new and untrained, and without residual connections."
    )
    styles = dict(zip(KINDS, LINE_STYLES, strict=True))
    with Board(caption, (1, 1), details) as board:
        board.legend(styles)
        panels = (
            (f"tokens seen, of {length}", seen, expected),
            (f"tokens with {SHARE:.0%} of the gradient", most, most),
        )
        for panel, (heading, points, lines) in enumerate(panels):
            axes = board.chart(panel, heading, "layers", "")
            for kind, style in styles.items():
                axes.curve(depths, lines[kind], style=style)
                axes.curve(depths, points[kind], style=LineStyle(style.colour, "none"),
                           marker=style.marker, markersize=9)  # fmt: skip
            axes.set(xticks=depths, ylim=(0, 1.06 * length))
        return board.drawing(
            layers=depths,
            formula={key_of(kind): line for kind, line in expected.items()},
            measured={key_of(kind): line for kind, line in seen.items()},
            most_of_the_gradient={key_of(kind): line for kind, line in most.items()},
        )
