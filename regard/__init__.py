"""Regard: attention models that can be trained, run, looked into, edited and watched change.

Public names are imported on first use, so that `import regard` and `regard --help` stay light.
"""

from __future__ import annotations

from regard.runtime import stopping  # noqa: F401 (first: a signal may come during the other imports)

# isort: split
import sys
from types import ModuleType
from typing import Any

from regard.runtime.lazy import lazily

__version__ = "0.1.0"

_PUBLIC = {
    "Pipeline": "regard.pipeline",
    "load": "regard.runs.load",
    "vocabulary": "regard.runs.load",
    "vectors": "regard.vectors.store",
    "train": "regard.runs.train",
    "plan": "regard.cost.plan",
    "show": "regard.atlas",
    "watch": "regard.watch",
    "Tap": "regard.layers",
    "Edit": "regard.layers",
    "knock_out": "regard.layers",
    "UserError": "regard.errors",
}
__all__ = [*_PUBLIC, "__version__"]


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = lazily(__name__, _PUBLIC)


def _always_the_function(name: str) -> property:
    """A public name that a folder or file of the package also has.

    Importing `regard.train` would put the folder in the place of the function; what is set here is
    let go, and `from regard.train import …` finds the folder all the same.
    """

    def keep(package: Any, module: ModuleType) -> None:
        del package, module

    return property(lambda _: __getattr__(name), keep)


class _Package(ModuleType):
    train = _always_the_function("train")
    watch = _always_the_function("watch")
    vectors = _always_the_function("vectors")


sys.modules[__name__].__class__ = _Package
