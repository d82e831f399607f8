"""Imports public names on first use, so that a recipe or `--help` need not wait for torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def imported(path: str) -> Any:
    """Imports and returns the object of a dotted path such as `regard.tasks.tag.Tag`."""
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def homes_of(modules: Mapping[str, str]) -> dict[str, str]:
    """For each public name the module that defines it.

    Args:
        modules: For each module its public names, divided by spaces.

    Example:
        >>> homes_of({"regard.layers": "Tap Edit"})
        {'Tap': 'regard.layers', 'Edit': 'regard.layers'}
    """
    return {name: module for module, names in modules.items() for name in names.split()}


def lazy_getattr(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Makes the `__getattr__` of a package that imports its public names on first use.

    Args:
        package: The package's name.
        homes: For each public name the module that defines it, or the package it is a module of.
    """

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(__import__(homes[name], fromlist=[name]), name)

    return get
