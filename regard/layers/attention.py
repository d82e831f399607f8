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

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import InputError
from regard.kernels.dropout import drop, gumbel
from regard.kernels.linear import Linear
from regard.kernels.small_batches import attend_few
from regard.layers.context import Context, Memory, shape_error
from regard.layers.layout import Layout
from regard.layers.masks import Mask, hardmax, masked_softmax
from regard.layers.mixer import Mixer
from regard.layers.norms import UnitNorm, norm
from regard.layers.tap.tap import Product

SCORES = ("scaled_dot", "dot", "additive", "cosine", "location")
AttentionInputs = tuple[Tensor, Tensor, Tensor, Layout, Mask, Tensor | None]
"""Queries, keys, values, the layout of their rows, the mask, and the bias added to the scores."""
SITES = ("q", "k", "v", "scores", "weights", "heads")
"""The per-head tensors that a tap can record or edit."""


class DotScore(nn.Module):
    """Dot-product score scale · q·k, computed by PyTorch's fused kernel.

    Args:
        scale: Factor on the product: 1/√d_k for the scaled dot product, 1 for the plain one.
        hard: Whether each query takes the value of its best key alone (`hardmax`).
        sampled: Whether that key is drawn from the softmax in training, if hard.
    """

    by_row = False
    """Whether the kernel is chosen by the queries of a row, not of a batch; so in 8 bits, where a
    difference of the last bit is rounded to a whole step now and then."""

    def __init__(self, scale: float, *, hard: bool = False, sampled: bool = False) -> None:
        super().__init__()
        self.scale, self.hard, self.sampled = scale, hard, sampled

    def scores(self, q: Tensor, k: Tensor, heads: Sequence[int] | None = None) -> Tensor:
        """q kᵀ · scale: (batch, heads, query, key)."""
        del heads
        return (q * self.scale) @ k.transpose(-2, -1)  # scaling q costs less than the scores

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Tensor | None, dropout: float
    ) -> Tensor:
        """softmax(q kᵀ · scale + bias) v: (batch, heads, query, head_dim).

        Uses the fused kernel, except with dropout or if hard: these are computed step by step.
        """
        if dropout or self.hard:
            choice = _key_choice(self)
            return attend_unfused(self.scores, q, k, v, mask, bias, dropout, choice=choice)
        few_queries_out = attend_few(q, k, v, mask, bias, self.scale, by_row=self.by_row)
        if few_queries_out is not None:
            return few_queries_out
        outs = []
        for queries, keys, allowed, causal in mask.kernel_calls(q.shape[2], k.shape[2], q.device):
            if bias is not None:  # the kernel takes one tensor only: merge the mask into the bias
                if causal:
                    allowed, causal = mask.dense(q.shape[2], k.shape[2], q.device), False
                added = bias[:, :, queries, keys]
                allowed = added if allowed is None else added.masked_fill(~allowed, float("-inf"))
            out = F.scaled_dot_product_attention(
                _select_positions(q, queries),
                _select_positions(k, keys),
                _select_positions(v, keys),
                attn_mask=allowed,
                is_causal=causal,
                scale=self.scale,
                enable_gqa=q.shape[1] != k.shape[1],
            )
            outs.append(out)
        return outs[0] if len(outs) == 1 else torch.cat(outs, dim=2)  # along the queries


def _select_positions(x: Tensor, positions: slice) -> Tensor:
    """x[:, :, positions] of x (batch, heads, length, head_dim); x itself if that is all of it."""
    return x if positions == slice(0, x.shape[2]) else x[:, :, positions]


class AdditiveScore(nn.Module):
    """v·tanh(W q + U k) (Bahdanau et al. 2015). W and U are the layer's query and key matrices."""

    def __init__(
        self, heads: int, head_dim: int, *, hard: bool = False, sampled: bool = False
    ) -> None:
        super().__init__()
        self.hard, self.sampled = hard, sampled
        self.vector = nn.Parameter(torch.empty(heads, head_dim))
        nn.init.xavier_uniform_(self.vector)

    def scores(self, q: Tensor, k: Tensor, heads: Sequence[int] | None = None) -> Tensor:
        """v·tanh(q + k): (batch, heads, query, key).

        The intermediate tensor is (batch, heads, query, key, head_dim). `heads` selects rows of
        the vector v if q and k hold only some of the layer's heads.
        """
        vector = self.vector if heads is None else self.vector[list(heads)]
        return torch.einsum(
            "bhqkd,hd->bhqk", (q[..., :, None, :] + k[..., None, :, :]).tanh(), vector
        )

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Tensor | None, dropout: float
    ) -> Tensor:
        """softmax(scores + bias) v, step by step: no fused kernel supports this score."""
        choice = _key_choice(self)
        return attend_unfused(self.scores, q, k, v, mask, bias, dropout, choice=choice)


