"""Linear regression, logistic regression and the multi-layer perceptron (MLP).

Rows of numbers (rows, features) -> hidden layers -> logits of classes, or standardised numbers.
"""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn

from regard.inputs.arrays import Dense
from regard.kernels.linear import Linear, linear_activation
from regard.layers import Dropout
from regard.layers.convnets import FeatureMaps
from regard.layers.fronts.rows import Rows
from regard.layers.mlp import ACTIVATIONS
from regard.models.encoder import BaseEncoder
from regard.models.families.mlp import MLPConfig


class DenseLayer(nn.Module):
    """dropout(f(W x + b))."""

    def __init__(self, before: int, after: int, activation: str, dropout: float) -> None:
        super().__init__()
        self.linear = Linear(before, after)
        self.function, _ = ACTIVATIONS[activation]
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(rows, before) -> (rows, after)."""
        hidden: Tensor = self.dropout(linear_activation(self.linear, x, self.function))
        return hidden


class MLP(BaseEncoder):
    """Hidden layers over a row of numbers, and a linear head; without hidden layers a linear model.

    Args:
        config: The number of features, the widths of the layers, and the head.

    Example:
        >>> import torch
        >>> from regard.models import MLPConfig
        >>> logistic = MLP(MLPConfig(features=4, hidden=(), classes=("a", "b", "c")))
        >>> sum(parameter.numel() for parameter in logistic.parameters())  # W (3, 4) and b (3,)
        15
        >>> logistic(Dense(torch.zeros(2, 4))).shape
        torch.Size([2, 3])
    """

    config: MLPConfig
    embed: Rows
    encoder: FeatureMaps  # type: ignore[assignment]
    missing_head_advice = "train one: own/table data.train=FILE data.target=COLUMN"

    def __init__(self, config: MLPConfig) -> None:
        super().__init__()
        self.config = config
        side, head = config.encoder, config.head
        self.embed = Rows(side.features)
        self.encoder = FeatureMaps(
            [
                DenseLayer(*widths, side.activation, side.dropout)
                for widths in pairwise((side.features, *side.hidden))
            ]
        )
        self.dropout = nn.Identity()  # the last hidden layer has its own
        self.classes = Linear(side.dim, len(head.classes)) if head.classes else None
        self.numbers = Linear(side.dim, len(head.numbers)) if head.numbers else None
        if not side.hidden:  # nothing to break a symmetry of; random weights of rare values stay
            for linear in filter(None, (self.classes, self.numbers)):
                nn.init.zeros_(linear.weight)
                nn.init.zeros_(linear.bias)

    def pooled(self, source: Dense, hidden: Tensor) -> Tensor:
        """The vector of each row, its only token: (rows, dim)."""
        del source
        return hidden
