"""Dropout that draws one byte per element, from a random generator that may belong to a thread.

PyTorch draws one random number for each element, on one thread; with models of a laptop's size that
takes a fifth of a training step. Here one 64-bit number gives eight bytes, and comparing a byte
with a threshold drops an element with probability round(256 p) / 256. On other devices than the CPU
each element has its own random number, drawn on the generator's device.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn

from regard.runtime.cores import temporarily

_dice = threading.local()


def drawing_from(generator: torch.Generator) -> AbstractContextManager[None]:
    """Makes all dropout in this thread draw from `generator` instead of torch's global one.

    Threads that train in parallel would otherwise share one generator, and the order of their draws
    would not be reproducible.
    """
    return temporarily(_dice, "generator", generator)


def drop(x: Tensor, p: float) -> Tensor:
    """Zeroes elements with probability p, rounded to 1/256, and scales up the others."""
    kept_bytes = max(1, 256 - round(256 * p))  # number of byte values that keep an element
    if kept_bytes == 256:
        return x
    if not x.is_cpu:
        return x * _noise(x, kept_bytes / 256)
    words = torch.empty((x.numel() + 7) // 8, dtype=torch.int64, device=x.device)
    # All 64 bits are needed: the default range never sets the sign bit.
    words.random_(-(2**63), None, generator=getattr(_dice, "generator", None))
    bytes_ = words.view(torch.uint8)[: x.numel()].view(x.shape)
    # Writing floats directly takes a fifth of the time.
    noise = torch.lt(bytes_, kept_bytes, out=torch.empty_like(x))
    return x * noise.mul_(256 / kept_bytes)


def _noise(x: Tensor, share: float) -> Tensor:
    """The factors on x, in its shape: 1 / share with probability `share`, else 0."""
    generator: torch.Generator | None = getattr(_dice, "generator", None)
    device = x.device if generator is None else generator.device
    mask = torch.empty(x.shape, dtype=x.dtype, device=device).bernoulli_(share, generator=generator)
    return mask.div_(share).to(x.device)


def gumbel(x: Tensor) -> Tensor:
    """Gumbel noise -ln(-ln u), u uniform in (0, 1), in the shape of x.

    argmax(x + noise) is then a draw from softmax(x).
    """
    generator: torch.Generator | None = getattr(_dice, "generator", None)
    device = x.device if generator is None else generator.device
    waits = torch.empty(x.shape, dtype=x.dtype, device=device).exponential_(generator=generator)
    return waits.clamp_(min=torch.finfo(x.dtype).tiny).log_().neg_().to(x.device)  # -ln u ~ Exp(1)


def drop_rows(x: Tensor, p: float, lengths: Sequence[int]) -> Tensor:
    """Zeroes whole sequences of x (tokens, dim) with probability p, and scales up the others."""
    generator: torch.Generator | None = getattr(_dice, "generator", None)
    device = "cpu" if generator is None else generator.device
    chance = torch.rand(len(lengths), generator=generator, device=device)
    factors = (chance >= p).to(x.dtype) / (1 - p)  # (texts,)
    counts = torch.tensor(lengths, device=device)
    return x * factors.repeat_interleave(counts)[:, None].to(x.device)


class Dropout(nn.Module):
    """Zeroes random elements in training and scales up the others, so that the mean stays.

    Args:
        p: The probability of dropping an element, rounded to 1/256.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """Applies dropout in training mode; any shape."""
        return drop(x, self.p) if self.training else x

    def extra_repr(self) -> str:
        """The probability, for printing a model."""
        return f"p={self.p}"
