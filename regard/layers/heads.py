"""The output head over the vocabulary: vectors (tokens, dim) -> logits, or their loss."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.kernels.cross_entropy import cross_entropy
from regard.kernels.linear import linear
from regard.layers.fronts.embed import vocabulary_matrix


class VocabularyHead(nn.Module):
    """logits = x Wᵀ, where W may be the matrix of an embedding (tied).

    The softmax is left to the loss and to the search, which need its logarithm.

    Args:
        dim: Width of x.
        vocab: Size of the vocabulary.
        tied: The embedding's matrix (vocab, dim) to use as W; None: a matrix of its own.
        bias: Whether the logits have a learned bias.
        scale: Factor on x before the product (T5: 1/√dim).
    """

    def __init__(
        self,
        dim: int,
        vocab: int,
        tied: nn.Parameter | None = None,
        *,
        bias: bool = False,
        scale: float = 1.0,
    ) -> None:
        super().__init__()
        self.weight = vocabulary_matrix(vocab, dim) if tied is None else tied
        self.bias = nn.Parameter(torch.zeros(vocab)) if bias else None
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        """(tokens, dim) -> (tokens, vocab)."""
        return linear(self._scale_input(x), self.weight, self.bias)

    def loss(self, x: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
        """Summed cross-entropy of x (tokens, dim) to targets (tokens,), without storing logits."""
        return cross_entropy(self._scale_input(x), self.weight, targets, smoothing, self.bias)

    def _scale_input(self, x: Tensor) -> Tensor:
        """x · scale."""
        return x if self.scale == 1 else x * self.scale
