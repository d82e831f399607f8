"""What a model reads: arrays of numbers, and one reader for each modality."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.runtime.lazy import lazy_getattr, modules_by_name

if TYPE_CHECKING:
    from regard.inputs.arrays import Dense as Dense
    from regard.inputs.arrays import Ragged as Ragged
    from regard.inputs.images.reader import ImageReader as ImageReader
    from regard.inputs.processor import Processor as Processor
    from regard.inputs.processor import Vocabulary as Vocabulary
    from regard.inputs.reader import READERS as READERS
    from regard.inputs.reader import Encoded as Encoded
    from regard.inputs.reader import Reader as Reader
    from regard.inputs.reader import ReaderEntry as ReaderEntry
    from regard.inputs.text.config import TokensConfig as TokensConfig
    from regard.inputs.text.learn import TaskSymbols as TaskSymbols
    from regard.inputs.text.learn import learn as learn
    from regard.inputs.text.learn import learn_plain as learn_plain
    from regard.inputs.text.learn import sentinels_of as sentinels_of
    from regard.inputs.text.reader import TextReader as TextReader
    from regard.inputs.text.tokenizer import Tokenizer as Tokenizer

_MODULES = modules_by_name(
    {
        "regard.inputs.arrays": "Dense Ragged",
        "regard.inputs.images.reader": "ImageReader",
        "regard.inputs.processor": "Processor Vocabulary",
        "regard.inputs.reader": "Encoded READERS Reader ReaderEntry",
        "regard.inputs.text.config": "TokensConfig",
        "regard.inputs.text.learn": "TaskSymbols learn learn_plain sentinels_of",
        "regard.inputs.text.reader": "TextReader",
        "regard.inputs.text.tokenizer": "Tokenizer",
    }
)
__all__ = [*_MODULES]
if not TYPE_CHECKING:  # else every name would pass the type checker
    __getattr__ = lazy_getattr(__name__, _MODULES)
