"""Public names that are imported on first use: a recipe or `--help` must not wait for torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def imported(path: str) -> Any:
    """What a dotted path such as `regard.tasks.tag.Tag` names, imported now."""
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def lazily(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package.

    Args:
        package: Its name.
        homes: For each public name the module it lives in.
    """

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return get
