"""The reader of texts: items -> ids with the model's symbols around them. `Tokenizer` is one.

In: texts, or pairs of texts that are read together. Out: an `Encoded` for each, and `Ragged` ids.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar

from regard.errors import InputError
from regard.inputs.reader import Encoded

if TYPE_CHECKING:  # a tokenizer is used without torch, too
    from regard.inputs.arrays import Ragged

Text = str | tuple[str, str | None]
"""One text, or a pair of texts that are read together; the second may be None."""


class TextReader(ABC):
    """Reads texts by the methods of a tokenizer; see `regard.inputs.reader.Reader`."""

    modality: ClassVar[str] = "text"
    nouns: ClassVar[str] = "texts"
    key: ClassVar[str | None] = None
    has_grid: ClassVar[bool] = False
    dash_is_item: ClassVar[bool] = False

    @abstractmethod
    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode many texts on all cores, without symbols around them."""

    @abstractmethod
    def encode_with_specials(self, text: str) -> list[int]:
        """Encode a text in which symbols such as `[MASK]` or `<extra_id_0>` count as symbols."""

    @abstractmethod
    def template(self, ids: Sequence[int], pair: Sequence[int] | None = None) -> list[int]:
        """Add the model's symbols, such as `[CLS]`, around the ids of one text or of two."""

    @abstractmethod
    def token_types(self, ids: Sequence[int], pair: Sequence[int] | None = None) -> list[int]:
        """Return the segment, 0 or 1, of each id of `template(ids, pair)`."""

    @classmethod
    def are_ids(cls, items: Any) -> bool:
        """Whether items are the ids of one text, or of several."""
        if isinstance(items, str) or not hasattr(items, "__iter__"):
            return False
        return is_ids(items) or any(map(is_ids, [*items][:1]))

    @classmethod
    def is_one(cls, what: str, items: Any, is_single: Callable[[Any], bool]) -> bool:
        """Whether this is one text; a pair or a list of words may be one, as the verb says."""
        if not hasattr(items, "__iter__") or isinstance(items, bytes):
            raise InputError(what, got=items, expected="a text or several texts")
        return is_single(items)

    @classmethod
    def check(cls, what: str, items: Any, takes: Callable[[Any], bool] = lambda _: False) -> None:
        """Raises an error if something is no text, or an empty one.

        Args:
            what: The name of the caller, for the error message.
            items: A text, or a sequence of texts.
            takes: Whether an item that is no text is fine, too, such as a pair of texts.

        Raises:
            InputError: An item is neither, or a text is empty or only whitespace.
        """
        if not isinstance(items, Iterable):
            raise InputError(what, got=kind_of(items), expected="a text or several texts")
        for item in [items] if isinstance(items, str) else items:
            if not isinstance(item, str) and not takes(item):
                raise InputError(what, got=kind_of(item), expected="a text")
            for text in (item,) if isinstance(item, str) else item:
                if isinstance(text, str) and not text.strip():
                    raise InputError(what, got="an empty text", expected="some words")

    @classmethod
    def item(cls, line: str, parse: Callable[[str], Any]) -> Any:
        """An argument or a line as a text, or as the verb parses it."""
        return parse(line)

    @classmethod
    def prepared_input(cls, values: Any) -> None:
        """None: what a user has prepared are token ids."""
        del values

    def files_in(self, arguments: list[str], skip: Callable[[str], None]) -> list[str]:
        """The arguments: a text is never the name of a folder."""
        del skip
        return arguments

    def read(
        self, items: Sequence[Text], limit: int | None = None, *, symbols: bool = False
    ) -> list[Encoded]:
        """Encodes texts with the model's symbols around them, truncated to `limit` tokens.

        Args:
            items: Texts or pairs of texts.
            limit: The number of tokens that the model can read, symbols included.
            symbols: Whether to read symbols written in a text, such as `[MASK]`, as such.
        """
        pairs = [(item, None) if isinstance(item, str) else item for item in items]
        texts = [text for pair in pairs for text in pair if text is not None]
        rows = map(self.encode_with_specials, texts) if symbols else self.encode_batch(texts)
        encoded, next_ids = [], iter(rows)
        for item, (_, second) in zip(items, pairs, strict=True):
            ids, pair = next(next_ids), None if second is None else next(next_ids)
            full_length = len(ids) + len(pair or ())
            if limit is not None:
                around = len(self.template([], None if pair is None else []))
                ids, pair = truncate_pair(ids, pair, limit - around)
            cut = full_length - len(ids) - len(pair or ())
            types = self.token_types(ids, pair)
            encoded.append(Encoded(item, self.template(ids, pair), types, cut))
        return encoded

    def collate(self, encoded: Sequence[Encoded]) -> Ragged:
        """The ids of texts, end to end, with their segments if there are two."""
        import torch

        from regard.inputs.arrays import Ragged

        types = [segment for text in encoded for segment in text.types]
        ids = Ragged.of([text.values for text in encoded])
        return ids.typed(torch.tensor(types) if any(types) else None)


def truncate_pair(
    ids: list[int], pair: list[int] | None, limit: int
) -> tuple[list[int], list[int] | None]:
    """Truncates a text or a pair to `limit` tokens in all; the longer text is shortened first."""
    if pair is None:
        return ids[:limit], None
    while len(ids) + len(pair) > limit:
        if len(ids) >= len(pair):
            ids = ids[:-1]
        else:
            pair = pair[:-1]
    return ids, pair


def is_ids(value: Any) -> bool:
    """Whether a value is the ids of one text, as a list, an array or a tensor."""
    if hasattr(value, "ndim"):
        return bool(value.ndim == 1)
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        return False
    return bool(value) and isinstance(value[0], Integral)


def kind_of(item: Any) -> str:
    """Names the type of an item that cannot be used, for error messages."""
    if item is None or (isinstance(item, list | tuple | dict) and not item):
        return repr(item)
    return f"an item of type {type(item).__name__}"


def are_texts(item: Any) -> bool:
    """Whether an item is a list or tuple of texts, such as the words of a sentence, or a pair."""
    is_list = isinstance(item, list | tuple) and bool(item)
    return is_list and all(isinstance(text, str) for text in item)
