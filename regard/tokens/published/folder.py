"""The files of somebody's model folder, read as data and within bounds.

In: a path. Out: text, JSON objects, vocabularies and SentencePiece models; a file that is not what
its name says is an error with its name.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.runtime.files import read_regular
from regard.tokens.published.sentencepiece import PieceModel, read_pieces
from regard.tokens.spec import damaged

LARGEST = 256 << 20
"""Bytes of the largest file that is read: the largest published tokenizer.json has about 35 MB."""


class Folder:
    """The files of a folder, each read once, within bounds."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read: dict[str, bytes] = {}

    def has(self, name: str) -> bool:
        """Whether there is such a file."""
        return (self.path / name).is_file()

    def name(self, name: str) -> str:
        """What to call a file in errors."""
        return str(self.path / name)

    def bytes(self, name: str) -> bytes:
        """All of a file."""
        file = self.path / name
        try:
            if name not in self._read:
                self._read[name] = read_regular(file, most=LARGEST)
        except OSError as problem:
            raise InputError(
                f"could not read {file}",
                got=problem.strerror or problem,
                fix="take the file from another copy of the model",
            ) from None
        return self._read[name]

    def text(self, name: str) -> str:
        """A file of UTF-8."""
        try:
            return self.bytes(name).decode("utf-8")
        except UnicodeDecodeError as problem:
            raise damaged(self.name(name), f"no UTF-8 at byte {problem.start}") from None

    def json(self, name: str) -> dict[str, Any]:
        """A file with a JSON object."""
        try:
            value = json.loads(self.text(name))
        except (ValueError, RecursionError) as problem:
            raise damaged(self.name(name), f"no JSON ({problem})") from None
        if not isinstance(value, dict):
            raise damaged(self.name(name), f"a JSON {type(value).__name__}")
        return value

    def json_if_there(self, name: str) -> dict[str, Any]:
        """The same, empty if there is no such file."""
        return self.json(name) if self.has(name) else {}

    def ids(self, name: str) -> dict[str, int]:
        """A file that gives each piece its id."""
        vocab = self.json(name)
        if not all(type(token) is int and token >= 0 for token in vocab.values()):
            raise damaged(self.name(name), "an id that is no whole number")
        return vocab

    def pieces(self, name: str) -> PieceModel:
        """A SentencePiece model."""
        return read_pieces(self.bytes(name), self.name(name))
