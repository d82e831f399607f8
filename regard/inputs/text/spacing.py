"""Words and punctuation marks -> a sentence with normal spacing.

In: words and punctuation marks, decoded with a `words` or `wordpiece` vocabulary. Out: the sentence
as a person would write it. The same quotation mark opens a quotation in one language and closes it
in another; the quotations that are open decide which it is.
"""

from __future__ import annotations

from collections.abc import Sequence

NO_SPACE_BEFORE = frozenset(",.!?;:)]}…%’”›‰°")
NO_SPACE_AFTER = frozenset("([{¿¡$£#@‹")
TIGHT = frozenset("/_")
"""No space on either side."""
QUOTES = {'"': '"', "„": "“", "“": "”", "«": "»", "»": "«", "‘": "’", "‚": "‘", "'": "'"}
"""Each opening mark, with its closing mark: "…", „…“, “…”, «…», »…«, ‘…’, ‚…‘, '…'."""


def join_words(words: Sequence[str]) -> str:
    """Join words and punctuation marks into a sentence.

    Example:
        >>> join_words(["„", "Ja", "“", ",", "sagte", "er", "."])
        '„Ja“, sagte er.'
    """
    parts: list[str] = []
    closing: list[str] = []  # closing marks of the open quotations, innermost last
    may_have_space = False  # whether a space may precede the next word
    for i, word in enumerate(words):
        before, after = _spaces(word, words[i + 1 :], closing)
        if parts and may_have_space and before:
            parts.append(" ")
        parts.append(word)
        may_have_space = after
    return "".join(parts)


def _spaces(word: str, following: Sequence[str], closing: list[str]) -> tuple[bool, bool]:
    """Return whether a space may stand before, and after, a word; update open quotations."""
    if word in closing:
        del closing[closing.index(word) :]
        return False, True
    if word in QUOTES:
        if QUOTES[word] in following:
            closing.append(QUOTES[word])
            return True, False
        # no closing mark follows: an apostrophe ("the dogs' bowl"), or an unclosed quotation
        return (False, True) if word == "'" else (True, False)
    if word in TIGHT:
        return False, False
    return word not in NO_SPACE_BEFORE, word not in NO_SPACE_AFTER
