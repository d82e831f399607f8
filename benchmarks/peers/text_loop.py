"""One loop for the peers that learn from rows of equal length: each gives logits, all else is here.

The same step as in `loop`, without smoothing: cross-entropy, norm 1, fused AdamW.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.peers.loop import CLIP


class TextLoop:
    """Steps of training on the rows of a work file; logits: (batch, length) -> (…, vocab)."""

    def __init__(
        self, work: dict[str, Any], model: nn.Module, logits: Callable[[Tensor], Tensor]
    ) -> None:
        self.model, self.logits = model.train(), logits
        self.optimizer = torch.optim.AdamW(
            model.parameters(), lr=1e-3, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.0, fused=True
        )
        rows = torch.tensor(work["texts"])
        self.read, self.wanted = rows[:, :-1].contiguous(), rows[:, 1:].flatten()

    def loss(self) -> Tensor:
        """The mean over all tokens."""
        return F.cross_entropy(self.logits(self.read).flatten(0, 1), self.wanted)

    def run(self) -> float:
        """One step; the number of tokens."""
        self.optimizer.zero_grad(set_to_none=True)
        self.loss().backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        self.optimizer.step()
        return self.wanted.numel()
