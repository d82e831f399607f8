"""Figure of part 2: gradients through time, in untrained recurrent cells and in attention."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from regard.draw import LINE_STYLES, scientific
from regard.explain import Board, Drawing, Numbers, Words
from regard.layers import Attention, Mixer, Recurrent, plain_context
from regard_lectures.figures.costs import decades
from regard_lectures.own_words import VECTORS, input_phrase, word_vectors
from regard_lectures.tries import listed, span

TEXTS = 32
"""Random texts, or random directions for one text, over which gradients are averaged."""
LARGE = 4.0
"""The factor on the weights of a plain network whose gradients grow."""
LARGER = f"rnn, U×{LARGE:g}"
FAINT, LESS, GROWN = 1e-3, 0.1, 10.0
"""A gradient vanishes or shrinks if less than these shares of it reach the first token, and grows
if more than the last does."""
FLOOR = 1e-24
"""Smaller gradients are drawn as this."""
MOST = 60
"""Words of a text that are read."""


def gradient_norms(layer: Mixer, x: Tensor) -> list[float]:
    """How much the last output changes with the input at each distance before it.

    The length of ∂(v·y_n)/∂x_{n-k} for a random direction v, as a geometric mean over texts.

    Args:
        layer: The layer.
        x: (texts, length, dim) Its inputs.

    Returns:
        One number for each distance k from 0.
    """
    texts, length, dim = x.shape
    given = x.flatten(0, 1).requires_grad_()
    y = layer(given, plain_context((length,) * texts, causal=True)).view(x.shape)
    [gradient] = torch.autograd.grad((y[:, -1] * torch.randn(texts, dim)).sum(), [given])
    norms = gradient.view(x.shape).norm(dim=2).clamp(min=1e-30)  # (texts, length)
    return norms.log().mean(0).exp().flip(0).tolist()


def build_layers(dim: int) -> dict[str, Mixer]:
    """One layer of each kind with new weights, by its name in the picture."""
    layers: dict[str, Mixer] = {
        cell: Recurrent(dim, cell, cell=cell) for cell in ("rnn", "gru", "lstm")
    }
    large = Recurrent(dim, "large", cell="rnn")
    with torch.no_grad():
        large.cells.weight_hh_l0 *= LARGE
    return {**layers, LARGER: large, "attention": Attention(dim, 1, bias=False)}


def words_vanishing(numbers: Numbers) -> Words:
    """Whose gradients vanish, shrink, grow or stay, in all draws of the weights."""
    reaching = numbers["reaching"]
    verbs_in_order = ("vanish", "shrink", "grow", "stay", "differ by draw")
    groups: dict[str, list[str]] = {verb: [] for verb in verbs_in_order}
    for name, shares in reaching.items():
        verbs = {_verb(share) for share in shares}
        groups[verbs.pop() if len(verbs) == 1 else "differ by draw"].append(named(name))
    parts = [f"{verb} in {listed(names)}" for verb, names in groups.items() if names]
    title = f"Gradients {', '.join(parts)}"
    far = numbers["length"] - 1
    if len(groups["stay"]) == len(reaching):
        title = f"Over {far + 1} tokens no gradient vanishes and none grows"
    means = {name: _mean(shares) for name, shares in reaching.items()}
    least, most = (pick(means, key=means.__getitem__) for pick in (min, max))
    shares = [f"{told(means[name])} in {named(name)}" for name in (least, most)]
    caption = (
        f"Of the last token's gradient the token {far} before it has from {' to '.join(shares)}, "
        f"as a mean; below {scientific(FAINT)} counts as vanished, below {LESS:g} as shrunk, above "
        f"{GROWN:g} as grown. "
        f"{numbers['note']}"
    )
    return Words(title, caption.strip())


def _key(name: str) -> str:
    """The name of a layer within the name of a number."""
    return "rnn_large" if name == LARGER else name


def _verb(share: float) -> str:
    """What happened to a gradient of which this share reaches the first token."""
    if share > GROWN:
        return "grow"
    return "vanish" if share < FAINT else "shrink" if share < LESS else "stay"


def named(name: str) -> str:
    """The name of a layer within a sentence."""
    return name.replace(",", " with")


def told(value: float) -> str:
    """A number with two digits."""
    return scientific(float(f"{value:.2g}"))


def _mean(values: list[float]) -> float:
    """The geometric mean."""
    return float(np.exp(np.mean(np.log(values))))


def vanishing(text: str | None, length: int, dim: int, tries: int, seed: int) -> Drawing:
    """Draw how gradients reach back in time, through RNN, GRU, LSTM and attention.

    Args:
        text: A text, whose word vectors are read; None: random tokens.
        length: The number of random tokens.
        dim: The width of input and state for random tokens.
        tries: The number of draws of the weights.
        seed: The seed of the first draw of weights and texts.
    """
    read = None if text is None else word_vectors(text, MOST)
    if read is not None:
        length, dim = read.vectors.shape
    lines: dict[str, list[list[float]]] = {}
    counts = {}
    for one_seed in range(seed, seed + tries):
        torch.manual_seed(one_seed)
        for name, layer in build_layers(dim).items():
            x = torch.randn(TEXTS, length, dim)
            if read is not None:
                x = read.vectors.repeat(TEXTS, 1, 1)
            lines.setdefault(name, []).append(gradient_norms(layer, x))
            counts[name] = sum(p.numel() for p in layer.parameters())
    numbers: Numbers = {
        "length": length,
        "tries": tries,
        "reaching": {name: [line[-1] / line[0] for line in table] for name, table in lines.items()},
        **{f"gradient_{_key(name)}": table for name, table in lines.items()},
        **{f"parameters_{_key(name)}": count for name, count in counts.items()},
        "note": "" if read is None else input_phrase(read.total, length, read.stand_ins),
    }
    source = f"{TEXTS} texts of {length} random tokens"
    if read is not None:
        source = f"the vectors of {VECTORS} of the {length} words, with {TEXTS} random v"
    details = (
        f"One layer of width {dim} with PyTorch's initial weights, untrained, on {source}: the "
        "length of ∂(v·y_n)/∂x_{n−k} for a random v, as a geometric mean; drawn is the mean of "
        f"{tries} draws of the weights, seeds from {seed}. In the second RNN the matrix U is "
        f"{LARGE:g} times as large. Attention is one causal head without residual connection. "
        f"Numbers below {scientific(FLOOR)} are drawn there. Training changes the gates, above all "
        "an LSTM's forget gate."
    )
    limits = f"One layer of width {dim}, untrained, {span([tries])} draws of the weights"
    limits += " on random tokens." if read is None else f" on vectors of {VECTORS}."
    with Board(words_vanishing(numbers), (1.7, 1), details, limits=limits) as board:
        _draw(board, lines, numbers, counts)
        return board.drawing(**numbers)


def _draw(
    board: Board, lines: dict[str, list[list[float]]], numbers: Numbers, counts: dict[str, int]
) -> None:
    """Draw the gradient by distance, and what reaches the first token beside the parameters."""
    styles = dict(zip(lines, LINE_STYLES, strict=True))
    board.legend(styles)
    axes = board.chart(0, "gradient by distance", "tokens before the last, k", "")
    means = {
        name: np.exp(np.log(np.maximum(table, FLOOR)).mean(0)) for name, table in lines.items()
    }
    for name, line in means.items():
        axes.curve(range(numbers["length"]), line, style=styles[name])
    values = [float(value) for line in means.values() for value in line]
    ticks = decades(values)
    axes.log_axis("y", ticks[:: max(1, len(ticks) // 7)])
    axes.set_ylim(ticks[0], ticks[-1] * 2)
    rows = [
        (name, told(_mean(shares)), f"{counts[name]:,}")
        for name, shares in numbers["reaching"].items()
    ]
    heads = (("", 0), ("reaches\nthe first", 0.68), ("para-\nmeters", 1.0))
    board.table(1, "first / last token", heads, rows)
