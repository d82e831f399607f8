"""Prints results to standard output, and messages to standard error."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
from typing import Any

from regard.errors import safe


def silence_warnings(*, quiet: bool) -> None:
    """Turns off warnings if `quiet` is set; errors are always printed."""
    if quiet:
        logging.getLogger("regard").setLevel(logging.ERROR)


def print_result(text: str, *rows: Any, as_json: bool) -> None:
    """Prints a result as text, or as JSON with one object a line."""
    lines = [json.dumps(row, ensure_ascii=False) for row in rows] if as_json else [text]
    for line in lines:
        print_line(line)


def print_line(text: str = "", end: str = "\n") -> None:
    """Prints a result to standard output; control characters are escaped."""
    print(safe(text), end=end)  # noqa: T201


def print_status(message: str, *, quiet: bool = False) -> None:
    """Prints a line to standard error, so that standard output holds only results."""
    if not quiet:
        with contextlib.suppress(OSError):  # a closed standard error must not stop the work
            print(safe(message), file=sys.stderr, flush=True)  # noqa: T201
