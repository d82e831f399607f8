"""Rotary positions: queries and keys come in, and go out rotated by their positions."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from regard.layers.positions.base import GROWING, INITIAL_ROWS, Positions, row_count


class Rotary(Positions):
    """Rotates each pair of features by an angle that grows with the position (Su et al. 2021).

    The product of a rotated query and a rotated key depends only on their distance:
    (R_m q)·(R_n k) = q·(R_{n-m} k). Pairs are (j, j + half), as in Llama; `interleaved` pairs
    (2j, 2j + 1), as in the paper.
    """

    cosine: Tensor
    sine: Tensor

    def __init__(
        self,
        dim: int,
        heads: int,
        max_length: int,
        *,
        head_dim: int | None = None,
        rate: float = 10000.0,
        interleaved: bool = False,
        scaling: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.max_length, self.pairs = max_length, (head_dim or dim // heads) // 2
        self.rate, self.interleaved, self.scaling = rate, interleaved, scaling
        cosine, sine = self._tables(min(max_length, INITIAL_ROWS))
        self.register_buffer("cosine", cosine, persistent=False)
        self.register_buffer("sine", sine, persistent=False)

    def _tables(self, length: int) -> tuple[Tensor, Tensor]:
        """Cosine and sine of every angle, each (length, head_dim / 2)."""
        frequencies = self.rate ** (-torch.arange(self.pairs, dtype=torch.float64) / self.pairs)
        if self.scaling is not None:  # lower frequencies cover longer texts
            frequencies = self.scaling(frequencies)
        angle = torch.arange(length, dtype=torch.float64)[:, None] * frequencies  # (length, half)
        return angle.cos().float(), angle.sin().float()

    def extend_to(self, length: int) -> None:
        """Extends the tables if they are too short.

        `sine` is replaced last, so that another thread that sees it long enough has both.
        """
        if length > len(self.sine):
            with GROWING, torch.inference_mode(mode=False):
                cosine, sine = self._tables(row_count(len(self.sine), length, self.max_length))
                self.cosine = cosine.to(self.cosine)
                self.sine = sine.to(self.sine)

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        """[a, b] -> [a cos - b sin, b cos + a sin] for each pair: (tokens, heads, head_dim)."""
        cosine, sine = self.cosine[positions, None], self.sine[positions, None]  # (tokens, 1, half)
        if self.interleaved:
            a, b = x[..., 0::2], x[..., 1::2]
            return torch.stack((a * cosine - b * sine, b * cosine + a * sine), dim=-1).flatten(-2)
        a, b = x.chunk(2, dim=-1)
        return torch.cat((a * cosine - b * sine, b * cosine + a * sine), dim=-1)


def linear_scaling(factor: float) -> Callable[[Tensor], Tensor]:
    """Linear scaling: divides all frequencies, so that longer texts stay within trained angles."""
    return lambda frequencies: frequencies / factor


def llama3_scaling(
    factor: float, low: float, high: float, original: int
) -> Callable[[Tensor], Tensor]:
    """Llama 3.1: divides low frequencies by a factor, keeps high ones, interpolates in between.

    A frequency with more than `high` turns within the original length stays; one with fewer than
    `low` turns is divided by the factor. Between, s = (turns - low)/(high - low), and the frequency
    is multiplied by (1 - s)/factor + s.
    """

    def scaling(frequencies: Tensor) -> Tensor:
        turns = original * frequencies / (2 * math.pi)
        smooth = ((turns - low) / (high - low)).clamp(0, 1)
        return frequencies * ((1 - smooth) / factor + smooth)

    return scaling
