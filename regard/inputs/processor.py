"""The readers of a model: of what it reads, and of what it writes.

In: texts or images. Out: the model's input; and text from the ids that a model writes. A checkpoint
keeps the processor as one JSON text.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from regard.inputs.readers import READERS
from regard.inputs.text.listing import Token, tokens_of
from regard.inputs.text.ngrams import Ngrams
from regard.inputs.text.saved import parse
from regard.inputs.text.spec import file_error
from regard.inputs.text.tokenizer import Tokenizer

DEFAULT_READER = "text"
"""The reader of a file that names none, as those of text models."""
KEPT_FILES = ("vocab.json", "target_vocab.json", "source.spm", "target.spm",
              "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")  # fmt: skip
"""Files of a published folder with one tokenizer for each side. They are kept, as a
`tokenizer.json` can hold only one."""


@dataclass(frozen=True)
class Processor:
    """Turns texts or images into a model's input, and the model's output ids into text.

    `source` and `target` are readers of `READERS`. For text models (`Vocabulary`) they are the
    tokenizers of both sides; with a shared vocabulary they are the same object. A model that writes
    nothing has no target.
    """

    source: Any
    target: Any = None
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """Contents of the `KEPT_FILES` files, by name, if two tokenizers were read from a folder."""
    ngrams: Ngrams | None = field(default=None, repr=False)
    """The word n-grams of the training text, of a model that must not copy them."""

    @property
    def vocabulary_sizes(self) -> tuple[int, ...]:
        """The vocabulary size of each side that has a tokenizer, the source's first."""
        sides = (self.source, self.target)
        return tuple(side.vocab for side in sides if hasattr(side, "vocab"))

    @property
    def shared(self) -> bool:
        """Whether source and target share one vocabulary."""
        return self.source is self.target

    def tokenizer(self, *, target: bool = False) -> Any:
        """The tokenizer of one side: the target's, too, if the source has none, as of captions."""
        return self.target if target or not hasattr(self.source, "vocab") else self.source

    def tokens(self, text: str, *, target: bool = False) -> list[Token]:
        """Tokenize a text: the printable piece, id and span of each token.

        Args:
            text: Any text.
            target: Whether to use the target's tokenizer instead of the source's.
        """
        target = target or not hasattr(self.source, "vocab")
        return tokens_of(self.tokenizer(target=target), text, target=target)

    def to_json(self) -> str:
        """Return the processor as JSON.

        A shared tokenizer or an only reader is its own JSON, with n-grams `{"ngrams": …,
        "tokenizer": …}`; two tokenizers become `{"source": …, "target": …}`; two other readers
        `{"regard": 2, "readers": ["images", "text"], "source": …, "target": …}`, with their names
        in `READERS`.
        """
        source, reads_text = self.source.to_json(), self.source.modality == DEFAULT_READER
        if self.target is None or (self.shared and reads_text):
            if self.ngrams is None:
                return source
            return f'{{"ngrams":{json.dumps(self.ngrams.to_spec())},"tokenizer":{source}}}'
        target = '"source"' if self.shared else self.target.to_json()
        sides = f'"source":{source},"target":{target}'
        if not (reads_text and self.target.modality == DEFAULT_READER):
            names = json.dumps([self.source.modality, self.target.modality])
            return f'{{"regard":2,"readers":{names},{sides}}}'
        packed = {name: base64.b64encode(data).decode() for name, data in self.files.items()}
        files = f',"files":{json.dumps(packed)}' if packed else ""
        return f"{{{sides}{files}}}"

    @staticmethod
    def from_json(text: str) -> Any:
        """Build a `Vocabulary`, or the `Processor` of other readers, from `to_json`'s result.

        Raises:
            InputError: If the text is damaged, or is neither a tokenizer that `learn` makes nor
                one that `read_folder` read.
        """
        spec = parse(text)
        if "readers" in spec:
            return Processor(*_readers(spec))
        name = spec.get("reader", DEFAULT_READER)
        if name != DEFAULT_READER and name in READERS:
            return Processor(READERS[name].reader.from_spec(spec))
        if "source" in spec or "target" in spec:
            source, target = (Tokenizer.from_spec(spec.get(side)) for side in ("source", "target"))
            return Vocabulary(source, target, _unpack_files(spec.get("files", {})))
        ngrams = Ngrams.from_spec(spec["ngrams"]) if "ngrams" in spec else None
        tokenizer = Tokenizer.from_spec(spec if ngrams is None else spec.get("tokenizer"))
        return Vocabulary(tokenizer, tokenizer, ngrams=ngrams)


@dataclass(frozen=True)
class Vocabulary(Processor):
    """The processor of a text model: a tokenizer for each side."""

    source: Tokenizer
    target: Tokenizer


def _readers(spec: Mapping[str, Any]) -> list[Any]:
    """The readers of both sides, by their names in `READERS`."""
    names = spec["readers"]
    valid = [name for name in READERS if isinstance(names, list) and name in names]
    if spec.get("regard") != 2 or not valid or len(names) != 2 or {*valid} != {*map(str, names)}:
        raise file_error("tokenizer.json", "readers that this version does not know")
    source = READERS[names[0]].reader.from_spec(spec.get("source"))
    if spec.get("target") == "source":
        return [source, source]
    return [source, READERS[names[1]].reader.from_spec(spec.get("target"))]


def _unpack_files(files: object) -> dict[str, bytes]:
    """Decode the kept files from base64; names outside `KEPT_FILES` are an error."""
    if not isinstance(files, dict) or not files.keys() <= set(KEPT_FILES):
        raise file_error("tokenizer.json", "files that no tokenizer has")
    try:
        return {name: base64.b64decode(text, validate=True) for name, text in files.items()}
    except (TypeError, ValueError):
        raise file_error("tokenizer.json", "files that are not base64") from None
