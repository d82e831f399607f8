"""Words that a vocabulary does not have: when a text is refused for them, and when a test is.

A vocabulary of words reads all unknown words as one symbol: what a model says of them is made up.
Sub-words spell most of what is new, and bytes all of it; there an unknown character is lost alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from regard.errors import FoundProblems, InputError
from regard.tokens import Tokenizer

MOST = 0.5
"""The share of unknown words above which a score says nothing of the model."""
SHOWN = 3


def check_known(tokenizer: Tokenizer, text: str, *, allow_unknown: bool) -> None:
    """Refuses a text with words that a vocabulary of words does not have, unless they are allowed.

    Raises:
        InputError: It names them.
    """
    if allow_unknown or not tokenizer.holds_words:
        return
    words = tokenizer.unknown_words(text)
    if words:
        raise InputError(
            f"the model does not know: {', '.join(words)}",
            fix="use other words, or --allow-unknown (in Python allow_unknown=True) to go on "
            "around them",
        )


@dataclass(frozen=True)
class Unknown:
    """How much of some texts a vocabulary cannot read."""

    share: float
    """Of their words, marks aside: of those that are lost whole or in part."""
    examples: tuple[str, ...] = ()

    @staticmethod
    def of(tokenizer: Tokenizer, texts: Iterable[str]) -> Unknown:
        """What is unknown of texts."""
        count, lost = 0, []
        for text in texts:
            for word, is_lost in tokenizer.reading(text):
                if any(map(str.isalnum, word)):
                    count += 1
                    lost += [word] if is_lost else []
        return Unknown(len(lost) / max(1, count), tuple(dict.fromkeys(lost))[:SHOWN])

    def check(self, what: str) -> None:
        """Refuses scores of texts of which more than half the words are unknown.

        Raises:
            FoundProblems: It says how many, and some of them.
        """
        if self.share > MOST:
            such = f", such as {', '.join(self.examples)}" if self.examples else ""
            raise FoundProblems(
                f"unknown words: the model's vocabulary lacks {self.share:.0%} of {what}{such}",
                fix="is it the language the model knows, on the right side? --allow-unknown (in "
                "Python allow_unknown=True) takes the scores all the same",
            )
