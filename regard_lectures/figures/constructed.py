"""A set of many nearly orthogonal directions that can be constructed, after Kerdock (1972).

In N = 4^k dimensions N (N/2 + 1) directions, each two of which have a cosine of 0 or ±1/√N.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

REDUCTIONS = {
    1: 0b11, 3: 0b1011, 5: 0b100101, 7: 0b10000011, 9: 0b1000010001, 11: 0b100000000101,
    13: 0b10000000011011, 15: 0b1000000000000011,
}  # fmt: skip
"""Irreducible polynomials over two elements by degree; bit k is the coefficient of x^k."""

Bits = npt.NDArray[np.int64]


def smallest_full(reach: float) -> int:
    """The smallest N = 4^k with cosines of 1/√N within reach."""
    power = max(1, math.ceil(-math.log2(reach) - 1e-9))
    return int(4**power)


def written_in(dim: int, reach: float) -> int:
    """How many directions with cosines within reach can be written down in a dimension.

    In N = 4^k dimensions N (N/2 + 1), with cosines of 0 and ±1/√N (Kerdock 1972): N/2 + 1 bases of
    N directions at right angles. A larger space is cut into such parts, at right angles to each
    other; what remains has one direction for each dimension.
    """
    full = smallest_full(reach)
    parts, remainder = divmod(dim, full)
    return parts * full * (full // 2 + 1) + remainder


def written_sample(dim: int, most: int, seed: int) -> Tensor:
    """Some directions of the written set in 4^k dimensions: (directions, dim).

    Direction (a, b), in all bases but that of the axes, has at the point (x, e) the entry
    (−1)^(Q_a(x, e) + b·(x, e)) / √N, where x is of the field of 2^n = N / 2 elements and e of
    {0, 1}, with the quadratic form of Calderbank et al. (1997):
    Q_a(x, e) = Σ_i Tr((ax)^(2^i + 1)) + e Tr(ax), i = 1 … (n − 1) / 2.
    """
    degree = (dim // 2).bit_length() - 1  # n: N = 2^(n + 1)
    size = 2**degree
    elements = np.arange(size)
    trace = _trace(elements, degree)
    form = np.zeros(size, dtype=np.int64)
    power = elements
    for _ in range((degree - 1) // 2):
        power = _times(power, power, degree)  # y^(2^i)
        form ^= _trace(_times(power, elements, degree), degree)
    every = (size + 1) * dim  # the last basis is that of the axes
    chosen = np.random.default_rng(seed).choice(every, min(most, every), replace=False)
    points = np.arange(dim)
    rows = np.empty((len(chosen), dim), dtype=np.float32)
    for row, number in enumerate(chosen):
        a, b = divmod(int(number), dim)
        if a == size:
            rows[row] = math.sqrt(dim) * (points == b)
            continue
        product = _times(elements, np.full(size, a), degree)
        quadratic = np.concatenate([form[product], form[product] ^ trace[product]])  # e = 0, e = 1
        rows[row] = 1 - 2 * (quadratic ^ _parity(points & b))
    return torch.from_numpy(rows / math.sqrt(dim))


def _parity(numbers: Bits) -> Bits:
    """Whether each number has an odd count of ones among its bits: 0 or 1."""
    for shift in (16, 8, 4, 2, 1):
        numbers = numbers ^ numbers >> shift
    return numbers & 1


def _times(a: Bits, b: Bits, degree: int) -> Bits:
    """The products of elements of the field of 2^degree elements."""
    product = np.zeros_like(a)
    for bit in range(degree):
        product ^= np.where(b >> bit & 1, a << bit, 0)
    for bit in range(2 * degree - 2, degree - 1, -1):
        product ^= np.where(product >> bit & 1, REDUCTIONS[degree] << (bit - degree), 0)
    return product


def _trace(elements: Bits, degree: int) -> Bits:
    """Tr(x) = x + x² + x⁴ + … of elements of the field: 0 or 1."""
    total = power = elements
    for _ in range(degree - 1):
        power = _times(power, power, degree)
        total = total ^ power
    return total
