"""The head that predicts numbers, such as the activity of genes, from the vector of an image."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn

from regard.kernels.linear import Linear
from regard.layers import Dropout
from regard.layers.convolution_2d import BatchNorm
from regard.models.families.images import ClassHead


class HeadLayer(nn.Module):
    """dropout(relu(norm(W x + b))), with batch norm."""

    def __init__(self, before: int, after: int, dropout: float) -> None:
        super().__init__()
        self.linear = Linear(before, after)
        self.norm = BatchNorm(after)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(examples, before) -> (examples, after)."""
        x = self.norm(self.linear(x)[:, :, None, None])  # (examples, after, 1, 1), as of maps
        return self.dropout(x.flatten(1).relu())


def make_numbers_head(config: ClassHead, before: int) -> nn.Sequential | None:
    """Builds the head for numbers: hidden layers, then a linear one; None if there are no numbers.

    Args:
        config: The names of the numbers, and the widths of the hidden layers.
        before: Width of the vectors that it reads.

    Example:
        >>> head = make_numbers_head(ClassHead(numbers=("a", "b"), widths=(16, 8)), 32)
        >>> sum(parameter.numel() for parameter in head.parameters())  # with two batch norms
        730
    """
    if not config.numbers:
        return None
    widths = (before, *config.widths)
    layers = [HeadLayer(*pair, config.head_dropout) for pair in pairwise(widths)]
    return nn.Sequential(*layers, Linear(widths[-1], len(config.numbers)))
