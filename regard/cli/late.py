"""A command whose function is imported or made when it is called, not for `regard --help`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from typer.core import TyperCommand
from typer.main import get_command_from_info
from typer.models import CommandInfo


class LateCommand(TyperCommand):
    """A command that is listed by its name and help alone until it is called."""

    def function(self) -> Callable[..., None]:
        """The function of the command, with a signature from which typer reads the options."""
        raise NotImplementedError

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """Parses the arguments of the command."""
        settings = dict(self.context_settings)
        info = CommandInfo(name=self.name, callback=self.function(), context_settings=settings)
        command = get_command_from_info(info, pretty_exceptions_short=False, rich_markup_mode=None)
        return command.make_context(info_name, args, parent, **extra)
