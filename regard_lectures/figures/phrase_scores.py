"""The scores of a head of layer 0 as two tables, with which it reads any tokens without its model.

Layer 0 reads embeddings alone, and the positions are biases by distance. So a score is a sum:

    score(query, key) = s(query, key) + b(distance)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.inputs import Ragged
from regard.layers import Tap, split_head
from regard.models import Decoder, evaluating


def scores_apart(model: Decoder, head: str, ids: Sequence[int], longest: int) -> dict[str, Any]:
    """The two tables of a head.

    Args:
        model: A decoder with relative positions.
        head: A head of its layer 0.
        ids: The tokens to read.
        longest: The most tokens of a text.

    Returns:
        `tokens`: (query, key) Scores at distance 1. `distance`: by distance, from 0, how much
        higher scores are than at distance 1.
    """
    layer, number = split_head(head)

    def scores(texts: Sequence[Sequence[int]]) -> Tensor:
        tap = Tap(f"{layer}.scores")
        with evaluating(model):
            model.hidden(Ragged.of([list(text) for text in texts]), tap)
        return tap.records[f"{layer}.scores"][:, number]  # (text, query, key)

    pairs = [(key, query) for query in ids for key in ids]
    tokens = scores(pairs)[:, 1, 0].view(len(ids), len(ids))
    same = scores([[ids[0]] * longest])[0, -1].flip(0)  # by distance, from 0
    return {"tokens": tokens.tolist(), "distance": (same - same[1]).tolist()}


def causal_weights(scores: Mapping[str, Any], tokens: Sequence[int]) -> list[list[float]]:
    """The attention weights (query, key) of some tokens, given as indices of the table."""
    table = torch.tensor(scores["tokens"])[tokens][:, tokens]  # s(query, key)
    position = torch.arange(len(tokens))
    distance = position[:, None] - position[None]
    table = table + torch.tensor(scores["distance"])[distance.clamp(min=0)]  # + b(distance)
    weights: list[list[float]] = table.masked_fill(distance < 0, -math.inf).softmax(-1).tolist()
    return weights
