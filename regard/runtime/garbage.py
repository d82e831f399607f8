"""How often Python looks for garbage: seldom while a command starts, for nothing there is any.

What torch and the rest are made of stays as long as the process. To look through it again and again
while it is imported, and once more at the end, takes a fifth of the time of a short command.
"""

from __future__ import annotations

import gc

SELDOM = 100_000
"""New objects after which Python looks; by itself it does so after hundreds."""
_usual: tuple[int, int, int] | None = None


def postpone() -> None:
    """Looks seldom from here on: for a process that is this command alone."""
    global _usual
    _usual = gc.get_threshold()
    gc.set_threshold(SELDOM)


def settle() -> None:
    """Looks as often as usual again, but not at what is there by now; if it was postponed."""
    global _usual
    if _usual is not None:
        gc.freeze()
        gc.set_threshold(*_usual)
        _usual = None
