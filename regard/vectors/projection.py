"""Project word vectors to the plane (PCA or t-SNE) and draw a map of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.errors import InputError
from regard.vectors.table import Floats

Points = npt.NDArray[np.float64]
MOST = {"pca": 20_000, "tsne": 2_000}
"""The most words of each method; t-SNE computes all pairs in each of some hundred steps."""
LABELLED = 200
"""Up to this number of words, the points are labelled."""
STEPS, EXAGGERATED, EXAGGERATION = 600, 150, 12.0
PERPLEXITY = 30.0


def project_words(rows: Floats, method: str = "pca", seed: int = 0) -> tuple[Points, str]:
    """Project vectors (words, dim) to points (words, 2).

    Args:
        rows: (words, dim) One vector per word.
        method: `pca` or `tsne`.
        seed: The seed of t-SNE.

    Returns:
        The points (words, 2), and a sentence that says what was computed, for the caption.
    """
    if method not in MOST:
        raise InputError("--method", got=method, expected=" or ".join(MOST))
    if not 2 <= len(rows) <= MOST[method]:
        expected = f"2 to {MOST[method]:,} with {method}"
        raise InputError("map", got=f"{len(rows):,} words", expected=expected)
    if method == "pca":
        points, share = pca(rows)
        return points, f"PCA: the two directions hold {share:.0%} of the variance."
    perplexity = min(PERPLEXITY, (len(rows) - 1) / 3)
    settings = f"t-SNE, perplexity {perplexity:.3g}, seed {seed}"
    caption = f"{settings}: near words are neighbours; distances between groups say little."
    return tsne(rows, perplexity, seed), caption


def pca(rows: npt.ArrayLike) -> tuple[Points, float]:
    """The coordinates (rows, 2) on the first two principal components, and their variance share."""
    table = np.asarray(rows, np.float64)
    centred = table - table.mean(0)
    left_vectors, scale, axes = np.linalg.svd(centred, full_matrices=False)
    points = (left_vectors * scale)[:, :2]
    # The sign of a component is arbitrary: make its largest entry positive.
    signs = np.sign(axes[:2][np.arange(len(axes[:2])), np.abs(axes[:2]).argmax(1)])
    points = points * np.where(signs == 0, 1, signs)
    if points.shape[1] < 2:
        points = np.pad(points, ((0, 0), (0, 2 - points.shape[1])))
    total_variance = float((scale**2).sum())
    return points, float((scale[:2] ** 2).sum() / total_variance) if total_variance else 1.0


def tsne(rows: npt.ArrayLike, perplexity: float, seed: int = 0, steps: int = STEPS) -> Points:
    """Exact t-SNE (van der Maaten and Hinton 2008), initialised with PCA and a little noise.

    Args:
        rows: (items, dim) One vector per item.
        perplexity: The effective number of neighbours.
        seed: The seed of the noise.
        steps: The number of gradient descent steps.

    Returns:
        Points (items, 2).
    """
    table = np.asarray(rows, np.float64)
    target_affinities = _affinities(_distances(table), perplexity)
    start, _ = pca(table)
    noise = np.random.default_rng(seed).normal(size=start.shape)
    points = 1e-2 * start / max(float(start.std()), 1e-12) + 1e-4 * noise
    rate = max(len(table) / EXAGGERATION / 4, 50.0)
    velocity, gains = np.zeros_like(points), np.ones_like(points)
    for step in range(steps):
        kernel = 1 / (1 + _distances(points))  # Student's t with one degree of freedom
        np.fill_diagonal(kernel, 0)
        factor = EXAGGERATION if step < EXAGGERATED else 1.0
        pull = (factor * target_affinities - kernel / kernel.sum()) * kernel
        gradient = 4 * (pull.sum(1, keepdims=True) * points - pull @ points)
        gains = np.where(np.sign(gradient) == np.sign(velocity), gains * 0.8, gains + 0.2)
        gains = gains.clip(min=0.01)
        velocity = (0.5 if step < EXAGGERATED else 0.8) * velocity - rate * gains * gradient
        points = points + velocity
        points = points - points.mean(0)
    return points


def _distances(points: Points) -> Points:
    """Squared Euclidean distances (items, items)."""
    lengths = (points**2).sum(1)
    return (lengths[:, None] + lengths[None] - 2 * points @ points.T).clip(min=0)


def _affinities(distances: Points, perplexity: float) -> Points:
    """The affinities p_ij of the paper (items, items); bisection finds the width of each row."""
    count = len(distances)
    low, high = np.zeros(count), np.full(count, np.inf)
    precision = np.ones(count)
    relative_distances = distances + np.where(np.eye(count, dtype=bool), np.inf, 0)
    relative_distances = relative_distances - relative_distances.min(1, keepdims=True)
    for _ in range(60):
        weights = np.exp(-relative_distances * precision[:, None])
        shares = weights / weights.sum(1, keepdims=True)
        entropy = -(shares * np.log(shares.clip(min=1e-300))).sum(1)
        wide = entropy > np.log(perplexity)
        low, high = np.where(wide, precision, low), np.where(wide, high, precision)
        precision = np.where(np.isinf(high), precision * 2, (low + high) / 2)
    joint = shares + shares.T
    return (joint / joint.sum()).clip(min=1e-12)


def draw_map(words: list[str], points: Points, title: str, caption: str, path: Path) -> None:
    """Draw words at their points (words, 2) and write the picture, 1280×720, as .png or .svg."""
    from regard.draw.colours import INK, MUTED
    from regard.draw.sheet import SMALLEST, TEXT, TITLE, Sheet, lines_height, render, shorten, style
    from regard.draw.sheet import points as size
    from regard.runtime.files import write_file

    ending = map_ending(path)
    label: Any = {"textcoords": "offset points", "ha": "center", "fontsize": size(SMALLEST)}
    with style():
        sheet = Sheet(1280, 720)
        sheet.text((24, 16), shorten(title, 1100, TITLE), TITLE, weight="bold")
        height = lines_height(caption, 1232, TEXT)
        sheet.paragraph((24, 710 - height), caption, 1232, colour=MUTED)
        axes = sheet.axes(24, 64, 1232, 636 - height)
        axes.spines[:].set_visible(False)
        axes.scatter(points[:, 0], points[:, 1], s=18 if len(words) <= LABELLED else 6, c="#0072B2")
        axes.margins(0.07, 0.07)
        if len(words) <= LABELLED:
            for word, x, y, above in _label_sides(words, points):
                distance, anchor = (5, "bottom") if above else (-5, "top")
                axes.annotate(word, (x, y), (0, distance), va=anchor, color=INK, **label)
        picture = render(sheet.figure, ending)
    write_file(path, picture)


def _label_sides(words: list[str], points: Points) -> list[tuple[str, float, float, bool]]:
    """(word, x, y, above) of each word: its label is above, or below if a point is close above."""
    reach = np.ptp(points, axis=0).clip(min=1e-12)
    sides = []
    for i, (word, (x, y)) in enumerate(zip(words, points.tolist(), strict=True)):
        step = (points - points[i]) / reach
        crowded = (np.abs(step[:, 0]) < 0.06) & (step[:, 1] > 0) & (step[:, 1] < 0.05)
        sides.append((word, x, y, not crowded.any()))
    return sides


def map_ending(path: Path) -> str:
    """The ending of a file name in lower case.

    Raises:
        InputError: It is neither .png nor .svg.
    """
    if path.suffix.lower() not in (".png", ".svg"):
        raise InputError(str(path), got=f"the ending {path.suffix!r}", expected=".png or .svg")
    return path.suffix.lower()
