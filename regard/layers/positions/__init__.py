"""Position schemes: sinusoidal (also in two dimensions), learned, rotary, T5's relative buckets.

Self-attention alone ignores the order of tokens. A scheme encodes it in one of three places: it
*adds to the input* (`add`: sinusoidal, learned), *rotates q and k* before their product (`rotate`:
rotary), or *adds to the scores* (`bias`: T5's buckets). All three work with the fused kernel. All
layers of a stack share one instance. To add a scheme, write a class that overrides one of these
methods, and name it in `POSITIONS`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from regard.errors import InputError
from regard.layers.positions.base import INITIAL_ROWS as INITIAL_ROWS
from regard.layers.positions.base import Positions as Positions
from regard.layers.positions.buckets import Buckets as Buckets
from regard.layers.positions.learned import Learned as Learned
from regard.layers.positions.learned import interpolate_table as interpolate_table
from regard.layers.positions.rotary import Rotary as Rotary
from regard.layers.positions.rotary import linear_scaling as linear_scaling
from regard.layers.positions.rotary import llama3_scaling as llama3_scaling
from regard.layers.positions.sinusoidal import Sinusoidal as Sinusoidal
from regard.layers.positions.sinusoidal import sinusoid as sinusoid
from regard.layers.positions.sinusoidal_2d import Sinusoidal2D as Sinusoidal2D
from regard.layers.positions.sinusoidal_2d import sinusoid_2d as sinusoid_2d

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
