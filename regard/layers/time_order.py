"""The order in which a recurrent layer reads packed tokens: their lengths and times come in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class InTime(NamedTuple):
    """The order of a `PackedSequence`: all first tokens, then all second ones, and so on.

    Sequences are sorted by length, the longest first.
    """

    tokens: Tensor  # (tokens,) index of the packed token at each position of this order
    tokens_back: Tensor  # (tokens,) the inverse permutation
    counts: Tensor  # (longest,) number of sequences that have a token at each time, on the CPU
    rows: Tensor  # (batch,) sequences sorted by length, the longest first
    rows_back: Tensor  # (batch,) the inverse permutation


def order_by_time(
    lengths: Sequence[int], times: Tensor, device: torch.device | str = "cpu"
) -> InTime:
    """The order of the tokens by the time at which each is read: times (tokens,), on the CPU."""
    counts = torch.tensor(lengths)
    rows = counts.argsort(descending=True, stable=True)
    rank = rows.argsort().repeat_interleave(counts)  # rank of each token's sequence
    tokens = (times * len(lengths) + rank).argsort()
    orders = (tokens, tokens.argsort(), rows, rows.argsort())
    tokens, tokens_back, rows, rows_back = (order.to(device) for order in orders)
    return InTime(tokens, tokens_back, torch.bincount(times), rows, rows_back)
