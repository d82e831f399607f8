"""What every sub-layer of a block has: a name, and what it shows to a tap and to who draws weights.

A mixer gets x (tokens, dim) and the context, and gives what is to be added to x. Attention is one,
the feed-forward is one that mixes features alone, recurrence and convolution are others.
"""

from __future__ import annotations

from torch import Tensor, nn


class Mixer(nn.Module):
    """One sub-layer of a block."""

    name: str
    """Under which a tap finds it, such as `decoder.2.cross`."""
    remembers = False
    """Whether it needs what it computed of earlier tokens, while decoding."""
    slot = 0
    """Its place among those of its stack that remember in the same way; the stack numbers them."""

    def start(self, rows: int, like: Tensor) -> tuple[Tensor, ...] | None:
        """What it holds of each row, (rows, …) each, before the first token; None: nothing."""
        del rows, like
        return None

    def sites(self) -> dict[str, int]:
        """Every site that a tap can name here, with its number of heads (0: it has none)."""
        return {self.name: 0}

    def matrices(self) -> tuple[Tensor, ...]:
        """Its matrices, each as (out, in), for who draws them."""
        return ()
