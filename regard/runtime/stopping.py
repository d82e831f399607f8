"""Signals that ask a command to stop: one line, the exit code of the signal, at any moment.

An exception would not do: whatever is being imported or cleaned up when it comes may swallow it, or
print it. So the process ends there and then. That is safe, since files are written beside their
place and renamed, and the kernel lets go of a run's lock. A training takes the signals over while
it runs, to save first (see `train/signals.py`).

Only the command does this; a program that imports Regard keeps its own way with signals. It is the
first thing that is imported, so it imports next to nothing itself.
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

unfinished: list[Callable[[], object]] = []
"""Called before `end` ends the process: what removes files that are half-written."""


def end(code: int, message: str) -> NoReturn:
    """Ends the process with a message, whatever its threads do and wherever its output goes."""
    try:
        for clean_up in unfinished[::-1]:
            clean_up()
        show_cursor = "\x1b[?25h" if os.isatty(2) else ""  # a progress bar hides it
        os.write(2, f"{show_cursor}{message}\n".encode())
    finally:
        os._exit(code)


def end_at_once(number: int, frame: FrameType | None) -> None:
    """The handler of a signal."""
    del frame
    end(128 + number, f"stopped by {name_of(number)}; nothing was left half-written")


def name_of(number: int) -> str:
    """What a person calls a signal."""
    return "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name


def handle(handler: Any) -> dict[signal.Signals, Any]:
    """Gives the signals to a handler; returns who had them.

    A SIGHUP that is ignored stays so: `nohup` was asked for. Python lets only the main thread
    listen to signals; in another, nothing is changed.
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


def give_back(before: dict[signal.Signals, Any]) -> None:
    """Undoes `handle`."""
    for number, handler in before.items():
        signal.signal(number, handler)


def is_the_command() -> bool:
    """Whether this process is `regard` itself and not a program that imports it."""
    return bool(sys.argv) and sys.argv[0].rpartition(os.sep)[2] == "regard"


def be_the_command() -> dict[signal.Signals, Any]:
    """From here on signals end the process, and closed streams do no harm.

    Returns:
        What `give_back` takes.
    """
    before = handle(end_at_once)
    open_standard_streams()
    return before


def open_standard_streams() -> None:
    """Puts the null device where standard input, output or error is closed (`>&-`).

    Or else the next file that is opened would take its number, and get what is written to it.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: this one
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115


if is_the_command():
    be_the_command()  # now: what is imported next takes seconds
