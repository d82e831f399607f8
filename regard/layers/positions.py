"""Position schemes: sinusoidal (also in two dimensions), learned, rotary, T5's relative buckets.

Self-attention alone ignores the order of tokens. A scheme encodes it in one of three places: it
*adds to the input* (`add`: sinusoidal, learned), *rotates q and k* before their product (`rotate`:
rotary), or *adds to the scores* (`bias`: T5's buckets). All three work with the fused kernel. All
layers of a stack share one instance. To add a scheme, write a class that overrides one of these
methods, and name it in `POSITIONS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from threading import Lock
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import InputError
from regard.layers.layout import Layout

INITIAL_ROWS = 1024
"""Initial rows of a computed (not learned) table; it grows with the input, up to `max_length`."""
_GROWING = Lock()
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
            with _GROWING, torch.inference_mode(mode=False):
                rows = row_count(len(self.table), length, self.max_length)
                self.table = sinusoid(rows, self.dim, halves=self.halves).to(self.table)

    def add(self, x: Tensor, positions: Tensor) -> Tensor:
        """x + PE(positions)."""
        return x + self.table[positions]


def sinusoid_2d(grid: tuple[int, int], dim: int, before: int = 0) -> Tensor:
    """[sin(i w); cos(i w); sin(j w); cos(j w)] of the patch in row i, column j: (tokens, dim).

    The frequencies are w_k = 10000^(-4k/dim), k = 0 … dim/4 - 1 (Chen et al. 2021, MoCo v3). The
    `before` tokens before the patches have zeros.

    Example:
        >>> sinusoid_2d((1, 2), 4, before=1).round(decimals=2)
        tensor([[0.0000, 0.0000, 0.0000, 0.0000],
                [0.0000, 1.0000, 0.0000, 1.0000],
                [0.0000, 1.0000, 0.8400, 0.5400]])
    """
    rate = 10000.0 ** (-torch.arange(dim // 4, dtype=torch.float64) / (dim // 4))
    sides = [torch.arange(side, dtype=torch.float64) for side in grid]
    axes = torch.meshgrid(*sides, indexing="ij")  # rows and columns, (rows, columns) each
    angles = [axis.flatten()[:, None] * rate for axis in axes]  # (patches, dim / 4) each
    waves = torch.cat([wave for angle in angles for wave in (angle.sin(), angle.cos())], dim=1)
    return torch.cat((torch.zeros(before, dim, dtype=torch.float64), waves)).float()


class Sinusoidal2D(Positions):
    """Sinusoids of row and column, added to the patches of an image. Not learned.

    Args:
        dim: Width of a token, a multiple of 4.
        heads: Not used.
        max_length: Number of columns, if there is no grid: one row of tokens.
        grid: Rows and columns of patches.
        before: Number of tokens before the patches.
    """

    table: Tensor

    def __init__(
        self,
        dim: int,
        heads: int,
        max_length: int,
        *,
        grid: tuple[int, int] | None = None,
        before: int = 0,
    ) -> None:
        super().__init__()
        del heads
        self.dim, self.grid, self.before = dim, grid or (1, max_length), before
        self.register_buffer("table", sinusoid_2d(self.grid, dim, before), persistent=False)

    def add(self, x: Tensor, positions: Tensor) -> Tensor:
        """x + PE(positions), counted over the tokens of an image."""
        return x + self.table[positions]

    def add_grid(self, x: Tensor, layout: Layout) -> Tensor:
        """x + PE(row, column), for a grid of any size."""
        if layout.grid is None or layout.grid == self.grid:
            return self.add(x, layout.positions)
        return x + sinusoid_2d(layout.grid, self.dim, self.before).to(x)[layout.positions]


class Learned(Positions):
    """A learned vector for each position (GPT-2, BERT); position 0 is row `first` of the table.

    Args:
        dim: Width of a token.
        heads: Not used.
        max_length: Number of positions.
        first: The row of position 0.
        grid: For images: the rows and columns of patches that the table is learned for.
        before: For images: the number of tokens before the patches.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        max_length: int,
        *,
        first: int = 0,
        grid: tuple[int, int] | None = None,
        before: int = 0,
    ) -> None:
        super().__init__()
        del heads
        self.first, self.grid, self.before = first, grid, before
        self.table = nn.Parameter(torch.empty(first + max_length, dim))
        nn.init.normal_(self.table, std=0.02)

    def add(self, x: Tensor, positions: Tensor) -> Tensor:
        """x + table[first + positions]."""
        return x + self.table[self.first + positions if self.first else positions]

    def add_grid(self, x: Tensor, layout: Layout) -> Tensor:
        """x + table; for another grid than the table's, its patches are interpolated."""
        if self.grid is None or layout.grid is None or layout.grid == self.grid:
            return self.add(x, layout.positions)
        table = interpolate_table(self.table[self.first :], self.grid, layout.grid, self.before)
        return x + table[layout.positions]


