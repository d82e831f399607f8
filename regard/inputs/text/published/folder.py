"""Reading the files of a published model's folder, as data only and with a size limit.

In: the path of a folder. Out: text, JSON objects, vocabularies and SentencePiece models; a file
with unexpected content is an `InputError` that names it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.inputs.text.published.sentencepiece import PieceModel, read_pieces
from regard.inputs.text.spec import file_error, parse_object
from regard.runtime.files import read_regular

LARGEST = 256 << 20
"""The most bytes of a file; the largest published tokenizer.json has about 35 MB."""


class Folder:
    """The files of a folder; each is read once, up to `LARGEST` bytes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read: dict[str, bytes] = {}

    def has(self, name: str) -> bool:
        """Whether the folder has this file."""
        return (self.path / name).is_file()

    def name(self, name: str) -> str:
        """Return the path of a file, for errors."""
        return str(self.path / name)

    def bytes(self, name: str) -> bytes:
        """Return the bytes of a file.

        Raises:
            InputError: If it cannot be read.
        """
        file = self.path / name
        try:
            if name not in self._read:
                self._read[name] = read_regular(file, most=LARGEST)
        except OSError as problem:
            got, fix = problem.strerror or problem, "take the file from another copy of the model"
            raise InputError(f"could not read {file}", got=got, fix=fix) from None
        return self._read[name]

    def text(self, name: str) -> str:
        """Return a file decoded as UTF-8."""
        try:
            return self.bytes(name).decode("utf-8")
        except UnicodeDecodeError as problem:
            got = f"text that is not UTF-8, at byte {problem.start}"
            raise file_error(self.name(name), got) from None

    def json(self, name: str) -> dict[str, Any]:
        """Parse a file with a JSON object."""
        return parse_object(self.text(name), lambda got: file_error(self.name(name), got))

    def json_or_empty(self, name: str) -> dict[str, Any]:
        """Parse a file with a JSON object; empty if the file is missing."""
        return self.json(name) if self.has(name) else {}

    def ids(self, name: str) -> dict[str, int]:
        """Parse a JSON file that maps pieces to ids."""
        vocab = self.json(name)
        if not all(type(token) is int and token >= 0 for token in vocab.values()):
            raise file_error(self.name(name), "an id that is not a whole number")
        return vocab

    def pieces(self, name: str) -> PieceModel:
        """Parse a SentencePiece model."""
        return read_pieces(self.bytes(name), self.name(name))
