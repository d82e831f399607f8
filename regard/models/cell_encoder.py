"""The heads of networks whose output is a vector for each cell of an image: CNNs and Swin."""

from __future__ import annotations

from torch import Tensor

from regard.inputs.arrays import Dense
from regard.kernels.linear import Linear
from regard.layers import Dropout, Tap
from regard.models.encoder import BaseEncoder
from regard.models.families.images import ClassHead
from regard.models.numbers_head import make_numbers_head


class CellEncoder(BaseEncoder):
    """A network with heads for classes and numbers on the mean of its cells.

    A subclass creates `config`, `embed` and `encoder`, and then its heads by `add_heads`.
    """

    def add_heads(self, head: ClassHead, dim: int, dropout: float) -> None:
        """Creates the heads that a config names, for cells with `dim` features."""
        self.dropout = Dropout(dropout)
        self.classes = Linear(dim, len(head.classes)) if head.classes else None
        self.numbers = make_numbers_head(head, dim)

    def pooled(self, source: Dense, hidden: Tensor) -> Tensor:
        """The mean over the cells of each image: hidden (cells, dim) -> (images, dim)."""
        return hidden.view(len(source), -1, hidden.shape[-1]).mean(dim=1)

    def class_logits(self, source: Dense, tap: Tap | None = None) -> tuple[Tensor, Tensor]:
        """Logits for the classes, (images, classes), twice: the same learn from a teacher."""
        logits = self.classify(source, tap)
        return logits, logits