def interpolate_table(
    table: Tensor, grid: tuple[int, int], new_grid: tuple[int, int], before: int
) -> Tensor:
    """Position vectors for another grid of patches, by bicubic interpolation of rows and columns.

    Args:
        table: (before + rows · columns, dim) The vectors for `grid`.
        grid: Rows and columns of the table.
        new_grid: Rows and columns of the result.
        before: Number of rows of the table before the grid, which stay as they are.

    Returns:
        (before + rows · columns of `new_grid`, dim).
    """
    plane = table[before:].view(1, *grid, -1).permute(0, 3, 1, 2)  # (1, dim, rows, columns)
    plane = F.interpolate(plane, new_grid, mode="bicubic", align_corners=False)
    return torch.cat((table[:before], plane[0].flatten(1).t()))  # (dim, patches) -> (patches, dim)


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
            with _GROWING, torch.inference_mode(mode=False):
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


class Buckets(Positions):
    """T5's relative positions: a learned bias per head and bucket of distances on the scores.

    Short distances have a bucket each; longer ones share logarithmically wider buckets. As in T5,
    the layers of a stack share the table.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        max_length: int,
        *,
        both_sides: bool = True,
        buckets: int = 32,
        farthest: int = 128,
    ) -> None:
        super().__init__()
        del max_length
        self.both_sides, self.buckets, self.farthest = both_sides, buckets, farthest
        self.table = nn.Parameter(torch.empty(buckets, heads))
        nn.init.normal_(self.table, std=dim**-0.5)

    def bucket(self, offset: Tensor) -> Tensor:
        """The bucket of an offset (key position - query position)."""
        buckets, start = self.buckets, torch.zeros_like(offset)
        if self.both_sides:  # half of the buckets for keys that come later
            buckets //= 2
            start = (offset > 0).long() * buckets
            distance = offset.abs()
        else:
            distance = (-offset).clamp(min=0)
        exact = buckets // 2
        scale = (buckets - exact) / math.log(self.farthest / exact)
        far = exact + ((distance.clamp(min=1).float() / exact).log() * scale).long()
        return start + torch.where(distance < exact, distance, far.clamp(max=buckets - 1))

    def bias(self, query: Tensor, keys: int) -> Tensor:
        """table[bucket(key - query)]: (batch or 1, heads, query, key)."""
        offset = torch.arange(keys, device=query.device) - query[..., None]  # (batch, query, key)
        return self.table[self.bucket(offset)].permute(0, 3, 1, 2)


def row_count(rows: int, length: int, max_rows: int) -> int:
    """New number of rows of a table: at least `length` and twice `rows`, at most `max_rows`.

    Doubling makes growth rare.

    Example:
        >>> row_count(1024, 1025, 4096), row_count(1024, 3000, 4096), row_count(1024, 9000, 4096)
        (2048, 3000, 4096)
    """
    return min(max_rows, max(2 * rows, length))


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


POSITIONS: dict[str, type[Positions]] = {
    "none": Positions,
    "sinusoidal": Sinusoidal,
    "sinusoidal_halves": Sinusoidal,
    "sinusoidal_2d": Sinusoidal2D,
    "learned": Learned,
    "rotary": Rotary,
    "buckets": Buckets,
}


def position_scheme(
    kind: str, *, dim: int, heads: int, max_length: int, causal: bool, **options: Any
) -> Positions:
    """Builds the scheme named `kind` for one stack; `options` are arguments of this kind alone."""
    if kind not in POSITIONS:
        raise InputError("positions", got=kind, expected=f"one of {', '.join(POSITIONS)}")
    if kind == "none":
        return Positions()
    if kind == "buckets":
        options["both_sides"] = not causal
    if kind == "sinusoidal_halves":
        options["halves"] = True
    scheme: Callable[..., Positions] = POSITIONS[kind]
    return scheme(dim, heads, max_length, **options)
