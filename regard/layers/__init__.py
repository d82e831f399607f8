"""The layers that all model families are built from; each can be imported on its own.

A name is imported on first use: configs do not need torch.
"""

from __future__ import annotations

from regard.runtime.lazy import lazy_package

_get, __all__ = lazy_package(__name__)
_RENAMED = {
    "AttentiveBlock": "AttentionCell",
    "BlockShape": "SequenceStack, WritingStack or GridStack",
    "sublayers": "make_sublayers",
}


def __getattr__(name: str) -> object:
    """Imports a public name, or says the new name of one that was renamed."""
    if name in _RENAMED:
        raise ImportError(f"regard.layers.{name} is now {_RENAMED[name]} of regard.layers")
    return _get(name)
