"""The command line `regard COMMAND …`: runs a command, and turns errors into two lines of text."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import signal
import sys
from typing import Any, NoReturn

import typer

from regard.cli.commands import app
from regard.errors import InputError, Interrupted, UserError, WriteError, safe
from regard.runtime.printing import print_status
from regard.runtime.stopping import end, exit_on_signal, restore_handlers, set_up_command

USAGE: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
"""The exception that typer raises for a wrong option; its module differs between versions."""


class SafeFormatter(logging.Formatter):
    """Formats warnings, which name what is in files, without control characters."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a warning."""
        return safe(super().format(record))


def fail(error: UserError) -> NoReturn:
    """Prints an error in at most two lines, without a traceback, and exits with its exit code."""
    if isinstance(error, Interrupted):  # another signal must not interrupt the shutdown
        with contextlib.suppress(OSError):
            sys.stdout.flush()
        end(error.exit_code, str(error))
    print_status(f"error: {error}")
    raise SystemExit(error.exit_code)


def write_utf8() -> None:
    """Sets the output encoding to UTF-8 in any locale, because translations have umlauts."""
    for out in (sys.stdout, sys.stderr):
        if isinstance(out, io.TextIOWrapper):
            out.reconfigure(encoding="utf-8")


def usage_error(error: Any) -> NoReturn:
    """Handles wrong options: prints an error, or the help of a command that needs a subcommand."""
    if type(error).__name__ == "NoArgsIsHelpError":
        print_status(error.format_message())
        raise SystemExit(2)
    fail(InputError(error.format_message(), fix="regard --help, or regard COMMAND --help"))


def main() -> None:
    """Runs the command line, with the signal handlers of a command."""
    before = set_up_command()
    try:
        run_command()
    finally:
        restore_handlers(before)


def run_command() -> None:
    """Runs the command that was typed; an error is printed and becomes an exit code."""
    write_utf8()
    warnings = logging.StreamHandler(sys.stderr)
    warnings.setFormatter(SafeFormatter("%(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[warnings])
    try:
        code = app(standalone_mode=False)  # a command's typer.Exit comes back as its code
    except UserError as error:
        fail(error)
    except USAGE as error:
        usage_error(error)
    except typer.Abort:
        raise SystemExit(130) from None
    except KeyboardInterrupt:
        exit_on_signal(signal.SIGINT, None)
    except BrokenPipeError:
        # The reader of our output closed the pipe, such as `head`: not an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None
    except OSError as error:
        name = f" {error.filename}" if error.filename else ""
        fail(WriteError(f"could not read or write{name}: {error.strerror or error}"))
    except SystemExit:
        if type(sys.stdout).__name__ == "PacifyFlushWrapper":  # typer found the pipe closed
            raise SystemExit(0) from None
        raise
    if code:
        raise SystemExit(code)
