"""What all peers share: the work file, batches padded to their longest, and one training loop.

A peer brings its model and a function from padded ids to logits; the loss, the optimizer and the
clipping are the same for all: cross-entropy with label smoothing 0.1, fused AdamW, norm 1.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SMOOTHING = 0.1
CLIP = 1.0


@dataclass(frozen=True)
class Padded:
    """A batch as rows of equal length."""

    source: Tensor  # (batch, length)
    source_real: Tensor  # (batch, length), True where there is a token
    target_in: Tensor  # (batch, length), begins with the begin symbol
    target_out: Tensor  # (batch, length), ends with the end symbol
    targets: int
    """Real target tokens."""


Logits = Callable[[Padded], Tensor]
"""A padded batch -> (batch, length, vocab)."""


def read(path: str) -> dict[str, Any]:
    """The work file."""
    return json.loads(Path(path).read_text("utf-8"))


def rows(sequences: list[list[int]], pad: int) -> Tensor:
    """Sequences as rows, filled up with padding."""
    longest = max(map(len, sequences))
    return torch.tensor([ids + [pad] * (longest - len(ids)) for ids in sequences])


def padded(pairs: list[Any], work: dict[str, Any]) -> Padded:
    """Pairs of ids as one padded batch."""
    pad, begin, end = work["pad"], work["begin"], work["end"]
    source = rows([source for source, _ in pairs], pad)
    return Padded(
        source,
        source != pad,
        rows([[begin, *target] for _, target in pairs], pad),
        rows([[*target, end] for _, target in pairs], pad),
        sum(len(target) + 1 for _, target in pairs),
    )


class Loop:
    """Steps of training on the padded batches of a work file."""

    def __init__(self, work: dict[str, Any], model: nn.Module, logits: Logits) -> None:
        self.model, self.logits, self.pad = model.train(), logits, work["pad"]
        self.optimizer = torch.optim.AdamW(
            model.parameters(), lr=1e-3, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.0, fused=True
        )
        self.batches = {
            case: [padded(pairs, work) for pairs in batches]
            for case, batches in work["batches"].items()
        }

    def run(self, case: str) -> float:
        """One step for each batch of the case; the number of real target tokens."""
        for batch in self.batches[case]:
            self.optimizer.zero_grad(set_to_none=True)
            loss = F.cross_entropy(
                self.logits(batch).flatten(0, 1),
                batch.target_out.flatten(),
                ignore_index=self.pad,
                label_smoothing=SMOOTHING,
            )
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
            self.optimizer.step()
        return sum(batch.targets for batch in self.batches[case])


def start(threads: int) -> None:
    """The same threads and seed for everybody."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
