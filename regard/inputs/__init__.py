"""What a model reads: arrays of numbers, and one reader for each modality."""

from __future__ import annotations

from regard.runtime.lazy import lazy_package

__getattr__, __all__ = lazy_package(__name__)
