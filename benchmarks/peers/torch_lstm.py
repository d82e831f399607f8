"""A language model of PyTorch's own nn.LSTM in a plain loop: embedding, LSTM, tied output."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor, nn

from benchmarks.peers.loop import TextLoop, Training


class LanguageModel(nn.Module):
    """With the sizes of the work; dropout on embeddings and on each layer's output."""

    def __init__(self, work: dict[str, Any]) -> None:
        super().__init__()
        model = work["model"]
        dim, dropout = model["dim"], model["dropout"]
        self.embed = nn.Embedding(work["vocab"], dim)
        between = dropout if model["layers"] > 1 else 0.0
        self.lstm = nn.LSTM(dim, dim, model["layers"], batch_first=True, dropout=between)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(dim, work["vocab"])
        self.head.weight = self.embed.weight
        nn.init.xavier_uniform_(self.embed.weight)

    def forward(self, ids: Tensor) -> Tensor:
        """(batch, length) -> (batch, length, vocab)"""
        x = self.dropout(self.embed(ids) * self.embed.embedding_dim**0.5)
        return self.head(self.dropout(self.lstm(x)[0]))


class Train(Training):
    packages: ClassVar = ("torch",)

    def made(self, work: dict[str, Any]) -> TextLoop:
        model = LanguageModel(work)
        return TextLoop(work, model, model)
