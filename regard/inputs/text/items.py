"""Which items are texts: what a person gives comes in; texts, ids, or an error about it go out.

No tokenizer is needed for this, so that it also serves a model that has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from numbers import Integral
from typing import Any, ClassVar

from regard.errors import InputError


class TextItems:
    """The methods of `regard.inputs.reader.Reader` that need no tokenizer."""

    modality: ClassVar[str] = "text"
    nouns: ClassVar[str] = "texts"
    key: ClassVar[str | None] = None
    has_grid: ClassVar[bool] = False
    dash_is_item: ClassVar[bool] = False

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
