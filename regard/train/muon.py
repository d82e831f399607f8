"""Muon: the momentum with all singular values set to one, for the matrices inside the blocks.

    M = β M + (1 - β) G                         G: the gradient of a matrix W, (out, in)
    O = U Vᵀ, where U Σ Vᵀ = β M + (1 - β) G    all singular directions get equal steps
    W = W - rate · (0.2 √max(out, in) · O + decay · W)

From Jordan et al. 2024 (kellerjordan.github.io/posts/muon). The factor 0.2 √max(out, in) gives an
update the size of Adam's (Liu et al. 2025, arXiv:2502.16982), so that both can share one learning
rate. Embeddings, output layers, norms and biases are updated by Adam.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import torch
from torch import Tensor, nn

from regard.train.adam import Adam

MOMENTUM = 0.95
"""β above."""
UPDATE_SIZE = 0.2
"""The root mean square of an update's numbers, for a square matrix."""
ITERATIONS = 5
"""Steps of the Newton–Schulz iteration."""
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""The coefficients (a, b, c) of the polynomial a s + b s³ + c s⁵, which moves every singular value
s in (0, 1] towards 1."""


def is_hidden_matrix(name: str, parameter: nn.Parameter) -> bool:
    """Whether Muon updates a parameter: the matrix of a linear layer inside a block.

    Example:
        >>> matrix = nn.Parameter(torch.eye(2))
        >>> is_hidden_matrix("encoder.blocks.0.feed_forward.into.weight", matrix)
        True
    """
    return ".blocks." in name and name.endswith(".weight") and parameter.dim() == 2


def orthogonalize(matrices: Tensor) -> Tensor:
    """Approximates U Vᵀ of each matrix U Σ Vᵀ: (n, out, in) -> (n, out, in).

    A Newton–Schulz iteration needs matrix products only. The singular values end between 0.7 and
    1.2, which is as good as 1 for learning.
    """
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices  # the smaller dimension first, so that x xᵀ is small
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)  # no singular value is above 1
    a, b, c = COEFFICIENTS
    for _ in range(ITERATIONS):
        square = x @ x.mT  # (n, small, small)
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x


class Muon(Adam):
    """Muon for some matrices, Adam for all other parameters.

    Args:
        groups: The other parameters, as parameter groups of Adam.
        matrices: The parameters that Muon updates, (out, in) each.
        decay: Weight decay of the matrices.
        mixed: The dtype of the products that make matrices orthogonal; None: that of the matrices.
        **adam: Settings of Adam; Muon uses the same learning rate.
    """

    def __init__(
        self,
        groups: list[dict[str, Any]],
        matrices: list[nn.Parameter],
        decay: float,
        mixed: torch.dtype | None = None,
        **adam: Any,
    ) -> None:
        super().__init__(groups, **adam)
        self.matrices, self.decay, self.mixed = matrices, decay, mixed

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Removes all gradients."""
        super().zero_grad(set_to_none)
        for matrix in self.matrices:
            matrix.grad = None

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One update of all parameters that have a gradient."""
        super().step(closure)
        rate = self.param_groups[0]["lr"]
        by_shape = defaultdict[torch.Size, list[nn.Parameter]](list)
        for matrix in self.matrices:
            if matrix.grad is not None:
                by_shape[matrix.shape].append(matrix)
        for shape, matrices in by_shape.items():  # those of one shape are stacked into one batch
            momenta = torch.stack([self._nesterov_momentum(matrix) for matrix in matrices])
            updates = orthogonalize(momenta.to(self.mixed or momenta.dtype)).to(momenta.dtype)
            size = UPDATE_SIZE * max(shape) ** 0.5
            for matrix, update in zip(matrices, updates, strict=True):
                matrix.mul_(1 - rate * self.decay).add_(update, alpha=-rate * size)

    def _nesterov_momentum(self, matrix: nn.Parameter) -> Tensor:
        """Updates the momentum of a matrix and returns β M + (1 - β) G (Nesterov)."""
        assert matrix.grad is not None
        state = self.state[matrix]
        if not state:
            state["momentum"] = torch.zeros_like(matrix)
        momentum = state["momentum"].lerp_(matrix.grad, 1 - MOMENTUM)
        return matrix.grad.lerp(momentum, MOMENTUM)
