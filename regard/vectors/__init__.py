"""Word vectors: reading, queries, maps, evaluation, training. `regard.vectors(NAME)` opens them.

`table.py` answers queries (neighbours, analogies), `files.py` and `store.py` read and write,
`projection.py` draws a map in the plane, `scores.py` evaluates on analogies and human similarity
scores, `training.py` trains vectors on plain text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.runtime.lazy import lazy_getattr, modules_by_name

if TYPE_CHECKING:
    from regard.vectors.projection import pca as pca
    from regard.vectors.table import Neighbour as Neighbour

_MODULES = modules_by_name(
    {"regard.vectors.projection": "pca", "regard.vectors.table": "Neighbour"}
)
__all__ = [*_MODULES]
if not TYPE_CHECKING:  # else every name would pass the type checker
    __getattr__ = lazy_getattr(__name__, _MODULES)
