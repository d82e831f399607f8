"""Learning the identity: layers that compute f(x), beside layers that compute x + f(x).

A layer that should leave its input alone must learn the identity if it is plain, and zero if it is
residual. A chain of feed-forward layers is trained to give back its input, random vectors. Output:
the error that is left on new vectors, by the number of layers.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.layers import FeedForward
from regard_lectures.figures.descent import Descent
from regard_lectures.progress import OnStep

DIM, HIDDEN, BATCH, TESTED = 32, 64, 64, 1024


class Chain(nn.Module):
    """Feed-forward layers one after another: x -> f(x), or x -> x + f(x) if they are residual."""

    def __init__(self, layers: int, *, residual: bool) -> None:
        super().__init__()
        self.residual = residual
        self.layers = nn.ModuleList(FeedForward(DIM, HIDDEN) for _ in range(layers))
        for parameter in self.parameters():  # as in the models: Glorot matrices, zero biases
            if parameter.dim() == 2:
                nn.init.xavier_uniform_(parameter)
            else:
                nn.init.zeros_(parameter)

    def forward(self, x: Tensor) -> Tensor:
        """(vectors, DIM) -> (vectors, DIM)."""
        for layer in self.layers:
            x = x + layer(x) if self.residual else layer(x)
        return x


def identity_error(chain: Chain, x: Tensor) -> Tensor:
    """|f(x) - x|² / |x|² over all vectors: a scalar; 0 is the identity, 1 is to output zero."""
    return (chain(x) - x).square().sum() / x.square().sum()


def learn_identity(
    layers: int, steps: int, rate: float, seed: int, on_step: OnStep, *, residual: bool
) -> float:
    """Train a chain to give back its input; returns its error on new vectors."""
    torch.manual_seed(seed)
    chain = Chain(layers, residual=residual)
    descent = Descent(chain.parameters(), rate, on_step)
    data = torch.Generator().manual_seed(seed)  # the same vectors for every chain
    for _ in range(steps):
        descent.step(identity_error(chain, torch.randn(BATCH, DIM, generator=data)), BATCH)
    with torch.no_grad():
        return float(identity_error(chain, torch.randn(TESTED, DIM, generator=data)))
