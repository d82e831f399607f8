"""Imports public names on first use, so that a recipe or `--help` need not wait for torch."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any


def imported(path: str) -> Any:
    """Imports and returns the object of a dotted path such as `regard.tasks.tag.Tag`."""
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def lazy_package(
    package: str, renamed: Mapping[str, str] = MappingProxyType({})
) -> tuple[Callable[[str], Any], list[str]]:
    """Makes the `__getattr__` and the `__all__` of a package from its stub.

    The stub, `__init__.pyi`, is the only list of the package's public names. Type checkers read it,
    too. It has a line `from MODULE import NAME as NAME` for each of them.

    Args:
        package: The package's name.
        renamed: Former public names, each with what it is called now; importing one says so.
    """
    stub = (pkgutil.get_data(package, "__init__.pyi") or b"").decode()
    lines = re.findall(r"^from (\S+) import (\w+) as \2$", stub, re.MULTILINE)
    modules = {name: module for module, name in lines}
    get = lazy_getattr(package, modules)

    def get_or_explain(name: str) -> Any:
        if name in renamed:
            raise ImportError(f"{package}.{name} is now {renamed[name]}")
        return get(name)

    return get_or_explain, [*modules]


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
