"""A bar on the terminal while a figure trains for longer than one likes to wait in the dark."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from regard.train.log import TrainingProgress

Tell = Callable[[float, int], None]
"""Called after each step, with its loss and how many tokens it read."""


@contextmanager
def waiting(steps: int) -> Iterator[Tell]:
    """Shows how far a figure is; on a terminal alone, since a figure is also drawn in notebooks.

    Nor where warnings are left out: who asked for quiet gets it.

    Args:
        steps: Of all its trainings together.

    Yields:
        What to call after each step.
    """
    begun, done, read = time.monotonic(), 0, 0
    wanted = sys.stderr.isatty() and logging.getLogger("regard").isEnabledFor(logging.WARNING)
    with TrainingProgress(steps, quiet=not wanted) as progress:

        def tell(loss: float, tokens: int) -> None:
            nonlocal done, read
            done, read = done + 1, read + tokens
            progress.update(done, loss, read / max(time.monotonic() - begun, 1e-9))

        yield tell
