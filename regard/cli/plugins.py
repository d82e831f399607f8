"""Commands of packages that stand on top of Regard: imported when they are typed.

`regard --help` lists them from the table below, so it is as fast as without them. To add one, write
a line in the table, and `add_plugin` in `commands.py`, at its place in the list.
"""

from __future__ import annotations

from collections.abc import Callable

import typer

from regard.cli.late import LateCommand
from regard.runtime.lazy import imported

PLUGINS = {
    "demo": (
        "regard_lectures.commands.demo",
        "Run a guided tour: translate, look inside, remove a head, train from scratch.",
    ),
    "show": (
        "regard_lectures.commands.show",
        "Draw a figure of the lectures, computed from a model or by a calculation.",
    ),
    "lecture": (
        "regard_lectures.commands.lecture",
        "List the slides of a lecture, each with the command that shows it.",
    ),
}
"""The name of a command -> the function that it calls, and the line for `regard --help`."""


class PluginCommand(LateCommand):
    """A command of `PLUGINS`."""

    def function(self) -> Callable[..., None]:
        """Imports it."""
        path, _ = PLUGINS[self.name or ""]
        return imported(path)


def add_plugin(app: typer.Typer, name: str) -> None:
    """Adds a command of `PLUGINS`; it is listed after those that were added before it."""
    app.command(name, cls=PluginCommand, help=PLUGINS[name][1])(lambda: None)
