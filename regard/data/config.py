"""The `data:` section of a recipe: where the examples come from."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from regard.config import Config

Files = str | tuple[str, str]
"""One TSV or JSONL file, or two line-aligned files (source, target); plain or `.gz`."""


class GrammarData(Config):
    """English-German pairs from the embedded synchronous grammar."""

    kind: Literal["grammar"] = "grammar"
    pairs: int = Field(default=60_000, ge=1)
    """How many training pairs to generate."""
    held_out: int = Field(default=500, ge=1)
    """How many pairs of each held-out kind to generate, and of the validation split."""
    seed: int = 0


class ToyData(Config):
    """Sequences of symbols to copy, reverse or sort."""

    kind: Literal["copy", "reverse", "sort"]
    pairs: int = Field(default=10_000, ge=1)
    held_out: int = Field(default=500, ge=1)
    symbols: int = Field(default=20, ge=2, le=1000)
    longest: int = Field(default=10, ge=1)
    seed: int = 0


class FileData(Config):
    """A person's own parallel text."""

    kind: Literal["files"] = "files"
    train: Files
    valid: Files | None = None
    """Without it, `held_out` training pairs are set aside, chosen by `seed`, and not trained on."""
    test: Files | None = None
    held_out: int = Field(default=500, ge=1)
    on_bad: Literal["stop", "skip"] = "stop"
    """What to do with empty lines, bad UTF-8 and over-long pairs. Unequal lengths always stop."""
    max_words: int = Field(default=250, ge=1)
    """A pair with more words than this on a side is over-long."""
    seed: int = 0


class TextData(Config):
    """Plain text to learn a language from."""

    kind: Literal["text"] = "text"
    files: tuple[str, ...]
    """Files, folders or patterns: `.txt`, `.txt.gz`, or `.jsonl` with a `text` in each line."""
    valid: tuple[str, ...] = ()
    """Without it, `held_out` of the documents are set aside, or the end of a single one."""
    held_out: float = Field(default=0.05, gt=0, lt=1)
    separator: str | None = None
    """The line between two documents of a file, `""` for an empty line; None: a file is one."""
    rows: Literal["packed", "stream"] = "packed"
    """`packed`: documents apart from each other; `stream`: rows from anywhere in the text."""
    on_bad: Literal["stop", "skip"] = "stop"
    """What to do with empty documents, bad UTF-8 and lines that are no JSON."""
    seed: int = 0


class PythonData(Config):
    """The documentation inside Python's own standard library: English that every machine has."""

    kind: Literal["python"] = "python"
    held_out: float = Field(default=0.05, gt=0, lt=1)
    rows: Literal["packed", "stream"] = "packed"
    seed: int = 0


class NoData(Config):
    """Of a model that came from elsewhere, with its weights."""

    kind: Literal["none"] = "none"


DataConfig = Annotated[
    GrammarData | ToyData | FileData | TextData | PythonData | NoData, Field(discriminator="kind")
]
