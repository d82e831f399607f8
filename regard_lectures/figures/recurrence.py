"""Figure of part 2: the gates of a GRU, unrolled into weights over the past, beside attention."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from regard.draw import LINE_STYLES, SMALLEST, positive_scale, scientific
from regard.explain import Board, Drawing, Numbers, Words
from regard.layers import DotScore, Mask, Recurrent, Tap, masked_softmax, plain_context
from regard_lectures.map_labels import map_labels
from regard_lectures.own_words import VECTORS, input_phrase, word_vectors

SENTENCE = "the animal did not cross the street because it was tired"
EXACT = 1e-5
"""States are rebuilt if they differ by less than this from the GRU's."""
LONGEST = 120
"""Pixels: longer words are cut in labels."""
HEADS = 220
"""Pixels: the height of a matrix's heading and labels."""


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


def largest_factor(weights: Tensor) -> tuple[float, int]:
    """By how much a weight of an earlier word is multiplied at most from one state to the next.

    Args:
        weights: (features or heads, state, word), 0 for later words.

    Returns:
        The factor, and the number of the word, from 0.
    """
    count = weights.shape[-1]
    earlier = torch.ones(count - 1, count).tril() > 0  # words of the state before
    before = weights[:, :-1].clamp(min=1e-30)
    factors = (weights[:, 1:] / before).masked_fill(~earlier, 0.0)
    largest = factors.flatten().argmax()
    return float(factors.max()), int(largest) % count


def words_gates(numbers: Numbers) -> Words:
    """Whether the weights rebuild the states, and whether a weight ever grows again."""
    factor, attention = numbers["largest_factor_gates"], numbers["largest_factor_attention"]
    if numbers["difference"] > EXACT:
        title = "The products of the gates do not rebuild the states of the GRU"
    elif factor <= 1:
        title = "A GRU's state is a sum over all words so far, whose weights only shrink"
    else:
        title = "A GRU's state is a sum over all words so far, whose weights may grow"
    free = "a weight may grow again" if attention > 1 else "here none grows, either"
    caption = (
        f"Rebuilt from these weights a state differs by at most {scientific(numbers['difference'])}"
        f". From one word to the next a gate's weight is multiplied by at most {factor:.2f}, "
        f"attention's by up to {attention:.2f}: {free}."
    )
    return Words(title, f"{caption} {numbers['note']}".strip())


@torch.no_grad()
def gates(text: str | None, seed: int) -> Drawing:
    """Draw the gates of a GRU as weights over the earlier words of a text.

    Args:
        text: A sentence, whose word vectors are read; None: the lecture's sentence.
        seed: The seed of the GRU's weights.
    """
    read = word_vectors(SENTENCE if text is None else text)
    x, count = read.vectors, len(read.words)  # (words, dim)
    torch.manual_seed(seed)
    layer, tap = Recurrent(x.shape[1], "gru", cell="gru"), Tap("*")
    layer(x, plain_context((count,), tap=tap))
    update, candidates, states = (
        tap.records[f"gru.{gate}"][0] for gate in ("update", "candidate", "state")
    )
    weights, of_start = unrolled(update)
    rebuilt = torch.einsum("tid,id->td", weights, candidates)  # h_0 is 0
    mask = Mask(causal=True).dense(count, count)
    scores = DotScore(x.shape[1] ** -0.5).scores(x[None, None], x[None, None])  # x_t · x_i / √d
    attention = masked_softmax(scores, mask)[0]  # (1, words, words)
    factor, _ = largest_factor(weights.permute(2, 0, 1))
    attention_factor, grown = largest_factor(attention)
    numbers: Numbers = {
        "words": read.labels,
        "weights": weights.mean(2).tolist(),
        "weights_of_the_start": of_start.mean(1).tolist(),
        "attention": attention[0].tolist(),
        "difference": float((rebuilt - states).abs().max()),
        "least_sum": float((weights.sum(1) + of_start).min()),
        "largest_sum": float((weights.sum(1) + of_start).max()),
        "largest_factor_gates": factor,
        "largest_factor_attention": attention_factor,
        "followed": grown,
        "note": input_phrase(read.total, count, read.stand_ins),
    }
    details = (
        "h_t = Σ_i (∏_{j=i+1..t} u_j)(1 − u_i) h̃_i + (∏_{j=1..t} u_j) h_0, for each feature; u is "
        f"PyTorch's update gate, the share of the old state that is kept. A GRU of width "
        f"{x.shape[1]} with new, untrained weights (seed {seed}) reads the words' vectors of "
        f"{VECTORS}. Left, the mean over its features; before rounding, each row adds up to 1. A "
        "weight depends on all gates in between; in attention, softmax(x_t·x_i / √d) without "
        "matrices, it depends on the two words and on what else there is to look at. Right: the "
        "word whose weight grows most in attention."
    )
    limits = f"One GRU of width {x.shape[1]}, untrained (seed {seed}), on vectors of {VECTORS}."
    with Board(words_gates(numbers), (1.9, 1), details, limits=limits) as board:
        _draw_gates(board, numbers)
        return board.drawing(**numbers)


def _draw_gates(board: Board, numbers: Numbers) -> None:
    """Draw the weights of all states, and the weight of one word in each later state."""
    labels = map_labels(numbers["words"], LONGEST)
    count, followed = len(labels), numbers["followed"]
    rows = zip(numbers["weights_of_the_start"], numbers["weights"], strict=True)
    cells = [
        [start, *(weight if i <= t else math.nan for i, weight in enumerate(row))]
        for t, (start, row) in enumerate(rows)  # a state knows no later word
    ]
    sides = "state after", "candidate of"
    height = (board.bottom - board.top - HEADS) / count  # of a row
    number_format = ".2f" if height >= SMALLEST else ""
    board.matrix(0, "weights of the gates, mean over the features", cells, positive_scale(1.0),
                 (labels, ["h_0", *labels]), sides, number_format)  # fmt: skip
    axes = board.chart(1, f"weight of “{labels[followed]}”, word {followed + 1}",
                       "state after word", "")  # fmt: skip
    later = range(followed + 1, count + 1)
    for name, table, style in (
        ("gates", numbers["weights"], LINE_STYLES[0]),
        ("attention", numbers["attention"], LINE_STYLES[1]),
    ):
        line = [row[followed] for row in table[followed:]]
        axes.curve(later, line, style=style, marker=style.marker, label=name)
    axes.set_xticks(list(later)[:: max(1, len(later) // 5)])
    axes.set_ylim(0, 1.3)
    axes.set_yticks([0, 0.5, 1])
    axes.draw_legend("upper right")
