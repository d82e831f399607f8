"""Ctrl-C and SIGTERM, politely: finish the step, save, then stop."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequest:
    """Whether somebody asked to stop, and by which signal."""

    signal: int | None = None

    def receive(self, number: int, frame: FrameType | None) -> None:
        """The first request is remembered; a second Ctrl-C ends the process at once.

        At once is safe: a checkpoint is put in place by a rename, so the old one is whole.
        """
        del frame
        if self.signal is not None and number == signal.SIGINT:
            os._exit(128 + number)
        self.signal = number


@contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Collects requests to stop; signals are as before afterwards."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request  # Python lets only the main thread listen to signals
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, request.receive) for number in numbers]
    try:
        yield request
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
