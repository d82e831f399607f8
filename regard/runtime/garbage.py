"""Makes Python's garbage collector run seldom while a command starts.

The objects of torch and other modules live as long as the process. Scanning them repeatedly during
the imports, and once more at the end, takes a fifth of the time of a short command.
"""

from __future__ import annotations

import gc

COLLECTION_THRESHOLD = 100_000
"""Number of new objects after which the collector runs; Python's default is hundreds."""
_default_threshold: tuple[int, int, int] | None = None


def collect_seldom() -> None:
    """Makes the collector run seldom from now on; only for the `regard` command's own process."""
    global _default_threshold
    _default_threshold = gc.get_threshold()
    gc.set_threshold(COLLECTION_THRESHOLD)


def collect_as_usual() -> None:
    """Undoes `collect_seldom`; objects that exist by now are never collected."""
    global _default_threshold
    if _default_threshold is not None:
        gc.freeze()
        gc.set_threshold(*_default_threshold)
        _default_threshold = None
