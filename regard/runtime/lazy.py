"""Imports public names on first use, so that a recipe or `--help` need not wait for torch."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any


def imported(path: str) -> Any:
    """Imports and returns the object of a dotted path such as `regard.tasks.tag.Tag`."""
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def modules_by_name(modules: Mapping[str, str]) -> dict[str, str]:
    """For each public name the module that defines it.

    Args:
        modules: For each module its public names, divided by spaces.

    Example:
        >>> modules_by_name({"regard.layers": "Tap Edit"})
        {'Tap': 'regard.layers', 'Edit': 'regard.layers'}
    """
    return {name: module for module, names in modules.items() for name in names.split()}


def names_in_stub(file: str) -> dict[str, str]:
    """For each public name of a package the module that defines it, as the stub file has it.

    The stub, `__init__.pyi`, is what type checkers and editors read. It has a line
    `from MODULE import NAME as NAME` for each name, so that the names are written once.

    Args:
        file: The `__file__` of the package.
    """
    stub = Path(file).with_suffix(".pyi").read_text(encoding="utf-8")
    lines = re.findall(r"^from (\S+) import (\w+) as \2$", stub, re.MULTILINE)
    return {name: module for module, name in lines}


def lazy_getattr(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Makes the `__getattr__` of a package that imports its public names on first use.

    Args:
        package: The package's name.
        modules: For each public name its module; for a public submodule, its package.
    """

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(__import__(modules[name], fromlist=[name]), name)

    return get
