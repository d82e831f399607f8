"""Ctrl-C, SIGTERM and SIGHUP, politely: finish the step, save, then stop."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from regard.runtime.stopping import end_at_once, give_back, handle

ECHO = 1.0
"""Seconds in which torchrun may repeat a Ctrl-C to its processes, which have had it already."""


class StopRequest:
    """Whether somebody asked to stop, and by which signal.

    Args:
        echoes: Whether torchrun started this process.
    """

    def __init__(self, *, echoes: bool = False) -> None:
        self.signal: int | None = None
        self._echo = ECHO if echoes else 0.0
        self._since = 0.0

    def receive(self, number: int, frame: FrameType | None) -> None:
        """The first request is remembered; a second Ctrl-C ends the process at once.

        At once is safe: a checkpoint is put in place by a rename, so the old one is whole.
        """
        now = time.monotonic()
        if self.signal is not None and number == signal.SIGINT and now >= self._since + self._echo:
            end_at_once(number, frame)
        self.signal, self._since = number, now


@contextmanager
def stop_requests(*, echoes: bool = False) -> Iterator[StopRequest]:
    """Collects requests to stop; signals are as before afterwards.

    Args:
        echoes: Whether torchrun started this process.
    """
    request = StopRequest(echoes=echoes)
    before = handle(request.receive)
    try:
        yield request
    finally:
        give_back(before)
