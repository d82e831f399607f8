"""Drawing words: nouns, articles, adjectives, verbs and places that go together.

In: a seed. Out: noun phrases and clauses, from which `frames` makes sentences. The lexicon says
which words go together, so that most sentences make sense.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from regard.data.synthetic.grammar import lexicon
from regard.data.synthetic.grammar.lexicon import ADJECTIVES, ADVERBS, NOUNS, WHERE, nouns_of
from regard.data.synthetic.grammar.phrases import (
    HE,
    SHE,
    THEY,
    WE,
    I,
    Nominal,
    Phrase,
    PrepositionalPhrase,
)
from regard.data.synthetic.grammar.sentences import Clause
from regard.data.synthetic.grammar.words import Adjective, Adverb, Noun, Verb

Item = TypeVar("Item")

KIN = frozenset(nouns_of("brother friend uncle sister aunt daughter"))
OWNED = frozenset(nouns_of("OWNED"))
"""Nouns that can follow "my"; not, for example, the sea or the queen."""
PEOPLE = nouns_of("person")
WATERS = nouns_of("waters")
SITES = nouns_of("place")
LANDMARKS = nouns_of("house school church castle bridge car bus truck train tram table")
INSIDES = nouns_of("garden forest park house room kitchen school church castle city")
STRETCHES = nouns_of("forest garden park desert valley city village field meadow")
GOALS = nouns_of("person river lake sea bridge castle school church")
COMPANY = nouns_of("person dog horse")
COUNTS = ("two", "three", "many")
OWNERS = ("my", "our", "his", "her")
OWNERS_OF = ((I, "my"), (HE, "his"), (SHE, "her"))

STATES = ("need", "love", "trust")
"""Verbs of states, not events: without modals, and not in sentences with while, before or when."""
DATIVE_PLURAL = 0.48
"""Probability of the plural in the dative: high, so that its -n is frequent for each noun."""
INDOORS = frozenset(("look for", "hide", "eat", "drink", "wash", "hear", "sell"))
"""The transitive verbs that may have a place."""
SEPARABLE = tuple(verb for verb in lexicon.TRANSITIVE + lexicon.INTRANSITIVE if verb.prefix)
VERB_KINDS = (
    (0.33, lexicon.TRANSITIVE),
    (0.1, lexicon.DATIVE),
    (0.09, lexicon.GIVING),
    (0.21, lexicon.INTRANSITIVE),
    (0.27, SEPARABLE),
)
TIMES = {tense: tuple(a for a in ADVERBS if tense in a.tenses) for tense in ("past", "present")}
PREDICATES: dict[Noun, tuple[Adjective, ...]] = {
    noun: tuple(word for word in ADJECTIVES if noun in word.nouns) for noun in NOUNS
}
ATTRIBUTES: dict[Noun, tuple[Adjective, ...]] = {
    noun: tuple(word for word in words if word.attributive) for noun, words in PREDICATES.items()
}

# Probabilities of determiners, and of pronouns for people; each table sums to one.
PLURAL_WORDS = ((0.4, "the"), (0.18, "a"), (0.1, "this"), (0.08, "two"), (0.06, "three"),
                (0.08, "many"), (0.1, "my"))  # fmt: skip
SUBJECT_WORDS = ((0.52, "the"), (0.3, "a"), (0.08, "this"), (0.1, "my"))
OBJECT_WORDS = ((0.48, "the"), (0.28, "a"), (0.08, "this"), (0.16, "my"))
MASS_WORDS = ((0.5, "the"), (0.35, "a"), (0.15, "this"))
KIN_WORDS = ((0.28, "my"), (0.22, "our"), (0.2, "his"), (0.2, "her"), (0.1, "the"))
SPEAKERS = ((0.46, I), (0.18, WE), (0.1, HE), (0.1, SHE), (0.16, THEY))


class Choices:
    """Draws phrases and clauses with a seeded random generator."""

    def __init__(self, seed: str) -> None:
        # random.Random hashes a string seed with SHA-512, so it is the same on every machine.
        self._random = random.Random(seed).random

    def choose(self, items: Sequence[Item]) -> Item:
        """Draw one of the items, all equally likely."""
        return items[int(self._random() * len(items))]

    def happens(self, chance: float) -> bool:
        """Return True with this probability."""
        return self._random() < chance

    def weighted(self, table: Sequence[tuple[float, Item]]) -> Item:
        """Draw one of the items, by weights that sum to one."""
        remainder = self._random()
        for weight, item in table:
            remainder -= weight
            if remainder < 0:
                return item
        return table[-1][1]

    def tense(self) -> str:
        """Draw a tense, past a little more often than present."""
        return "past" if self.happens(0.52) else "present"

    def time(self, tense: str, chance: float, negated: bool) -> Adverb | None:
        """Draw an adverbial of time, or None.

        A negated clause has no "sometimes" and no "every day": it would be ambiguous whether the
        action or the adverbial is negated.
        """
        if not self.happens(chance):
            return None
        times = TIMES[tense]
        return self.choose(times[:-2] if negated else times)  # without the last two

    def phrase(
        self,
        noun: Noun,
        *,
        bare: bool = False,
        owner: str = "",
        adjective: float = 0.33,
        plural: float = 0.26,
    ) -> Phrase:
        """Draw a phrase around a noun.

        Args:
            noun: The head of the phrase.
            bare: Whether "dogs" and "milk" may have no article: only objects may, as a subject
                would begin the sentence and add a capitalised form of each noun.
            owner: The possessive that fits the clause's subject; "" if the phrase is the subject.
            adjective: The probability of an adjective.
            plural: The probability of the plural.
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
        # More adjectives after "a" than after "the": German endings differ most there.
        adjectives, chance = ATTRIBUTES[noun], adjective * (1.8 if word == "a" else 1)
        drawn_adjective = self.choose(adjectives) if adjectives and self.happens(chance) else None
        return Phrase(noun, word, several, drawn_adjective)

    def subject(self, verb: Verb, *, third: bool = True) -> Nominal:
        """Draw a possible subject of the verb, often a pronoun for people.

        Args:
            verb: The verb.
            third: Whether he, she and they are allowed: after a clause with people, they would
                seem to stand for these.
        """
        if self.happens(0.37) and any(noun.kind in lexicon.PERSON for noun in verb.subjects):
            return self.weighted(SPEAKERS if third else ((0.66, I), (0.34, WE)))
        return self.phrase(self.choose(verb.subjects))

    def object(self, verb: Verb, subject: Nominal, negated: bool) -> Phrase:
        """Draw a possible object of the verb, other than its subject."""
        noun = self._other_noun(verb.objects, subject)
        plural = DATIVE_PLURAL if verb.case == "dat" else 0.26
        phrase = self.phrase(noun, bare=True, owner=_owner(subject), plural=plural)
        if verb.name in ("steal", "buy") and phrase.word in OWNERS:  # one's own already
            return Phrase(noun, "the", phrase.plural, phrase.adjective)
        # Avoids negating "two dogs" (nicht zwei Hunde) and a dative "a dog" (keinem Hund).
        if negated and (phrase.word in COUNTS or verb.case == "dat"):
            return Phrase(noun, "the", phrase.plural, phrase.adjective)
        return phrase

    def location(self, kind: str, subject: Nominal) -> PrepositionalPhrase:
        """Draw a place ("where", "swim"), a destination ("into") or company ("with")."""
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
        return PrepositionalPhrase(preposition, self._dative(nouns, subject))

    def _other_noun(self, nouns: Sequence[Noun], subject: Nominal) -> Noun:
        """Draw a noun other than the subject's."""
        noun = self.choose(nouns)
        while noun is subject.noun:
            noun = self.choose(nouns)
        return noun

    def _dative(self, nouns: Sequence[Noun], subject: Nominal) -> Phrase:
        """Draw a phrase in the dative around a noun other than the subject's."""
        noun = self._other_noun(nouns, subject)
        return self.phrase(noun, owner=_owner(subject), adjective=0.2, plural=DATIVE_PLURAL)

    def clause(
        self, tense: str, subject: Nominal | None = None, *, small: bool = False, third: bool = True
    ) -> Clause:
        """Draw a clause with a verb; a small one has no time and usually no place."""
        verb = self.choose(self.weighted(VERB_KINDS))
        if subject is None:
            subject = self.subject(verb, third=third)
        else:
            while (subject.noun or PEOPLE[0]) not in verb.subjects:
                verb = self.choose(self.weighted(VERB_KINDS))
        negated = self.happens(0.2)
        time = None if small else self.time(tense, 0.3, negated)
        return Clause(
            subject,
            verb,
            self.object(verb, subject, negated) if verb.objects else None,
            self._dative(PEOPLE, subject) if verb in lexicon.GIVING else None,  # the receiver
            tense=tense,
            negated=negated,
            modal=self._modal(verb, subject, negated),
            location=self._where(verb, subject, small),
            time=time,
            fronted=time is not None and self.happens(0.6),
        )

    def _modal(self, verb: Verb, subject: Nominal, negated: bool) -> str:
        """Draw a modal verb, usually "".

        "must" is excluded in negated clauses, where it is not translated by muss; vehicles have
        only "can".
        """
        if verb.name in STATES or not self.happens(0.16):
            return ""
        if _on_wheels(subject):
            return "can"
        return self.choose(("can", "want") if negated else ("can", "want", "must"))

    def _where(self, verb: Verb, subject: Nominal, small: bool) -> PrepositionalPhrase | None:
        """Draw a place if the verb may have one; verbs of motion such as walk always have one."""
        if "into" in verb.locations and not verb.prefix:
            return self.location(self.choose(verb.locations), subject)
        if small:
            return None
        if verb.locations and self.happens(0.7):
            return self.location(self.choose(verb.locations), subject)
        if verb.name in INDOORS and self.happens(0.2):
            return self.location("where", subject)
        return None

    def degree(self, adjective: Adjective, negated: bool = False) -> str:
        """Draw "too", "very" or ""; "too" only if `negated`: a reason against an action."""
        if not adjective.graded:
            return ""
        if negated:
            return self.weighted(((0.6, "too"), (0.2, "very"), (0.2, "")))
        return self.choose(("very", ""))

    def described(
        self, subject: Nominal, adjective: Adjective, tense: str, time: Adverb | None = None
    ) -> Clause:
        """Make a clause with "is", and draw the degree; a time begins the clause."""
        degree = self.degree(adjective)
        state = Clause(subject, predicate=adjective, degree=degree, tense=tense)
        return replace(state, time=time, fronted=time is not None)

    def state(self, tense: str, *, small: bool = False, third: bool = True) -> Clause:
        """Draw a clause with "is": the old bridge was very narrow."""
        adjective = self.choose(ADJECTIVES)
        noun = self.choose(adjective.nouns)
        if noun.kind in lexicon.PERSON and self.happens(0.4):
            subject: Nominal = self.choose((I, WE, HE, SHE, THEY) if third else (I, WE))
        else:
            phrase = self.phrase(noun, adjective=0.15)
            # Avoid unnatural sentences: "a dog was tired", "the tired dog was tired".
            word = "the" if phrase.word == "a" else phrase.word
            is_plain = phrase.adjective is adjective or not adjective.decides
            subject = Phrase(noun, word, phrase.plural, None if is_plain else phrase.adjective)
        negated = subject is not I and self.happens(0.2)
        time = None if small else self.time(tense, 0.15, negated)
        degree = self.degree(adjective, adjective.decides and self.happens(0.5))
        state = Clause(subject, predicate=adjective, degree=degree, tense=tense, negated=negated)
        return replace(state, time=time, fronted=time is not None)


def _owner(subject: Nominal) -> str:
    """Return the possessive for something that belongs to the subject."""
    if isinstance(subject, Phrase) and not subject.plural:
        return {"he": "his", "she": "her"}.get(subject.noun.kind, "my")
    return next((word for pronoun, word in OWNERS_OF if subject is pronoun), "our")


def _on_wheels(subject: Nominal) -> bool:
    """Whether the subject is a vehicle."""
    return isinstance(subject, Phrase) and subject.noun.kind in ("vehicle", "vessel")
