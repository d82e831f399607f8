"""The types of words in `lexicon`, and the regular English plural and past."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """A noun: `kind` decides which verbs and adjectives it goes with, `gender` is m, f or n."""

    kind: str
    english: str
    english_plural: str
    german: str
    german_plural: str
    gender: str
    mass: bool = False
    """Whether it is uncountable, as milk: it has no plural, and no article instead of "a"."""


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    """An adjective, its German stem before endings (teuer, teur-), and the nouns it goes with."""

    english: str
    german: str
    stem: str
    nouns: tuple[Noun, ...]
    attributive: bool
    """Whether it may stand before a noun: "the old dog"."""
    decides: bool
    """Whether it makes sense only with its nouns, so that "it was steep" shows what "it" is."""
    graded: bool
    """Whether it may follow "too" or "very"; "black" and "broken" may not."""


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    """A verb with its principal parts in both languages, and its possible subjects and objects."""

    english: str
    english_past: str
    particle: str
    """The word after the English verb: "at" in "look at"."""
    splits: bool
    """Whether a pronoun stands before the particle: "picked it up", but "looked at it"."""
    prefix: str
    """The German separable prefix: "auf" in "aufmachen"."""
    german: str
    third: str
    past: str
    subjects: tuple[Noun, ...]
    objects: tuple[Noun, ...] = ()
    case: str = "acc"
    """The case of the object; a verb of giving has its direct object in the accusative."""
    preposition: str = ""
    """The preposition of the German object: "auf" in "auf sie warten"."""
    locations: tuple[str, ...] = ()
    """The kinds of prepositional phrases that go with it."""

    @property
    def name(self) -> str:
        """The English verb with its particle."""
        return f"{self.english} {self.particle}".rstrip()


@dataclass(frozen=True, slots=True, eq=False)
class Adverb:
    """An adverbial of time, and the tenses in which it may be used."""

    english: str
    german: str
    tenses: tuple[str, ...]


def english_plural(word: str) -> str:
    """Form the regular English plural: box, boxes; city, cities; door, doors."""
    if word.endswith(("s", "x", "ch", "sh")):
        return word + "es"
    if word.endswith("y") and word[-2] not in "aeou":
        return word[:-1] + "ies"
    return word + "s"


def english_past(word: str) -> str:
    """Form the regular English past: love, loved; carry, carried; play, played."""
    if word.endswith("e"):
        return word + "d"
    if word.endswith("y") and word[-2] not in "aeou":
        return word[:-1] + "ied"
    return word + "ed"
