"""Ids -> vectors: a learned row for each entry of the vocabulary, scaled, plus positions."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.layers.dropout import Dropout
from regard.layers.positions import Positions


def vocabulary_matrix(vocab: int, dim: int) -> nn.Parameter:
    """A Glorot-uniform matrix with a row for each entry.

    Drawn from a copy of torch's random state: a model draws its own later, all layers in one go.
    """
    weight = nn.Parameter(torch.empty(vocab, dim))
    with torch.random.fork_rng(devices=[]):
        nn.init.xavier_uniform_(weight)
    return weight


class Embed(nn.Module):
    """dropout(√dim · E[id] + PE(where)) (section 3.4 of the paper).

    One-hot(id) · E is row E[id]; nothing multiplies a one-hot vector here. The √dim brings rows of
    a Glorot-initialised, tied matrix to the size of the positions.

    Args:
        vocab: Entries.
        dim: Width of a vector.
        dropout: On the sum of embedding and position.
    """

    def __init__(self, vocab: int, dim: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.weight = vocabulary_matrix(vocab, dim)
        self.scale = dim**0.5
        self.dropout = Dropout(dropout)

    def forward(self, ids: Tensor, where: Tensor, positions: Positions) -> Tensor:
        """ids, where: (tokens,) -> (tokens, dim)."""
        x = F.embedding(ids, self.weight) * self.scale
        return self.dropout(positions.add(x, where))
