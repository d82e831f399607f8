"""Figure of part 2: recurrence, convolution and attention as a text becomes longer, measured.

Four ways to process n tokens of width d: a recurrent layer, a convolution of k tokens, attention
over all tokens, and attention restricted to the tokens nearby. Measured are the time of one core
and the memory; the exponents are fitted to the longest texts, where n is far above d. Counted are
the steps that have to wait for each other, and the layers until any token has met any other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.draw import LINE_STYLES
from regard.explain import Board, Drawing, Numbers, Words, key_of
from regard.layers import (
    Attention,
    DotScore,
    GatedConvolution,
    Mask,
    Recurrent,
    attend_unfused,
    plain_context,
)
from regard_lectures.figures.costs import cost_numbers, draw_costs, span_of
from regard_lectures.timing import (
    FEWEST_ROUNDS,
    Call,
    Cost,
    Range,
    measured,
    measured_line,
    range_of,
    ratio,
    verdict,
)

SHORTEST = 32
FITTED = 16
"""The exponents are fitted to texts of at least this many times d tokens."""
MARGIN = 0.2
"""Two exponents differ if their quartiles are further apart."""
RECURRENT, CONVOLUTION, ATTENTION = "recurrent", "convolution", "attention"
RESTRICTED, WRITTEN_OUT = "restricted attention", "attention, stored weights"
KINDS = (RECURRENT, CONVOLUTION, ATTENTION, RESTRICTED, WRITTEN_OUT)


def restricted(q: Tensor, k: Tensor, v: Tensor, reach: int) -> Tensor:
    """Attention of each token to the tokens of its own block and of the block before.

    Args:
        q: (n, d), with n a multiple of `reach`; so are k and v.
        k: The keys.
        v: The values.
        reach: The number of tokens of a block.

    Returns:
        (n, d); the work is O(n · reach · d).
    """
    blocks = (x.view(-1, reach, x.shape[1]) for x in (q, k, v))  # (n / reach, reach, d)
    q, k, v = blocks
    k, v = (torch.cat((x.roll(1, 0), x), 1) for x in (k, v))  # (n / reach, 2 reach, d)
    mask = torch.ones(len(q), 1, 2 * reach, dtype=torch.bool)
    mask[0, :, :reach] = False  # nothing is before the first block
    return F.scaled_dot_product_attention(q, k, v, mask).flatten(0, 1)


def calls(length: int, dim: int, kernel: int, reach: int) -> dict[str, Call]:
    """One layer of each kind, applied to random tokens (length, dim)."""
    x, ctx = torch.randn(length, dim), plain_context((length,))
    q, k, v = torch.randn(3, 1, 1, length, dim)
    dot, mask = DotScore(dim**-0.5), Mask()
    return {
        RECURRENT: partial(Recurrent(dim, "recurrent", cell="gru"), x, ctx),
        CONVOLUTION: partial(GatedConvolution(dim, kernel=kernel, causal=True), x, ctx),
        ATTENTION: partial(Attention(dim, 1), x, ctx),
        RESTRICTED: partial(restricted, q[0, 0], k[0, 0], v[0, 0], reach),
        WRITTEN_OUT: partial(attend_unfused, dot.scores, q, k, v, mask, None, 0.0),
    }


def waiting_steps(kind: str, length: int) -> int:
    """How many steps of a layer have to wait for each other."""
    return length if kind == RECURRENT else 1


def longest_path(kind: str, length: int, kernel: int, reach: int) -> int:
    """How many layers, or steps of a recurrent one, until the first token acts on the last."""
    if kind == RECURRENT:
        return length
    if kind == CONVOLUTION:
        return math.ceil((length - 1) / (kernel - 1))
    return math.ceil(length / reach) - 1 if kind == RESTRICTED else 1


def exponents(lengths: Sequence[int], costs: Sequence[Cost], dim: int) -> Range:
    """The slope of log seconds over log n, fitted to texts far longer than d, for all rounds."""
    far = max(2, sum(n >= FITTED * dim for n in lengths))
    turns = np.array([cost.turns for cost in costs[-far:]])  # (lengths, rounds)
    slopes = np.polyfit(np.log(lengths[-far:]), np.log(turns), 1)[0]  # (rounds,)
    return range_of(slopes.tolist())


def slower_from(lengths: Sequence[int], ratios: Sequence[Sequence[float]]) -> int | None:
    """The first length from which on more than half of the rounds are slower each time.

    Args:
        lengths: The lengths.
        ratios: For each the time over that of another layer: median and quartiles.
    """
    faster = [i for i, (middle, _, _) in enumerate(ratios) if middle <= 1]
    first = faster[-1] + 1 if faster else 0
    return lengths[first] if first < len(lengths) else None


@torch.inference_mode()
def growth(length: int, dim: int, kernel: int, reach: int, rounds: int, seed: int) -> Drawing:
    """Draw time and memory of one layer of each kind against the length of the text.

    Args:
        length: The longest text.
        dim: The width d of a token.
        kernel: The tokens k that a convolution sees.
        reach: The size of the blocks of restricted attention.
        rounds: The number of rounds.
        seed: The seed of all tensors.
    """
    torch.manual_seed(seed)
    lengths = [SHORTEST * 2**i for i in range(int(math.log2(length / SHORTEST)) + 1)]
    reach = min(reach, SHORTEST)
    layers = {
        (kind, n): call for n in lengths for kind, call in calls(n, dim, kernel, reach).items()
    }
    result = measured(layers, rounds)
    lines = {kind: [result[kind, n] for n in lengths] for kind in KINDS}
    ratios = [ratio(a, b) for a, b in zip(lines[ATTENTION], lines[RECURRENT], strict=True)]

    def by_kind(of: Callable[[str], object]) -> dict[str, object]:
        return {key_of(kind): of(kind) for kind in KINDS}

    return _draw(
        {
            "rounds": rounds,
            "dim": dim,
            "kernel": kernel,
            "reach": reach,
            "lengths": lengths,
            **cost_numbers(result, lengths),
            "exponent_of_time": by_kind(lambda kind: exponents(lengths, lines[kind], dim)),
            "steps_in_turn": by_kind(lambda kind: waiting_steps(kind, length)),
            "longest_path": by_kind(lambda kind: longest_path(kind, length, kernel, reach)),
            "attention_over_recurrent": ratios,
            "attention_is_slower_from": slower_from(lengths, ratios),
        }
    )


def words_growth(numbers: Numbers) -> Words:
    """Whose time grows faster, and which takes longer at the longest text."""
    longest, rounds = numbers["lengths"][-1], numbers["rounds"]
    attention, recurrent = (numbers["exponent_of_time"][kind] for kind in (ATTENTION, RECURRENT))
    compared = "cannot be told to grow faster than"
    if rounds >= FEWEST_ROUNDS and attention[1] > recurrent[2] + MARGIN:
        compared = "grows faster with the text than"
    elif rounds >= FEWEST_ROUNDS and attention[2] < recurrent[1] - MARGIN:
        compared = "grows more slowly with the text than"
    title = f"Attention's time {compared} a recurrent layer's"
    slopes = [
        f"n^{slope[0]:.1f} ({slope[1]:.1f} to {slope[2]:.1f})" for slope in (attention, recurrent)
    ]
    caption = (
        f"Fitted to the longest texts: attention {slopes[0]}, recurrent {slopes[1]}. "
        f"{_slower(numbers, longest, rounds)}"
    )
    return Words(title, caption)


def _slower(numbers: Numbers, longest: int, rounds: int) -> str:
    """Which of the two takes longer at the longest text, and from which length on."""
    times, met = numbers["attention_over_recurrent"][-1], numbers["attention_is_slower_from"]
    factor = f"{span_of(times)} × the time of the recurrent layer"
    state = verdict(times, rounds)
    if state == "more":
        return f"Attention takes longer from {met:,} tokens on: at {longest:,}, {factor}."
    if state == "less":
        return f"Up to {longest:,} tokens attention is faster: there it takes {factor}."
    if state == "the same":
        return f"At {longest:,} tokens they take about the same time: attention {factor}."
    return f"These times cannot tell which of them is slower at {longest:,} tokens ({factor})."


def _draw(numbers: Numbers) -> Drawing:
    longest, dim, rounds = numbers["lengths"][-1], numbers["dim"], numbers["rounds"]
    details = (
        f"One layer of width {dim}, one head; medians of {rounds} rounds in which all take turns; "
        "vertical lines and ranges: half of the rounds lie between. Exponents are fitted to texts "
        f"of at least {FITTED} × {dim} tokens, or to the longest two. The "
        "recurrent layer is a GRU: O(n d²) work, in n steps that wait for each other. The "
        f"convolution sees {numbers['kernel']} tokens: O(k n d²). Attention: O(n² d) for its "
        "products, and O(n d²) for its projections; only for n well above d are the products most "
        f"of the work. Restricted attention sees its block of {numbers['reach']} tokens and the "
        "one before: O(r n d). Memory: the largest sum of what torch allocated; the fused kernel "
        "never stores all n² weights. In turn: the number of steps that must wait for each other. "
        "Path: the number of layers, or steps, until the first token acts on the last."
    )
    styles = dict(zip(KINDS, LINE_STYLES, strict=False))
    limits = measured_line(rounds)
    with Board(words_growth(numbers), (1, 1, 1.3), details, limits=limits) as board:
        board.legend(styles)
        ticks = [n for n in (100, 1000, 10_000) if n <= longest]
        draw_costs(board, styles, numbers, "tokens n", ticks)
        columns = (("", 0), ("time", 0.58), ("in turn", 0.8), ("path", 1.0))
        rows = []
        for kind in KINDS:
            label = kind.replace("restricted attention", "restricted").replace("attention, ", "")
            slope, steps, path = (
                numbers[what][key_of(kind)]
                for what in ("exponent_of_time", "steps_in_turn", "longest_path")
            )
            rows.append((label, f"n^{slope[0]:.1f}", f"{steps:,}", f"{path:,}"))
        board.table(2, f"at n = {longest:,}", columns, rows)
        return board.drawing(**numbers)
