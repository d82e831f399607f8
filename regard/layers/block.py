"""A Transformer block, and a stack of blocks.

    post-norm (the paper):   x = norm(x + dropout(sublayer(x)))
    pre-norm (in practice):  x = x + dropout(sublayer(norm(x))),  and one more norm at the top
    inside (Swin-V2):        x = x + dropout(norm(sublayer(x)))

A block applies its sub-layers in order: self-attention, cross-attention if there is a memory (an
encoder's output), and a feed-forward, unless its `BlockShape` names others. Packed tokens
(tokens, dim) go in, and the same shape comes out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.kernels.dropout import Dropout, drop_rows
from regard.layers.attention import Attention
from regard.layers.context import Context, Memory
from regard.layers.convolution import Convolution, GatedConvolution
from regard.layers.layout import Layout, Windows
from regard.layers.mixer import Mixer
from regard.layers.mlp import FeedForward
from regard.layers.norms import norm
from regard.layers.positions import Positions
from regard.layers.recurrent import Recurrent
from regard.layers.relative import RelativeBias, RelativeBiasNet
from regard.layers.state import KVCache, RecurrentState

NORM_PLACES = ("pre", "post", "inside")


@dataclass(frozen=True)
class BlockShape:
    """The settings that all blocks of a stack share.

    Those that are keys of a recipe's `model` are explained in `regard.models.config.BlocksConfig`.
    """

    dim: int
    heads: int
    hidden: int
    kv_heads: int | None = None
    head_dim: int | None = None
    activation: str = "relu"
    norm: str = "layer"
    norm_place: str = "pre"
    norm_places: Mapping[str, str] = field(default_factory=dict)
    norm_epsilon: float | None = None
    score: str = "scaled_dot"
    dropout: float = 0.0
    drop_path: float = 0.0
    hidden_dropout: float = 0.0
    attention_dropout: float = 0.0
    bias: bool = True
    attention_bias: str | None = None
    query_key_norm: bool = False
    sublayers: Sequence[str] = ("self_attention", "feed_forward")
    feed_forward: bool = True
    """False for blocks of attention alone."""
    block_norm: bool = False
    causal: bool = False
    """Whether a convolution sees past tokens only; attention gets this from the mask."""
    kernel: int = 31
    convolution_norm: str = "layer"
    cell: str = "gru"
    """The cell of a recurrent sub-layer: `rnn`, `gru`, `gru_before` or `lstm`."""
    direction: str = "forward"
    """How a recurrent sub-layer reads: `forward`, `backward`, `both` or `apart`."""
    grid_window: int | None = None
    grid_bias: str = "none"
    scales: Mapping[str, float] = field(default_factory=dict)
    layer_scale: float | None = None
    """First value of a learned factor for each feature of a sub-layer's output; None: none."""
    residual: bool = True

    def make_norm(self) -> nn.Module:
        """Builds a norm over the dim features of a token."""
        return norm(self.norm, self.dim, self.norm_epsilon)


class Sublayer(NamedTuple):
    """One of a block's sub-layers: where it and its norm are stored, and how they are applied."""

    part: str  # the block's attribute that holds the sub-layer
    norm: str  # the attribute that holds its norm
    norm_place: str  # one of NORM_PLACES
    scale: float  # factor on the sub-layer's output
    gain: str | None  # the attribute that holds a learned factor for each feature


def sublayers(shape: BlockShape, name: str, *, cross: bool = False) -> dict[str, Mixer]:
    """Builds the sub-layers of one block: name -> module, in order.

    Args:
        shape: The block's settings.
        name: The block's name, such as `decoder.2`.
        cross: Whether the block attends to a memory.
    """
    names = [part for part in shape.sublayers if cross or not part.endswith("cross_attention")]
    if not shape.feed_forward:
        names = [part for part in names if not part.endswith("feed_forward")]
    if cross and not any(part.endswith("cross_attention") for part in names):
        feed_forward = names[-1:] if names[-1].endswith("feed_forward") else []
        names = [*names[: len(names) - len(feed_forward)], "cross_attention", *feed_forward]
    return {part: _make_mixer(shape, f"{name}.{part}") for part in names}


def _make_mixer(shape: BlockShape, name: str) -> Mixer:
    """Builds one sub-layer; the end of its name says which kind."""
    if name.endswith("recurrent"):
        return Recurrent(
            shape.dim, name, cell=shape.cell, direction=shape.direction, bias=shape.bias
        )
    if name.endswith("gated_convolution"):
        return GatedConvolution(
            shape.dim, name, kernel=shape.kernel, causal=shape.causal, bias=shape.bias
        )
    if name.endswith("convolution"):
        return Convolution(
            shape.dim,
            name,
            kernel=shape.kernel,
            norm_kind=shape.convolution_norm,
            causal=shape.causal,
            bias=shape.bias,
        )
    if name.endswith("attention"):
        return _make_attention(shape, name)
    if name.endswith("feed_forward"):
        return FeedForward(
            shape.dim,
            shape.hidden,
            shape.activation,
            shape.hidden_dropout,
            bias=shape.bias,
            name=name,
        )
    raise InputError(
        "a sub-layer",
        got=name.rpartition(".")[2],
        expected="a name that ends in self_attention, cross_attention, convolution, recurrent or "
        "feed_forward",
    )


