"""A Transformer block, and a stack of blocks.

    post-norm (the paper):   x = norm(x + dropout(sublayer(x)))
    pre-norm (in practice):  x = x + dropout(sublayer(norm(x))),  and one more norm at the top
    inside (Swin-V2):        x = x + dropout(norm(sublayer(x)))

A block applies its sub-layers in the order of its config: usually self-attention, cross-attention
if there is a memory (an encoder's output), and a feed-forward. Packed tokens (tokens, dim) go in,
and the same shape comes out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from regard.kernels.dropout import Dropout, drop_rows
from regard.layers.attention import Attention
from regard.layers.build import grid_window, make_norm, make_positions, make_sublayers
from regard.layers.config import StackConfig, Sublayer
from regard.layers.context import Context, Memory, make_context
from regard.layers.fronts.front import Front
from regard.layers.layout import Layout
from regard.layers.mixer import Mixer
from regard.layers.state import KVCache, RecurrentState
from regard.layers.tap.tap import Tap
from regard.layers.windows import Windows


class Step(NamedTuple):
    """How a block applies one sub-layer: where it and its norm are stored, and their settings."""

    part: str  # the block's attribute that holds the sub-layer
    norm: str  # the attribute that holds its norm
    norm_place: str  # pre, post or inside
    scale: float  # factor on the sub-layer's output
    gain: str | None  # the attribute that holds a learned factor for each feature


class Block(nn.Module):
    """One layer of a stack: sub-layers in order, each with its norm and its residual connection.

    Each sub-layer is stored as the attribute of its name, such as `self_attention`; its norm is
    stored under the first word of that name and `_norm`, such as `self_norm`.

    Args:
        config: The settings of the stack.
        name: The block's name, such as `decoder.2`.
        parts: Name -> sub-layer, in order.
        drop_path: Probability that an example skips a sub-layer in training.

    Example:
        >>> import torch
        >>> from regard.layers import SequenceStack, make_sublayers, plain_context
        >>> config = SequenceStack(dim=8, heads=2, hidden=12)
        >>> block = Block(config, "encoder.0", make_sublayers(config, "encoder.0"))
        >>> block(torch.randn(5, 8), plain_context((2, 3))).shape     # sequences of 2 and 3 tokens
        torch.Size([5, 8])
    """

    def __init__(
        self,
        config: StackConfig,
        name: str,
        parts: Mapping[str, Mixer],
        *,
        drop_path: float = 0.0,
    ) -> None:
        super().__init__()
        self.name, self.input_width, self.residual = name, config.dim, config.residual
        self._last_site = f"{name}.residual"
        self.order: list[Step] = []
        settings = {sublayer.part: sublayer for sublayer in config.block}
        for part, mixer in parts.items():
            norm_name = part.partition("_")[0] + "_norm"
            setattr(self, norm_name, make_norm(config))
            setattr(self, part, mixer)
            sublayer = settings.get(part, Sublayer(kind=part))
            gain = None
            if config.layer_scale is not None:
                gain = part.partition("_")[0] + "_gain"
                setattr(self, gain, nn.Parameter(torch.full((config.dim,), config.layer_scale)))
            norm_place = sublayer.sublayer_norm_place or config.norm_place
            self.order.append(Step(part, norm_name, norm_place, sublayer.scale, gain))
        self.block_norm = make_norm(config) if config.block_norm else None
        self.dropout = Dropout(config.dropout)
        self.drop_path = drop_path

    def mixers(self) -> list[Mixer]:
        """The sub-layers, in order."""
        return [cast(Mixer, self._modules[part]) for part, *_ in self.order]

    def sites(self) -> dict[str, int]:
        """The tap sites of this block, with the number of heads at each (0: not per head)."""
        sites: dict[str, int] = {}
        for mixer in self.mixers():
            sites |= mixer.sites()
        return sites | {self._last_site: 0}

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """(tokens, dim) -> (tokens, dim)."""
        ctx.check(self, x)
        # Looked up by name, since a copy of the model may replace single modules.
        modules = cast(dict[str, nn.Module], self._modules)
        for part, norm_name, norm_place, scale, gain in self.order:
            norm = modules[norm_name]
            change = modules[part](norm(x) if norm_place == "pre" else x, ctx)
            change = norm(change) if norm_place == "inside" else change
            change = self.dropout(change) if self.training else change
            if scale != 1:
                change = change * scale
            if gain is not None:
                change = change * self._parameters[gain]
            if self.drop_path and self.training:
                change = drop_rows(change, self.drop_path, ctx.layout.lengths)
            x = x + change if self.residual else change
            x = norm(x) if norm_place == "post" else x
        if self.block_norm is not None:
            x = self.block_norm(x)
        return ctx.visit(self._last_site, x)


class Stack(nn.Module):
    """Blocks applied one after another; all of them share one position scheme.

    Args:
        config: The settings of the stack.
        name: `encoder` or `decoder`.
        causal: Whether tokens see earlier tokens only. Attention gets this from the mask;
            convolutions and relative positions need to know it.
        memory_dim: Width of the memory that cross-attentions attend to; None: there is none.
    """

    def __init__(
        self,
        config: StackConfig,
        name: str,
        *,
        causal: bool = False,
        memory_dim: int | None = None,
    ) -> None:
        super().__init__()
        self.name, self.width, self.input_width = name, config.dim, config.dim
        self.reach, self.grid_window = config.reach, grid_window(config)
        self.positions = make_positions(config, causal=causal)
        blocks, top = [], max(1, config.layers - 1)
        for i in range(config.layers):
            parts = make_sublayers(config, f"{name}.{i}", causal=causal, memory_dim=memory_dim)
            # drop_path rises linearly from 0 in the first block to its maximum in the last
            block = Block(config, f"{name}.{i}", parts, drop_path=config.drop_path * i / top)
            blocks.append(block)
        self.blocks = nn.ModuleList(blocks)
        self.final_norm = make_norm(config) if config.has_final_norm else nn.Identity()
        for kind in (self._cached_attentions(), self._stateful_mixers()):
            for slot, mixer in enumerate(kind):
                mixer.slot = slot

    def layers(self) -> list[Block]:
        """The blocks, in order."""
        return [cast(Block, block) for block in self.blocks]

    def attentions(self) -> list[Attention]:
        """Every attention layer of every block, in order."""
        return [mixer for mixer in self.mixers() if isinstance(mixer, Attention)]

    def _cached_attentions(self) -> list[Attention]:
        """The attention layers whose keys and values are cached in decoding."""
        return [layer for layer in self.attentions() if layer.has_state]

    def _stateful_mixers(self) -> list[Mixer]:
        """The other sub-layers that keep a state in decoding, such as recurrent ones."""
        return [m for m in self.mixers() if m.has_state and not isinstance(m, Attention)]

    def mixers(self) -> list[Mixer]:
        """Every sub-layer of every block, in order."""
        return [mixer for block in self.layers() for mixer in block.mixers()]

    def sites(self) -> dict[str, int]:
        """The tap sites of this stack, with the number of heads at each (0: not per head)."""
        sites = {f"{self.name}.embedding": 0}
        for block in self.layers():
            sites |= block.sites()
        return sites

    def start(self, rows: int, length: int, like: Tensor) -> KVCache:
        """Creates the empty decoding state of the stack: its key-value cache and other states.

        Args:
            rows: Number of rows that are decoded together.
            length: Maximum number of tokens of a row.
            like: Any tensor with the device and dtype of the keys and values.
        """
        layers = self._cached_attentions()
        kv_heads, head_dim = (layers[0].kv_heads, layers[0].head_dim) if layers else (0, 0)
        cache = KVCache(len(layers), rows, length, kv_heads, head_dim, like.device, like.dtype)
        starts = [mixer.start(rows, like) for mixer in self._stateful_mixers()]
        states = [state for state in starts if state is not None]
        return RecurrentState(states, cache) if states else cache

    def project_memory(self, memory: Memory) -> Memory:
        """The same memory with the keys and values of every cross-attention, computed once."""
        crosses = [layer for layer in self.attentions() if layer.cross]
        projected = {layer.name: layer.project_memory(memory) for layer in crosses}
        return Memory(memory.x, memory.layout, projected)

    def read(self, front: Front, source: Any, tap: Tap | None = None) -> Memory:
        """The vectors of an input's tokens, each of which sees all others, with their layout.

        Args:
            front: What makes vectors of the input.
            source: The `Input` of the front.
            tap: Records or edits activations.
        """
        layout = front.layout(source)
        ctx = make_context(layout, self.positions, window=self.reach, causal=False, tap=tap)
        x = front.read(source, ctx)  # (tokens, dim)
        return Memory(self(ctx.visit(f"{self.name}.embedding", x), ctx), ctx.layout)

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """(tokens, dim) -> (tokens, dim)."""
        ctx.check(self, x)
        if ctx.scheme.has_bias:
            queries = ctx.layout.longest
            keys = queries + (max(ctx.cache.lengths, default=0) if ctx.cache is not None else 0)
            query_positions = ctx.mask.query_positions(queries, keys, x.device)
            ctx = replace(ctx, bias=ctx.scheme.bias(query_positions, keys))
        if self.grid_window is None:
            for block in self.layers():
                x = block(x, ctx)
            return self.final_norm(x)
        # Layers alternate between unshifted and shifted windows.
        layer_contexts = [replace(ctx, windows=self.windows(ctx.layout, layer)) for layer in (0, 1)]
        for number, block in enumerate(self.layers()):
            x = block(x, layer_contexts[number % 2])
        return self.final_norm(x)

    def windows(self, layout: Layout, layer: int) -> Windows | None:
        """The windows within which a layer attends; None if it attends to all tokens.

        Every second layer shifts its windows by half of their side (Swin).
        """
        if self.grid_window is None:
            return None
        return layout.windows(self.grid_window, layer % 2 * (self.grid_window // 2))

    def layout(self, before: Layout) -> Layout:
        """The layout of the output: the same as that of the input."""
        return before
