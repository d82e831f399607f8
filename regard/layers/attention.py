"""Multi-head attention: self, cross or grouped; scaled-dot, dot, cosine, additive, by location.

    Attention(Q, K, V) = softmax(Q Kᵀ / √d_k + bias) V                      (Vaswani et al. 2017)
    MultiHead = Concat(head_1 … head_h) W_O

Input and output are packed tokens (tokens, dim): the sequences of a batch concatenated without
padding. `Layout` converts them to padded rows (batch, heads, length, head_dim) for the kernel.

Models differ only in what is done to q and k before the product, in the score function, in the
bias added to the scores, and in the mask. Nothing is changed between the softmax and the product
with the values, so PyTorch's fused kernel serves every model with a dot-product score.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.kernels.linear import Linear
from regard.layers.context import Context, Memory
from regard.layers.layout import Layout
from regard.layers.masks import Mask
from regard.layers.mixer import Mixer
from regard.layers.norms import apply_norm, query_key_norms
from regard.layers.scores import make_score
from regard.layers.shape_error import shape_error
from regard.layers.tap.tap import Product

AttentionInputs = tuple[Tensor, Tensor, Tensor, Layout, Mask, Tensor | None]
"""Queries, keys, values, the layout of their rows, the mask, and the bias added to the scores."""
SITES = ("q", "k", "v", "scores", "weights", "heads")
"""The per-head tensors that a tap can record or edit."""


class Attention(Mixer):
    """Multi-head attention over packed sequences.

    Args:
        dim: Width of x.
        heads: Number of heads; each is dim / heads wide unless `head_dim` is given.
        name: The layer's name in taps, such as `decoder.2.cross`.
        kv_heads: Number of key and value heads, if fewer than `heads` (grouped attention).
        cross: Keys and values come from the memory (the encoder's output) instead of x.
        score: `scaled_dot`, `dot`, `additive`; `cosine`: q·k / (|q| |k|) times a number that each
            head learns (Swin-V2); or `location`: q·p_i, with a learned vector p_i for position i of
            the memory as its key, independent of the content (Luong et al. 2015, equation 8).
        dropout: Dropout rate on the attention weights in training. The fused kernel is not used
            then.
        head_dim: Width of a head, if it is not dim / heads.
        bias: Which of the four projections have a bias: True or `all`, `qkv`, `out`, False or
            `none`; `all_but_key` (Swin-V2).
        query_key_norm: ε of an RMS norm on each head's queries and keys (Qwen3); 0: no norm.
        score_bias: A module that maps q (batch, heads, query, head_dim) and the layout of its rows
            to a bias (batch or 1, heads, query, key), which is added to this layer's scores.
        memory_dim: Width of the memory, if it is not dim.
        values: `own`: values are projected by W_V and the output by W_O. `memory`: the memory
            itself serves as values, and the output is their weighted mean for each head, without
            W_V and W_O (Bahdanau et al. 2015).
        query_dim: Width of the input of the queries, if it is not dim.
        memory_positions: Number of positions of the memory with a key, for the score `location`.
        hard: Whether each query takes the value of its best key alone. The gradient is that of soft
            attention (straight-through). `sampled`: in training the key is drawn from the softmax
            instead (straight-through Gumbel-softmax); a tap records the best key also then.

    Example:
        >>> from torch import randn
        >>> from regard.layers import Attention, plain_context
        >>> Attention(8, heads=2)(randn(5, 8), plain_context((2, 3))).shape  # of 2 and 3 tokens
        torch.Size([5, 8])
    """

    def __init__(  # noqa: PLR0913 (each is a way in which attentions differ)
        self,
        dim: int,
        heads: int,
        name: str = "attention",
        *,
        kv_heads: int | None = None,
        cross: bool = False,
        score: str = "scaled_dot",
        dropout: float = 0.0,
        head_dim: int | None = None,
        bias: bool | str = True,
        query_key_norm: float = 0.0,
        score_bias: nn.Module | None = None,
        memory_dim: int | None = None,
        values: str = "own",
        query_dim: int | None = None,
        memory_positions: int = 0,
        hard: bool | str = False,
    ) -> None:
        super().__init__()
        positive = min(dim, heads, kv_heads or heads) > 0
        if not positive or (head_dim is None and dim % heads) or heads % (kv_heads or heads):
            raise InputError(
                "heads",
                got=f"dim {dim}, heads {heads}, kv_heads {kv_heads}",
                expected="heads to divide dim, and kv_heads to divide heads",
            )
        self.name, self.heads, self.kv_heads, self.cross = name, heads, kv_heads or heads, cross
        self.head_dim = head_dim or dim // heads
        self.input_width, self.memory_width = query_dim or dim, memory_dim or dim
        self.has_state, self._out_site = not cross, f"{name}.out"
        self.dropout = dropout
        self.own_values = values == "own"
        self.value_dim = self.head_dim if self.own_values else memory_dim or dim  # of a head
        if values not in ("own", "memory") or not (cross or (self.own_values and not memory_dim)):
            raise InputError(
                name,
                got=f"values {values}, memory_dim {memory_dim}, cross {cross}",
                expected="values own or memory; memory_dim, and values memory, only with cross",
            )
        # Output widths of the query projection, and of the joint key-value projection.
        keys = self.kv_heads * self.head_dim
        self.widths = heads * self.head_dim, 2 * keys if self.own_values else keys
        has_bias = bias in (True, "all", "qkv")
        query_bias = has_bias or bias == "all_but_key"
        self.query = Linear(self.input_width, self.widths[0], bias=query_bias)
        self.by_location = score == "location"
        if self.by_location and (self.own_values or not memory_positions):
            expected = "values memory, and the number of memory positions"
            raise InputError(f"{name}, score location", got=f"values {values}", expected=expected)
        self.key_value: Any
        if self.by_location:
            self.key_value = nn.Embedding(memory_positions, self.widths[1])  # p_i
        else:
            self.key_value = Linear(self.memory_width, self.widths[1], bias=has_bias)
        self.value_bias: nn.Parameter | None = None
        if bias == "all_but_key" and self.own_values:
            self.value_bias = nn.Parameter(torch.zeros(keys))
        # One projection for q, k and v. The int8 conversion sets it, so that x is quantized once.
        self.joined: nn.Module | None = None
        norms = query_key_norms(score, heads, self.head_dim, query_key_norm)
        self.query_norm, self.key_norm = norms
        self.score_bias = score_bias
        self.out: nn.Module = nn.Identity()
        if self.own_values:
            self.out = Linear(self.widths[0], dim, bias=bias in (True, "all", "out", "all_but_key"))
        self.score = make_score(score, heads, self.head_dim, hard=hard)

    def sites(self) -> dict[str, int]:
        """The tap sites of this layer, with the number of heads at each (0: not per head)."""
        sites = {f"{self.name}.{site}": self.heads for site in SITES}
        sites |= {f"{self.name}.{site}": self.kv_heads for site in ("k", "v")}
        return sites | {f"{self.name}.out": 0}

    def matrices(self) -> tuple[Tensor, ...]:
        """W_Q, W_K, W_V and W_O, each (out, in), as views: W_K and W_V share one parameter.

        W_Q and W_K alone if the values are the memory.
        """
        if not isinstance(self.out, Linear):
            return self.query.weight, self.key_value.weight
        return (self.query.weight, *self.key_value.weight.chunk(2), self.out.weight)

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Attention of x, packed tokens (tokens, dim) -> (tokens, dim)."""
        ctx.check(self, x)
        if self.cross:
            q, k, v, layout, mask, bias = self._cross_inputs(x, ctx)
        else:
            q, k, v, layout, mask, bias = self._self_inputs(x, ctx)
        if self.score_bias is not None:
            layer_bias = self.score_bias(q, layout)
            bias = layer_bias if bias is None else bias + layer_bias
        dropout = self.dropout if self.training else 0.0
        out = self.score.attend(q, k, v, mask, bias, dropout)  # (batch, heads, query, head_dim)
        if ctx.tap is not None:
            product = Product(self.name, self.score, q, k, v, mask, bias, layout, ctx.layout)
            out = ctx.tap.attention(product, out)
        return ctx.visit(self._out_site, self.out(layout.tokens(out)))

    def _self_inputs(self, x: Tensor, ctx: Context) -> AttentionInputs:
        """Self-attention: queries, keys and values of x, each (batch, heads, length, head_dim).

        With a cache, keys and values include those of earlier steps.
        """
        q, k, v = self._project(x)
        q, k = ctx.scheme.rotate(q, ctx.positions), ctx.scheme.rotate(k, ctx.positions)
        layout, mask, bias = ctx.layout, ctx.mask, ctx.bias
        if ctx.windows is not None:  # ctx.bias has the shape of whole sequences, not of windows
            layout, mask, bias = ctx.windows, ctx.windows.mask, None
        q = layout.rows(q, self.heads)
        k = layout.rows(k, self.kv_heads)
        v = layout.rows(v, self.kv_heads)
        if ctx.tap is not None:
            q, k, v = (
                ctx.tap.visit_heads(f"{self.name}.{s}", t, layout, ctx.layout)
                for s, t in zip("qkv", (q, k, v), strict=True)
            )
        if ctx.windows is not None and ctx.windows.padding is not None:
            _, *padding = self._project(x.new_zeros(1, x.shape[1]))  # (1, kv_heads, head_dim)
            cells = ctx.windows.padding[:, None, :, None]  # (windows, 1, cell, 1)
            k, v = (
                torch.where(cells, pad[..., None, :], rows)
                for rows, pad in zip((k, v), padding, strict=True)
            )
        if ctx.cache is not None:
            k, v = ctx.cache.append(self.slot, k, v)
        return q, k, v, layout, mask, bias

    def _project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The queries, keys and values of x: each (tokens, heads or kv_heads, head_dim)."""
        heads, joined = (self.heads, self.kv_heads, self.kv_heads), self.joined
        if joined is None:
            q = self.query(x).view(-1, self.heads, self.head_dim)
            kv = self.key_value(x).view(-1, 2 * self.kv_heads, self.head_dim)
            k, v = kv.split_with_sizes(heads[1:], 1)
        else:
            qkv = joined(x).view(-1, sum(heads), self.head_dim)
            q, k, v = qkv.split_with_sizes(heads, 1)
        if self.value_bias is not None:
            v = v + self.value_bias.view(self.kv_heads, self.head_dim)
        return apply_norm(self.query_norm, q), apply_norm(self.key_norm, k), v

    def _cross_inputs(self, x: Tensor, ctx: Context) -> AttentionInputs:
        """Cross-attention: queries of x, keys and values of the memory."""
        memory, layout = ctx.memory, ctx.memory_layout or ctx.layout
        if memory is None:
            raise InputError(
                self.name,
                got="no memory",
                expected="a Context with a memory",
                fix="dataclasses.replace(ctx, memory=Memory(x, Layout(lengths)))",
            )
        if memory.layout.batch != layout.batch:
            got, expected = f"a memory of {memory.layout.batch} sequences", f"{layout.batch}, as x"
            raise InputError(self.name, got=got, expected=expected)
        q = self.query(x)
        if self.query_norm is not None:
            q = self.query_norm(q.view(-1, self.heads, self.head_dim))
        q = layout.rows(q, self.heads)
        k, v = memory.projected.get(self.name) or self.project_memory(memory)
        if ctx.tap is not None:
            q = ctx.tap.visit_heads(f"{self.name}.q", q, layout, ctx.layout)
            k = ctx.tap.visit_memory(f"{self.name}.k", k, ctx.layout.batch)
            v = ctx.tap.visit_memory(f"{self.name}.v", v, ctx.layout.batch)
        return q, k, v, layout, memory.mask, None

    def cross_weights(self, x: Tensor, ctx: Context) -> Tensor:
        """The weights of cross-attention alone: (batch, heads, query, key), differentiable."""
        q, k, v, layout, mask, bias = self._cross_inputs(x, ctx)
        product = Product(self.name, self.score, q, k, v, mask, bias, layout, ctx.layout)
        return product.weights()

    def project_memory(self, memory: Memory) -> tuple[Tensor, Tensor]:
        """Projects a memory to keys and values, each (batch, kv_heads, key, head_dim).

        If the values are the memory itself, they are (batch, kv_heads, key, memory_dim).
        """
        if memory.x.shape != (memory.layout.count, self.memory_width):
            what = f"{self.name}: the memory"
            raise shape_error(what, memory.x, memory.layout, self.memory_width, "memory.layout")
        if not self.own_values:
            keys = self.key_value(memory.layout.positions if self.by_location else memory.x)
            k = memory.layout.rows(keys, self.kv_heads)
            v = memory.layout.rows(memory.x, 1).expand(-1, self.kv_heads, -1, -1)
            return apply_norm(self.key_norm, k), v
        rows = memory.layout.rows(self.key_value(memory.x), 2 * self.kv_heads)
        k, v = rows[:, : self.kv_heads], rows[:, self.kv_heads :]
        if self.value_bias is not None:
            v = v + self.value_bias.view(self.kv_heads, 1, self.head_dim)
        return apply_norm(self.key_norm, k), v
