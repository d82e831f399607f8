"""The layers that all model families are built from; each can be imported on its own.

A name is imported on first use: configs do not need torch.
"""

from __future__ import annotations

from regard.runtime.lazy import lazy_package

__getattr__, __all__ = lazy_package(
    __name__,
    {
        "AttentiveBlock": "regard.layers.AttentionCell",
        "BlockShape": "SequenceStack, WritingStack or GridStack of regard.layers",
        "sublayers": "regard.layers.make_sublayers",
    },
)
