"""The shelf: trained models and word vectors that ship with Regard, each with a model card.

In: the package's folders, `shipped/SIZE/NAME`. Out: entries by name (`tiny/translate`). A card is
the entry's `README.md`, as on the Hugging Face hub: facts in YAML between two lines of three
dashes, for programs, and prose below, for people.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from pydantic import Field, ValidationError

from regard.config import Config, input_error
from regard.errors import InputError
from regard.recipes.yaml import read
from regard.runtime.units import aligned
from regard.tasks.senses import SenseTest

CARD = "README.md"
DASHES = "---\n"


class Source(Config):
    """A dataset that a model was trained on."""

    name: str = Field(min_length=1)
    origin: str = Field(min_length=1)
    """Where the data can be obtained."""
    attribution: str = Field(min_length=1)
    license: str = Field(min_length=1)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    """Checksum of the file, or of the lines that `regard data sample` prints of generated pairs."""


class Score(Config):
    """The value of one metric."""

    name: str = Field(min_length=1)
    value: float
    on: str = Field(min_length=1)
    """What was measured, and how."""
    signature: str | None = None
    """The signature that sacrebleu prints."""


class Card(Config):
    """The model card of an entry; listings show its first score."""

    title: str = Field(min_length=1)
    license: str = Field(min_length=1)
    """The model's license, as the licenses of its data require."""
    language: tuple[str, ...] = ()
    """Codes of the languages of a model of text."""
    recipe: str | None = None
    """The shipped recipe that reproduces it; None for vectors that others trained."""
    parameters: int = Field(ge=1)
    bytes: int = Field(ge=1)
    """Size of all files without the card."""
    summary: str = Field(min_length=1, max_length=80)
    """One line for pictures: what it is, how long it was trained, and on what."""
    training: str = Field(min_length=1)
    """How long training took, and on which machine."""
    data: tuple[Source, ...] = Field(min_length=1)
    scores: tuple[Score, ...] = Field(min_length=1)
    senses: tuple[SenseTest, ...] = ()
    """What its vectors say about word senses, layer by layer; empty if it was not measured."""
    weaknesses: tuple[str, ...] = Field(min_length=1)
    prose: str = ""
    """The text below the facts."""

    def describe(self) -> str:
        """The card as text: one line for each fact, then the prose."""
        rows = [("made by", self.recipe)] if self.recipe else []
        rows += [("language", ", ".join(self.language))] if self.language else []
        rows += [
            ("license", self.license),
            ("parameters", f"{self.parameters:,}"),
            ("size", in_megabytes(self.bytes)),
            ("training", self.training),
        ]
        for data in self.data:
            source = f"{data.name}: {data.origin}; {data.attribution}; {data.license}"
            rows += [("data", source), ("sha256", data.sha256)]
        for score in self.scores:
            rows.append((score.name, f"{score.value:g}, {score.on}"))
            rows += [("signature", score.signature)] if score.signature else []
        for test in self.senses:
            where = "top" if test.layer is None else f"layer {test.layer}"
            rows.append((f"senses, {where}", test.describe()))
        rows += [("bad at", weakness) for weakness in self.weaknesses]
        return "\n".join([self.title, "", *aligned(rows), "", self.prose]).rstrip()


def shipped() -> dict[str, Traversable]:
    """The folders of all shipped entries by name."""
    return {
        f"{size.name}/{entry.name}": entry
        for size in _folders(files("regard") / "shipped")
        for entry in _folders(size)
    }


def _folders(root: Traversable) -> Iterator[Traversable]:
    """The folders in a folder, sorted by name, without hidden ones (`.name`, `_name`)."""
    entries = root.iterdir() if root.is_dir() else ()
    for entry in sorted(entries, key=lambda entry: entry.name):
        if entry.is_dir() and not entry.name.startswith((".", "_")):
            yield entry


def is_model(entry: Traversable) -> bool:
    """Whether an entry is a model, by its config; otherwise it is word vectors."""
    config = json.loads(entry.joinpath("config.json").read_text("utf-8"))
    return bool(config["family"] != "vectors")


def bytes_of(entry: Traversable) -> int:
    """The size of an entry on disk, without its card."""
    files = (file for file in entry.iterdir() if file.name != CARD)
    return sum(file.stat().st_size if isinstance(file, Path) else len(file.read_bytes())
               for file in files)  # fmt: skip


def in_megabytes(size: int) -> str:
    """A size in bytes as text in megabytes.

    Example:
        >>> in_megabytes(2_853_837)
        '2.9 MB'
    """
    return f"{size / 1e6:.1f} MB"


def card_of(entry: Traversable) -> Card:
    """Reads and validates the card of an entry.

    Raises:
        InputError: There is no card, or a fact is missing or of a wrong type.
    """
    path = f"{entry.name}/{CARD}"
    try:
        text = entry.joinpath(CARD).read_text("utf-8")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file", expected="a card beside the model") from None
    facts, end, prose = text.removeprefix(DASHES).partition(f"\n{DASHES}")
    if not text.startswith(DASHES) or not end:
        raise InputError(path, got="no facts", expected="YAML between two lines of ---")
    values = read(facts, lambda line: f"{path}:{line + 1}").values
    if not isinstance(values, dict):
        raise InputError(path, got="no keys", expected="facts")
    try:
        return Card.model_validate({**values, "prose": prose.strip()}, strict=True)
    except ValidationError as error:
        raise input_error(error, path) from None
