"""Dropout, with random numbers eight at a time, from dice that may be a thread's own.

PyTorch draws one random number for each element, on one thread; at a laptop's sizes that is a
fifth of a training step. One 64-bit number has eight bytes, and a byte compared with a threshold is
random enough to drop with probability round(256 p) / 256. Off the CPU an element has a number of
its own, drawn where the generator is.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

_dice = threading.local()


@contextmanager
def drawing_from(generator: torch.Generator) -> Iterator[None]:
    """In this thread, all dropout draws from a generator instead of torch's one for everybody.

    Threads that train side by side would else take each other's numbers, in an order that no one
    could repeat.
    """
    before = getattr(_dice, "generator", None)
    _dice.generator = generator
    try:
        yield
    finally:
        _dice.generator = before


def drop(x: Tensor, p: float) -> Tensor:
    """Zeroes elements with probability p, to the nearest 1/256, and scales the others up."""
    kept = max(1, 256 - round(256 * p))  # of the 256 values of a byte
    if kept == 256:
        return x
    if not x.is_cpu:
        return x * _noise(x, kept / 256)
    words = torch.empty((x.numel() + 7) // 8, dtype=torch.int64, device=x.device)
    # all 64 bits: the default range leaves out the sign
    words.random_(-(2**63), None, generator=getattr(_dice, "generator", None))
    bytes_ = words.view(torch.uint8)[: x.numel()].view(x.shape)
    noise = torch.lt(
        bytes_, kept, out=torch.empty_like(x)
    )  # as numbers at once: a fifth of the time
    return x * noise.mul_(256 / kept)


def _noise(x: Tensor, share: float) -> Tensor:
    """What x is multiplied by: 1 / share with this probability, else 0."""
    generator: torch.Generator | None = getattr(_dice, "generator", None)
    where = x.device if generator is None else generator.device
    chosen = torch.empty(x.shape, dtype=x.dtype, device=where).bernoulli_(
        share, generator=generator
    )
    return chosen.div_(share).to(x.device)


def drop_rows(x: Tensor, p: float, lengths: Sequence[int]) -> Tensor:
    """Zeroes whole texts of x (tokens, dim) with probability p, and scales the others up."""
    generator: torch.Generator | None = getattr(_dice, "generator", None)
    where = "cpu" if generator is None else generator.device
    chance = torch.rand(len(lengths), generator=generator, device=where)
    kept = (chance >= p).to(x.dtype) / (1 - p)  # (texts,)
    counts = torch.tensor(lengths, device=where)
    return x * kept.repeat_interleave(counts)[:, None].to(x.device)


class Dropout(nn.Module):
    """Sets elements to zero while training and scales the others, so that the mean stays.

    Args:
        p: The probability to drop, to the nearest 1/256.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """Any shape; the same shape."""
        return drop(x, self.p) if self.training else x

    def extra_repr(self) -> str:
        """For printing a model."""
        return f"p={self.p}"
