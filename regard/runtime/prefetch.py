"""Computes the items of an iterator in a thread of its own, some items ahead of who takes them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from queue import Empty, Full, Queue
from typing import Any, Generic, TypeVar

import torch

ItemT = TypeVar("ItemT")
PATIENCE = 0.1
"""Seconds after which the thread looks whether anybody still takes items."""


def prefetch(items: Iterator[ItemT], ahead: int = 2) -> Iterator[ItemT]:
    """Yield the same items in the same order, computed by a thread beside the caller's.

    The thread ends when the result is closed or no longer used. An error in the iterator is raised
    where its item would have been yielded. PyTorch computes with a single thread there, to leave
    the cores to the caller.

    Args:
        items: An iterator that only the thread uses from now on; it may be endless.
        ahead: How many items may wait to be taken.

    Example:
        >>> list(prefetch(iter("abc")))
        ['a', 'b', 'c']
    """
    threads = torch.get_num_threads()
    worker = _Worker(items, ahead)
    worker.start()
    worker.ready.wait()
    torch.set_num_threads(threads)  # the thread's setting is also the default of new threads
    try:
        while True:
            kind, item = worker.waiting.get()
            if kind == "error":
                raise item
            if kind == "end":
                return
            yield item
    finally:
        worker.end()


class _Worker(threading.Thread, Generic[ItemT]):
    """Puts the items of an iterator into a queue, as long as somebody takes them."""

    def __init__(self, items: Iterator[ItemT], ahead: int) -> None:
        super().__init__(name="ahead", daemon=True)
        self.items, self.ended, self.ready = items, threading.Event(), threading.Event()
        self.waiting: Queue[tuple[str, Any]] = Queue(ahead)

    def run(self) -> None:
        """Computes items until the last, or until nobody takes them."""
        # PyTorch sets a new thread to the default number on its first use, hence the order
        torch.get_num_threads()
        torch.set_num_threads(1)
        self.ready.set()
        try:
            for item in self.items:
                if not self._put("item", item):
                    return
            self._put("end", None)
        except BaseException as error:  # it is raised in the thread of who takes the items
            self._put("error", error)

    def _put(self, kind: str, item: Any) -> bool:
        """Waits for a free place in the queue; returns whether somebody still takes items."""
        while not self.ended.is_set():
            with suppress(Full):
                self.waiting.put((kind, item), timeout=PATIENCE)
                return True
        return False

    def end(self) -> None:
        """Ends the thread."""
        self.ended.set()
        with suppress(Empty):  # a full queue would keep the thread for a moment
            while True:
                self.waiting.get_nowait()
        self.join()
