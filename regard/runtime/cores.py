"""Runs independent pieces of work in parallel threads, each with its share of the cores.

If PyTorch splits one matrix product over two cores, it waits for the slower half, hundreds of times
in a forward pass, and products too small to be split leave one core idle. If there are several
batches, or a batch can be split, it is faster to give each core a whole one. PyTorch releases
Python's interpreter lock while it computes, so threads suffice.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")
SWITCH_SECONDS = 1e-4
"""How long a thread may hold the interpreter lock while others wait; each needs it only for a
moment, to start the next call."""


class Cores:
    """A pool of threads, each of which computes with its share of PyTorch's threads.

    Args:
        teams: Number of threads in the pool.
        threads: Number of PyTorch's threads, in total.
    """

    def __init__(self, teams: int, threads: int) -> None:
        barrier = threading.Barrier(teams)
        self._pool = ThreadPoolExecutor(teams, thread_name_prefix="core")

        def prepare(_: int) -> None:
            # PyTorch sets a new thread to the default number on its first use. That must happen
            # before set_num_threads, or it would override it.
            torch.get_num_threads()
            torch.set_num_threads(max(1, threads // teams))
            barrier.wait()

        list(self._pool.map(prepare, range(teams)))
        # The setting is per thread, but the last call also sets the default for new threads.
        torch.set_num_threads(threads)

    def map(self, function: Callable[..., ResultT], *items: Iterable[ItemT]) -> list[ResultT]:
        """As Python's `map`, in parallel; results are in the order of the items.

        The threads use the caller's settings of `inference_mode` and `set_grad_enabled`.
        """
        inference, learning = torch.is_inference_mode_enabled(), torch.is_grad_enabled()

        def with_settings(*item: ItemT) -> ResultT:
            with torch.inference_mode(inference), torch.set_grad_enabled(learning):
                return function(*item)

        before = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_SECONDS)
        try:
            return list(self._pool.map(with_settings, *items))
        finally:
            sys.setswitchinterval(before)

    def __enter__(self) -> Cores:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()


def parallel_map(function: Callable[[ItemT], ResultT], items: list[ItemT]) -> list[ResultT]:
    """Applies a function to each item, in parallel on all of PyTorch's threads.

    Example:
        >>> parallel_map(lambda n: n * n, [1, 2, 3])
        [1, 4, 9]
    """
    threads = torch.get_num_threads()
    teams = min(threads, len(items))
    if teams < 2:
        return [function(item) for item in items]
    with Cores(teams, threads) as cores:
        return cores.map(function, items)


@contextmanager
def temporarily(owner: object, name: str, value: object) -> Iterator[None]:
    """Sets an attribute for the body of a `with`; None is restored if there was none."""
    before = getattr(owner, name, None)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Lets PyTorch compute with `count` threads for the body of a `with`."""
    before = torch.get_num_threads()
    if count == before:
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