def _make_attention(shape: BlockShape, name: str) -> Attention:
    """Builds an attention layer, with a learned bias by relative position if it has windows."""
    cross, bias = name.endswith("cross_attention"), None
    if shape.grid_bias != "none" and shape.grid_window and not cross:
        kind = RelativeBiasNet if shape.grid_bias == "net" else RelativeBias
        bias = kind(shape.heads, shape.grid_window)
    return Attention(
        shape.dim,
        shape.heads,
        name.removesuffix("_attention"),
        kv_heads=shape.kv_heads,
        cross=cross,
        score=shape.score,
        dropout=shape.attention_dropout,
        head_dim=shape.head_dim,
        bias=shape.attention_bias or shape.bias,
        query_key_norm=(shape.norm_epsilon or 1e-6) if shape.query_key_norm else 0.0,
        score_bias=bias,
    )


class Block(nn.Module):
    """One layer of a stack: sub-layers in order, each with its norm and its residual connection.

    Each sub-layer is stored as the attribute of its name, such as `self_attention`; its norm is
    stored under the first word of that name and `_norm`, such as `self_norm`.

    Args:
        shape: The block's settings.
        name: The block's name, such as `decoder.2`.
        parts: Name -> sub-layer, in order.
        scales: Factors on the outputs of sub-layers, by name (default: `shape.scales`, then 1).

    Example:
        >>> import torch
        >>> from regard.layers import plain_context
        >>> shape = BlockShape(dim=8, heads=2, hidden=12)
        >>> block = Block(shape, "encoder.0", sublayers(shape, "encoder.0"))
        >>> block(torch.randn(5, 8), plain_context((2, 3))).shape     # sequences of 2 and 3 tokens
        torch.Size([5, 8])
    """

    def __init__(
        self,
        shape: BlockShape,
        name: str,
        parts: Mapping[str, Mixer],
        *,
        scales: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__()
        self.name, self.input_width, self.residual = name, shape.dim, shape.residual
        self._last_site = f"{name}.residual"
        self.order: list[Sublayer] = []
        for part, mixer in parts.items():
            norm_name = part.partition("_")[0] + "_norm"
            if norm_name in self._modules or norm_name == "block_norm":
                raise InputError(
                    f"{name}.{part}",
                    got=f"a second sub-layer whose norm is {norm_name}",
                    expected="names that differ in their first word, as first_feed_forward",
                )
            setattr(self, norm_name, shape.make_norm())
            setattr(self, part, mixer)
            scale = (scales or shape.scales).get(part, 1.0)
            norm_place = shape.norm_places.get(part, shape.norm_place)
            gain = None
            if shape.layer_scale is not None:
                gain = part.partition("_")[0] + "_gain"
                setattr(self, gain, nn.Parameter(torch.full((shape.dim,), shape.layer_scale)))
            self.order.append(Sublayer(part, norm_name, _check_norm_place(norm_place), scale, gain))
        self.block_norm = shape.make_norm() if shape.block_norm else None
        self.dropout = Dropout(shape.dropout)
        self.drop_path = shape.drop_path

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


def _check_norm_place(norm_place: str) -> str:
    """Returns `norm_place`; raises InputError if it is not one of `NORM_PLACES`."""
    if norm_place not in NORM_PLACES:
        raise InputError("norm_place", got=norm_place, expected=f"one of {', '.join(NORM_PLACES)}")
    return norm_place


class Stack(nn.Module):
    """Blocks applied one after another; all of them share one position scheme.

    Args:
        shape: The settings of every block.
        layers: Number of blocks.
        name: `encoder` or `decoder`.
        positions: The position scheme.
        cross: Whether the blocks attend to a memory.
        final_norm: Whether a norm follows the last block (pre-norm needs one).
    """

    def __init__(
        self,
        shape: BlockShape,
        layers: int,
        name: str,
        positions: Positions,
        *,
        cross: bool = False,
        final_norm: bool = True,
    ) -> None:
        super().__init__()
        self.name, self.width, self.positions = name, shape.dim, positions
        self.input_width = shape.dim
        self.blocks = nn.ModuleList(
            [
                Block(settings, f"{name}.{i}", sublayers(settings, f"{name}.{i}", cross=cross))
                for i, settings in enumerate(_block_shapes(shape, layers))
            ]
        )
        self.final_norm = shape.make_norm() if final_norm else nn.Identity()
        self.grid_window = shape.grid_window
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


def _block_shapes(shape: BlockShape, layers: int) -> list[BlockShape]:
    """The settings of each block: drop_path rises linearly from 0 in the first to its maximum."""
    if not shape.drop_path:
        return [shape] * layers
    top = max(1, layers - 1)
    return [replace(shape, drop_path=shape.drop_path * i / top) for i in range(layers)]
