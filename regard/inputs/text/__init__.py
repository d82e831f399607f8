"""Text <-> token ids: tokenizers, built on `tokenizers`."""

from __future__ import annotations

from regard.runtime.lazy import lazy_package

__getattr__, __all__ = lazy_package(__name__)
