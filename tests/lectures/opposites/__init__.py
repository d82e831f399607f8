"""For each figure two sets of numbers that say opposite things: its words must differ.

Each module has `OPPOSITES`: the figure's name -> two mappings, each with all that the figure's
`words_NAME` reads.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

OPPOSITES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
for module in iter_modules(__path__):
    OPPOSITES |= import_module(f"{__name__}.{module.name}").OPPOSITES
