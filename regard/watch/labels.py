"""From the tokens that a user passes to the row and column labels of an attention map.

Tokens are either words, or ids together with their tokenizer: then sub-words are merged into words
and padding is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from string import punctuation
from typing import Any

from regard.errors import InputError

WORD_STARTS, WORD_CONTINUES = ("Ġ", "▁"), "##"
"""Prefixes of sub-words that begin a word (GPT-2, SentencePiece) or continue one (BERT)."""
UNKNOWN_YET = "…"
"""The label of a query whose predicted token was not passed."""


@dataclass(frozen=True)
class Tokens:
    """The tokens of one row of a batch.

    Attributes:
        pieces: The text of each token.
        real: False for padding.
        ids: The token ids, if there is a tokenizer.
        tokenizer: The tokenizer that decodes the ids.
        special: The ids of its special tokens, which belong to no word.
        mark: The prefix by which its tokens begin or continue a word; empty if it has none.
    """

    pieces: tuple[str, ...]
    real: tuple[bool, ...]
    ids: tuple[int, ...] = ()
    tokenizer: Any = None
    special: frozenset[int] = frozenset()
    mark: str = ""

    def __len__(self) -> int:
        return len(self.pieces)

    def cut(self, start: int, stop: int) -> Tokens:
        """The tokens from `start` to `stop`; positions past the end become `UNKNOWN_YET`."""
        missing = max(0, stop - len(self))
        pieces = self.pieces[start:stop] + (UNKNOWN_YET,) * missing
        real = self.real[start:stop] + (True,) * missing
        return replace(self, pieces=pieces, real=real, ids=self.ids[start:stop])

    def words(self, positions: Sequence[int]) -> tuple[list[str], list[int]]:
        """Merge the tokens at some positions into words.

        Returns:
            The words, and for each position the number of its word.
        """
        groups: list[list[int]] = []
        for position in positions:
            if groups and groups[-1][-1] == position - 1 and self._continues_word(position):
                groups[-1].append(position)
            else:
                groups.append([position])
        numbers = [number for number, group in enumerate(groups) for _ in group]
        return [self._text(group) for group in groups], numbers

    def _continues_word(self, position: int) -> bool:
        """Whether a token continues the word of the previous token."""
        if position >= len(self.ids) or {*self.ids[position - 1 : position + 1]} & self.special:
            return False
        before, piece = self.pieces[position - 1 : position + 1]
        if self.mark == WORD_CONTINUES:
            return piece.startswith(WORD_CONTINUES)
        begins = not self.mark or piece.startswith(self.mark)
        # a punctuation mark such as a comma is a word of its own
        return not begins and not (_is_punctuation(piece) or _is_punctuation(before))

    def _text(self, positions: Sequence[int]) -> str:
        if positions[0] >= len(self.ids):
            return self.pieces[positions[0]]
        text = str(self.tokenizer.decode([self.ids[position] for position in positions]))
        return text.removeprefix(WORD_CONTINUES).strip() or text


def read_tokens(given: Any, tokenizer: Any = None, row: int = 0) -> Tokens:
    """Read the tokens of one row of a batch.

    Args:
        given: Words, or ids: a list, a tensor (length,) or (batch, length), the output of
            `generate`, or the output of a tokenizer, whose `attention_mask` marks the padding.
        tokenizer: The tokenizer of the ids.
        row: The row of the batch.

    Raises:
        InputError: For ids without their tokenizer, or a mapping without ids.
    """
    mask = None
    if isinstance(given, Mapping):
        mask, ids = given.get("attention_mask"), given.get("input_ids")
        given = given.get("sequences") if ids is None else ids  # the output of `generate`
        if given is None:
            expected = "what the model read, and wrote"
            fix = "pass its inputs, or what generate returned"
            raise InputError("tokens", got="an output without ids", expected=expected, fix=fix)
    items = _one_row(given, row)
    # tokens after the end of the mask were generated: they are not padding
    real = [bool(value) for value in _one_row(mask, row)] if mask is not None else []
    real += [True] * (len(items) - len(real))
    if all(isinstance(item, str) for item in items):
        return Tokens(tuple(items), tuple(real))
    if tokenizer is None:
        raise InputError("tokens", got="ids", expected="words", fix="pass tokenizer= too")
    pieces = tuple(tokenizer.convert_ids_to_tokens(items))
    special = frozenset(tokenizer.all_special_ids)
    return Tokens(pieces, tuple(real), tuple(items), tokenizer, special, _mark_of(tokenizer))


def _one_row(given: Any, row: int) -> list[Any]:
    """One row of a batch as a list; a single sequence is returned as it is."""
    items = given.tolist() if hasattr(given, "tolist") else list(given)
    return list(items[row]) if items and isinstance(items[0], list | tuple) else items


def _mark_of(tokenizer: Any) -> str:
    """The word prefix in a tokenizer's vocabulary; empty if its tokens are whole words."""
    pieces = list(tokenizer.get_vocab())
    for mark in (*WORD_STARTS, WORD_CONTINUES):
        if any(piece.startswith(mark) and piece != mark for piece in pieces):
            return mark
    return ""


def _is_punctuation(piece: str) -> bool:
    return all(letter in punctuation for letter in piece.lstrip("".join(WORD_STARTS)))
