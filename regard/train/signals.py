"""Ctrl-C, SIGTERM and SIGHUP during training: finish and save the step, then stop the training."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from regard.errors import Interrupted
from regard.runtime.ranks import Ranks
from regard.runtime.stopping import exit_on_signal, restore_handlers, set_handlers, signal_name
from regard.train.state import Job, TrainingState

REPEAT_SECONDS = 1.0
"""Seconds in which a second Ctrl-C is ignored under torchrun, which forwards the signal to
processes that have already received it from the terminal."""


class StopRequest:
    """Records whether a signal asked to stop, and which one.

    Args:
        may_repeat: Whether torchrun started this process and may repeat a signal.
    """

    def __init__(self, *, may_repeat: bool = False) -> None:
        self.signal: int | None = None
        self._repeat_seconds = REPEAT_SECONDS if may_repeat else 0.0
        self._ignored_until = 0.0

    def receive(self, number: int, frame: FrameType | None) -> None:
        """The signal handler: the first signal is recorded; a second Ctrl-C ends the process.

        Ending immediately is safe: a checkpoint is put in place by a rename, so none is left
        half-written.
        """
        now = time.monotonic()
        if self.signal is not None and number == signal.SIGINT and now >= self._ignored_until:
            exit_on_signal(number, frame)
        self.signal, self._ignored_until = number, now + self._repeat_seconds

    def shared(self, ranks: Ranks) -> int | None:
        """The signal that any of the processes has received, the same in all of them.

        It is not written into the request: a signal that arrives while the processes exchange
        theirs would be overwritten and lost.
        """
        return int(ranks.largest(self.signal or 0)) or None


@contextmanager
def stop_requests(*, may_repeat: bool = False) -> Iterator[StopRequest]:
    """Records signals for the body of a `with`, and restores the signal handlers afterwards.

    Args:
        may_repeat: Whether torchrun started this process and may repeat a signal.
    """
    request = StopRequest(may_repeat=may_repeat)
    before = set_handlers(request.receive)
    try:
        yield request
    finally:
        restore_handlers(before)


def stop_if_asked(number: int | None, job: Job, state: TrainingState) -> None:
    """Ends the training with a message if a signal was received."""
    if number is None:
        return
    message = f"stopped by {signal_name(number)} after step {state.step}"
    if job.run is not None:
        advice = "continue with the same command and --resume"
        message += ", saved; " + ("the run is complete" if state.finished else advice)
    raise Interrupted(message, signal=number)
