"""One attention layer as textbooks write it: the whole matrix of weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from benchmarks.peers.annotated import MultiHeadedAttention
from benchmarks.peers.loop import start


@dataclass
class Attend:
    """512 wide, 8 heads, over one text, no gradients. Work: tokens."""

    tokens: int
    packages: ClassVar = ("torch",)

    def prepare(self, threads: int) -> None:
        import torch

        start(threads)
        self.layer = MultiHeadedAttention(8, 512).eval()
        self.x = torch.randn(1, self.tokens, 512)
        self.everywhere = torch.ones(1, 1, self.tokens, dtype=torch.bool)

    def measure(self, case: str) -> float:
        del case
        import torch

        with torch.inference_mode():
            self.layer(self.x, self.x, self.x, self.everywhere)
            self.layer.weights = None
        return self.tokens
