"""Pictures, pages and summary numbers of recorded attention."""

from __future__ import annotations

from regard.runtime.lazy import lazy_getattr, names_in_stub

_MODULES = names_in_stub(__file__)
__all__ = [*_MODULES]
__getattr__ = lazy_getattr(__name__, _MODULES)
