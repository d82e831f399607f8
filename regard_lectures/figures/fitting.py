"""Fit the scaling law of the figure `laws` to measured losses.

    L(N, D) = E + A / N^α + B / D^β                          (Hoffmann et al. 2022, section 3.3)

N parameters, D tokens. E is the irreducible loss, the entropy of the text.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

STARTS = tuple(itertools.product((0.15, 0.5), (0.15, 0.5), (0.1, 0.5, 0.9)))
"""Starting points of the search: α, β, and E as a share of the smallest measured loss."""
ROUNDS = 500


@dataclass(frozen=True)
class Law:
    """L(N, D) = E + A / N^α + B / D^β."""

    floor: float
    """E"""
    size_factor: float
    """A"""
    size_power: float
    """α"""
    data_factor: float
    """B"""
    data_power: float
    """β"""

    def loss(self, size: npt.ArrayLike, data: npt.ArrayLike) -> Array:
        """The loss L(N, D) for N parameters and D tokens; arrays are broadcast."""
        n, d = np.asarray(size, dtype=float), np.asarray(data, dtype=float)
        by_size = self.size_factor * n**-self.size_power
        return np.asarray(self.floor + by_size + self.data_factor * d**-self.data_power)

    def best_size(self, compute: npt.ArrayLike) -> Array:
        """The number of parameters N that minimises the loss for C = 6 N D FLOPs.

        N = G (C / 6)^(β / (α + β)) with G = (α A / (β B))^(1 / (α + β)), from setting the
        derivative of L along the curve of constant N D to zero.
        """
        both = self.size_power + self.data_power
        ratio = self.size_power * self.size_factor / (self.data_power * self.data_factor)
        return np.asarray(
            ratio ** (1 / both) * (np.asarray(compute) / 6) ** (self.data_power / both)
        )

    def frontier(self, compute: npt.ArrayLike) -> Array:
        """The smallest loss for C FLOPs."""
        size = self.best_size(compute)
        return self.loss(size, np.asarray(compute) / (6 * size))


def fit(size: npt.ArrayLike, data: npt.ArrayLike, loss: npt.ArrayLike) -> Law:
    """Fit the law by least squares of ln L, from several starting points.

    Args:
        size: (points,) N of each point.
        data: (points,) D of each point.
        loss: (points,) The measured loss of each point.
    """
    n, d, wanted = (np.log(np.asarray(values, dtype=float)) for values in (size, data, loss))
    # Centre the points, so that factors and powers are nearly independent.
    middle = n.mean(), d.mean()
    points = np.stack([n - middle[0], d - middle[1], wanted])
    logarithms = min((_search(points, start) for start in STARTS), key=lambda pair: pair[0])[1]
    e, a, b, size_power, data_power = np.exp(logarithms).tolist()
    return Law(
        floor=e,
        size_factor=a * float(np.exp(size_power * middle[0])),
        size_power=size_power,
        data_factor=b * float(np.exp(data_power * middle[1])),
        data_power=data_power,
    )


def _search(points: Array, start: tuple[float, float, float]) -> tuple[float, Array]:
    """Minimise the sum of squares from one starting point with Levenberg–Marquardt.

    Returns:
        The sum of squares, and the logarithms of E, A, B, α, β (so that all five stay positive).
    """
    size_power, data_power, share = start
    least = float(np.exp(points[2].min()))
    excess = (float(np.exp(points[2].mean())) - share * least) / 2
    unknowns = np.log([share * least, excess, excess, size_power, data_power])
    cost, damping = _cost(points, unknowns), 1e-3
    for _ in range(ROUNDS):
        error, slopes = _errors(points, unknowns)
        step = np.linalg.solve(slopes.T @ slopes + damping * np.eye(5), -slopes.T @ error)
        tried = unknowns + np.clip(step, -1, 1)
        lower = _cost(points, tried)
        if lower < cost:
            gained = cost - lower
            unknowns, cost, damping = tried, lower, max(damping / 3, 1e-12)
            if gained < 1e-12 * cost:
                break
        else:
            damping *= 4
            if damping > 1e12:
                break
    return cost, unknowns


def _cost(points: Array, unknowns: Array) -> float:
    error, _ = _errors(points, unknowns)
    return float(error @ error)


def _errors(points: Array, unknowns: Array) -> tuple[Array, Array]:
    """The residuals ln L(N, D) - ln loss (points,), and their Jacobian (points, 5)."""
    n, d, wanted = points
    (e, a, b), (size_power, data_power) = unknowns[:3], np.exp(unknowns[3:])
    terms = np.stack([np.full_like(n, e), a - size_power * n, b - data_power * d])
    top = terms.max(0)
    total = top + np.log(np.exp(terms - top).sum(0))  # log-sum-exp
    of_floor, of_size, of_data = np.exp(terms - total)  # each term's share of L
    slopes = [of_floor, of_size, of_data, -of_size * size_power * n, -of_data * data_power * d]
    return total - wanted, np.stack(slopes, axis=1)