def _key_choice(score: DotScore | AdditiveScore) -> str:
    """How keys are chosen now: `soft`, `best`, or `sampled` in training."""
    if not score.hard:
        return "soft"
    return "sampled" if score.sampled and score.training else "best"


def attend_unfused(
    score: Callable[[Tensor, Tensor], Tensor],
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Mask,
    bias: Tensor | None,
    dropout: float,
    *,
    choice: str = "soft",
) -> Tensor:
    """dropout(softmax(score(q, k) + bias)) v, step by step, where no fused kernel applies.

    With the choice `best`, the largest weight of each query becomes 1 and all others 0. With
    `sampled`, Gumbel noise is added to the scores before: the best key of scores + noise is a draw
    from softmax(scores), and the gradient is that of softmax(scores + noise) (straight-through
    Gumbel-softmax at temperature 1, Jang et al. 2017).

    Returns:
        (batch, heads, query, head_dim).
    """
    if k.shape[1] != q.shape[1]:  # grouped heads
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
    scores = score(q, k) if bias is None else score(q, k) + bias
    scores = scores + gumbel(scores) if choice == "sampled" else scores
    weights = masked_softmax(scores, mask.dense(q.shape[2], k.shape[2], q.device))
    weights = weights if choice == "soft" else hardmax(weights)
    return drop(weights, dropout) @ v


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
            `none`.
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
        >>> from regard.layers import Attention, plain_context
        >>> attend = Attention(8, heads=2)
        >>> attend(torch.randn(5, 8), plain_context((2, 3))).shape    # sequences of 2 and 3 tokens
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
        self.query = Linear(self.input_width, self.widths[0], bias=has_bias)
        self.by_location = score == "location"
        if self.by_location and (self.own_values or not memory_positions):
            expected = "values memory, and the number of memory positions"
            raise InputError(f"{name}, score location", got=f"values {values}", expected=expected)
        self.key_value: Any
        if self.by_location:
            self.key_value = nn.Embedding(memory_positions, self.widths[1])  # p_i
        else:
            self.key_value = Linear(self.memory_width, self.widths[1], bias=has_bias)
        # One projection for q, k and v. The int8 conversion sets it, so that x is quantized once.
        self.joined: nn.Module | None = None
        self.query_norm, self.key_norm = self._make_norms(score, query_key_norm)
        self.score_bias = score_bias
        self.out: nn.Module = nn.Identity()
        if self.own_values:
            self.out = Linear(self.widths[0], dim, bias=bias in (True, "all", "out"))
        self.score = self._make_score(score, hard=hard)

    def _make_norms(
        self, score: str, query_key_norm: float
    ) -> tuple[nn.Module | None, nn.Module | None]:
        """The norms of each head's queries and of its keys; None where there is none."""
        if score == "cosine":
            return UnitNorm(self.heads), UnitNorm()
        if not query_key_norm:
            return None, None
        query, key = (norm("rms", self.head_dim, query_key_norm) for _ in range(2))
        return query, key

    def _make_score(self, score: str, *, hard: bool | str) -> DotScore | AdditiveScore:
        """Builds the score function; raises InputError if its name or `hard` is unknown."""
        if score not in SCORES:
            raise InputError("score", got=score, expected=f"one of {', '.join(SCORES)}")
        if hard not in (False, True, "sampled"):
            raise InputError("hard", got=hard, expected="True, False or sampled")
        choice = {"hard": bool(hard), "sampled": hard == "sampled"}
        if score == "additive":
            return AdditiveScore(self.heads, self.head_dim, **choice)
        return DotScore(self.head_dim**-0.5 if score == "scaled_dot" else 1.0, **choice)

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
        heads, joined = (self.heads, self.kv_heads, self.kv_heads), self.joined
        if joined is None:
            q = self.query(x).view(-1, self.heads, self.head_dim)
            kv = self.key_value(x).view(-1, 2 * self.kv_heads, self.head_dim)
            k, v = kv.split_with_sizes(heads[1:], 1)
        else:
            qkv = joined(x).view(-1, sum(heads), self.head_dim)
            q, k, v = qkv.split_with_sizes(heads, 1)
        q, k = apply_norm(self.query_norm, q), apply_norm(self.key_norm, k)
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
        if ctx.cache is not None:
            k, v = ctx.cache.append(self.slot, k, v)
        return q, k, v, layout, mask, bias

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
        return apply_norm(self.key_norm, k), v


def apply_norm(norm: nn.Module | None, x: Tensor) -> Tensor:
    """Applies the norm to queries or keys (…, head_dim); x itself if the norm is None."""
    return x if norm is None else norm(x)
