"""Token ids -> vectors: the scaled embedding of each token, plus its position."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import InputError
from regard.inputs.arrays import Ragged
from regard.kernels.dropout import Dropout
from regard.layers.context import Context
from regard.layers.fronts.front import Front
from regard.layers.layout import Layout
from regard.layers.positions import Positions


def vocabulary_matrix(vocab: int, dim: int) -> nn.Parameter:
    """A Glorot-uniform matrix (vocab, dim) for an embedding or an output head.

    It is drawn from a copy of torch's random state, which stays as it was, since a model
    initializes all its weights later (`regard.layers.init`).
    """
    weight = nn.Parameter(torch.empty(vocab, dim))
    with torch.random.fork_rng(devices=[]):
        nn.init.xavier_uniform_(weight)
    return weight


class Embed(Front):
    """dropout(√dim · E[id] + PE(position)) (section 3.4 of the paper), and BERT's variant.

    The product one-hot(id) · E is computed as a lookup of row E[id]. The factor √dim brings the
    rows of a Glorot-initialised, tied matrix to the scale of the positions.

        BERT:  dropout(norm(E[id] + PE(position) + T[type]))

    Args:
        vocab: Size of the vocabulary.
        dim: Width of a vector.
        dropout: Dropout rate on the sum of embedding and position.
        scaled: Whether the embedding is multiplied by √dim.
        types: Number of token types (first and second sentence: 2) with a learned vector; 0: none.
        norm: The norm on the sum; None: no norm.
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

    def table(self) -> Tensor:
        """The vector of each token without its context, E: (vocab, dim)."""
        return self.weight

    def layout(self, source: Ragged) -> Layout:
        """One token for each id of a text."""
        return Layout(source.lengths, source.device)

    def read(self, source: Ragged, ctx: Context) -> Tensor:
        """Ids (tokens,), with their types -> (tokens, dim).

        Raises:
            InputError: If a token has a type without a vector.
        """
        types = source.types
        type_count = 0 if self.types is None else len(self.types)
        if type_count and types is not None and not 0 <= int(types.max()) < type_count:
            got = f"the type {int(types.max())} of a token"
            raise InputError("the tokenizer's template", got=got, expected=f"0 to {type_count - 1}")
        return self(source.ids, ctx.positions, ctx.scheme, types)

    def forward(
        self, ids: Tensor, positions: Tensor, scheme: Positions, types: Tensor | None = None
    ) -> Tensor:
        """ids, positions, types: (tokens,) -> (tokens, dim); without types, all have type 0."""
        if ids.shape != positions.shape or ids.dim() != 1 or ids.is_floating_point():
            raise InputError(
                "ids and positions",
                got=f"{_shape_text(ids)} and {_shape_text(positions)}",
                expected="one whole number for each token, (tokens,) each",
            )
        try:
            x = F.embedding(ids, self.weight)
        except IndexError:
            got, last = f"{int(ids.min())} to {int(ids.max())}", len(self.weight) - 1
            raise InputError("ids", got=got, expected=f"0 to {last}") from None
        x = scheme.add(x * self.scale if self.scale != 1 else x, positions)
        if self.types is not None:
            x = x + (self.types[0] if types is None else self.types[types])
        return self.dropout(x if self.norm is None else self.norm(x))


def _shape_text(x: Tensor) -> str:
    """The shape and type of a tensor, for messages: `2 x 3 int64`."""
    kind = str(x.dtype).removeprefix("torch.")
    return f"{' x '.join(map(str, x.shape)) or 'one'} {kind}"
