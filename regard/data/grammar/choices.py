"""Choosing words: which noun, article, adjective, verb and place go together.

A seed comes in; noun phrases and clauses go out, and `frames` makes sentences of them. Words
are chosen by what can be said of what, so that most sentences make sense.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

from regard.data.grammar.lexicon import (
    ADJECTIVES,
    ADVERBS,
    DATIVE,
    GIVING,
    INTRANSITIVE,
    NOUNS,
    PERSON,
    PLACES,
    TRANSITIVE,
    WHERE,
    nouns_of,
)
from regard.data.grammar.phrases import HE, SHE, THEY, WE, I, Nominal, Phrase, Place, Pronoun, Which
from regard.data.grammar.sentences import Clause
from regard.data.grammar.words import Adjective, Adverb, Noun, Verb

Item = TypeVar("Item")

KIN = frozenset(nouns_of("brother friend uncle sister aunt daughter"))
OWNED = KIN | frozenset(
    nouns_of(
        "beast child teacher doctor vehicle vessel thing opening device food drink "
        "garden house room kitchen school village city"
    )
)
"""What one can call "my": not the sea, and no one's queen."""
PEOPLE = nouns_of("person")
WATERS = nouns_of("waters")
SITES = nouns_of(" ".join(PLACES))
LANDMARKS = nouns_of("house school church castle bridge car bus truck train tram table")
INSIDES = nouns_of("garden forest park house room kitchen school church castle city")
STRETCHES = nouns_of("forest garden park desert valley city village field meadow")
GOALS = nouns_of("person river lake sea bridge castle school church")
COMPANY = nouns_of("person dog horse")
COUNTS = ("two", "three", "many")
OWNERS = ("my", "our", "his", "her")

STATES = ("need", "love", "trust")
"""No events: nothing happens while one trusts, and nobody can need."""
DATIVE_PLURAL = 0.48
"""The plural is more frequent here, so that its -n is seen often enough on each noun."""
INDOORS = frozenset(("look for", "hide", "eat", "drink", "wash", "hear", "sell"))
"""The verbs with an object that go with a place."""
SEPARABLE = tuple(verb for verb in TRANSITIVE + INTRANSITIVE if verb.prefix)
VERB_KINDS = (
    (0.33, TRANSITIVE),
    (0.1, DATIVE),
    (0.09, GIVING),
    (0.21, INTRANSITIVE),
    (0.27, SEPARABLE),
)
TIMES = {tense: tuple(a for a in ADVERBS if tense in a.tenses) for tense in ("past", "present")}
PREDICATES: dict[Noun, tuple[Adjective, ...]] = {
    noun: tuple(one for one in ADJECTIVES if noun in one.nouns) for noun in NOUNS
}
ATTRIBUTES: dict[Noun, tuple[Adjective, ...]] = {
    noun: tuple(one for one in ones if one.attributive) for noun, ones in PREDICATES.items()
}

# Determiners by weight, and the pronouns for people; each table sums to one.
PLURAL_WORDS = ((0.4, "the"), (0.18, "a"), (0.1, "this"), (0.08, "two"), (0.06, "three"),
                (0.08, "many"), (0.1, "my"))  # fmt: skip
SUBJECT_WORDS = ((0.52, "the"), (0.3, "a"), (0.08, "this"), (0.1, "my"))
OBJECT_WORDS = ((0.48, "the"), (0.28, "a"), (0.08, "this"), (0.16, "my"))
MASS_WORDS = ((0.5, "the"), (0.35, "a"), (0.15, "this"))
KIN_WORDS = ((0.28, "my"), (0.22, "our"), (0.2, "his"), (0.2, "her"), (0.1, "the"))
SPEAKERS = ((0.46, I), (0.18, WE), (0.1, HE), (0.1, SHE), (0.16, THEY))


