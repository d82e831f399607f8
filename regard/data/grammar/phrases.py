"""Noun phrases and what stands in for them, said in both languages.

Words of `lexicon` come in; `sentences` asks each phrase for its English and its German in the
case that the verb or preposition gives it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Protocol

from regard.data.grammar.german import (
    CASES,
    CONTRACTED,
    FIRST,
    PLURAL,
    RELATIVE,
    THIRD,
    adjective_ending,
    determiner,
    noun_form,
)
from regard.data.grammar.lexicon import PERSON
from regard.data.grammar.words import Adjective, Noun


class Nominal(Protocol):
    """What can be subject or object."""

    @property
    def agrees(self) -> int:
        """The verb form it asks for as a subject: FIRST, THIRD or PLURAL."""

    def english(self, case: str) -> str:
        """Its English words; only pronouns mind the case."""

    def german(self, case: str) -> str:
        """Its German words."""


class Said(Protocol):
    """A clause or sentence, which a relative clause can hold without knowing which."""

    def english(self) -> str:
        """Its English words, without capital or full stop."""

    def german(self, order: str = "main") -> str:
        """Its German words in an order; commas stand as words of their own."""


@dataclass(frozen=True, slots=True)
class Phrase:
    """A determiner, perhaps an adjective, a noun, perhaps a relative clause.

    Attributes:
        noun: The head.
        word: The English determiner in the singular: the, this, a, no, my, two; "" for none.
        plural: The number.
        adjective: What stands before the noun.
        relative: A clause with a `Which` in it.
    """

    noun: Noun
    word: str = "the"
    plural: bool = False
    adjective: Adjective | None = None
    relative: Said | None = None

    @property
    def agrees(self) -> int:
        """Third person, or plural."""
        return PLURAL if self.plural else THIRD

    @property
    def indefinite(self) -> bool:
        """Whether its negation is kein: a dog, dogs, milk."""
        return self.word in ("a", "")

    def denied(self) -> Phrase:
        """The same with "no", which German says where English denies the verb."""
        return replace(self, word="no")

    def english(self, case: str = "nom") -> str:  # noqa: ARG002  English nouns have no case
        """The dog, these old dogs, an apple."""
        words = _english(self.noun, self.word, self.plural, self.adjective)
        return f"{words} {self.relative.english()}" if self.relative else words

    def german(self, case: str) -> str:
        """Der Hund, diese alten Hunde, einen Apfel."""
        words = _german(self.noun, self.word, self.plural, self.adjective, case)
        return f"{words} , {self.relative.german('final')} ," if self.relative else words


@cache
def _english(noun: Noun, word: str, plural: bool, adjective: Adjective | None) -> str:
    head = noun.english_plural if plural else noun.english
    words = f"{adjective.english} {head}" if adjective else head
    if word == "a":
        word = "" if plural or noun.mass else "an" if words[0] in "aeiou" else "a"
    elif word == "this" and plural:
        word = "these"
    return f"{word} {words}" if word else words


@cache
def _german(noun: Noun, word: str, plural: bool, adjective: Adjective | None, case: str) -> str:
    gender = "p" if plural else noun.gender
    word = "" if word == "a" and noun.mass else word
    words = noun_form(noun, plural, case)
    if adjective:
        words = f"{adjective.stem}{adjective_ending(word, gender, case)} {words}"
    article = determiner(word, gender, case)
    return f"{article} {words}" if article else words


@dataclass(frozen=True, slots=True, eq=False)
class Pronoun:
    """A personal pronoun; there are three for "it", by the gender of the noun it stands for."""

    words: tuple[str, str]
    """English: subject, object."""
    forms: tuple[str, str, str]
    """German: nominative, accusative, dative."""
    agrees: int = THIRD

    def english(self, case: str) -> str:
        """He, or him in all cases but the first."""
        return self.words[case != "nom"]

    def german(self, case: str) -> str:
        """Er, ihn, ihm."""
        return self.forms[CASES.index(case)]


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
    """The pronoun that can stand for a phrase. Not for a child: she, but es or sie?"""
    if phrase.plural:
        return THEY
    people = {"he": HE, "she": SHE}
    return people.get(phrase.noun.kind) or IT[phrase.noun.gender]


@dataclass(frozen=True, slots=True)
class Which:
    """The relative pronoun: it agrees with the noun before it and has its own clause's case."""

    noun: Noun
    plural: bool = False

    @property
    def agrees(self) -> int:
        """As the noun before it."""
        return PLURAL if self.plural else THIRD

    def english(self, case: str = "nom") -> str:  # noqa: ARG002
        """Who of people, that of all else."""
        return "who" if self.noun.kind in PERSON else "that"

    def german(self, case: str) -> str:
        """Der, den, dem, denen."""
        return RELATIVE[case]["p" if self.plural else self.noun.gender]


PREPOSITIONS = {
    "in": ("in", "dat"),
    "on": ("auf", "dat"),
    "at": ("an", "dat"),
    "behind": ("hinter", "dat"),
    "in front of": ("vor", "dat"),
    "beside": ("neben", "dat"),
    "under": ("unter", "dat"),
    "with": ("mit", "dat"),
    "to": ("zu", "dat"),
    "into": ("in", "acc"),
    "through": ("durch", "acc"),
    "without": ("ohne", "acc"),
}
"""English preposition: the German one and the case it governs."""


@dataclass(frozen=True, slots=True)
class Place:
    """A preposition and its phrase: in the garden, with a friend."""

    preposition: str
    phrase: Phrase

    def english(self) -> str:
        """In the garden."""
        return f"{self.preposition} {self.phrase.english()}"

    def german(self) -> str:
        """Im Garten, in der Küche, in den Garten."""
        preposition, case = PREPOSITIONS[self.preposition]
        article, _, rest = self.phrase.german(case).partition(" ")
        short = CONTRACTED.get((preposition, article))
        return f"{short} {rest}" if short else f"{preposition} {article} {rest}".rstrip()
