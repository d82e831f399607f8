"""Attention over the patches of an image: one token's row, rollout through the layers, distances.

Input: attention weights (tokens, tokens) of the layers, whose tokens are [CLS] and the like, and
then the patches of an image row by row. Output: one row of weights over all tokens, and the mean
distance between patches that attend to each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from regard.draw.labels import Weights

if TYPE_CHECKING:
    from regard.explain.look import Look, LookSelection
    from regard.tasks.trace import ImageGrid


def rollout(
    layers: Sequence[Weights],
    start: Weights | None = None,
    grids: Sequence[tuple[int, int]] | None = None,
) -> Weights:
    """Attention rollout: where the tokens of the last layer look in the input (Abnar & Zuidema).

    A block adds its input to what attention gives, so half of each token's weight stays with it:

        A' = (A + I) / 2, each row divided by its sum;    R = A'_L … A'_2 A'_1

    Args:
        layers: The weights (tokens, tokens) of each layer, from the first to the last; NaN counts
            as no attention.
        start: (…, tokens) Rows to follow, such as a one-hot row for one token of the last layer;
            None: all tokens.
        grids: Rows and columns of each layer, if 2 x 2 cells of one may be a cell of the next
            (Swin): a cell's weight is then divided equally among its cells.

    Returns:
        start R, or R (tokens, tokens). A row sums to 1 if that of `start` does.

    Example:
        >>> rollout([np.array([[0.0, 1.0], [1.0, 0.0]])]).tolist()
        [[0.5, 0.5], [0.5, 0.5]]
    """
    tokens = layers[-1].shape[-1]
    rows = np.eye(tokens) if start is None else np.asarray(start, dtype=float)
    all_grids: Sequence[tuple[int, int] | None] = grids or [None] * len(layers)
    above = None  # the grid of the layer above
    for weights, grid in reversed(list(zip(layers, all_grids, strict=True))):
        if grid != above and grid is not None and above is not None:
            rows = rows @ shares_of_cells(grid, above)
        above = grid
        mixed = (np.nan_to_num(weights) + np.eye(len(weights))) / 2  # A' = (A + I) / 2
        rows = rows @ (mixed / mixed.sum(axis=1, keepdims=True))  # … A'_2 A'_1
    return rows


def shares_of_cells(grid: tuple[int, int], merged: tuple[int, int]) -> Weights:
    """How a cell of a merged grid divides its weight among its 2 x 2 cells: (merged, cells).

    At the border of a grid with an odd side it has fewer.

    Example:
        >>> shares_of_cells((2, 3), (1, 2)).tolist()
        [[0.25, 0.25, 0.0, 0.25, 0.25, 0.0], [0.0, 0.0, 0.5, 0.0, 0.0, 0.5]]
    """
    row, column = np.divmod(np.arange(grid[0] * grid[1]), grid[1])
    shares = np.zeros((merged[0] * merged[1], len(row)))
    shares[row // 2 * merged[1] + column // 2, np.arange(len(row))] = 1.0
    return shares / shares.sum(axis=1, keepdims=True)


def query_rows(tokens: int, first: int, row: int | None) -> Weights:
    """Which rows of attention are looked at, as shares that sum to 1: (tokens,).

    Args:
        tokens: The number of tokens.
        first: The number of tokens before the patches.
        row: The index of one token; None: the mean of the patches.
    """
    shares = np.zeros(tokens)
    shares[slice(first, None) if row is None else row] = 1.0
    return shares / shares.sum()


def row_over_tokens(
    picture: ImageGrid,
    layers: Sequence[Weights],
    row: int | None,
    *,
    through: bool,
    sites: Sequence[str] = (),
) -> Weights:
    """Where one token of the last layer looks, or the mean of the patches: (tokens,).

    Args:
        picture: The image.
        layers: The weights (tokens, tokens) of each layer; NaN for a head that was removed.
        row: The index of the token; None: the mean of the patches.
        through: Whether the row is followed through all layers (rollout); else the last one counts.
        sites: The names of the layers, if their grids may differ.
    """
    start = query_rows(layers[-1].shape[-1], picture.first, row)
    grids = [picture.at(site).grid for site in sites] if picture.merged and sites else None
    return rollout(layers, start, grids) if through else start @ np.nan_to_num(layers[-1])


def chosen_row(look: Look, choice: LookSelection) -> Weights:
    """The row of weights over all tokens that a choice draws over the image: (tokens,)."""
    assert look.picture is not None  # checked in `Look.choose`
    *lower, last = choice.maps  # a head is one of the last layer
    layers = [*(look.matrix(m) for m in lower), look.matrix(last, choice.head)]
    return row_over_tokens(
        look.picture,
        layers,
        choice.row,
        through=choice.kind == "rollout",
        sites=[m.site for m in choice.maps],
    )


def picture_of(look: Look, choice: LookSelection) -> ImageGrid:
    """The image of a look with the grid of the layer that is chosen: of several, the last.

    A rollout ends at the first.
    """
    assert look.picture is not None  # checked in `Look.choose`
    return look.picture.at(choice.maps[0 if choice.kind == "rollout" else -1].site)


def over_patches(picture: ImageGrid, row: Weights) -> Weights:
    """A row of weights over all tokens (tokens,), as a map over the patches: (rows, columns)."""
    return row[picture.first :].reshape(picture.grid)


def patch_distances(grid: tuple[int, int]) -> Weights:
    """The distance between the centres of each two patches, in patches: (patches, patches).

    Example:
        >>> patch_distances((1, 3)).tolist()
        [[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]]
    """
    rows, columns = np.divmod(np.arange(grid[0] * grid[1]), grid[1])
    return np.hypot(rows[:, None] - rows, columns[:, None] - columns)


def mean_distance(weights: Weights, grid: tuple[int, int], first: int) -> Weights:
    """The mean attention distance of each patch: how far away it looks, in patches.

    d_i = Σ_j a_ij |i - j| / Σ_j a_ij over the patches j (Dosovitskiy et al. 2021, figure 7).

    Args:
        weights: (…, tokens, tokens)
        grid: Rows and columns of patches.
        first: The number of tokens before the patches, which are left out as i and as j.

    Returns:
        (…, patches); NaN for a patch that attends to no patch.
    """
    patch_weights = weights[..., first:, first:]
    total = patch_weights.sum(axis=-1)
    weighted_distance = (patch_weights * patch_distances(grid)).sum(axis=-1)
    return np.divide(weighted_distance, total, out=np.full_like(total, np.nan), where=total > 0)
