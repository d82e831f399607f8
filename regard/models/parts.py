"""Builds the parts of a model from its config: stacks, embeddings, heads, contexts."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from torch import nn

from regard.layers import (
    BlockShape,
    Embed,
    Positions,
    Stack,
    VocabularyHead,
    norm,
    position_scheme,
)
from regard.layers.positions import linear_scaling, llama3_scaling
from regard.models.config import BlocksConfig, RotaryScaling
from regard.models.families.images import ImageEncoderConfig

LOGITS = {"logits": 0}
"""The tap site of a vocabulary head's output, which has no heads."""


def stack_of(
    config: BlocksConfig,
    layers: int,
    name: str,
    *,
    causal: bool = False,
    cross: bool = False,
    feed_forward: bool = True,
) -> Stack:
    """Builds one stack of blocks; the settings of its `BlockShape` are those of the config.

    Args:
        config: The model's config.
        layers: Number of blocks.
        name: `encoder` or `decoder`.
        causal: Whether tokens attend to earlier tokens only.
        cross: Whether the blocks attend to a memory.
        feed_forward: False for blocks of attention alone.
    """
    shared_names = {field.name for field in fields(BlockShape)} & type(config).model_fields.keys()
    settings = {name: getattr(config, name) for name in shared_names}
    settings |= {"causal": causal, "feed_forward": feed_forward}
    settings["direction"] = "both" if config.both_ways and not causal else "forward"
    if config.hidden_dropout is None:
        settings["hidden_dropout"] = config.dropout
    shape = BlockShape(**settings)
    default_norm = config.norm_place == "pre" and not config.block_norm
    final_norm = default_norm if config.final_norm is None else config.final_norm
    scheme = _make_positions(config, causal=causal)
    return Stack(shape, layers, name, scheme, cross=cross, final_norm=final_norm)


def _make_positions(config: BlocksConfig, *, causal: bool) -> Positions:
    """Builds the position scheme of a stack, with the options that its kind has."""
    options: dict[str, Any] = {}
    if config.positions == "rotary":
        options = {"head_dim": config.head_width, "rate": config.rotary_base}
        options["scaling"] = _make_rotary_scaling(config.rotary_scaling)
    elif config.positions == "buckets":
        options = {"buckets": config.buckets, "farthest": config.farthest}
    elif config.positions == "learned":
        options = {"first": config.positions_from}
    if config.positions in ("learned", "sinusoidal_2d") and isinstance(config, ImageEncoderConfig):
        options |= {"grid": config.grid, "before": config.tokens_before}
    return position_scheme(
        config.positions,
        dim=config.dim,
        heads=config.heads,
        max_length=config.max_length,
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


def embed_of(config: BlocksConfig, vocab: int, types: int = 0) -> Embed:
    """Builds the embedding of a vocabulary; `types` is the number of token types."""
    return Embed(
        vocab,
        config.dim,
        config.dropout,
        scaled=config.scaled_embedding,
        types=types,
        norm=norm(config.norm, config.dim, config.norm_epsilon) if config.embedding_norm else None,
    )


def head_of(config: BlocksConfig, vocab: int, tied: nn.Parameter | None) -> VocabularyHead:
    """Builds the output head over a vocabulary; `tied` is the embedding's matrix to share."""
    scale = config.dim**-0.5 if config.scaled_output else 1.0
    return VocabularyHead(config.dim, vocab, tied, bias=config.output_bias, scale=scale)
