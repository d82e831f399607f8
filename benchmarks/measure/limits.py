"""The peak rates of the machine: matrix products, reading and copying memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from benchmarks.measure.harness import BenchLine, Experiment

if TYPE_CHECKING:
    from torch import Tensor

MATRIX, MEMORY = "matrix product", "reading memory"
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
        self.read, self.block = fastest(readers(threads), blocks(self.megabytes * 2**20 // 4))
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
        return _bytes(self.block) if self.read(self.block) else 0.0

    def _copy(self) -> float:
        self.copy.copy_(self.block)
        return 2 * _bytes(self.block)  # each byte is read and written


Reader = Callable[["Tensor"], float]
"""A function that reads a tensor once and returns its sum."""


def readers(threads: int) -> list[Reader]:
    """Ways to read a block of memory once: PyTorch's sum, and loops of Numba if it is installed."""
    ways: list[Reader] = [lambda block: float(block.sum())]
    if find_spec("numba") is None:
        return ways
    add, pool = _compiled_sum(), ThreadPoolExecutor(threads)

    def in_threads(block: Tensor) -> float:
        return sum(pool.map(add, [part.numpy() for part in block.chunk(threads)]))

    return [*ways, in_threads]


@cache
def _compiled_sum() -> Callable[[Any], float]:
    """The sum of an array as a loop that Numba compiles; threads can run it side by side."""
    import numba  # type: ignore[import-not-found,import-untyped,unused-ignore]

    def add(numbers):  # type: ignore[no-untyped-def]
        total = numbers[0] - numbers[0]
        for i in range(len(numbers)):
            total += numbers[i]
        return total

    compiled: Callable[[Any], float] = numba.njit(fastmath=True, nogil=True)(add)
    return compiled


def blocks(numbers: int) -> list[Tensor]:
    """Blocks of so many ones, to choose from: how fast one is read depends on its place in memory.

    On a virtual machine some were read at 36 and others at 63 GB/s. NumPy asks the system for huge
    pages, PyTorch does not.
    """
    import numpy as np
    import torch

    return [torch.ones(numbers), torch.from_numpy(np.ones(numbers, dtype=np.float32))]


def fastest(ways: list[Reader], blocks: list[Tensor]) -> tuple[Reader, Tensor]:
    """The way and the block with the shortest time of reading, the best of three each."""

    def seconds(pair: tuple[Reader, Tensor]) -> float:
        way, block = pair
        way(block)  # compiles, starts threads
        times = []
        for _ in range(3):
            start = time.perf_counter()
            way(block)
            times.append(time.perf_counter() - start)
        return min(times)

    return min(((way, block) for way in ways for block in blocks), key=seconds)


def _bytes(x: Tensor) -> float:
    return float(x.numel() * x.element_size())


def matrix_limit(*, quick: bool) -> BenchLine:
    """The entry for the matrix rate, the limit of experiments whose FLOPs are counted."""
    return BenchLine(MATRIX, Limits(256, 8) if quick else Limits(), "matrix")


def memory_limit(*, quick: bool) -> BenchLine:
    """The entry for the memory's bandwidth, the limit of decoding one row: it reads all weights."""
    return BenchLine(MEMORY, Limits(256, 8) if quick else Limits(), "read")


def limits(*, quick: bool) -> Experiment:
    """The experiment that measures the machine's peak rates."""
    contender = Limits(256, 8) if quick else Limits()
    return Experiment(
        name="limits",
        title="What the machine can do",
        shows="rate",
        unit="per second",
        entries=(
            BenchLine(f"{MATRIX}, FLOPs", contender, "matrix"),
            BenchLine(f"{MEMORY}, bytes", contender, "read"),
            BenchLine("copying memory, bytes read and written", contender, "copy"),
        ),
        weight=2.0,
        comparable=False,
    )
