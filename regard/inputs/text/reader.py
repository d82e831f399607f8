"""The reader of texts: items -> ids with the model's symbols around them. `Tokenizer` is one.

In: texts, or pairs of texts that are read together. Out: an `Encoded` for each, and `Ragged` ids.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from regard.inputs.reader import Encoded
from regard.inputs.text.items import TextItems

if TYPE_CHECKING:  # a tokenizer is used without torch, too
    from regard.inputs.arrays import Ragged

Text = str | tuple[str, str | None]
"""One text, or a pair of texts that are read together; the second may be None."""


class TextReader(TextItems, ABC):
    """Reads texts by the methods of a tokenizer; see `regard.inputs.reader.Reader`."""

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
