"""How far long work is, on standard error: a bar on a terminal, else a line at times."""

from __future__ import annotations

import math
import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as RichBar
    from rich.progress import TaskID


class Progress:
    """The share of the work that is done, what is being done, and the time left.

    Args:
        total: Seconds that the work is thought to take; the time left is scaled by what it took.
        quiet: Show nothing at all.
        interval: Seconds between two lines where there is no terminal.
        at_once: Whether the first of these lines comes at the beginning, else after an interval.
    """

    def __init__(
        self,
        total: float,
        *,
        quiet: bool = False,
        interval: float = 15.0,
        at_once: bool = True,
    ) -> None:
        self.total, self.quiet, self.interval = max(total, 1e-9), quiet, interval
        self._done = self._settled = 0.0
        self._began = time.monotonic()
        self._told = -math.inf if at_once else self._began
        self._bar: RichBar | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Progress:
        if self.quiet:
            return self
        from rich import progress
        from rich.console import Console

        console = Console(stderr=True)
        if sys.stderr.isatty() and not console.is_dumb_terminal:
            self._bar = progress.Progress(
                progress.BarColumn(),
                progress.TextColumn("{task.fields[left]} left", markup=False),
                progress.TextColumn("{task.description}", markup=False),
                console=console,
                redirect_stdout=False,
            )
            self._task = self._bar.add_task("", total=self.total, left="-:--")
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, text: str) -> None:
        """Prints a result at once, on standard output, above the bar."""
        if self._bar is not None:
            self._bar.stop()
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
        if self._bar is not None:
            self._bar.start()

    def advance(self, seconds: float) -> None:
        """So much of what was thought to be needed is behind us."""
        self._done += seconds

    def finish(self, seconds: float) -> None:
        """A whole experiment is behind us, whatever parts of it were left out."""
        self._settled += seconds
        self._done = self._settled

    def reach(self, done: float, what: str) -> None:
        """So much is behind us in all, and this is being done; less than before is new work."""
        if done < self._done:
            self._began = time.monotonic()
        self._done = done
        self.say(what)

    def say(self, what: str) -> None:
        """What is done next."""
        now = time.monotonic()
        if self._bar is not None and self._task is not None:
            self._bar.update(
                self._task, completed=self._done, description=what, left=self._left(now)
            )
        elif not self.quiet and now - self._told >= self.interval:
            self._told = now
            share = min(1.0, self._done / self.total)
            sys.stderr.write(f"{share:4.0%}  {self._left(now)} left  {what}\n")
            sys.stderr.flush()

    def _left(self, now: float) -> str:
        if not self._done:
            return "-:--"
        seconds = (now - self._began) / self._done * max(0.0, self.total - self._done)
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes}:{rest:02d}"
