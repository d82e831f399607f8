"""Imports public names on first use, so that a recipe or `--help` need not wait for torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def imported(path: str) -> Any:
    """Imports and returns the object of a dotted path such as `regard.tasks.tag.Tag`."""
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def lazy_getattr(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Makes the `__getattr__` of a package that imports its public names on first use.

    Args:
        package: The package's name.
        homes: For each public name the module that defines it.
    """

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return get