class Choices:
    """Draws phrases and clauses from one seeded stream: the same seed, the same sentences."""

    def __init__(self, seed: str) -> None:
        # From a string, random.Random seeds itself by SHA-512: the same on every machine.
        self._random = random.Random(seed).random

    def choose(self, items: Sequence[Item]) -> Item:
        """One of them, each as likely."""
        return items[int(self._random() * len(items))]

    def happens(self, chance: float) -> bool:
        """True with this chance."""
        return self._random() < chance

    def weighted(self, table: Sequence[tuple[float, Item]]) -> Item:
        """One of them, by weights that sum to one."""
        left = self._random()
        for weight, item in table:
            left -= weight
            if left < 0:
                return item
        return table[-1][1]

    def tense(self) -> str:
        """Past a little more often than present."""
        return "past" if self.happens(0.52) else "present"

    def time(self, tense: str, chance: float, negated: bool) -> Adverb | None:
        """A time or none; denied, no "every day": is it the deed that is denied, or the days?"""
        if not self.happens(chance):
            return None
        times = TIMES[tense]
        return self.choose(times[:-2] if negated else times)

    def phrase(
        self,
        noun: Noun,
        *,
        bare: bool = False,
        owner: str = "",
        adjective: float = 0.33,
        plural: float = 0.26,
    ) -> Phrase:
        """A phrase around a noun.

        Args:
            noun: Its head.
            bare: Whether "dogs" and "milk" may stand without an article: as objects they may,
                as subjects they would bring in a capitalised form of each.
            owner: The possessive that fits the clause's subject, if the phrase is not one.
            adjective: The chance of an adjective.
            plural: The chance of the plural.
        """
        several = not noun.mass and self.happens(plural)
        if noun.mass:
            word = self.weighted(MASS_WORDS)
        elif several:
            word = self.weighted(PLURAL_WORDS)
        elif noun in KIN:
            word = self.weighted(KIN_WORDS)
        else:
            word = self.weighted(OBJECT_WORDS if owner else SUBJECT_WORDS)
        if word == "my" and noun not in KIN:
            word = (owner or self.choose(OWNERS)) if noun in OWNED else "the"
        if not bare and word == "a" and (several or noun.mass):
            word = "the"
        # "A black dog" more often than "the black dog": it is here that the endings differ most.
        ones, chance = ATTRIBUTES[noun], adjective * (1.8 if word == "a" else 1)
        one = self.choose(ones) if ones and self.happens(chance) else None
        return Phrase(noun, word, several, one)

    def subject(self, verb: Verb, *, third: bool = True) -> Nominal:
        """A subject that the verb can have, often a pronoun for people.

        Args:
            verb: The verb.
            third: Whether he, she and they may come: after a clause with people in it, they
                would seem to stand for those.
        """
        if self.happens(0.37) and any(noun.kind in PERSON for noun in verb.subjects):
            return self.weighted(SPEAKERS if third else ((0.66, I), (0.34, WE)))
        return self.phrase(self.choose(verb.subjects))

    def object(self, verb: Verb, subject: Nominal, negated: bool) -> Phrase:
        """An object that the verb can have, other than its subject."""
        noun = self.choose(verb.objects)
        while isinstance(subject, Phrase | Which) and noun is subject.noun:
            noun = self.choose(verb.objects)
        plural = DATIVE_PLURAL if verb.case == "dat" else 0.26
        phrase = self.phrase(noun, bare=True, owner=_owner(subject), plural=plural)
        if verb.name in ("steal", "buy") and phrase.word in OWNERS:  # not what one has already
            return Phrase(noun, "the", phrase.plural, phrase.adjective)
        # Denied, "two dogs" would be nicht zwei Hunde, and "a dog" in the dative keinem Hund.
        if negated and (phrase.word in COUNTS or verb.case == "dat"):
            return Phrase(noun, "the", phrase.plural, phrase.adjective)
        return phrase

    def place(self, kind: str, subject: Nominal) -> Place:
        """Where ("where", "swim"), whither ("into") or with whom ("with")."""
        if kind == "into":
            preposition, nouns = self.weighted(
                ((0.4, ("into", INSIDES)), (0.25, ("through", STRETCHES)), (0.35, ("to", GOALS)))
            )
        elif kind == "with":
            preposition, nouns = "with" if self.happens(0.7) else "without", COMPANY
        elif kind == "swim":
            preposition, nouns = "in", WATERS
        elif self.happens(0.25) or _on_wheels(subject):
            preposition, nouns = self.choose(("behind", "in front of", "beside")), LANDMARKS
        else:
            noun = self.choose(SITES)
            preposition, nouns = WHERE.get(noun.english) or WHERE[noun.kind], (noun,)
        noun = self.choose(nouns)
        while isinstance(subject, Phrase | Which) and noun is subject.noun:
            noun = self.choose(nouns)
        return Place(preposition, self._dative(noun, subject))

    def receiver(self, subject: Nominal) -> Phrase:
        """To whom something is given."""
        noun = self.choose(PEOPLE)
        while isinstance(subject, Phrase | Which) and noun is subject.noun:
            noun = self.choose(PEOPLE)
        return self._dative(noun, subject)

    def _dative(self, noun: Noun, subject: Nominal) -> Phrase:
        return self.phrase(noun, owner=_owner(subject), adjective=0.2, plural=DATIVE_PLURAL)

    def clause(
        self, tense: str, subject: Nominal | None = None, *, small: bool = False, third: bool = True
    ) -> Clause:
        """A clause with a verb; a small one has neither time nor place."""
        verb = self.choose(self.weighted(VERB_KINDS))
        if subject is None:
            subject = self.subject(verb, third=third)
        else:
            noun = subject.noun if isinstance(subject, Phrase | Which) else PEOPLE[0]
            while noun not in verb.subjects:
                verb = self.choose(self.weighted(VERB_KINDS))
        negated = self.happens(0.2)
        time = None if small else self.time(tense, 0.3, negated)
        return Clause(
            subject,
            verb,
            self.object(verb, subject, negated) if verb.objects else None,
            self.receiver(subject) if verb in GIVING else None,
            tense=tense,
            negated=negated,
            modal=self._modal(verb, subject, negated),
            place=self._place_with(verb, subject, small),
            time=time,
            fronted=time is not None and self.happens(0.6),
        )

    def _modal(self, verb: Verb, subject: Nominal, negated: bool) -> str:
        """Usually none. Denied, must would no longer be muss; and cars want nothing."""
        if verb.name in STATES or not self.happens(0.16):
            return ""
        if _on_wheels(subject):
            return "can"
        return self.choose(("can", "want") if negated else ("can", "want", "must"))

    def _place_with(self, verb: Verb, subject: Nominal, small: bool) -> Place | None:
        """A place for a verb that goes with one; walking and running always go somewhere."""
        if "into" in verb.places and not verb.prefix:
            return self.place(self.choose(verb.places), subject)
        if small:
            return None
        if verb.places and self.happens(0.7):
            return self.place(self.choose(verb.places), subject)
        if verb.name in INDOORS and self.happens(0.2):
            return self.place("where", subject)
        return None

    def degree(self, adjective: Adjective, negated: bool = False) -> str:
        """Too, very or nothing: "too" is for what keeps one from something."""
        if not adjective.graded:
            return ""
        if negated:
            return self.weighted(((0.6, "too"), (0.2, "very"), (0.2, "")))
        return self.choose(("very", ""))

    def state(self, tense: str, *, small: bool = False, third: bool = True) -> Clause:
        """Something is so: the old bridge was very narrow."""
        adjective = self.choose(ADJECTIVES)
        noun = self.choose(adjective.nouns)
        if noun.kind in PERSON and self.happens(0.4):
            subject: Nominal = self.choose((I, WE, HE, SHE, THEY) if third else (I, WE))
        else:
            phrase = self.phrase(noun, adjective=0.15)
            # "A dog was tired" and "the tired dog was tired" are no sentences anyone says.
            word = "the" if phrase.word == "a" else phrase.word
            plain = phrase.adjective is adjective or not adjective.decides
            subject = Phrase(noun, word, phrase.plural, None if plain else phrase.adjective)
        negated = subject is not I and self.happens(0.2)
        time = None if small else self.time(tense, 0.15, negated)
        return Clause(
            subject,
            predicate=adjective,
            degree=self.degree(adjective, adjective.decides and self.happens(0.5)),
            tense=tense,
            negated=negated,
            time=time,
            fronted=time is not None,
        )


def _owner(subject: Nominal) -> str:
    """The possessive for what belongs to the subject."""
    if isinstance(subject, Phrase) and not subject.plural:
        return {"he": "his", "she": "her"}.get(subject.noun.kind, "my")
    owners: tuple[tuple[Pronoun, str], ...] = ((I, "my"), (HE, "his"), (SHE, "her"))
    return next((word for pronoun, word in owners if subject is pronoun), "our")


def _on_wheels(subject: Nominal) -> bool:
    return isinstance(subject, Phrase) and subject.noun.kind in ("vehicle", "vessel")
