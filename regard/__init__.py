"""Regard: attention models that can be trained, run, looked into, edited and watched change.

Public names are imported on first use, so that `import regard` and `regard --help` stay light.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_PUBLIC = {
    "Pipeline": "regard.pipeline",
    "load": "regard.pipeline",
    "train": "regard.training",
    "plan": "regard.plan",
    "show": "regard.atlas",
    "Tap": "regard.layers",
    "Edit": "regard.layers",
    "knock_out": "regard.layers",
    "UserError": "regard.errors",
}
__all__ = [*_PUBLIC, "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'regard' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
