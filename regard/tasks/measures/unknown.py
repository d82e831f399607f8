"""Checks for unknown words: in a text to predict for, and in a set of texts to score.

A word vocabulary reads all unknown words as one token, so that a model's output for them is
arbitrary. Sub-words can spell most new words, and bytes all of them; with these, at most single
unknown characters are lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from regard.errors import FoundProblems, InputError
from regard.inputs.text import Tokenizer

MAX_UNKNOWN_SHARE = 0.5
"""The share of unknown words above which scores are meaningless."""
EXAMPLES_SHOWN = 3


def check_known(tokenizer: Tokenizer, words: Sequence[str], *, allow_unknown: bool) -> None:
    """Checks that a text has no words which a word vocabulary lacks, unless they are allowed.

    Args:
        tokenizer: The tokenizer of the text.
        words: The unknown words of the text.
        allow_unknown: Whether they are allowed.

    Raises:
        InputError: The text has unknown words, which the message names.
    """
    if words and tokenizer.is_word_level and not allow_unknown:
        fix = "use other words, or --allow-unknown (in Python allow_unknown=True) to allow them"
        raise InputError(f"the model does not know: {', '.join(words)}", fix=fix)


@dataclass(frozen=True)
class Unknown:
    """The unknown words of some texts."""

    share: float
    """The share of words, without punctuation, that are lost wholly or in part."""
    examples: tuple[str, ...] = ()

    @staticmethod
    def of(tokenizer: Tokenizer, texts: Iterable[str]) -> Unknown:
        """Counts the unknown words of some texts."""
        count, unknown = 0, []
        for text in texts:
            for word, is_unknown in tokenizer.mark_unknown_words(text):
                if any(map(str.isalnum, word)):
                    count += 1
                    unknown += [word] if is_unknown else []
        return Unknown(len(unknown) / max(1, count), tuple(dict.fromkeys(unknown))[:EXAMPLES_SHOWN])

    def check(self, what: str) -> None:
        """Checks that scores on these texts are meaningful.

        Args:
            what: The name of the texts, for the error.

        Raises:
            FoundProblems: More than half of the words are unknown; the message names some.
        """
        if self.share > MAX_UNKNOWN_SHARE:
            examples = f", such as {', '.join(self.examples)}" if self.examples else ""
            raise FoundProblems(
                f"unknown words: the model's vocabulary lacks {self.share:.0%} of {what}{examples}",
                fix="is it the language the model knows, on the right side? --allow-unknown (in "
                "Python allow_unknown=True) takes the scores all the same",
            )
