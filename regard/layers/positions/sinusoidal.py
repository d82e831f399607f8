"""Sinusoidal positions: tokens come in, and go out with waves of their positions added."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.layers.positions.base import GROWING, INITIAL_ROWS, Positions, row_count


def sinusoid(length: int, dim: int, *, halves: bool = False) -> Tensor:
    """PE(i, 2j) = sin(i / 10000^(2j/dim)), PE(i, 2j+1) = cos(same): (length, dim), interleaved.

    Wave j has the wavelength 2π · 10000^(2j/dim), and PE(i+k) is a linear map of PE(i). With
    `halves`, all sines come first and all cosines after them, as in Marian.
    """
    i = torch.arange(length, dtype=torch.float64)[:, None]  # (length, 1)
    rate = 10000.0 ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)  # (dim / 2,)
    table = torch.zeros(length, dim, dtype=torch.float64)
    sines, cosines = (slice(0, dim - dim // 2), slice(dim - dim // 2, None)) if halves else (
        slice(0, None, 2), slice(1, None, 2)
    )  # fmt: skip
    table[:, sines] = torch.sin(i * rate)
    table[:, cosines] = torch.cos(i * rate)[:, : dim // 2]
    return table.float()


class Sinusoidal(Positions):
    """Sinusoids added to the embeddings (Vaswani et al. 2017, section 3.5). Not learned."""

    table: Tensor

    def __init__(self, dim: int, heads: int, max_length: int, *, halves: bool = False) -> None:
        super().__init__()
        del heads
        self.max_length, self.dim, self.halves = max_length, dim, halves
        table = sinusoid(min(max_length, INITIAL_ROWS), dim, halves=halves)
        self.register_buffer("table", table, persistent=False)

    def extend_to(self, length: int) -> None:
        """Extends the table if it is too short."""
        if length > len(self.table):
            with GROWING, torch.inference_mode(mode=False):
                rows = row_count(len(self.table), length, self.max_length)
                self.table = sinusoid(rows, self.dim, halves=self.halves).to(self.table)

    def add(self, x: Tensor, positions: Tensor) -> Tensor:
        """x + PE(positions)."""
        return x + self.table[positions]
