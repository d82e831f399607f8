"""THE block, and a stack of them.

    post-norm (the paper):   x = norm(x + dropout(sublayer(x)))
    pre-norm (in practice):  x = x + dropout(sublayer(norm(x))),  and one more norm at the top

A block has self-attention, cross-attention if it has a memory to look at, and a feed-forward,
unless it is to be of attention alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

from torch import Tensor, nn

from regard.errors import InputError
from regard.layers.attention import Attention
from regard.layers.context import Context
from regard.layers.dropout import Dropout
from regard.layers.mlp import FeedForward
from regard.layers.norms import norm
from regard.layers.positions import Positions


@dataclass(frozen=True)
class BlockShape:
    """What all blocks of a stack have in common."""

    dim: int
    heads: int
    hidden: int
    kv_heads: int | None = None
    head_dim: int | None = None
    """Width of a head; None: dim / heads."""
    activation: str = "relu"
    norm: str = "layer"
    norm_place: str = "pre"
    norm_epsilon: float | None = None
    score: str = "scaled_dot"
    dropout: float = 0.0
    hidden_dropout: float = 0.0
    """On the feed-forward's hidden layer."""
    attention_dropout: float = 0.0
    bias: bool = True
    attention_bias: str | None = None
    """Which of attention's projections have a bias, `all`, `qkv` or `none`; None: by `bias`."""
    query_key_norm: bool = False
    feed_forward: bool = True
    """Off for blocks of attention alone."""
    residual: bool = True
    """Off only to see what breaks without it."""

    def make_norm(self) -> nn.Module:
        """A norm of a token's vector."""
        return norm(self.norm, self.dim, self.norm_epsilon)


class Block(nn.Module):
    """One layer of a stack.

    Args:
        shape: Sizes and kinds.
        name: The layer's name, such as `decoder.2`.
        cross: Whether it looks at a memory.
    """

    def __init__(self, shape: BlockShape, name: str, *, cross: bool = False) -> None:
        super().__init__()
        self.name, self.residual = name, shape.residual
        if shape.norm_place not in ("pre", "post"):
            raise InputError("norm_place", got=shape.norm_place, expected="pre or post")
        self.pre_norm = shape.norm_place == "pre"
        self.self_norm, self.self_attention = shape.make_norm(), self._attention(shape, "self")
        self.cross_norm = shape.make_norm() if cross else None
        self.cross_attention = self._attention(shape, "cross") if cross else None
        self.feed_norm = shape.make_norm() if shape.feed_forward else None
        self.feed_forward = (
            FeedForward(
                shape.dim, shape.hidden, shape.activation, shape.hidden_dropout, bias=shape.bias
            )
            if shape.feed_forward
            else None
        )
        self.dropout = Dropout(shape.dropout)

    def _attention(self, shape: BlockShape, kind: str) -> Attention:
        return Attention(
            shape.dim,
            shape.heads,
            f"{self.name}.{kind}",
            kv_heads=shape.kv_heads,
            cross=kind == "cross",
            score=shape.score,
            dropout=shape.attention_dropout,
            head_dim=shape.head_dim,
            bias=shape.attention_bias or shape.bias,
            query_key_norm=(shape.norm_epsilon or 1e-6) if shape.query_key_norm else 0.0,
        )

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """(tokens, dim) -> (tokens, dim)."""
        x = self._around(self.self_norm, lambda y: self.self_attention(y, ctx), x)
        cross = self.cross_attention
        if cross is not None and self.cross_norm is not None:
            x = self._around(self.cross_norm, lambda y: cross(y, ctx), x)
        feed_forward = self.feed_forward
        if feed_forward is not None and self.feed_norm is not None:
            x = self._around(
                self.feed_norm,
                lambda y: ctx.visit(f"{self.name}.feed_forward", feed_forward(y)),
                x,
            )
        return ctx.visit(f"{self.name}.residual", x)

    def _around(self, norm: nn.Module, sublayer: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """One sub-layer with its norm, dropout and residual connection."""
        change = self.dropout(sublayer(norm(x) if self.pre_norm else x))
        x = x + change if self.residual else change
        return x if self.pre_norm else norm(x)


class Stack(nn.Module):
    """Blocks one after another, with one scheme of positions for all of them.

    Args:
        shape: Sizes and kinds of every block.
        layers: How many.
        name: `encoder` or `decoder`.
        positions: The scheme.
        cross: Whether the blocks look at a memory.
        final_norm: Whether a norm stands at the top (pre-norm needs one).
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
        self.positions = positions
        self.blocks = nn.ModuleList(
            [Block(shape, f"{name}.{i}", cross=cross) for i in range(layers)]
        )
        self.final_norm = shape.make_norm() if final_norm else nn.Identity()

    def layers(self) -> list[Block]:
        """The blocks, from the input up."""
        return [cast(Block, block) for block in self.blocks]

    def attentions(self) -> list[Attention]:
        """Every attention layer, from the input up."""
        both = [(block.self_attention, block.cross_attention) for block in self.layers()]
        return [attention for pair in both for attention in pair if attention is not None]

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """(tokens, dim) -> (tokens, dim)."""
        queries = ctx.layout.longest
        keys = queries + (max(ctx.cache.lengths, default=0) if ctx.cache is not None else 0)
        places = ctx.mask.query_places(queries, keys, x.device)
        ctx = replace(ctx, bias=self.positions.bias(places, keys))
        for block in self.layers():
            x = block(x, ctx)
        return self.final_norm(x)
