"""For each figure two sets of numbers that say opposite things: its words must differ.

Each module has `OPPOSITES`: the figure's name -> two mappings, each with all that the figure's
`words_NAME` reads. A module may have `SHUFFLED`, too: the figure's name -> its options, with the
name of a shipped model, whose weights are shuffled before the figure is drawn.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

OPPOSITES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
SHUFFLED: dict[str, dict[str, Any]] = {}
for module in iter_modules(__path__):
    part = import_module(f"{__name__}.{module.name}")
    OPPOSITES |= part.OPPOSITES
    SHUFFLED |= getattr(part, "SHUFFLED", {})
