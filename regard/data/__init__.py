"""Datasets: files and generators -> examples -> batches, the first step of the data path."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.runtime.lazy import lazy_getattr, modules_by_name

if TYPE_CHECKING:
    from regard.data.batch import Batch as Batch
    from regard.data.batch import Cursor as Cursor
    from regard.data.sources import load_splits as load_splits
    from regard.data.synthetic import grammar as grammar
    from regard.data.synthetic.scenes import make_scene as make_scene
    from regard.data.text.annotations import LabelledText as LabelledText
    from regard.data.text.corpus import Corpus as Corpus
    from regard.data.text.corruption import CorruptedCorpus as CorruptedCorpus
    from regard.data.text.corruption import Masking as Masking
    from regard.data.text.corruption import Symbols as Symbols
    from regard.data.text.files import load_pairs as load_pairs
    from regard.data.text.files import split_files as split_files
    from regard.data.text.packing import Packed as Packed
    from regard.data.text.pairs import Pair as Pair
    from regard.data.text.pairs import Splits as Splits
    from regard.data.text.python_docs import python_text as python_text
    from regard.data.text.spans import SpanCorruption as SpanCorruption

_MODULES = modules_by_name(
    {
        "regard.data.batch": "Batch Cursor",
        "regard.data.sources": "load_splits",
        "regard.data.synthetic": "grammar",
        "regard.data.synthetic.scenes": "make_scene",
        "regard.data.text.annotations": "LabelledText",
        "regard.data.text.corpus": "Corpus",
        "regard.data.text.corruption": "CorruptedCorpus Masking Symbols",
        "regard.data.text.files": "load_pairs split_files",
        "regard.data.text.packing": "Packed",
        "regard.data.text.pairs": "Pair Splits",
        "regard.data.text.python_docs": "python_text",
        "regard.data.text.spans": "SpanCorruption",
    }
)
__all__ = [*_MODULES]
if not TYPE_CHECKING:  # else every name would pass the type checker
    __getattr__ = lazy_getattr(__name__, _MODULES)
