"""Ends a process that waits in vain for others: by a signal in any case, or with torchrun.

Python runs signal handlers in the main thread, between two of its instructions, so never while that
thread waits in C++ for other processes. A second thread learns of signals through a socket (see
`signal.set_wakeup_fd`), and whether the main thread moves.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from regard.runtime.stopping import SIGNALS, end

INTERVAL = 0.2
"""Seconds between two looks at the parent process and the main thread."""


def torchrun_started() -> bool:
    """Whether torchrun started this process; it is then the parent process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def speaks_for_machine() -> bool:
    """Whether this process is the one of its machine that prints what concerns all of them."""
    return os.environ.get("LOCAL_RANK", "0") == "0"


class Watchdog:
    """A thread that ends this process if it cannot end by itself.

    It ends the process if a signal has come and the main thread has not moved for `patience` since,
    or if a time limit has passed. If torchrun has ended, it sends this process SIGTERM.

    Args:
        end_by: Ends the process; gets the number of the signal.
        patience: Seconds.
    """

    def __init__(self, end_by: Callable[[int], object], patience: float) -> None:
        self.patience = patience
        self._end_by = end_by
        self._parent = os.getppid() if torchrun_started() else None
        self._orphan_reported = False
        self._signal: int | None = None
        self._moved, self._position = 0.0, (0, 0)
        self._limit: tuple[float, str] | None = None
        self._receiver, self._sender = socket.socketpair()
        for end_of_pair in (self._receiver, self._sender):
            end_of_pair.settimeout(0)
        self._before = -1
        with suppress(ValueError):  # Python allows this in the main thread only, as handlers
            self._before = signal.set_wakeup_fd(self._sender.fileno(), warn_on_full_buffer=False)
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread."""
        with suppress(ValueError):
            signal.set_wakeup_fd(self._before)
        self._sender.close()  # which wakes the thread
        self._thread.join()
        self._receiver.close()

    @contextmanager
    def at_most(self, seconds: float, message: str) -> Iterator[None]:
        """Ends the process with a message if the body of a `with` takes longer."""
        self._limit = (time.monotonic() + seconds, message)
        try:
            yield
        finally:
            self._limit = None

    def is_orphan(self) -> bool:
        """Whether torchrun, which started this process, has ended."""
        return self._parent is not None and os.getppid() != self._parent

    def _watch(self) -> None:
        """The thread: looks at the signals, the parent process and the time limit in turn."""
        while True:
            ready, _, _ = select.select([self._receiver], [], [], INTERVAL)
            if ready:
                numbers = self._receiver.recv(64)
                if not numbers:
                    return
                self._note_signals(numbers)
            self._check_parent()
            self._check_signal()
            limit = self._limit  # the main thread may remove it at any time
            if limit is not None and time.monotonic() > limit[0]:
                end(1, f"error: {limit[1]}")

    def _note_signals(self, numbers: bytes) -> None:
        """Stores the first signal that came, and the time."""
        for number in numbers:
            if number in SIGNALS and self._signal is None:
                self._signal, self._moved = number, time.monotonic()

    def _check_parent(self) -> None:
        """Sends this process SIGTERM once if torchrun has ended."""
        if self._orphan_reported or not self.is_orphan():
            return
        self._orphan_reported = True
        if speaks_for_machine():
            with suppress(OSError):  # it may have been torchrun that read what we print
                os.write(2, b"torchrun has ended, so its processes end as well\n")
        os.kill(os.getpid(), signal.SIGTERM)

    def _check_signal(self) -> None:
        """Ends the process if the main thread has not moved for `patience` after a signal."""
        if self._signal is None:
            return
        frame = sys._current_frames().get(threading.main_thread().ident or 0)
        position = (id(frame), 0 if frame is None else frame.f_lasti)
        now = time.monotonic()
        if position != self._position:
            self._position, self._moved = position, now
        elif now - self._moved >= self.patience:
            self._end_by(self._signal)
