"""Base class of the sub-layers of a block: attention, feed-forward, recurrence, convolution.

A mixer maps x (tokens, dim) and the context to the change (tokens, dim) that the block adds to x.
Attention, recurrence and convolution mix tokens; the feed-forward mixes features only.
"""

from __future__ import annotations

from torch import Tensor, nn


class Mixer(nn.Module):
    """One sub-layer of a block."""

    name: str
    """The sub-layer's name in taps, such as `decoder.2.cross`."""
    input_width: int
    """Width of x."""
    has_state = False
    """Whether it keeps a state of earlier tokens in decoding."""
    slot = 0
    """The index of its state among the sub-layers of its stack with the same kind of state."""

    def start(self, rows: int, like: Tensor) -> tuple[Tensor, ...] | None:
        """The state before the first token, tensors (rows, …); None if there is no state here.

        Args:
            rows: Number of rows that are decoded together.
            like: Any tensor with the device and dtype of the state.
        """
        del rows, like
        return None

    def sites(self) -> dict[str, int]:
        """The tap sites of this layer, with the number of heads at each (0: not per head)."""
        return {self.name: 0}

    def matrices(self) -> tuple[Tensor, ...]:
        """The weight matrices, each (out, in), for initialization."""
        return ()
