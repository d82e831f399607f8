"""The base class of position schemes, and what the tables of computed schemes share."""

from __future__ import annotations

from threading import Lock

from torch import Tensor, nn

from regard.layers.layout import Layout

INITIAL_ROWS = 1024
"""Initial rows of a computed (not learned) table; it grows with the input, up to `max_length`."""
GROWING = Lock()
"""Held while a table grows, since threads that train one model share its tables."""


class Positions(nn.Module):
    """No positions; base class of every scheme, which overrides `add`, `rotate` or `bias`."""

    def extend_to(self, length: int) -> None:
        """Called before every pass with the number of positions, so that tables can grow."""
        del length

    def add(self, x: Tensor, positions: Tensor) -> Tensor:
        """Adds positions (tokens,) to the input x (tokens, dim)."""
        del positions
        return x

    def add_grid(self, x: Tensor, layout: Layout) -> Tensor:
        """Adds positions to the tokens of images, whose grid may be another than the scheme's.

        Args:
            x: (tokens, dim) Of each image the tokens before its grid, then the grid row by row.
            layout: The layout of x, with the grid of all its images.
        """
        return self.add(x, layout.positions)

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        """Rotates queries or keys x (tokens, heads, head_dim) by positions (tokens,)."""
        del positions
        return x

    def bias(self, query: Tensor, keys: int) -> Tensor | None:
        """The bias on the scores: query positions (batch or 1, query) -> (…, heads, query, key)."""
        del query, keys
        return None

    @property
    def has_bias(self) -> bool:
        """Whether the scheme overrides `bias`."""
        return type(self).bias is not Positions.bias


def row_count(rows: int, length: int, max_rows: int) -> int:
    """New number of rows of a table: at least `length` and twice `rows`, at most `max_rows`.

    Doubling makes growth rare.

    Example:
        >>> row_count(1024, 1025, 4096), row_count(1024, 3000, 4096), row_count(1024, 9000, 4096)
        (2048, 3000, 4096)
    """
    return min(max_rows, max(2 * rows, length))
