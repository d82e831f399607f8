"""The encoder-decoder as the annotated Transformer writes it: every step of attention by hand.

The attention weights are computed and kept in full, the mask is a dense tensor, norms are spelled
out, four projections a layer. Post-norm as in the paper (and Marian), or pre-norm with a norm on
top (as in the original notebook), by the work's `norm_place`; the norm adds its epsilon under the
root. `tests/benchmarks/` checks it against transformers' Marian.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from benchmarks.peers.loop import Padded, PairLoop, Training
from benchmarks.peers.torch_transformer import sinusoids


def attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """softmax(Q Kᵀ / √d) V, and the weights; where the mask is False nobody looks."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    weights = scores.masked_fill(~mask, -1e9).softmax(dim=-1)
    return weights @ value, weights


class MultiHeadedAttention(nn.Module):
    def __init__(self, heads: int, dim: int) -> None:
        super().__init__()
        self.heads, self.width = heads, dim // heads
        self.linears = nn.ModuleList([nn.Linear(dim, dim) for _ in range(4)])
        self.weights: Tensor | None = None

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        batch = query.shape[0]
        query, key, value = (
            linear(x).view(batch, -1, self.heads, self.width).transpose(1, 2)
            for linear, x in zip(self.linears, (query, key, value), strict=False)
        )
        x, self.weights = attention(query, key, value, mask[:, None])
        x = x.transpose(1, 2).contiguous().view(batch, -1, self.heads * self.width)
        return self.linears[-1](x)


class PositionwiseFeedForward(nn.Module):
    def __init__(self, dim: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.w_1, self.w_2 = nn.Linear(dim, hidden), nn.Linear(hidden, dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.w_2(self.dropout(self.w_1(x).relu()))


class LayerNorm(nn.Module):
    def __init__(self, dim: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.a_2, self.b_2, self.eps = (
            nn.Parameter(torch.ones(dim)),
            nn.Parameter(torch.zeros(dim)),
            eps,
        )

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(-1, keepdim=True)
        variance = x.var(-1, keepdim=True, unbiased=False)
        return self.a_2 * (x - mean) / torch.sqrt(variance + self.eps) + self.b_2


class SublayerConnection(nn.Module):
    def __init__(self, dim: int, dropout: float, *, pre: bool) -> None:
        super().__init__()
        self.norm, self.dropout, self.pre = LayerNorm(dim), nn.Dropout(dropout), pre

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        if self.pre:
            return x + self.dropout(sublayer(self.norm(x)))
        return self.norm(x + self.dropout(sublayer(x)))


class Layer(nn.Module):
    """An encoder's layer, or with `cross` a decoder's."""

    def __init__(self, model: dict[str, Any], *, cross: bool) -> None:
        super().__init__()
        dim, dropout, pre = model["dim"], model["dropout"], model["norm_place"] == "pre"
        self.self_attn = MultiHeadedAttention(model["heads"], dim)
        self.src_attn = MultiHeadedAttention(model["heads"], dim) if cross else None
        self.feed_forward = PositionwiseFeedForward(dim, model["hidden"], dropout)
        self.sublayers = nn.ModuleList(
            [SublayerConnection(dim, dropout, pre=pre) for _ in range(3 if cross else 2)]
        )

    def forward(
        self, x: Tensor, mask: Tensor, memory: Tensor | None = None, look: Tensor | None = None
    ) -> Tensor:
        x = self.sublayers[0](x, lambda x: self.self_attn(x, x, x, mask))
        cross = self.src_attn
        if cross is not None:
            x = self.sublayers[1](x, lambda x: cross(x, memory, memory, look))
        return self.sublayers[-1](x, self.feed_forward)


class EncoderDecoder(nn.Module):
    def __init__(self, work: dict[str, Any]) -> None:
        super().__init__()
        model = work["model"]
        self.dim, pre = model["dim"], model["norm_place"] == "pre"
        self.source_embed = nn.Embedding(work["source_vocab"], self.dim)
        self.target_embed = nn.Embedding(work["target_vocab"], self.dim)
        if model["tied"] == "all":
            self.target_embed = self.source_embed
        self.encoder = nn.ModuleList(
            [Layer(model, cross=False) for _ in range(model["encoder_layers"])]
        )
        self.decoder = nn.ModuleList(
            [Layer(model, cross=True) for _ in range(model["decoder_layers"])]
        )
        self.tops = nn.ModuleList([LayerNorm(self.dim) if pre else nn.Identity() for _ in range(2)])
        self.dropout = nn.Dropout(model["dropout"])
        self.register_buffer("positions", sinusoids(model["max_length"], self.dim))
        for matrix in self.parameters():
            if matrix.dim() > 1:
                nn.init.xavier_uniform_(matrix)

    def embedded(self, embed: nn.Embedding, ids: Tensor) -> Tensor:
        return self.dropout(embed(ids) * math.sqrt(self.dim) + self.positions[: ids.shape[1]])

    def forward(self, batch: Padded) -> Tensor:
        """(batch, length, vocab)"""
        look = batch.source_real[:, None]  # (batch, 1, key)
        length = batch.target_in.shape[1]
        causal = torch.ones(1, length, length, dtype=torch.bool).tril()  # (1, query, key)
        memory = self.embedded(self.source_embed, batch.source)
        for layer in self.encoder:
            memory = layer(memory, look)
        memory = self.tops[0](memory)
        x = self.embedded(self.target_embed, batch.target_in)
        for layer in self.decoder:
            x = layer(x, causal, memory, look)
        return self.tops[1](x) @ self.target_embed.weight.T


class Train(Training):
    packages: ClassVar = ("torch",)

    def made(self, work: dict[str, Any]) -> PairLoop:
        model = EncoderDecoder(work)
        return PairLoop(work, model, model)
