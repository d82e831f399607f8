"""A GPT as nanoGPT writes it: one fused projection for q, k, v, the fused kernel, tied output.

`tests/benchmarks/` checks it against transformers' GPT-2 with the same weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.peers.loop import TextLoop, Training


@dataclass(frozen=True)
class Sizes:
    """GPT-2 small by default."""

    block_size: int = 1024
    vocab_size: int = 50257
    n_layer: int = 12
    n_head: int = 12
    n_embd: int = 768
    dropout: float = 0.0


class CausalSelfAttention(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.c_attn = nn.Linear(sizes.n_embd, 3 * sizes.n_embd)
        self.c_proj = nn.Linear(sizes.n_embd, sizes.n_embd)
        self.n_head, self.resid_dropout = sizes.n_head, nn.Dropout(sizes.dropout)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, dim = x.shape
        q, k, v = (
            part.view(batch, length, self.n_head, dim // self.n_head).transpose(1, 2)
            for part in self.c_attn(x).split(dim, dim=2)
        )  # (batch, heads, length, head_dim)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.resid_dropout(self.c_proj(y.transpose(1, 2).reshape(batch, length, dim)))


class MLP(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.c_fc = nn.Linear(sizes.n_embd, 4 * sizes.n_embd)
        self.c_proj = nn.Linear(4 * sizes.n_embd, sizes.n_embd)
        self.dropout = nn.Dropout(sizes.dropout)

    def forward(self, x: Tensor) -> Tensor:
        # GPT-2's GELU is the tanh form
        return self.dropout(self.c_proj(F.gelu(self.c_fc(x), approximate="tanh")))


class Block(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(sizes.n_embd), CausalSelfAttention(sizes)
        self.ln_2, self.mlp = nn.LayerNorm(sizes.n_embd), MLP(sizes)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.wte = nn.Embedding(sizes.vocab_size, sizes.n_embd)
        self.wpe = nn.Embedding(sizes.block_size, sizes.n_embd)
        self.drop = nn.Dropout(sizes.dropout)
        self.h = nn.ModuleList([Block(sizes) for _ in range(sizes.n_layer)])
        self.ln_f = nn.LayerNorm(sizes.n_embd)
        for name, weight in self.named_parameters():
            if weight.dim() > 1:
                deep = name.endswith("c_proj.weight")
                nn.init.normal_(weight, std=0.02 / math.sqrt(2 * sizes.n_layer) if deep else 0.02)
            elif name.endswith(("c_attn.bias", "c_proj.bias", "c_fc.bias")):
                nn.init.zeros_(weight)

    def forward(self, ids: Tensor) -> Tensor:
        """(batch, length) -> (batch, length, vocab)"""
        x = self.drop(self.wte(ids) + self.wpe(torch.arange(ids.shape[1])))
        for block in self.h:
            x = block(x)
        return F.linear(self.ln_f(x), self.wte.weight)


class Train(Training):
    packages: ClassVar = ("torch",)

    def made(self, work: dict[str, Any]) -> TextLoop:
        model = work["model"]
        sizes = Sizes(
            model["max_length"], work["vocab"], model["layers"], model["heads"], model["dim"]
        )
        gpt = GPT(sizes)
        return TextLoop(work, gpt, gpt)
