"""Work that falls into parts: each core takes its own, and they meet at the end.

A product that is cut in two for two cores waits for the slower half, hundreds of times in a pass
through a model, and what is too small to be cut leaves one of them idle. Where there are several
batches, or a batch can be parted, it is quicker to give each core a whole one. PyTorch's calls let
go of Python while they compute, so threads do.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import TracebackType
from typing import TypeVar

import torch

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")
SWITCH_SECONDS = 1e-4
"""How long a thread may keep Python from the others; it needs it only to start the next call."""


class Cores:
    """Some threads, each of which computes with its share of the cores.

    Args:
        teams: How many work side by side.
        threads: How many compute, in all.
    """

    def __init__(self, teams: int, threads: int) -> None:
        all_there = threading.Barrier(teams)
        self._pool = ThreadPoolExecutor(teams, thread_name_prefix="core")

        def prepare(_: int) -> None:
            torch.get_num_threads()  # a new thread takes the default when first asked; not later
            torch.set_num_threads(max(1, threads // teams))
            all_there.wait()

        list(self._pool.map(prepare, range(teams)))
        torch.set_num_threads(threads)  # a thread's own, but the last to say it is the default

    def map(self, function: Callable[..., ResultT], *items: Iterable[ItemT]) -> list[ResultT]:
        """What `map` gives, in its order; gradients are wanted there if they are here."""
        inference, learning = torch.is_inference_mode_enabled(), torch.is_grad_enabled()

        def one(*item: ItemT) -> ResultT:
            with torch.inference_mode(inference), torch.set_grad_enabled(learning):
                return function(*item)

        with _eager_threads():
            return list(self._pool.map(one, *items))

    def __enter__(self) -> Cores:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pool.shutdown()


def spread(function: Callable[[ItemT], ResultT], items: list[ItemT]) -> list[ResultT]:
    """What a function makes of each item, with all threads that compute.

    Example:
        >>> spread(lambda n: n * n, [1, 2, 3])
        [1, 4, 9]
    """
    threads = torch.get_num_threads()
    teams = min(threads, len(items))
    if teams < 2:
        return [function(item) for item in items]
    with Cores(teams, threads) as cores:
        return cores.map(function, items)


@contextmanager
def _eager_threads() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
