"""Vectors -> what a task needs of them. Here: logits over the vocabulary, or their loss."""

from __future__ import annotations

from torch import Tensor, nn

from regard.layers.cross_entropy import cross_entropy
from regard.layers.embed import vocabulary_matrix
from regard.layers.linear import linear


class VocabularyHead(nn.Module):
    """logits = x Wᵀ, where W may be an embedding's own matrix (tied).

    The softmax belongs to the loss and to the search, which know what to do with its logarithm.

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
        return linear(x, self.weight)

    def loss(self, x: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
        """Cross-entropy of x (tokens, dim) to targets (tokens,), summed; no logits are kept."""
        return cross_entropy(x, self.weight, targets, smoothing)
