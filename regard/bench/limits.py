"""The peak rates of the machine: matrix products, reading and copying memory."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from regard.bench.harness import Entry, Experiment

if TYPE_CHECKING:
    from torch import Tensor

MATRIX = "matrix product"
SECONDS = 0.4
"""The approximate duration of a turn in seconds."""


@dataclass
class Limits:
    """A contender with the cases `matrix` (work in FLOPs), `read` and `copy` (work in bytes).

    `size` is the side of the square matrices, `megabytes` the size of the block that is read,
    which is larger than the caches.
    """

    size: int = 1536
    megabytes: int = 256

    def prepare(self, threads: int) -> None:
        """Allocate the matrices and the memory block."""
        import torch

        torch.set_num_threads(threads)
        torch.manual_seed(0)
        self.a, self.b = torch.randn(self.size, self.size), torch.randn(self.size, self.size)
        self.out = torch.empty(self.size, self.size)
        self.block = torch.ones(self.megabytes * 2**20 // 4)
        self.copy = torch.empty_like(self.block)

    def measure(self, case: str) -> float:
        """Repeat the operation for about `SECONDS`; returns FLOPs or bytes."""
        operation = {"matrix": self._multiply, "read": self._read, "copy": self._copy}[case]
        start, work = time.perf_counter(), 0.0
        while time.perf_counter() - start < SECONDS:
            work += operation()
        return work

    def _multiply(self) -> float:
        import torch

        torch.mm(self.a, self.b, out=self.out)
        return 2.0 * self.size**3

    def _read(self) -> float:
        return _bytes(self.block) if float(self.block.sum()) else 0.0

    def _copy(self) -> float:
        self.copy.copy_(self.block)
        return 2 * _bytes(self.block)  # each byte is read and written


def _bytes(x: Tensor) -> float:
    return float(x.numel() * x.element_size())


def matrix_limit(*, quick: bool) -> Entry:
    """The entry for the matrix rate, the limit of experiments whose FLOPs are counted."""
    return Entry(MATRIX, Limits(256, 8) if quick else Limits(), "matrix")


def limits(*, quick: bool) -> Experiment:
    """The experiment that measures the machine's peak rates."""
    contender = Limits(256, 8) if quick else Limits()
    return Experiment(
        name="limits",
        title="What the machine can do",
        shows="rate",
        unit="per second",
        entries=(
            Entry(f"{MATRIX}, FLOPs", contender, "matrix"),
            Entry("reading memory, bytes", contender, "read"),
            Entry("copying memory, bytes read and written", contender, "copy"),
        ),
        weight=2.0,
        comparable=False,
    )
