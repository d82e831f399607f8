"""Readers: what a person gives (a text, the path of an image) -> what a model reads, once per item.

There is one reader for each modality: a `Tokenizer` reads texts, an `ImageReader` images. A new
modality is a class with the methods of `Reader` and a line in `READERS` (`readers.py`); no other
code asks what a model reads. This file does not import torch, so that `regard --help` is quick.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from regard.inputs.readers import READERS as READERS

if TYPE_CHECKING:
    from regard.inputs.arrays import Input


@dataclass(frozen=True, eq=False)
class Encoded:
    """One item, read: the numbers that a model reads, and what was noticed on the way."""

    item: Any
    values: Any
    """Token ids (tokens,), or the pixels of an image (channels, height, width)."""
    types: Sequence[int] = ()
    """The segment of each token, for a pair of texts."""
    cut: int = 0
    """How many tokens were cut off, because the model cannot read them."""
    unknown: tuple[str, ...] = ()
    """The words that the vocabulary does not have, wholly or in part."""


class Reader(Protocol):
    """Turns items of one modality into a model's input.

    The class methods need no tokenizer, so that they also serve a model that has none.
    """

    modality: ClassVar[str]
    """Its name in `READERS`."""
    nouns: ClassVar[str]
    """What several items are called in messages."""
    key: ClassVar[str | None]
    """The key of an item in JSON; None: that of the verb."""
    has_grid: ClassVar[bool]
    """Whether the tokens of an item are the cells of a grid, on which attention can be drawn."""

    dash_is_item: ClassVar[bool]
    """Whether the argument `-` is one item on standard input, rather than an item in each line."""

    @classmethod
    def are_ids(cls, items: Any) -> bool:
        """Whether items are not to be read, because they are token ids already."""

    @classmethod
    def is_one(cls, what: str, items: Any, is_single: Callable[[Any], bool]) -> bool:
        """Whether this is one item, not several.

        Args:
            what: The name of the caller, for errors.
            items: One item, or several.
            is_single: The rule of the verb, where texts have several forms.

        Raises:
            InputError: It is neither.
        """

    @classmethod
    def check(cls, what: str, items: Sequence[Any], takes: Callable[[Any], bool]) -> None:
        """Raises an InputError for what can be no item; `takes` says what the verb takes, too."""

    @classmethod
    def item(cls, line: str, parse: Callable[[str], Any]) -> Any:
        """An argument or a line as an item; `parse` is the verb's rule for texts."""

    @classmethod
    def prepared_input(cls, values: Any) -> Input | None:
        """Numbers that a user has prepared, as a model's input; None: they are token ids."""

    def files_in(self, arguments: list[str], skip: Callable[[str], None]) -> list[str]:
        """The arguments, with the items in a folder in its place.

        Args:
            arguments: What was typed.
            skip: Is told which files are left out, and why.
        """

    def read(self, items: Sequence[Any], limit: int | None = None) -> list[Encoded]:
        """Reads items: the only place where this is done.

        Args:
            items: Texts or images, in any form that `check` lets pass.
            limit: The number of tokens that the model can read; more are cut off.

        Raises:
            InputError: An item cannot be read.
        """

    def collate(self, encoded: Sequence[Encoded]) -> Input:
        """Items that were read, as one batch of a model's input."""

    def to_json(self) -> str:
        """The reader as JSON, as a checkpoint keeps it."""

    @classmethod
    def from_spec(cls, spec: Any) -> Self:
        """Builds the reader from its parsed JSON."""
