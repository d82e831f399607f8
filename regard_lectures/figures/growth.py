"""Figure of part 2: recurrence, convolution and attention as a text becomes longer, measured.

Four ways to process n tokens of width d: a recurrent layer, a convolution of k tokens, attention
over all tokens, and attention restricted to the tokens nearby. Measured are the time of one core
and the memory; the exponents are fitted to the longest texts, where n is far above d. Counted are
the steps that have to wait for each other, and the layers until any token has met any other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.draw import LINE_STYLES
from regard.explain import Board, Drawing, key_of
from regard.layers import (
    Attention,
    DotScore,
    GatedConvolution,
    Mask,
    Recurrent,
    attend_unfused,
    plain_context,
)
from regard_lectures.figures.costs import Call, Cost, Name, draw_costs, measured

SHORTEST = 32
FITTED = 16
"""The exponents are fitted to texts of at least this many times d tokens."""
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


@dataclass(frozen=True)
class _Measurements:
    lengths: list[int]
    dim: int
    costs: dict[Name, Cost]

    def line(self, kind: str, what: str) -> list[float]:
        """`seconds` or `bytes` at every length."""
        return [float(getattr(self.costs[kind, n], what)) for n in self.lengths]

    def exponent(self, kind: str, what: str = "seconds") -> float:
        """The slope of log cost over log n, fitted to the texts far longer than d."""
        far = sum(n >= FITTED * self.dim for n in self.lengths)
        long = self.lengths[-max(2, far) :]
        costs = [getattr(self.costs[kind, n], what) for n in long]
        return float(np.polyfit(np.log(long), np.log(costs), 1)[0])

    def crossover(self) -> int | None:
        """The first length at which attention takes longer than the recurrent layer."""
        times = (self.line(kind, "seconds") for kind in (ATTENTION, RECURRENT))
        slower = [
            n
            for n, attention, recurrent in zip(self.lengths, *times, strict=True)
            if attention > recurrent
        ]
        return slower[0] if slower else None


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
    return _draw(_Measurements(lengths, dim, measured(layers, rounds)), kernel, reach, rounds)


def _draw(result: _Measurements, kernel: int, reach: int, rounds: int) -> Drawing:
    longest, dim = result.lengths[-1], result.dim
    met = result.crossover()
    when = f"from {met:,} tokens on" if met else f"never up to {longest:,} tokens"
    caption = (
        f"The time of attention grows as n^{result.exponent(ATTENTION):.1f}, that of the recurrent "
        f"layer as n^{result.exponent(RECURRENT):.1f}; attention takes longer {when}."
    )
    details = (
        f"One layer of width {dim}, one head, on one core; medians of {rounds} rounds in which all "
        f"take turns. Exponents are fitted to texts of at least {FITTED} × {dim} tokens. The "
        f"recurrent layer is a GRU: O(n d²) work, in n steps that wait for each other. The "
        f"convolution sees {kernel} tokens: O(k n d²). Attention: O(n² d) for its products, and "
        f"O(n d²) for its projections; only for n well above d are the products most of the "
        f"work. Restricted attention sees its block of {reach} tokens and the one before: "
        "O(r n d). Memory: the largest sum of what torch allocated; the fused kernel never "
        "stores all n² weights. In turn: the number of steps that must wait for each other. Path: "
        "the number of layers, or steps, until the first token acts on the last."
    )
    styles = dict(zip(KINDS, LINE_STYLES, strict=False))
    with Board(caption, (1, 1, 1.15), details) as board:
        board.legend(styles)
        ticks = [n for n in (100, 1000, 10_000) if n <= longest]
        draw_costs(board, styles, result.lengths, result.costs, "tokens n", ticks)
        board.table(
            2,
            f"at n = {longest:,}",
            (("", 0), ("time", 0.62), ("in turn", 0.83), ("path", 1.0)),
            [
                (
                    kind.replace("restricted attention", "restricted").replace(" weights", ""),
                    f"n^{result.exponent(kind):.1f}",
                    f"{waiting_steps(kind, longest):,}",
                    f"{longest_path(kind, longest, kernel, reach):,}",
                )
                for kind in KINDS
            ],
        )
        return board.drawing(**_numbers(result, kernel, reach))


def _numbers(result: _Measurements, kernel: int, reach: int) -> dict[str, object]:
    longest = result.lengths[-1]

    def by_kind(values: Sequence[object]) -> dict[str, object]:
        return {key_of(kind): value for kind, value in zip(KINDS, values, strict=True)}

    return {
        "lengths": result.lengths,
        "seconds": by_kind([result.line(kind, "seconds") for kind in KINDS]),
        "bytes": by_kind([result.line(kind, "bytes") for kind in KINDS]),
        "exponent_of_time": by_kind([result.exponent(kind) for kind in KINDS]),
        "exponent_of_memory": by_kind([result.exponent(kind, "bytes") for kind in KINDS]),
        "steps_in_turn": by_kind([waiting_steps(kind, longest) for kind in KINDS]),
        "longest_path": by_kind([longest_path(kind, longest, kernel, reach) for kind in KINDS]),
        "attention_is_slower_from": result.crossover(),
    }
