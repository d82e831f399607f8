"""PyTorch's own nn.Transformer with embeddings and a tied output around it."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from benchmarks.peers.loop import Padded, PairLoop, Training


class Translator(nn.Module):
    """As PyTorch's translation tutorial builds it: embeddings, sinusoids, nn.Transformer, output.

    Padding of the target needs no mask: it is on the right, where no causal query looks, and then
    the kernel's own causal rule can be used, which is faster.
    """

    def __init__(self, work: dict[str, Any]) -> None:
        super().__init__()
        model = work["model"]
        self.dim = model["dim"]
        self.source_embed = nn.Embedding(work["source_vocab"], self.dim)
        self.target_embed = nn.Embedding(work["target_vocab"], self.dim)
        if model["tied"] == "all":
            self.target_embed = self.source_embed
        self.transformer = nn.Transformer(
            d_model=self.dim,
            nhead=model["heads"],
            num_encoder_layers=model["encoder_layers"],
            num_decoder_layers=model["decoder_layers"],
            dim_feedforward=model["hidden"],
            dropout=model["dropout"],
            batch_first=True,
            norm_first=model["norm_place"] == "pre",
        )
        for module in self.transformer.modules():
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = 0.0  # no attention dropout for anyone
        for matrix in self.parameters():
            if matrix.dim() > 1:
                nn.init.xavier_uniform_(matrix)
        self.head = nn.Linear(self.dim, work["target_vocab"], bias=False)
        self.head.weight = self.target_embed.weight
        self.dropout = nn.Dropout(model["dropout"])
        self.register_buffer("sinusoids", sinusoids(model["max_length"], self.dim))

    def embedded(self, embed: nn.Embedding, ids: Tensor) -> Tensor:
        """(batch, length) -> (batch, length, dim)"""
        return self.dropout(embed(ids) * math.sqrt(self.dim) + self.sinusoids[: ids.shape[1]])

    def forward(self, batch: Padded) -> Tensor:
        """(batch, length, vocab)"""
        length = batch.target_in.shape[1]
        causal = nn.Transformer.generate_square_subsequent_mask(length)
        out = self.transformer(
            self.embedded(self.source_embed, batch.source),
            self.embedded(self.target_embed, batch.target_in),
            tgt_mask=causal,
            tgt_is_causal=True,
            src_key_padding_mask=~batch.source_real,
            memory_key_padding_mask=~batch.source_real,
        )
        return self.head(out)


def sinusoids(length: int, dim: int) -> Tensor:
    """(length, dim)"""
    position = torch.arange(length)[:, None]
    rate = torch.exp(torch.arange(0, dim, 2) * (-math.log(10000.0) / dim))
    table = torch.zeros(length, dim)
    table[:, 0::2], table[:, 1::2] = torch.sin(position * rate), torch.cos(position * rate)
    return table


class Train(Training):
    packages: ClassVar = ("torch",)

    def made(self, work: dict[str, Any]) -> PairLoop:
        model = Translator(work)
        return PairLoop(work, model, model)
