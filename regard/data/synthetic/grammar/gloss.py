"""Word-for-word translation with a dictionary: a baseline to compare models with.

In: an English sentence. Out: the most usual German form of each word, in the English order, without
agreement in gender and case, and without German word order.
"""

from __future__ import annotations

import re
from functools import cache

from regard.data.synthetic.grammar import lexicon
from regard.data.synthetic.grammar.german import COUNTS, STEMS, verb_forms
from regard.data.synthetic.grammar.sentences import CONJUNCTIONS, DEGREES, QUESTIONS
from regard.data.synthetic.grammar.words import Verb, english_plural


def _verb_words(verb: Verb) -> dict[str, str]:
    """Return the English forms of a verb with their German forms."""
    present, past = verb_forms(verb, "present"), verb_forms(verb, "past")
    return {
        verb.english: verb.prefix + verb.german,
        english_plural(verb.english): verb.prefix + present[1],
        verb.english_past: verb.prefix + past[1],
    }


@cache
def word_for_word() -> dict[str, str]:
    """Build the dictionary: English word in lower case -> its most usual German form."""
    words = dict(lexicon.FUNCTION_WORDS)
    tables = (
        STEMS,
        COUNTS,
        CONJUNCTIONS,
        {word: german for word, (german, _) in lexicon.PREPOSITIONS.items()},
        QUESTIONS,
        DEGREES,
        {adverb.english: adverb.german for adverb in lexicon.ADVERBS},
        {noun.english: noun.german for noun in lexicon.NOUNS},
        {noun.english_plural: noun.german_plural for noun in lexicon.NOUNS},
        {word.english: word.german for word in lexicon.ADJECTIVES},
        *map(_verb_words, lexicon.VERBS.values()),
    )
    for table in tables:
        for english, german in table.items():
            if english and " " not in english:
                words.setdefault(english, german)
    return words


def translate_words(source: str) -> str:
    """Translate word for word.

    Args:
        source: An English sentence; a word that is not in the dictionary is kept.

    Returns:
        The German words in the English order, with the initial capital and the punctuation.

    Example:
        >>> translate_words("The animal crossed the street.")
        'Die Tier überquerte die Straße.'
    """
    words = word_for_word()

    def translate(match: re.Match[str]) -> str:
        word = match.group()
        german = words.get(word.lower(), word)
        start = match.start() == 0 and word[0].isupper()
        return german[0].upper() + german[1:] if start else german

    return re.sub(r"\w+(?:'\w+)?", translate, source)
