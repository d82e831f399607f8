"""Streaming decoding: ids one by one -> text, as soon as it can no longer change.

In: ids, as a model generates them. Out: parts of text that are final: joined, they are what
`decode` returns for all ids, and no part ends within a character.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile

CLEANED_PATTERNS = (" .", " ?", " !", " ,", " ' ", " n't", " 'm", " 's", " 've", " 're")
"""What Hugging Face's clean-up replaces by itself without spaces around it, in this order."""
_UNFINISHED = "\N{REPLACEMENT CHARACTER}"
_MAX_WINDOW = 48
"""The most ids that are decoded again at each step, unless their text may still change."""
_KEPT_IDS = 16
"""Ids kept when the window is shortened: more than any character or clean-up spans."""


class StreamDecoder:
    """Decodes ids one by one.

    Args:
        decode: Ids -> text.
        silent: Ids that add nothing to the text.
        joined: Ids of single bytes, which can be decoded only together with their neighbours, in
            vocabularies with byte fallback.
        clean: Whether `decode` removes spaces before punctuation.
        continuing: Ids that continue a word; a word is final when the next word begins. None if
            `decode` does not join words.
        quote: The id of a mark (') whose spacing depends on whether another one follows.
    """

    def __init__(
        self,
        decode: Callable[[Sequence[int]], str],
        silent: frozenset[int] = frozenset(),
        joined: frozenset[int] = frozenset(),
        *,
        clean: bool = False,
        continuing: frozenset[int] | None = None,
        quote: int | None = None,
    ) -> None:
        self._decode, self._silent, self._joined, self._clean = decode, silent, joined, clean
        self._continuing, self._quote = continuing, quote
        self._window: list[int] = []
        self._returned = 0  # characters of the window's text already returned

    def push(self, token: int) -> str:
        """Add one id; return the text that is now final, which is often empty."""
        if token in self._silent:
            return ""
        self._window.append(token)
        if token in self._joined:  # an invalid byte changes how the bytes around it are decoded
            return ""
        text = self._decode(self._window)
        length = self._final_length(text)
        new_text = text[self._returned : length]
        self._returned = max(self._returned, length)
        if len(self._window) > _MAX_WINDOW and self._continuing is None:
            self._shorten_window(text)
        return new_text

    def close(self) -> str:
        """Return the remaining text, such as an incomplete character, and start anew."""
        remaining = self._decode(self._window)[self._returned :]
        self._window, self._returned = [], 0
        return remaining

    def _final_length(self, text: str) -> int:
        """Count the characters at the start of the text that can no longer change."""
        # Spaces at the end are not final, as some decoders remove them.
        final = text.rstrip(_UNFINISHED).rstrip(" ")
        if self._continuing:  # a continuation may change the spelling of its word
            word_start = len(self._window) - 1
            while word_start > 0 and self._window[word_start] in self._continuing:
                word_start -= 1
            final = _common_prefix(final, self._decode(self._window[:word_start]))
        if self._quote in self._window:
            final = _common_prefix(final, self._decode([*self._window, self._quote or 0]))
        if self._clean:
            for pattern in CLEANED_PATTERNS:
                for size in range(len(pattern) - 1, 0, -1):
                    if text.endswith(pattern[:size]):
                        final = min(final, text[: len(text) - size], key=len)
        return len(final)

    def _shorten_window(self, text: str) -> None:
        """Shorten the window to its last ids, if they decode to the end of the same text."""
        last_ids = self._window[-_KEPT_IDS:]
        spelled = self._decode(last_ids)
        pending = len(text) - self._returned
        if last_ids[0] not in self._joined and len(spelled) > pending and text.endswith(spelled):
            self._window, self._returned = last_ids, len(spelled) - pending


def _common_prefix(first: str, second: str) -> str:
    """Return the common prefix of two texts."""
    common = takewhile(lambda letters: letters[0] == letters[1], zip(first, second, strict=False))
    return first[: sum(1 for _ in common)]
