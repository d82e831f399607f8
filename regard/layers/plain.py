"""A `Context` to call a single layer with: the lengths of sequences come in."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index

from regard.errors import InputError
from regard.layers.context import Context
from regard.layers.layout import Layout
from regard.layers.masks import Mask
from regard.layers.positions import Positions
from regard.layers.tap.tap import Tap


def plain_context(
    lengths: Sequence[int], *, causal: bool = False, tap: Tap | None = None
) -> Context:
    """A Context for sequences of these lengths, to call a single layer.

    Raises:
        InputError: The lengths are no whole numbers.

    Example:
        >>> plain_context((2, 3)).layout.longest
        3
    """
    try:
        numbers = [index(length) for length in lengths]
    except TypeError:
        numbers = [-1]
    if min(numbers, default=0) < 0:
        expected = "the number of tokens of each sequence, such as (2, 3)"
        raise InputError("lengths", got=lengths, expected=expected)
    layout = Layout(numbers)
    even = None if layout.even else layout.lengths
    mask = Mask(causal=causal, key_lengths=even, query_lengths=even)
    return Context(layout, layout.positions, mask, Positions(), tap=tap)
