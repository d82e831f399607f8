"""Figures of part 2: a gate unrolled into weights over the past, and gradients through time."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from regard import vectors
from regard.draw import LINE_STYLES, positive_scale, scientific
from regard.errors import InputError
from regard.explain import Board, Drawing
from regard.layers import Attention, Mixer, Recurrent, Tap, plain_context
from regard_lectures.figures.costs import decades

SENTENCE = "the animal did not cross the street because it was tired"
FEWEST, MOST = 2, 12
"""Words that the figure of the gates can show."""
TEXTS = 32
"""Random texts over which gradients are averaged."""
LARGE = 4.0
"""The factor on the weights of a plain network whose gradients grow."""


def unrolled(update: Tensor) -> tuple[Tensor, Tensor]:
    """The weights of all candidates, and of h_0, in each state of a GRU.

        h_t = Σ_i (∏_{j=i+1..t} u_j)(1 - u_i) h̃_i + (∏_{j=1..t} u_j) h_0

    Args:
        update: The update gates u, (length, dim): the share of the old state that is kept.

    Returns:
        (state, candidate, dim), 0 for candidates of later tokens; and (state, dim) of h_0.
    """
    length, dim = update.shape
    weights, of_start, remaining = update.new_zeros(length, length, dim), [], torch.ones(dim)
    for t in range(length):
        if t:
            weights[t] = update[t] * weights[t - 1]  # what was there keeps the share u_t
        weights[t, t] = 1 - update[t]
        remaining = update[t] * remaining
        of_start.append(remaining)
    return weights, torch.stack(of_start)


def read_words(text: str | None) -> tuple[list[str], Tensor]:
    """The words of a text and their vectors of words/glove, (words, dim).

    Args:
        text: Words; None: the lecture's sentence.

    Raises:
        InputError: For too few or too many words, or one without a vector.
    """
    words = (text or SENTENCE).lower().split()
    if not FEWEST <= len(words) <= MOST:
        raise InputError("--text", got=f"{len(words)} words", expected=f"{FEWEST} to {MOST}")
    table = vectors("words/glove")
    return words, torch.stack([torch.as_tensor(np.array(table[word])).float() for word in words])


@torch.no_grad()
def gates(text: str | None, seed: int) -> Drawing:
    """Draw the gates of a GRU as weights over the earlier words of a text.

    Args:
        text: Words of words/glove, whose vectors are read; None: the lecture's sentence.
        seed: The seed of the GRU's weights.
    """
    words, x = read_words(text)
    torch.manual_seed(seed)
    layer, tap = Recurrent(x.shape[1], "gru", cell="gru"), Tap("*")
    layer(x, plain_context((len(words),), tap=tap))
    update, candidates, states = (
        tap.records[f"gru.{gate}"][0] for gate in ("update", "candidate", "state")
    )
    weights, of_start = unrolled(update)
    rebuilt = torch.einsum("tid,id->td", weights, candidates)  # h_0 is 0
    error = float((rebuilt - states).abs().max())
    longest = int(of_start[-1].argmax())  # the feature whose gates keep most
    caption = (
        "Every state is a weighted sum of all candidates so far: the weights are products of "
        f"gates (error of the sum: {scientific(error)}). In attention each weight is free."
    )
    details = (
        "h_t = Σ_i (∏_{j=i+1..t} u_j)(1 − u_i) h̃_i + (∏_{j=1..t} u_j) h_0, for each feature; u is "
        f"PyTorch's update gate, the share of the old state that is kept. A GRU of width "
        f"{x.shape[1]} with new, untrained weights reads the words' vectors of words/glove. Left, "
        f"the mean over its features; right, feature {longest}, which keeps the beginning best. "
        "Each row adds up to 1. A weight can only shrink as words follow, and depends on all gates "
        "in between; in attention it depends on the two words alone."
    )
    with Board(caption, (1, 1), details) as board:
        labels = words, ["h_0", *words]
        shown = {
            "mean over the features": (weights.mean(2), of_start.mean(1)),
            "the feature that keeps longest": (weights[..., longest], of_start[:, longest]),
        }
        for panel, (heading, (past, start)) in enumerate(shown.items()):
            later = torch.ones(len(words), len(words)).triu(1).bool()
            past = past.masked_fill(later, torch.nan)  # a state knows no later word
            cells = torch.cat((start[:, None], past), 1)
            sides = "state after", "candidate of"
            board.matrix(panel, heading, cells, positive_scale(1.0), labels, sides, ".1f")
        return board.drawing(
            words=words,
            weights=weights.mean(2).tolist(),
            weights_of_the_start=of_start.mean(1).tolist(),
            difference=error,
            least_sum=float((weights.sum(1) + of_start).min()),
            largest_sum=float((weights.sum(1) + of_start).max()),
        )


def gradient_norms(layer: Mixer, length: int, dim: int) -> list[float]:
    """How much the last output changes with the input at each distance before it.

    The length of ∂(v·y_n)/∂x_{n-k} for a random direction v, as a geometric mean over texts.

    Returns:
        One number for each distance k from 0.
    """
    x = torch.randn(TEXTS * length, dim, requires_grad=True)
    y = layer(x, plain_context((length,) * TEXTS, causal=True)).view(TEXTS, length, dim)
    [gradient] = torch.autograd.grad((y[:, -1] * torch.randn(TEXTS, dim)).sum(), [x])
    norms = gradient.view(TEXTS, length, dim).norm(dim=2).clamp(min=1e-30)  # (texts, length)
    return norms.log().mean(0).exp().flip(0).tolist()


def vanishing(length: int, dim: int, seed: int) -> Drawing:
    """Draw how gradients reach back in time, through RNN, GRU, LSTM and attention.

    Args:
        length: The number of tokens.
        dim: The width of input and state.
        seed: The seed of weights and texts.
    """
    torch.manual_seed(seed)
    layers: dict[str, Mixer] = {cell: Recurrent(dim, cell, cell=cell) for cell in ("rnn", "gru")}
    layers["lstm"] = Recurrent(dim, "lstm", cell="lstm")
    large = Recurrent(dim, "large", cell="rnn")
    with torch.no_grad():
        large.cells.weight_hh_l0 *= LARGE
    layers |= {f"rnn, U × {LARGE:g}": large, "attention": Attention(dim, 1, bias=False)}
    norms = {name: gradient_norms(layer, length, dim) for name, layer in layers.items()}
    counts = {
        name: sum(p.numel() for p in layer.parameters())
        for name, layer in layers.items()
        if name != f"rnn, U × {LARGE:g}"
    }
    far = {name: line[-1] / line[0] for name, line in norms.items()}
    caption = (
        f"From {length - 1} tokens back, an RNN's gradient is {scientific(far['rnn'])} of that at "
        f"the last token, an LSTM's {scientific(far['lstm'])}, attention's "
        f"{far['attention']:.2f}; with large weights an RNN's grows."
    )
    details = (
        f"One layer of width {dim} with PyTorch's initial weights, untrained, on {TEXTS} texts of "
        f"{length} random tokens: the length of ∂(v·y_n)/∂x_{{n−k}} for a random v, as a geometric "
        f"mean. In the second RNN the matrix U is {LARGE:g} times as large. Attention is one "
        "causal head without residual connection: each token has a share of about 1/n at every "
        "distance. Training changes the gates, above all an LSTM's forget gate."
    )
    styles = dict(zip(layers, LINE_STYLES, strict=True))
    lowest = min(min(line) for line in norms.values())
    with Board(caption, (1.9, 1), details) as board:
        board.legend(styles)
        axes = board.chart(0, "gradient by distance", "tokens before the last, k", "")
        for name, line in norms.items():
            axes.curve(range(length), line, style=styles[name])
        values = [max(value, 1e-12) for line in norms.values() for value in line]
        ticks = decades(values)
        axes.log_axis("y", ticks[:: max(1, len(ticks) // 8)])
        axes.set_ylim(max(lowest, 1e-12), max(values) * 2)
        smallest = counts["rnn"]
        rows = [(name, f"{count:,}", f"{count / smallest:.1f}") for name, count in counts.items()]
        board.table(1, "parameters", (("", 0), ("number", 0.66), ("× rnn", 1.0)), rows)
        return board.drawing(
            **{f"gradient_{_named(name)}": line for name, line in norms.items()},
            **{f"parameters_{name}": count for name, count in counts.items()},
        )


def _named(name: str) -> str:
    return name.partition(",")[0] + ("_large" if "," in name else "")
