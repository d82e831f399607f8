"""The table of readers: the name of a modality comes in, its `Reader` goes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from regard.runtime.lazy import imported


@dataclass(frozen=True)
class ReaderEntry:
    """One row of the table of readers: where the class is, and what else depends on the modality.

    Attributes:
        home: The import path of the class, imported on first use.
        hub: The import path of the module that reads and writes it in the folders of others.
        has_tokens: Whether a recipe has a section `tokens`, from which a vocabulary is learned.
        commands: The commands that work with any model that reads it, beside those of its task.
    """

    home: str
    hub: str
    has_tokens: bool = False
    commands: tuple[str, ...] = ("look", "heads")

    @property
    def reader(self) -> Any:
        """The class of the reader."""
        return imported(self.home)


READERS: dict[str, ReaderEntry] = {
    "text": ReaderEntry(
        "regard.inputs.text.tokenizer.Tokenizer",
        "regard.hub.text",
        has_tokens=True,
        commands=("words", "look", "heads"),
    ),
    "images": ReaderEntry("regard.inputs.images.reader.ImageReader", "regard.hub.images"),
    "table": ReaderEntry("regard.inputs.table.reader.TableReader", "regard.hub.table", commands=()),
}
