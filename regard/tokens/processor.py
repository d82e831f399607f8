"""What turns items into what a model reads, and back, which a checkpoint keeps as one JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from regard.tokens.listing import Token, tokens_of
from regard.tokens.saved import parse
from regard.tokens.spec import damaged
from regard.tokens.tokenizer import Tokenizer

KEPT = ("vocab.json", "target_vocab.json", "source.spm", "target.spm", "tokenizer_config.json",
        "special_tokens_map.json", "added_tokens.json")  # fmt: skip
"""The files of a folder with a tokenizer for each side: no `tokenizer.json` holds two."""


@dataclass(frozen=True)
class Processor:
    """What turns items into what a model reads, and what it writes back into text.

    Of text: the tokenizers of both sides; with a shared vocabulary they are one (`Vocabulary`).
    Of images: an `ImageReader` (`regard/data/images/reader.py`), and no target.
    """

    source: Any
    target: Any = None
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """Of two that came from a folder: its files, among `KEPT`, as they were."""

    @property
    def vocabularies(self) -> tuple[int, ...]:
        """Entries of each side that has tokens, the source's first."""
        sides = (self.source, self.target)
        return tuple(side.vocab for side in sides if hasattr(side, "vocab"))

    @property
    def shared(self) -> bool:
        """Whether source and target have one vocabulary."""
        return self.source is self.target

    def tokens(self, text: str, *, target: bool = False) -> list[Token]:
        """The tokens of a text, one by one: symbol, id and place in the text.

        Args:
            text: Any text.
            target: Whether to read it as the other side, which a translator writes.
        """
        return tokens_of(self.target if target else self.source, text, target=target)

    def to_json(self) -> str:
        """Both as one text: shared or alone, that of the one; else `{"source": …, "target": …}`."""
        if self.shared or self.target is None:
            return self.source.to_json()
        packed = {name: base64.b64encode(data).decode() for name, data in self.files.items()}
        files = f',"files":{json.dumps(packed)}' if packed else ""
        return f'{{"source":{self.source.to_json()},"target":{self.target.to_json()}{files}}}'

    @staticmethod
    def from_json(text: str) -> Any:
        """Undo `to_json`: a `Vocabulary`, or the `Processor` of an image reader.

        Raises:
            InputError: If the text is damaged, or is neither a tokenizer that `learn` makes nor
                one that `read_folder` read.
        """
        spec = parse(text)
        if spec.get("reader") == "images":
            from regard.data.images.reader import ImageReader  # Pillow, which text does not need

            return Processor(ImageReader.from_spec(spec))
        if "source" in spec or "target" in spec:
            source, target = (Tokenizer.from_spec(spec.get(side)) for side in ("source", "target"))
            return Vocabulary(source, target, _unpacked(spec.get("files", {})))
        both = Tokenizer.from_spec(spec)
        return Vocabulary(both, both)


@dataclass(frozen=True)
class Vocabulary(Processor):
    """The processor of a model both of whose sides are text."""

    source: Tokenizer
    target: Tokenizer


def _unpacked(files: object) -> dict[str, bytes]:
    """The kept files of a folder from their text; no other name is ever written."""
    if not isinstance(files, dict) or not files.keys() <= set(KEPT):
        raise damaged("tokenizer.json", "files that no tokenizer has")
    try:
        return {name: base64.b64decode(text, validate=True) for name, text in files.items()}
    except (TypeError, ValueError):
        raise damaged("tokenizer.json", "files that are no base64") from None
