"""Vectors -> what a task needs of them. Here: a logit for each entry of the vocabulary."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from regard.layers.embed import vocabulary_matrix


class VocabularyHead(nn.Module):
    """logits = x Wᵀ, where W may be an embedding's own matrix (tied).

    The softmax belongs to the loss and to the search, which take it with more precision.

    Args:
        dim: Width of x.
        vocab: Entries.
        tied: The embedding whose matrix to use.
    """

    def __init__(self, dim: int, vocab: int, tied: nn.Parameter | None = None) -> None:
        super().__init__()
        self.weight = vocabulary_matrix(vocab, dim) if tied is None else tied

    def forward(self, x: Tensor) -> Tensor:
        """(tokens, dim) -> (tokens, vocab)."""
        return F.linear(x, self.weight)
