"""The `Context` passed to every layer with x: layout, mask, positions, memory, cache, tap.

A layer's output depends only on its weights, x and the context; modules store nothing between
calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import index
from typing import Any, Protocol

import torch
from torch import Tensor

from regard.errors import InputError
from regard.layers.layout import Layout, Windows
from regard.layers.masks import Mask
from regard.layers.positions import Positions
from regard.layers.state import KVCache
from regard.layers.tap.tap import Tap


class Layer(Protocol):
    """What is checked of a layer that is called: its name, the width of x, its tap sites."""

    name: str
    input_width: int

    def sites(self) -> dict[str, int]:
        """The tap sites of the layer, with the number of heads at each (0: not per head)."""
        ...


@dataclass
class Memory:
    """The encoder's output, to which the decoder's cross-attention attends.

    In decoding, `projected` maps the name of each cross-attention layer to its keys and values, so
    that they are projected once and not at every step.
    """

    x: Tensor  # (tokens, dim), packed
    layout: Layout
    projected: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict)
    packed_keys: dict[str, Tensor] = field(default_factory=dict)  # by layer, (tokens, dim)

    def __post_init__(self) -> None:
        self.mask = Mask(key_lengths=None if self.layout.even else self.layout.lengths)

    def select(self, sentences: Tensor) -> Memory:
        """The memory of the given sequences alone, in the given order."""
        layout, sentences = self.layout.take(sentences.tolist()), sentences.to(self.x.device)
        longest = layout.longest  # the longest sequence may not be among them
        x = layout.unpad(self.layout.pad(self.x)[sentences, :longest])
        projected = {
            name: (k[sentences, :, :longest], v[sentences, :, :longest])
            for name, (k, v) in self.projected.items()
        }
        return Memory(x, layout, projected)


@dataclass
class Context:
    """Everything an attention layer needs besides x.

    `layout` assigns each token to a row. `memory_layout` does the same for cross-attention: the
    beams of one sequence share its memory, so there they are the queries of one row.
    """

    layout: Layout
    positions: Tensor  # (tokens,) position of each token in its sequence
    mask: Mask
    scheme: Positions
    bias: Tensor | None = None  # (batch or 1, heads, query, key), added to the scores
    memory: Memory | None = None
    memory_layout: Layout | None = None
    cache: KVCache | None = None
    tap: Tap | None = None
    windows: Windows | None = None  # if given, self-attention stays within these windows

    def __post_init__(self) -> None:
        before = 0 if self.cache is None else max(self.cache.lengths, default=0)
        self.scheme.extend_to(before + self.layout.longest)

    def check(self, layer: Layer, x: Tensor) -> None:
        """Refuses x if it does not have the tokens of the layout, and unknown names of the tap.

        Raises:
            InputError: With what was got, what was expected, and the nearest name.
        """
        if getattr(x, "shape", None) != (self.layout.count, layer.input_width):
            raise shape_error(f"{layer.name}: x", x, self.layout, layer.input_width, "ctx.layout")
        if self.tap is not None:
            self.tap.check_layer(layer.name, layer.sites())

    def visit(self, site: str, x: Tensor) -> Tensor:
        """Lets the tap, if there is one, see or change x (tokens, dim) at a named site."""
        return x if self.tap is None else self.tap.visit_tokens(site, x, self.layout)


def shape_error(what: str, x: Tensor, layout: Layout, width: int, layout_name: str) -> InputError:
    """The error for an x that is not the packed tokens of a layout.

    Args:
        what: What x is.
        x: What was given.
        layout: The layout of the tokens that were expected.
        width: The expected width.
        layout_name: Where the user finds the layout.
    """
    shape = tuple(getattr(x, "shape", ()))
    got = " x ".join(map(str, shape)) or type(x).__name__
    lengths = [str(length) for length in layout.lengths[:4]]
    lengths += ["…"] if layout.batch > len(lengths) else []
    sum_text = f" ({' + '.join(lengths)})" if layout.batch > 1 else ""
    tokens = f"{layout.count} token{'' if layout.count == 1 else 's'}"
    fix = None
    if shape == (layout.batch, layout.longest, width):
        fix = f"sequences are laid end to end, without padding: {layout_name}.unpad(x)"
    expected = f"{layout.count} x {width}: {tokens}{sum_text} of width {width}"
    return InputError(what, got=got, expected=expected, fix=fix)


def make_context(
    layout: Layout,
    scheme: Positions,
    *,
    causal: bool,
    window: int | None = None,
    cache: KVCache | None = None,
    **further_fields: Any,
) -> Context:
    """Builds a stack's `Context`, for whole examples or for tokens that follow those in a cache.

    Args:
        layout: The layout of its input, from the front; one token per row in a decoding step.
        scheme: The position scheme of the stack.
        causal: Whether tokens attend to earlier tokens only.
        window: How far apart two tokens may be that attend to each other; None: any distance.
        cache: The state of the rows after earlier tokens; None: there are none.
        **further_fields: Further fields of the context, such as `memory` and `tap`.
    """
    before = (0,) * layout.batch if cache is None else cache.lengths
    positions = torch.tensor(before, device=layout.device) if any(before) else None  # (batch,)
    if positions is None:
        positions = layout.positions  # (tokens,)
    elif layout.longest > 1:
        counts = torch.tensor(layout.lengths, device=layout.device)
        positions = positions.repeat_interleave(counts) + layout.positions  # (tokens,)
    # If all rows are equally long, there is no padding to mask.
    even = layout.even and len(set(before)) <= 1
    ends = tuple(
        before_row + added for before_row, added in zip(before, layout.lengths, strict=True)
    )
    mask = Mask(
        causal=causal,
        window=window,
        key_lengths=None if even else ends,
        query_lengths=None if even else layout.lengths,
    )
    return Context(layout, positions, mask, scheme, cache=cache, **further_fields)


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
