"""The entry point of `regard` and of `python -m regard`."""

from __future__ import annotations

from regard.runtime.garbage import postpone
from regard.runtime.stopping import be_the_command


def command() -> None:
    """Runs the command line in a process of its own."""
    be_the_command()  # first, so that a signal during the slow imports ends the process properly
    postpone()

    from regard.cli import main

    main()


if __name__ == "__main__":
    command()
