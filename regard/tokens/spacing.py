"""Words -> a sentence: where a written sentence has spaces, and where it has none.

In: words and punctuation marks, as the `words` and `wordpiece` vocabularies hold them. Out: the
sentence as a person would write it. Quotation marks are the hard part: the same mark opens in one
language and closes in another, so what is open decides.
"""

from __future__ import annotations

from collections.abc import Sequence

NO_SPACE_BEFORE = frozenset(",.!?;:)]}…%’”›‰°")
NO_SPACE_AFTER = frozenset("([{¿¡$£#@‹")
TIGHT = frozenset("/_")
"""No space on either side."""
QUOTES = {'"': '"', "„": "“", "“": "”", "«": "»", "»": "«", "‘": "’", "‚": "‘", "'": "'"}
"""Each mark that can open, and the one that closes it: "…", „…“, “…”, «…», »…«, ‘…’, ‚…‘, '…'."""


def join_words(words: Sequence[str]) -> str:
    """Write words and punctuation as a sentence.

    Example:
        >>> join_words(["„", "Ja", "“", ",", "sagte", "er", "."])
        '„Ja“, sagte er.'
    """
    written: list[str] = []
    closing: list[str] = []  # the marks that would close the quotations now open, innermost last
    space = False  # may the next word have a space before it?
    for place, word in enumerate(words):
        before, after = _spaces(word, words[place + 1 :], closing)
        if written and space and before:
            written.append(" ")
        written.append(word)
        space = after
    return "".join(written)


def _spaces(word: str, rest: Sequence[str], closing: list[str]) -> tuple[bool, bool]:
    """Whether a space may stand before and after a word; keeps account of open quotations."""
    if word in closing:
        del closing[closing.index(word) :]
        return False, True
    if word in QUOTES:
        if QUOTES[word] in rest:
            closing.append(QUOTES[word])
            return True, False
        # nothing closes it: an apostrophe ("the dogs' bowl"), or a half quotation
        return (False, True) if word == "'" else (True, False)
    if word in TIGHT:
        return False, False
    return word not in NO_SPACE_BEFORE, word not in NO_SPACE_AFTER
