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


def rollout(layers: Sequence[Weights], start: Weights | None = None) -> Weights:
    """Attention rollout: where the tokens of the last layer look in the input (Abnar & Zuidema).

    A block adds its input to what attention gives, so half of each token's weight stays with it:

        A' = (A + I) / 2, each row divided by its sum;    R = A'_L … A'_2 A'_1

    Args:
        layers: The weights (tokens, tokens) of each layer, from the first to the last; NaN counts
            as no attention.
        start: (…, tokens) Rows to follow, such as a one-hot row for one token of the last layer;
            None: all tokens.

    Returns:
        start R, or R (tokens, tokens). A row sums to 1 if that of `start` does.

    Example:
        >>> rollout([np.array([[0.0, 1.0], [1.0, 0.0]])]).tolist()
        [[0.5, 0.5], [0.5, 0.5]]
    """
    tokens = layers[0].shape[-1]
    rows = np.eye(tokens) if start is None else np.asarray(start, dtype=float)
    for weights in reversed(layers):
        mixed = (np.nan_to_num(weights) + np.eye(tokens)) / 2  # A' = (A + I) / 2
        rows = rows @ (mixed / mixed.sum(axis=1, keepdims=True))  # … A'_2 A'_1
    return rows


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
    picture: ImageGrid, layers: Sequence[Weights], row: int | None, *, through: bool
) -> Weights:
    """Where one token looks, or the mean of the patches: (tokens,).

    Args:
        picture: The image.
        layers: The weights (tokens, tokens) of each layer; NaN for a head that was removed.
        row: The index of the token; None: the mean of the patches.
        through: Whether the row is followed through all layers (rollout); else the last one counts.
    """
    start = query_rows(layers[0].shape[-1], picture.first, row)
    return rollout(layers, start) if through else start @ np.nan_to_num(layers[-1])


def chosen_row(look: Look, choice: LookSelection) -> Weights:
    """The row of weights over all tokens that a choice draws over the image: (tokens,)."""
    picture = picture_of(look, choice)
    layers = [look.matrix(m, choice.head) for m in choice.maps]
    return row_over_tokens(picture, layers, choice.row, through=choice.kind == "rollout")


def picture_of(look: Look, choice: LookSelection) -> ImageGrid:
    """The image of a look with the grid of the layer that is chosen."""
    assert look.picture is not None  # checked in `Look.choose`
    return look.picture.at(choice.map.site)


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
