"""The `Context` passed to every layer with x: layout, mask, positions, memory, cache, tap.

A layer's output depends only on its weights, x and the context; modules store nothing between
calls.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from regard.layers.layout import Layout
from regard.layers.masks import Mask
from regard.layers.positions import Positions
from regard.layers.shape_error import shape_error
from regard.layers.state import KVCache
from regard.layers.tap.tap import Tap
from regard.layers.windows import Windows


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
    penalties: list[Tensor] | None = None  # terms that layers add to the loss, summed over rows

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
