"""Rows of numbers as they are: the front of linear models and of plain networks."""

from __future__ import annotations

from torch import Tensor

from regard.errors import InputError
from regard.inputs.arrays import Dense
from regard.layers.context import Context
from regard.layers.fronts.front import Front
from regard.layers.layout import Layout


class Rows(Front):
    """Checks how many numbers a row has. A row is one token.

    Args:
        features: The number of numbers of a row.
    """

    def __init__(self, features: int) -> None:
        super().__init__()
        self.features = features

    def layout(self, source: Dense) -> Layout:
        """The layout of the rows, each of one token.

        Raises:
            InputError: Rows have another number of numbers.
        """
        shape = source.values.shape
        if len(shape) != 2 or shape[1] != self.features:
            got = " x ".join(map(str, shape))
            raise InputError("rows", got=got, expected=f"rows x {self.features} numbers")
        return Layout((1,) * len(source), source.device)

    def read(self, source: Dense, ctx: Context) -> Tensor:
        """The numbers of each row: (rows, features)."""
        del ctx
        return self.maps(source)

    def maps(self, source: Dense) -> Tensor:
        """The numbers of each row: (rows, features)."""
        return source.values
