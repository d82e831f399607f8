"""Ids that come one by one -> text as it becomes certain.

In: ids, as a model generates them. Out: pieces of text that never have to be taken back: together
they are what `decode` gives for all ids, and no piece ends within a character.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile

CLEANED = {
    " .": ".",
    " ?": "?",
    " !": "!",
    " ,": ",",
    " ' ": "'",
    " n't": "n't",
    " 'm": "'m",
    " 's": "'s",
    " 've": "'ve",
    " 're": "'re",
}
"""What clean-up makes of what, in its order."""
_UNFINISHED = "\N{REPLACEMENT CHARACTER}"
_LONGEST = 48
"""Ids that are decoded again at each step, at most, unless they do not settle."""
_CONTEXT = 16
"""Ids kept when the window is cut: more than any character or clean-up reaches over."""


class Writer:
    """Writes ids as text, step by step.

    Args:
        decode: Ids to text.
        silent: Ids that add nothing to the text.
        joined: Ids that stand for one byte each and are only understood together with the others
            beside them, as in vocabularies that fall back to bytes.
        clean: Whether `decode` takes spaces before punctuation away.
        more: Ids that go on with a word, whose spelling is certain where the next one begins; None
            where words are not put together.
        quote: The id of a mark whose own spaces hang on whether another one follows it.
    """

    def __init__(
        self,
        decode: Callable[[Sequence[int]], str],
        silent: frozenset[int] = frozenset(),
        joined: frozenset[int] = frozenset(),
        *,
        clean: bool = False,
        more: frozenset[int] | None = None,
        quote: int | None = None,
    ) -> None:
        self._decode, self._silent, self._joined, self._clean = decode, silent, joined, clean
        self._more, self._quote = more, quote
        self._window: list[int] = []
        self._shown = 0  # characters of the window's text that were given out

    def push(self, token: int) -> str:
        """The text that one more id makes certain; often it is empty."""
        if token in self._silent:
            return ""
        self._window.append(token)
        if token in self._joined:  # one wrong byte spoils all bytes beside it
            return ""
        text = self._decode(self._window)
        certain = len(text) - self._uncertain(text)
        written = text[self._shown : certain]
        self._shown = max(self._shown, certain)
        if len(self._window) > _LONGEST and self._more is None:
            self._forget(text)
        return written

    def close(self) -> str:
        """The rest, such as half a character that nothing completed; then all begins anew."""
        rest = self._decode(self._window)[self._shown :]
        self._window, self._shown = [], 0
        return rest

    def _uncertain(self, text: str) -> int:
        """How many characters at the end may still change."""
        # spaces too: some decoders take those at the end away
        settled = text.rstrip(_UNFINISHED).rstrip(" ")
        if self._more:  # a word that goes on may be written in another way
            whole = len(self._window) - 1
            while whole > 0 and self._window[whole] in self._more:
                whole -= 1
            settled = _common(settled, self._decode(self._window[:whole]))
        if self._quote in self._window:
            settled = _common(settled, self._decode([*self._window, self._quote or 0]))
        if self._clean:
            for pattern in CLEANED:
                for size in range(len(pattern) - 1, 0, -1):
                    if text.endswith(pattern[:size]):
                        settled = min(settled, text[: len(text) - size], key=len)
        return len(text) - len(settled)

    def _forget(self, text: str) -> None:
        """Decode less from now on, if what is kept spells the same."""
        kept = self._window[-_CONTEXT:]
        spelled = self._decode(kept)
        pending = len(text) - self._shown
        if kept[0] not in self._joined and len(spelled) > pending and text.endswith(spelled):
            self._window, self._shown = kept, len(spelled) - pending


def _common(one: str, two: str) -> str:
    """What two texts begin with."""
    same = takewhile(lambda letters: letters[0] == letters[1], zip(one, two, strict=False))
    return one[: sum(1 for _ in same)]
