"""What travels beside x through the layers: layout, mask, positions, memory, cache, tap.

A layer's output depends on x and this object alone; nothing is stored on modules between calls.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from regard.layers.layout import Layout, Windows
from regard.layers.masks import Mask
from regard.layers.positions import Positions
from regard.layers.state import KVCache
from regard.layers.tap.tap import Tap


@dataclass
class Memory:
    """What the decoder looks at: the encoder's top output, sentences end to end.

    While decoding, `heads` holds the keys and values that each cross-attention makes of it, by
    the layer's name, so that they are projected once and not at every step.
    """

    x: Tensor  # (tokens, dim)
    layout: Layout
    heads: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.mask = Mask(key_lengths=None if self.layout.even else self.layout.lengths)

    def select(self, sentences: Tensor) -> Memory:
        """The memory of some sentences alone, in the order in which they are named."""
        layout, sentences = self.layout.take(sentences.tolist()), sentences.to(self.x.device)
        longest = layout.longest  # shorter rows may remain
        x = layout.unpad(self.layout.pad(self.x)[sentences, :longest])
        heads = {
            name: (k[sentences, :, :longest], v[sentences, :, :longest])
            for name, (k, v) in self.heads.items()
        }
        return Memory(x, layout, heads)


@dataclass
class Context:
    """Everything an attention layer needs beside x.

    `layout` says which row a token belongs to. `memory_layout` says the same for cross-attention:
    beams of one sentence share its memory, so there they are queries of one row.
    """

    layout: Layout
    where: Tensor  # (tokens,) position of each token in its sentence
    mask: Mask
    positions: Positions
    bias: Tensor | None = None  # (batch or 1, heads, query, key), added to the scores
    memory: Memory | None = None
    memory_layout: Layout | None = None
    cache: KVCache | None = None
    tap: Tap | None = None
    windows: Windows | None = None  # self-attention looks no farther, if they are given

    def __post_init__(self) -> None:
        before = 0 if self.cache is None else max(self.cache.lengths, default=0)
        self.positions.reach(before + self.layout.longest)

    def visit(self, site: str, x: Tensor) -> Tensor:
        """Lets the tap, if there is one, see or change x (tokens, dim) at a named site."""
        return x if self.tap is None else self.tap.visit_tokens(site, x, self.layout)
