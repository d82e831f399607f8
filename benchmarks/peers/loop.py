"""What all peers share: the work file, batches padded to their longest, and one training loop.

A peer that trains brings its model and a function from ids to logits; the loss, the optimizer and
the clipping are the same for all: cross-entropy, fused AdamW, norm 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.peers.work import read

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


class Loop(ABC):
    """Steps of training."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model.train()
        self.optimizer = torch.optim.AdamW(
            model.parameters(), lr=1e-3, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.0, fused=True
        )

    def step(self, loss: Callable[[], Tensor]) -> None:
        """One step down the gradient of what `loss` computes."""
        self.optimizer.zero_grad(set_to_none=True)
        loss().backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        self.optimizer.step()

    @abstractmethod
    def run(self, case: str) -> float:
        """The steps of a case; the number of tokens that were learned from."""


class PairLoop(Loop):
    """On the padded batches of a work file, with label smoothing: one step for each of a case."""

    def __init__(self, work: dict[str, Any], model: nn.Module, logits: Logits) -> None:
        super().__init__(model)
        self.logits, self.pad = logits, work["pad"]
        self.batches = {
            case: [padded(pairs, work) for pairs in batches]
            for case, batches in work["batches"].items()
        }

    def loss(self, batch: Padded) -> Tensor:
        """The mean over all real tokens."""
        return F.cross_entropy(
            self.logits(batch).flatten(0, 1),
            batch.target_out.flatten(),
            ignore_index=self.pad,
            label_smoothing=SMOOTHING,
        )

    def run(self, case: str) -> float:
        for batch in self.batches[case]:
            self.step(partial(self.loss, batch))
        return sum(batch.targets for batch in self.batches[case])


class TextLoop(Loop):
    """On the rows of a work file, all of one length: one step, whatever the case.

    Args:
        work: What the file says.
        model: What learns.
        logits: (batch, length) -> (batch, length, vocab)
    """

    def __init__(
        self, work: dict[str, Any], model: nn.Module, logits: Callable[[Tensor], Tensor]
    ) -> None:
        super().__init__(model)
        self.logits = logits
        texts = torch.tensor(work["texts"])
        self.read, self.wanted = texts[:, :-1].contiguous(), texts[:, 1:].flatten()

    def loss(self) -> Tensor:
        """The mean over all tokens."""
        return F.cross_entropy(self.logits(self.read).flatten(0, 1), self.wanted)

    def run(self, case: str) -> float:
        del case
        self.step(self.loss)
        return self.wanted.numel()


@dataclass
class Training(ABC):
    """A contender that trains; the case names the batches. Work: tokens that it learns from."""

    work: str
    """The work file."""

    @abstractmethod
    def made(self, work: dict[str, Any]) -> Loop:
        """The loop around the peer's model."""

    def prepare(self, threads: int) -> None:
        start(threads)
        self.loop = self.made(read(self.work))

    def measure(self, case: str) -> float:
        return self.loop.run(case)


def start(threads: int) -> None:
    """The same threads and seed for everybody."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
