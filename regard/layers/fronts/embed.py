"""Ids -> vectors: a learned row for each entry of the vocabulary, scaled, plus positions."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.input import Ragged
from regard.errors import InputError
from regard.layers.context import Context
from regard.layers.fronts.front import Front
from regard.layers.kernels.dropout import Dropout
from regard.layers.layout import Layout
from regard.layers.positions import Positions


def vocabulary_matrix(vocab: int, dim: int) -> nn.Parameter:
    """A Glorot-uniform matrix with a row for each entry.

    Drawn from a copy of torch's random state: a model draws its own later, all layers in one go.
    """
    weight = nn.Parameter(torch.empty(vocab, dim))
    with torch.random.fork_rng(devices=[]):
        nn.init.xavier_uniform_(weight)
    return weight


class Embed(Front):
    """dropout(√dim · E[id] + PE(where)) (section 3.4 of the paper), and what BERT adds to it.

    One-hot(id) · E is row E[id]; nothing multiplies a one-hot vector here. The √dim brings rows of
    a Glorot-initialised, tied matrix to the size of the positions.

        BERT:  dropout(norm(E[id] + PE(where) + T[type]))

    Args:
        vocab: Entries.
        dim: Width of a vector.
        dropout: On the sum of embedding and position.
        scaled: Whether the embedding is multiplied by √dim.
        types: Kinds of token (of a first or second sentence) that have a vector; 0: none.
        norm: On the sum; None: none.
    """

    def __init__(
        self,
        vocab: int,
        dim: int,
        dropout: float = 0.0,
        *,
        scaled: bool = True,
        types: int = 0,
        norm: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.weight = vocabulary_matrix(vocab, dim)
        self.scale = dim**0.5 if scaled else 1.0
        self.types = nn.Parameter(torch.zeros(types, dim)) if types else None
        self.norm = norm
        self.dropout = Dropout(dropout)

    def layout(self, source: Ragged) -> Layout:
        """As many tokens as each text has ids."""
        return Layout(source.lengths, source.device)

    def read(self, source: Ragged, ctx: Context) -> Tensor:
        """Ids (tokens,), with their types -> (tokens, dim).

        Raises:
            InputError: A token is of a type that has no vector.
        """
        types = source.types
        kinds = 0 if self.types is None else len(self.types)
        if kinds and types is not None and not 0 <= int(types.max()) < kinds:
            got = f"the type {int(types.max())} of a token"
            raise InputError("the tokenizer's template", got=got, expected=f"0 to {kinds - 1}")
        return self(source.ids, ctx.where, ctx.positions, types)

    def forward(
        self, ids: Tensor, where: Tensor, positions: Positions, types: Tensor | None = None
    ) -> Tensor:
        """ids, where, types: (tokens,) -> (tokens, dim); without types all are of the first."""
        x = F.embedding(ids, self.weight)
        x = positions.add(x * self.scale if self.scale != 1 else x, where)
        if self.types is not None:
            x = x + (self.types[0] if types is None else self.types[types])
        return self.dropout(x if self.norm is None else self.norm(x))
