"""What a person passes for the tokens of an input -> the words at the sides of a map.

Tokens are words already, or ids with the tokenizer that made them: then sub-words are merged, and
padding is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from string import punctuation
from typing import Any

from regard.errors import InputError

STARTS, CONTINUES = ("Ġ", "▁"), "##"
"""How pieces show that a word begins (GPT-2, SentencePiece), or goes on (BERT)."""
UNKNOWN_YET = "…"
"""The label of a query that writes a token nobody passed."""


@dataclass(frozen=True)
class Tokens:
    """The tokens of one row of an input.

    Attributes:
        pieces: What each looks like.
        real: Whether each is something else than padding.
        ids: Their ids, if there is a tokenizer.
        tokenizer: What turns ids into text.
        special: The ids of its special tokens, which belong to no word.
        mark: The sign by which its pieces show where words begin or go on.
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
        """Some of them; one behind the last is `UNKNOWN_YET`."""
        missing = max(0, stop - len(self))
        return replace(
            self,
            pieces=self.pieces[start:stop] + (UNKNOWN_YET,) * missing,
            real=self.real[start:stop] + (True,) * missing,
            ids=self.ids[start:stop],
        )

    def words(self, places: Sequence[int]) -> tuple[list[str], list[int]]:
        """The words that the tokens at some places spell, and for each token its word's number."""
        groups: list[list[int]] = []
        for place in places:
            if groups and groups[-1][-1] == place - 1 and self._goes_on(place):
                groups[-1].append(place)
            else:
                groups.append([place])
        numbers = [number for number, group in enumerate(groups) for _ in group]
        return [self._text(group) for group in groups], numbers

    def _goes_on(self, place: int) -> bool:
        """Whether a token continues the word of the one before it."""
        if place >= len(self.ids) or {*self.ids[place - 1 : place + 1]} & self.special:
            return False
        before, piece = self.pieces[place - 1 : place + 1]
        if self.mark == CONTINUES:
            return piece.startswith(CONTINUES)
        begins = not self.mark or piece.startswith(self.mark)
        # a sign such as a comma is a word of its own
        return not begins and not (_is_sign(piece) or _is_sign(before))

    def _text(self, places: Sequence[int]) -> str:
        if places[0] >= len(self.ids):
            return self.pieces[places[0]]
        text = str(self.tokenizer.decode([self.ids[place] for place in places]))
        return text.removeprefix(CONTINUES).strip() or text


def read_tokens(given: Any, tokenizer: Any = None, row: int = 0) -> Tokens:
    """The tokens of one row.

    Args:
        given: Words; or ids, as a list, a tensor (length,) or (batch, length), what `generate`
            returns, or what a tokenizer returns, whose `attention_mask` then tells padding.
        tokenizer: What made the ids.
        row: Which row of a batch.

    Raises:
        InputError: For ids without their tokenizer.
    """
    mask = None
    if isinstance(given, Mapping):
        mask, ids = given.get("attention_mask"), given.get("input_ids")
        given = given.get("sequences") if ids is None else ids  # what `generate` returns
        if given is None:
            raise InputError(
                "tokens", got="an output without ids", expected="what the model read, and wrote",
                fix="pass its inputs, or what generate returned",
            )  # fmt: skip
    pieces = _one_row(given, row)
    # what was generated behind an input is no padding
    real = [bool(one) for one in _one_row(mask, row)] if mask is not None else []
    real += [True] * (len(pieces) - len(real))
    if all(isinstance(piece, str) for piece in pieces):
        return Tokens(tuple(pieces), tuple(real))
    if tokenizer is None:
        raise InputError("tokens", got="ids", expected="words", fix="pass tokenizer= too")
    return Tokens(
        tuple(tokenizer.convert_ids_to_tokens(pieces)),
        tuple(real),
        tuple(pieces),
        tokenizer,
        frozenset(tokenizer.all_special_ids),
        _mark_of(tokenizer),
    )


def _one_row(given: Any, row: int) -> list[Any]:
    """A row of a batch, or the only one there is, as a list."""
    listed = given.tolist() if hasattr(given, "tolist") else list(given)
    return list(listed[row]) if listed and isinstance(listed[0], list | tuple) else listed


def _mark_of(tokenizer: Any) -> str:
    """The sign that a tokenizer's pieces use; none if it makes whole words."""
    pieces = list(tokenizer.get_vocab())
    for mark in (*STARTS, CONTINUES):
        if any(piece.startswith(mark) and piece != mark for piece in pieces):
            return mark
    return ""


def _is_sign(piece: str) -> bool:
    return all(letter in punctuation for letter in piece.lstrip("".join(STARTS)))
