"""Ctrl-C, SIGTERM and SIGHUP, politely: finish the step, save, then stop."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from regard.runtime.stopping import end_at_once, give_back, handle


class StopRequest:
    """Whether somebody asked to stop, and by which signal."""

    signal: int | None = None

    def receive(self, number: int, frame: FrameType | None) -> None:
        """The first request is remembered; a second Ctrl-C ends the process at once.

        At once is safe: a checkpoint is put in place by a rename, so the old one is whole.
        """
        if self.signal is not None and number == signal.SIGINT:
            end_at_once(number, frame)
        self.signal = number


@contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Collects requests to stop; signals are as before afterwards."""
    request = StopRequest()
    before = handle(request.receive)
    try:
        yield request
    finally:
        give_back(before)
