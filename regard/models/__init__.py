"""Model families: most of them are configs of the same blocks."""

from __future__ import annotations

from regard.runtime.lazy import lazy_package

_STACKS = "SequenceStack, WritingStack or GridStack of regard.layers: one side of a model"
__getattr__, __all__ = lazy_package(__name__, {"BlocksConfig": _STACKS})
