"""Handles signals that stop the command: one line is printed, the exit code is the signal's.

An exception would not be reliable: code that is being imported or cleaned up may swallow or print
it. So the process ends immediately. That is safe, since files are written under a temporary name
and renamed, and the kernel releases a run's lock. A training replaces these handlers while it runs,
to save first (see `train/signals.py`).

Only the `regard` command does this; a program that imports Regard keeps its own signal handlers.
This module is imported first, so it imports next to nothing itself.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False  # without importing typing
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any, NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

cleanups: list[Callable[[], object]] = []
"""Functions that `end` calls before it ends the process; they remove half-written files."""


def end(code: int, message: str) -> NoReturn:
    """Ends the process immediately with a message, without waiting for its threads."""
    try:
        for clean_up in cleanups[::-1]:
            clean_up()
        show_cursor = "\x1b[?25h" if os.isatty(2) else ""  # a progress bar hides it
        os.write(2, f"{show_cursor}{message}\n".encode())
    finally:
        os._exit(code)


def exit_on_signal(number: int, frame: FrameType | None) -> None:
    """The signal handler: ends the process with the exit code of the signal."""
    del frame
    end(128 + number, f"stopped by {signal_name(number)}; nothing was left half-written")


def signal_name(number: int) -> str:
    """The name of a signal in messages."""
    return "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name


def set_handlers(handler: Any) -> dict[signal.Signals, Any]:
    """Sets the handler of `SIGNALS`; returns the former handlers.

    SIGHUP stays ignored if it is ignored, since `nohup` does that on purpose. Python allows signal
    handlers only in the main thread; in another thread nothing is changed.
    """
    before = {number: signal.getsignal(number) for number in SIGNALS}
    if before[signal.SIGHUP] == signal.SIG_IGN:
        del before[signal.SIGHUP]
    try:
        for number in before:
            signal.signal(number, handler)
    except ValueError:
        return {}
    return before


def restore_handlers(before: dict[signal.Signals, Any]) -> None:
    """Restores the handlers that `set_handlers` returned."""
    for number, handler in before.items():
        signal.signal(number, handler)


def is_command() -> bool:
    """Whether this process is `regard` itself and not a program that imports it."""
    return bool(sys.argv) and sys.argv[0].rpartition(os.sep)[2] == "regard"


def set_up_command() -> dict[signal.Signals, Any]:
    """Sets the signal handlers of the command, and opens closed standard streams.

    Returns:
        The former handlers, for `restore_handlers`.
    """
    before = set_handlers(exit_on_signal)
    open_standard_streams()
    return before


def open_standard_streams() -> None:
    """Opens the null device as standard input, output or error where that is closed (`>&-`).

    Otherwise the next file to be opened would get its number, and output would go to that file.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is this one
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115


if is_command():
    set_up_command()  # at import, because the imports that follow take seconds
