"""The entry point of `regard` and of `python -m regard`."""

from __future__ import annotations

from regard.runtime.garbage import collect_seldom
from regard.runtime.stopping import set_up_command


def command() -> None:
    """Runs the command line in a process of its own."""
    set_up_command()  # first, so that a signal during the slow imports ends the process properly
    collect_seldom()

    from regard.cli import main

    main()


if __name__ == "__main__":
    command()
