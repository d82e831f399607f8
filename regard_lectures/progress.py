"""The progress bar of a figure that trains models."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from regard.train import TrainingProgress

OnStep = Callable[[float, int], None]
"""Called after each step, with its loss and how many tokens it read."""


@contextmanager
def training_progress(steps: int) -> Iterator[OnStep]:
    """A progress bar over the steps of all trainings of a figure.

    It is shown on a terminal only, since figures are also drawn in notebooks, and not with
    `--quiet`.

    Args:
        steps: The number of steps of all trainings together.

    Yields:
        The function to call after each step.
    """
    begun, done, read = time.monotonic(), 0, 0
    wanted = sys.stderr.isatty() and logging.getLogger("regard").isEnabledFor(logging.WARNING)
    with TrainingProgress(steps, quiet=not wanted) as progress:

        def on_step(loss: float, tokens: int) -> None:
            nonlocal done, read
            done, read = done + 1, read + tokens
            progress.update(done, loss, read / max(time.monotonic() - begun, 1e-9))

        yield on_step
