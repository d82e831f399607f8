"""A config -> the parts that families are put together from: stacks, embeddings, heads, sites."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from regard.data.batch import Ragged
from regard.layers import (
    Attention,
    BlockShape,
    Context,
    Embed,
    FeedForward,
    KVCache,
    Layout,
    Mask,
    Positions,
    Stack,
    VocabularyHead,
    norm,
    position_scheme,
)
from regard.layers.positions import slower, slower_where_long
from regard.models.config import BlocksConfig, RotaryScaling

LOGITS = {"logits": 0}
"""The site of what a vocabulary's head gives."""
_ATTENTION_SITES = ("q", "k", "v", "scores", "weights", "heads")


def stack_of(
    config: BlocksConfig,
    layers: int,
    name: str,
    *,
    causal: bool = False,
    cross: bool = False,
    feed_forward: bool = True,
) -> Stack:
    """The blocks of one stack.

    Args:
        config: Of the model.
        layers: How many blocks.
        name: `encoder` or `decoder`.
        causal: Whether tokens look back only.
        cross: Whether the blocks look at a memory.
        feed_forward: Off for attention alone.
    """
    shape = BlockShape(
        dim=config.dim,
        heads=config.heads,
        hidden=config.hidden,
        kv_heads=config.kv_heads,
        head_dim=config.head_dim,
        activation=config.activation,
        norm=config.norm,
        norm_place=config.norm_place,
        norm_epsilon=config.norm_epsilon,
        score=config.score,
        dropout=config.dropout,
        hidden_dropout=config.dropout if config.hidden_dropout is None else config.hidden_dropout,
        attention_dropout=config.attention_dropout,
        bias=config.bias,
        attention_bias=config.attention_bias,
        query_key_norm=config.query_key_norm,
        feed_forward=feed_forward,
        residual=config.residual,
    )
    final_norm = config.norm_place == "pre" if config.final_norm is None else config.final_norm
    scheme = _positions(config, causal=causal)
    return Stack(shape, layers, name, scheme, cross=cross, final_norm=final_norm)


def _positions(config: BlocksConfig, *, causal: bool) -> Positions:
    own: dict[str, Any] = {}
    if config.positions == "rotary":
        own = {"head_dim": config.head_width, "rate": config.rotary_base}
        own["stretch"] = _stretch(config.rotary_scaling)
    elif config.positions == "buckets":
        own = {"buckets": config.buckets, "farthest": config.farthest}
    elif config.positions == "learned":
        own = {"first": config.positions_from}
    return position_scheme(
        config.positions,
        dim=config.dim,
        heads=config.heads,
        max_length=config.max_length,
        causal=causal,
        **own,
    )


def _stretch(scaling: RotaryScaling | None) -> Any:
    if scaling is None:
        return None
    if scaling.kind == "linear":
        return slower(scaling.factor)
    return slower_where_long(scaling.factor, scaling.low, scaling.high, scaling.original)


def embed_of(config: BlocksConfig, vocab: int, types: int = 0) -> Embed:
    """The embedding of a vocabulary, for a stack of this config."""
    return Embed(
        vocab,
        config.dim,
        config.dropout,
        scaled=config.scaled_embedding,
        types=types,
        norm=norm(config.norm, config.dim, config.norm_epsilon) if config.embedding_norm else None,
    )


def head_of(config: BlocksConfig, vocab: int, tied: nn.Parameter | None) -> VocabularyHead:
    """Logits over a vocabulary, from the top of a stack of this config."""
    scale = config.dim**-0.5 if config.scaled_output else 1.0
    return VocabularyHead(config.dim, vocab, tied, bias=config.output_bias, scale=scale)


def reading(
    config: BlocksConfig,
    stack: Stack,
    texts: Ragged,
    *,
    causal: bool,
    cache: KVCache | None = None,
    **beside: Any,
) -> Context:
    """What a stack needs to read whole texts, or what follows those that a cache holds.

    Args:
        config: Of the model.
        stack: Which of its stacks.
        texts: What it reads: one token each, while it writes.
        causal: Whether tokens look back only.
        cache: What the rows have read before.
        **beside: What else the context holds: a memory, a tap.
    """
    layout = Layout(texts.lengths, texts.ids.device)
    before = (0,) * len(texts.lengths) if cache is None else cache.lengths
    where = torch.tensor(before, device=layout.device) if any(before) else None  # (batch,)
    if where is None:
        where = layout.where  # (tokens,)
    elif layout.longest > 1:
        counts = torch.tensor(layout.lengths, device=layout.device)
        where = where.repeat_interleave(counts) + layout.where  # (tokens,)
    # Where all are equally long, no mask is needed.
    even = layout.even and len(set(before)) <= 1
    ends = tuple(old + new for old, new in zip(before, layout.lengths, strict=True))
    mask = Mask(
        causal=causal,
        window=_reach(config),
        key_lengths=None if even else ends,
        query_lengths=None if even else layout.lengths,
    )
    return Context(layout, where, mask, stack.positions, cache=cache, **beside)


def _reach(config: BlocksConfig) -> int | None:
    """How many positions away self-attention looks; a window counts the token itself."""
    return None if config.window is None else config.window - 1


def sites_of(name: str, stack: Stack) -> dict[str, int]:
    """Every site of a stack that a tap can name, with its number of heads."""
    sites = {f"{name}.embedding": 0}
    for layer in stack.attentions():
        for site in _ATTENTION_SITES:
            sites[f"{layer.name}.{site}"] = layer.kv_heads if site in ("k", "v") else layer.heads
        sites[f"{layer.name}.out"] = 0
    for block in stack.layers():
        if block.feed_forward is not None:
            sites[f"{block.name}.feed_forward"] = 0
        sites[f"{block.name}.residual"] = 0
    return sites


def heads_of(sites: dict[str, int]) -> list[str]:
    """The name of every head among the sites, such as `decoder.1.cross.3`."""
    names = [
        (site.removesuffix(".heads"), n) for site, n in sites.items() if site.endswith("heads")
    ]
    return [f"{name}.{head}" for name, count in names for head in range(count)]


def draw_glorot(model: nn.Module, dim: int) -> None:
    """Fresh weights: Glorot-uniform for every matrix, zero for every bias of a projection.

    A vocabulary's matrix is kept within ±1/√(2 dim). Glorot's bound is wider than that where
    entries are few, and then the first logits are far from even (that of the token just read
    above all, if the matrix is tied), and the first loss is far from ln(vocab).
    """
    for module in model.modules():
        if isinstance(module, Attention | FeedForward):
            for matrix in module.matrices():
                nn.init.xavier_uniform_(matrix)
        elif isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
        elif isinstance(module, Embed | VocabularyHead):
            glorot = (6 / sum(module.weight.shape)) ** 0.5
            bound = min(glorot, (2 * dim) ** -0.5)
            nn.init.uniform_(module.weight, -bound, bound)


def draw_normal(model: nn.Module, layers: int, std: float = 0.02) -> None:
    """Fresh weights as GPT-2 and BERT have them: N(0, 0.02²), zero for every bias.

    What adds to the residual stream, the last matrix of each sub-layer, is smaller by √(2 layers),
    so that the sum of all does not grow with the depth (GPT-2, section 2.3).
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=std)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, Embed | VocabularyHead):
            nn.init.normal_(module.weight, std=std)
            if isinstance(module, Embed) and module.types is not None:
                nn.init.normal_(module.types, std=std)
    for module in model.modules():
        if isinstance(module, Attention | FeedForward):
            nn.init.normal_(module.out.weight, std=std * (2 * layers) ** -0.5)
