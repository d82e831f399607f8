"""Progress of long work on standard error: a bar on a terminal, otherwise a line now and then."""

from __future__ import annotations

import contextlib
import math
import sys
import time
from typing import TYPE_CHECKING, Self

from regard.errors import safe

if TYPE_CHECKING:
    from rich.progress import Progress as RichBar
    from rich.progress import TaskID

MIN_SECONDS = 3.0
"""Seconds of work after the first report from which on the time left is estimated."""
MIN_SECONDS_FROM_START = 30.0
"""Seconds after which the first report counts, too: a slow start hardly matters then."""
UNKNOWN = "-:--"
"""The time left as long as it is not estimated."""


class Progress:
    """Shows how much of the work is done, what is being done, and the time left.

    The time left is estimated from the speed since the first report of work, because the work up to
    it takes longer (memory is allocated, kernels are chosen), and not before there is enough of it.

    Errors of writing are ignored, so the work goes on if the terminal was closed.

    Args:
        total: The whole amount of work: steps, estimated seconds, or 1.
        start: The amount that was done before, for work that is resumed.
        quiet: Show nothing at all.
        interval: Seconds between two lines if there is no terminal.
        at_once: Whether the first of these lines comes at the beginning or after an interval.
        counted: The unit to count the work in, such as `step`; without it a percentage is shown.
    """

    def __init__(
        self,
        total: float,
        *,
        start: float = 0.0,
        quiet: bool = False,
        interval: float = 15.0,
        at_once: bool = True,
        counted: str = "",
    ) -> None:
        self.total, self.start = max(total, 1e-9), start
        self.quiet, self.interval, self.counted = quiet, interval, counted
        self._done, self._settled = start, 0.0
        self._restart(start)
        self._last_line = -math.inf if at_once else self._began[0]
        self._bar: RichBar | None = None
        self._task: TaskID | None = None

    def _restart(self, done: float) -> None:
        """Begins to measure the speed from this amount of work on."""
        self._began = time.monotonic(), done
        self._first: tuple[float, float] | None = None  # the first report of work after it

    def __enter__(self) -> Self:
        self._restart(self.start)
        if not self.quiet:
            self._start_bar()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            with contextlib.suppress(OSError):
                self._bar.stop()

    def show(self, text: str) -> None:
        """Prints a result at once, on standard output, above the bar."""
        if self._bar is not None:
            self._bar.stop()
        sys.stdout.write(f"{safe(text)}\n")
        sys.stdout.flush()
        if self._bar is not None:
            self._bar.start()

    def print_line(self, message: str) -> None:
        """Prints a line on standard error; on a terminal it appears above the bar."""
        message = safe(message)
        with contextlib.suppress(OSError):
            if self._bar is not None:
                self._bar.console.print(message, markup=False, highlight=False, soft_wrap=True)
            elif not self.quiet:
                sys.stderr.write(f"{message}\n")
                sys.stderr.flush()

    def advance(self, amount: float) -> None:
        """Adds to the amount of work that is done."""
        self._done += amount

    def finish(self, part: float) -> None:
        """Marks a part of the work as done, replacing what `advance` has counted of it."""
        self._settled += part
        self._done = self._settled

    def update_to(self, done: float, *what: str) -> None:
        """Sets the amount of work that is done, and shows what is being done.

        If the amount is smaller than before, new work has begun and the clock restarts.
        """
        if done < self._done:
            self._restart(done)
        self._done = done
        self.describe(*what)

    def describe(self, *what: str) -> None:
        """Shows what is being done now."""
        now = time.monotonic()
        if self._first is None and self._done > self._began[1]:
            self._first = now, self._done
        if self._bar is not None and self._task is not None:
            time_left, text = self._time_left(now), safe(" ".join(what))
            self._bar.update(self._task, completed=self._done, description=text, left=time_left)
        elif now - self._last_line >= self.interval or (self.counted and self._done >= self.total):
            self._last_line = now
            self.print_line(self._progress_line("  ".join(what), self._time_left(now)))

    def _progress_line(self, what: str, time_left: str) -> str:
        """The line that is printed if there is no terminal."""
        if self.counted:
            return f"{self.counted} {self._done:.0f}/{self.total:.0f}  {what}  {time_left} left"
        return f"{min(1.0, self._done / self.total):4.0%}  {time_left} left  {what}"

    def _start_bar(self) -> None:
        """Starts the bar if standard error is a terminal."""
        from rich import progress
        from rich.console import Console

        console = Console(stderr=True)  # leaves out colours if NO_COLOR is set
        if not sys.stderr.isatty() or console.is_dumb_terminal:
            return
        time_column = progress.TextColumn("{task.fields[left]} left", markup=False)
        text_column = progress.TextColumn("{task.description}", markup=False)
        count_columns = (progress.MofNCompleteColumn(), text_column, time_column)
        self._bar = progress.Progress(
            progress.BarColumn(),
            *(count_columns if self.counted else (time_column, text_column)),
            console=console,
            refresh_per_second=4,
            redirect_stdout=False,  # otherwise results for a pipe would be written to the bar
        )
        self._task = self._bar.add_task(
            "", total=self.total, completed=int(self.start), left=UNKNOWN
        )
        self._bar.start()

    def _time_left(self, now: float) -> str:
        """The time left as `h:mm:ss` or `m:ss`."""
        seconds = 0.0 if self._done >= self.total else self._seconds_left(now)
        if seconds is None:
            return UNKNOWN
        minutes, full_seconds = divmod(round(seconds), 60)
        hours, minutes = divmod(minutes, 60)
        if hours:
            return f"{hours}:{minutes:02d}:{full_seconds:02d}"
        return f"{minutes}:{full_seconds:02d}"

    def _seconds_left(self, now: float) -> float | None:
        """An estimate of the time left; None as long as too little work was seen."""
        starts = (self._first, MIN_SECONDS), (self._began, MIN_SECONDS_FROM_START)
        for since, min_seconds in starts:
            if since is not None and now - since[0] >= min_seconds and self._done > since[1]:
                speed = (self._done - since[1]) / (now - since[0])
                return (self.total - self._done) / speed
        return None
