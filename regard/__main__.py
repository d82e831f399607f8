"""`python -m regard` is `regard`."""

from __future__ import annotations

from regard.stopping import be_the_command

if __name__ == "__main__":
    be_the_command()  # before the commands are imported

    from regard.cli import main

    main()
