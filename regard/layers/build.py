"""Builds the parts of a model from their configs: sub-layers, norms, positions, fronts, heads.

The order in which parts are built decides the random numbers that they draw.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from regard.layers.attention import Attention
from regard.layers.config import (
    AnyAttention,
    ConvolutionConfig,
    FeedForwardConfig,
    GatedConvolutionConfig,
    RecurrentConfig,
    RotaryScaling,
    StackConfig,
    Sublayer,
    TokenHead,
)
from regard.layers.convolution import Convolution, GatedConvolution
from regard.layers.fronts.embed import Embed
from regard.layers.grid_config import GridAttentionConfig
from regard.layers.heads import VocabularyHead
from regard.layers.mixer import Mixer
from regard.layers.mlp import FeedForward
from regard.layers.norms import norm
from regard.layers.positions import Positions, linear_scaling, llama3_scaling, position_scheme
from regard.layers.recurrent import Recurrent
from regard.layers.recurrent_config import RecurrentDecoderConfig
from regard.layers.relative import RelativeBias, RelativeBiasNet


def make_sublayers(
    config: StackConfig, name: str, *, causal: bool = False, memory_dim: int | None = None
) -> dict[str, Mixer]:
    """Builds the sub-layers of one block: name -> module, in order.

    Args:
        config: The settings of the stack.
        name: The block's name, such as `decoder.2`.
        causal: Whether convolutions see past tokens only.
        memory_dim: Width of the memory that cross-attentions attend to; None: there is none.
    """
    parts: dict[str, Mixer] = {}
    for sublayer in config.block:
        full_name = f"{name}.{sublayer.part}"
        if isinstance(sublayer, AnyAttention):
            parts[sublayer.part] = _make_attention(config, sublayer, full_name, memory_dim)
        else:
            maker = _MAKERS[type(sublayer)]
            parts[sublayer.part] = maker(config, sublayer, full_name, causal)
    return parts


def _make_feed_forward(
    config: StackConfig, sublayer: FeedForwardConfig, name: str, _: bool
) -> Mixer:
    dropout = config.dropout if sublayer.hidden_dropout is None else sublayer.hidden_dropout
    return FeedForward(
        config.dim, sublayer.hidden, sublayer.activation, dropout, bias=config.bias, name=name
    )


def _make_recurrent(config: StackConfig, sublayer: RecurrentConfig, name: str, _: bool) -> Mixer:
    return Recurrent(
        config.dim, name, cell=sublayer.cell, direction=sublayer.direction, bias=config.bias
    )


def _make_gated_convolution(
    config: StackConfig, sublayer: GatedConvolutionConfig, name: str, causal: bool
) -> Mixer:
    return GatedConvolution(
        config.dim, name, kernel=sublayer.kernel, causal=causal, bias=config.bias
    )


def _make_convolution(
    config: StackConfig, sublayer: ConvolutionConfig, name: str, causal: bool
) -> Mixer:
    return Convolution(
        config.dim,
        name,
        kernel=sublayer.kernel,
        norm_kind=sublayer.convolution_norm,
        causal=causal,
        bias=config.bias,
    )


_MAKERS: dict[type[Sublayer], Callable[[StackConfig, Any, str, bool], Mixer]] = {
    FeedForwardConfig: _make_feed_forward,
    RecurrentConfig: _make_recurrent,
    GatedConvolutionConfig: _make_gated_convolution,
    ConvolutionConfig: _make_convolution,
}
"""What builds each kind of sub-layer that is no attention."""


def _make_attention(
    config: StackConfig, attention: AnyAttention, name: str, memory_dim: int | None
) -> Attention:
    """Builds an attention layer, with a learned bias by relative position if its config has one."""
    cross, score_bias = attention.NAME == "cross_attention", None
    if isinstance(attention, GridAttentionConfig) and attention.grid_bias != "none":
        score_bias = _make_grid_bias(attention)
    return Attention(
        config.dim,
        attention.heads,
        name.removesuffix("_attention"),
        kv_heads=attention.kv_heads,
        cross=cross,
        score=attention.score,
        dropout=attention.attention_dropout,
        head_dim=attention.head_dim,
        bias=attention.attention_bias or config.bias,
        query_key_norm=(config.norm_epsilon or 1e-6) if attention.query_key_norm else 0.0,
        score_bias=score_bias,
        memory_dim=memory_dim if cross else None,
    )


def _make_grid_bias(attention: GridAttentionConfig) -> RelativeBias:
    """The bias of the offsets within a window: a table, or the output of a small network."""
    heads, side = attention.heads, attention.grid_window
    if attention.grid_bias == "table":
        return RelativeBias(heads, side)
    return RelativeBiasNet(heads, side, trained=attention.bias_window)


def grid_window(config: StackConfig) -> int | None:
    """The side of the windows of an image within which attention stays; None: it sees all."""
    attention = config.first(GridAttentionConfig)
    return None if attention is None else attention.grid_window


def make_norm(config: Any) -> nn.Module:
    """Builds a norm over the dim features of a token, of the kind that a stack's config names."""
    return norm(config.norm, config.dim, config.norm_epsilon)


def make_positions(config: StackConfig, *, causal: bool) -> Positions:
    """Builds the position scheme of a stack, with the options that its kind has."""
    scheme, front, attention = config.positions, config.front, config.attention
    options: dict[str, Any] = {}
    if scheme.kind == "rotary" and attention is not None:
        options = {"head_dim": config.head_width(attention), "rate": scheme.rotary_base}
        options["scaling"] = _make_rotary_scaling(scheme.rotary_scaling)
    elif scheme.kind == "buckets":
        options = {"buckets": scheme.buckets, "farthest": scheme.farthest}
    elif scheme.kind == "learned":
        options = {"first": scheme.positions_from}
    if scheme.kind in ("learned", "sinusoidal_2d") and hasattr(front, "grid"):
        options |= {"grid": front.grid, "before": front.tokens_before}
    return position_scheme(
        scheme.kind,
        dim=config.dim,
        heads=0 if attention is None else attention.heads,
        max_length=front.max_length,
        causal=causal,
        **options,
    )


def _make_rotary_scaling(scaling: RotaryScaling | None) -> Any:
    """The function that scales the frequencies of rotary positions; None: they are not scaled."""
    if scaling is None:
        return None
    if scaling.kind == "linear":
        return linear_scaling(scaling.factor)
    return llama3_scaling(scaling.factor, scaling.low, scaling.high, scaling.original)


def make_embed(config: StackConfig | RecurrentDecoderConfig, vocab: int) -> Embed:
    """Builds the embedding of a vocabulary for one side of a model."""
    front = config.front
    return Embed(
        vocab,
        config.dim,
        config.dropout,
        scaled=getattr(front, "scaled_embedding", True),
        types=getattr(front, "token_types", 0),
        norm=make_norm(config) if getattr(front, "embedding_norm", False) else None,
    )


def make_vocabulary_head(
    head: TokenHead, dim: int, vocab: int, tied: nn.Parameter | None
) -> VocabularyHead:
    """Builds the output over a vocabulary; `tied` is the embedding's matrix to share."""
    scale = dim**-0.5 if head.scaled_output else 1.0
    return VocabularyHead(dim, vocab, tied, bias=head.output_bias, scale=scale)
