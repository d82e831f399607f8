"""Word vectors: reading, queries, maps, evaluation, training. `regard.vectors(NAME)` opens them.

`table.py` answers queries (neighbours, analogies), `files.py` and `store.py` read and write,
`projection.py` draws a map in the plane, `scores.py` evaluates on analogies and human similarity
scores, `training.py` trains vectors on plain text.
"""

from __future__ import annotations

from regard.runtime.lazy import lazy_package

__getattr__, __all__ = lazy_package(__name__)
