"""What the grammar knows of a word: the types of `lexicon`'s rows, and regular English forms."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """A noun: `kind` says what it can do and have done to it, `gender` is m, f or n."""

    kind: str
    english: str
    english_plural: str
    german: str
    german_plural: str
    gender: str
    mass: bool = False
    """Milk, water: no plural, and no article where others have "a"."""


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    """An adjective, its stem before endings (teuer, teur-), and the nouns it can be said of."""

    english: str
    german: str
    stem: str
    nouns: tuple[Noun, ...]
    attributive: bool
    """May stand before a noun: "the old dog"."""
    decides: bool
    """Sensible of its nouns only, so that "it was steep" tells what "it" is."""
    graded: bool
    """May be too much so: not black, not broken."""


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    """A verb with both languages' principal parts, and the nouns it takes."""

    english: str
    english_past: str
    particle: str
    """What follows the English verb: "at" in "look at"."""
    splits: bool
    """Whether a pronoun goes between: "picked it up", but "looked at it"."""
    prefix: str
    """The German separable prefix: "auf" in "aufmachen"."""
    german: str
    third: str
    past: str
    subjects: tuple[Noun, ...]
    objects: tuple[Noun, ...] = ()
    case: str = "acc"
    """The case of the object; of the thing given it is always accusative."""
    preposition: str = ""
    """What stands before the German object: "auf" in "auf sie warten"."""
    places: tuple[str, ...] = ()
    """The kinds of prepositional phrases that go with it."""

    @property
    def name(self) -> str:
        """The English verb with its particle."""
        return f"{self.english} {self.particle}".rstrip()


@dataclass(frozen=True, slots=True, eq=False)
class Adverb:
    """An adverbial of time, and the tenses it goes with."""

    english: str
    german: str
    tenses: tuple[str, ...]


def english_plural(word: str) -> str:
    """The regular English plural: box, boxes; city, cities; door, doors."""
    if word.endswith(("s", "x", "ch", "sh")):
        return word + "es"
    if word.endswith("y") and word[-2] not in "aeou":
        return word[:-1] + "ies"
    return word + "s"


def english_past(word: str) -> str:
    """The regular English past: love, loved; carry, carried; play, played."""
    if word.endswith("e"):
        return word + "d"
    if word.endswith("y") and word[-2] not in "aeou":
        return word[:-1] + "ied"
    return word + "ed"
