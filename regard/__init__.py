"""Regard: train, run, look into and edit attention models.

Public names are imported on first use, so that `import regard` and `regard --help` are fast.
"""

from __future__ import annotations

from regard.runtime import stopping  # noqa: F401 (first: a signal may come during the other imports)

# isort: split
import sys
from types import ModuleType
from typing import Any

from regard.runtime.lazy import lazy_package

__version__ = "0.6.0"

__getattr__, __all__ = lazy_package(__name__)
__all__ += ["__version__"]


def __dir__() -> list[str]:
    return sorted(__all__)


def _always_the_function(name: str) -> property:
    """A property for a public function that has the same name as a submodule of the package.

    Importing the submodule `regard.train` would set the attribute `train` to the module. This
    property ignores the assignment, so that `regard.train` stays the function;
    `from regard.train import …` still finds the submodule in `sys.modules`.
    """

    def keep(package: Any, module: ModuleType) -> None:
        del package, module

    return property(lambda _: __getattr__(name), keep)


class _Package(ModuleType):
    train = _always_the_function("train")
    watch = _always_the_function("watch")
    vectors = _always_the_function("vectors")


sys.modules[__name__].__class__ = _Package
