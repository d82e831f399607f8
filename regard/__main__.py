"""`python -m regard` is `regard`."""

from __future__ import annotations

from regard.runtime.garbage import postpone
from regard.runtime.stopping import be_the_command


def command() -> None:
    """What was typed, in a process of its own."""
    be_the_command()  # before the commands are imported
    postpone()

    from regard.cli import main

    main()


if __name__ == "__main__":
    command()
