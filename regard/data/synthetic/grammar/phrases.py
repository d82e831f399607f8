"""Noun phrases and pronouns, written in both languages.

In: words of `lexicon`. Out: the English and German words of a phrase, the German in the case that
the verb or preposition governs; `sentences` puts them together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Protocol

from regard.data.synthetic.grammar import german
from regard.data.synthetic.grammar.german import FIRST, PLURAL, THIRD
from regard.data.synthetic.grammar.lexicon import PERSON, PREPOSITIONS
from regard.data.synthetic.grammar.words import Adjective, Noun


class Sentence(Protocol):
    """A clause or sentence: the interface of everything that can be written in both languages."""

    def english(self) -> str:
        """Return its English words, without initial capital and final punctuation."""

    def german(self, order: str = "main") -> str:
        """Return its German words in an order; commas are separate words."""


@dataclass(frozen=True, slots=True)
class Phrase:
    """A determiner, an optional adjective, a noun, and an optional relative clause.

    Attributes:
        noun: The head of the phrase.
        word: The English determiner in the singular: the, this, a, no, my, two; "" for none.
        plural: Whether the noun is in the plural.
        adjective: The adjective before the noun.
        relative: The relative clause, with a `RelativePronoun` in it.
    """

    noun: Noun
    word: str = "the"
    plural: bool = False
    adjective: Adjective | None = None
    relative: Sentence | None = None

    @property
    def agrees(self) -> int:
        """THIRD, or PLURAL if it is plural."""
        return PLURAL if self.plural else THIRD

    @property
    def indefinite(self) -> bool:
        """Whether its negation is kein: a dog, dogs, milk."""
        return self.word in ("a", "")

    def denied(self) -> Phrase:
        """Return the phrase with "no": German negates the noun where English negates the verb."""
        return replace(self, word="no")

    def english(self, case: str = "nom") -> str:  # noqa: ARG002  English nouns have no case
        """Write, for example, "the dog", "these old dogs", "an apple"."""
        words = _in_english(self.noun, self.word, self.plural, self.adjective)
        return f"{words} {self.relative.english()}" if self.relative else words

    def german(self, case: str) -> str:
        """Write, for example, "der Hund", "diese alten Hunde", "einen Apfel"."""
        words = _in_german(self.noun, self.word, self.plural, self.adjective, case)
        return f"{words} , {self.relative.german('final')} ," if self.relative else words


@cache
def _in_english(noun: Noun, word: str, plural: bool, adjective: Adjective | None) -> str:
    """Write determiner, adjective and noun in English."""
    head = noun.english_plural if plural else noun.english
    words = f"{adjective.english} {head}" if adjective else head
    if word == "a":
        word = "" if plural or noun.mass else "an" if words[0] in "aeiou" else "a"
    elif word == "this" and plural:
        word = "these"
    return f"{word} {words}" if word else words


@cache
def _in_german(noun: Noun, word: str, plural: bool, adjective: Adjective | None, case: str) -> str:
    """Write determiner, adjective and noun in German, in a case."""
    gender = "p" if plural else noun.gender
    word = "" if word == "a" and noun.mass else word
    words = german.noun_form(noun, plural, case)
    if adjective:
        words = f"{adjective.stem}{german.adjective_ending(word, gender, case)} {words}"
    article = german.determiner(word, gender, case)
    return f"{article} {words}" if article else words


@dataclass(frozen=True, slots=True, eq=False)
class Pronoun:
    """A personal pronoun; "it" has three, by the gender of the noun that it stands for."""

    words: tuple[str, str]
    """The English forms: subject, object."""
    forms: tuple[str, str, str]
    """The German forms: nominative, accusative, dative."""
    agrees: int = THIRD
    noun: None = None

    def english(self, case: str) -> str:
        """Return the subject form in the nominative, else the object form."""
        return self.words[case != "nom"]

    def german(self, case: str) -> str:
        """Return the German form in a case, for example er, ihn, ihm."""
        return self.forms[german.CASES.index(case)]


I = Pronoun(("I", "me"), ("ich", "mich", "mir"), FIRST)  # noqa: E741  it is the word
WE = Pronoun(("we", "us"), ("wir", "uns", "uns"), PLURAL)
HE = Pronoun(("he", "him"), ("er", "ihn", "ihm"))
SHE = Pronoun(("she", "her"), ("sie", "sie", "ihr"))
THEY = Pronoun(("they", "them"), ("sie", "sie", "ihnen"), PLURAL)
WHO = Pronoun(("who", "who"), ("wer", "wen", "wem"))
IT = {
    "m": Pronoun(("it", "it"), ("er", "ihn", "ihm")),
    "f": Pronoun(("it", "it"), ("sie", "sie", "ihr")),
    "n": Pronoun(("it", "it"), ("es", "es", "ihm")),
}


def pronoun_for(phrase: Phrase) -> Pronoun:
    """Return the pronoun that stands for a phrase.

    Do not use it for children (kind "young"), whose German pronoun is ambiguous: es or sie.
    """
    if phrase.plural:
        return THEY
    people = {"he": HE, "she": SHE}
    return people.get(phrase.noun.kind) or IT[phrase.noun.gender]


@dataclass(frozen=True, slots=True)
class RelativePronoun:
    """A relative pronoun: it agrees with the noun before it; its clause decides its case."""

    noun: Noun
    plural: bool = False

    @property
    def agrees(self) -> int:
        """THIRD or PLURAL, as the noun before it."""
        return PLURAL if self.plural else THIRD

    def english(self, case: str = "nom") -> str:  # noqa: ARG002
        """Return "who" for people, "that" for all else."""
        return "who" if self.noun.kind in PERSON else "that"

    def german(self, case: str) -> str:
        """Return the German form in a case, for example der, den, dem, denen."""
        return german.RELATIVE[case]["p" if self.plural else self.noun.gender]


Nominal = Phrase | Pronoun | RelativePronoun
"""What can be a subject or an object. `noun` is None for a personal pronoun; `agrees` is the verb
form that agrees with it: FIRST, THIRD or PLURAL. In English, only pronouns depend on the case."""


@dataclass(frozen=True, slots=True)
class PrepositionalPhrase:
    """A prepositional phrase: in the garden, with a friend."""

    preposition: str
    phrase: Phrase

    def english(self) -> str:
        """Write, for example, "in the garden"."""
        return f"{self.preposition} {self.phrase.english()}"

    def german(self) -> str:
        """Write, for example, "im Garten", "in der Küche", "in den Garten"."""
        preposition, case = PREPOSITIONS[self.preposition]
        article, _, words = self.phrase.german(case).partition(" ")
        short = german.CONTRACTED.get((preposition, article))
        return f"{short} {words}" if short else f"{preposition} {article} {words}".rstrip()
