"""Datasets: files and generators -> examples -> batches, the first step of the data path."""

from __future__ import annotations

from regard.runtime.lazy import lazy_package

__getattr__, __all__ = lazy_package(__name__)
