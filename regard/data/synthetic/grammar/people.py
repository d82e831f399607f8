"""Sentences about a person whose gender is shown by a later "her" or "him": the teacher, Lehrerin.

In: a seed. Out: sentence structures; `frames` builds on this file. English has one noun for both
genders, German has two and must choose at the noun, before the pronoun. The pronoun cannot stand
for anybody else: all others in the sentence are animals, plural, of the other gender, "I" or "we".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from regard.data.synthetic.grammar.choices import Choices
from regard.data.synthetic.grammar.lexicon import ADJECTIVES, TWO_GENDERS, verbs_of
from regard.data.synthetic.grammar.phrases import WE, I, Nominal, Phrase, Sentence, pronoun_for
from regard.data.synthetic.grammar.sentences import Clause, Joined, Linked, Shared
from regard.data.synthetic.grammar.words import Adjective, Verb

MOODS = tuple(word for word in ADJECTIVES if word.decides and TWO_GENDERS[0] in word.nouns)
"""States of a person: tired, sick, brave."""
ACTS = verbs_of("acts")
"""Actions of others towards the person: … and the children helped her."""
CARES = (*ACTS, *verbs_of("feelings"))
"""`ACTS`, and feelings of others for the person."""
CAUSES = verbs_of("causes")
"""Actions of others after "because": they make the person laugh or run away."""
MISSING = verbs_of("missing")
"""Actions of others that are negated after "although"."""
EVENTS = verbs_of("events")
"""Actions of the person."""
MEETINGS = verbs_of("meetings")
"""The first action of others when they meet the person."""
SETTLING = tuple(dict.fromkeys((*CARES, *CAUSES, *MISSING)))
"""All verbs that can have the pronoun as their object."""


class People(Choices):
    """Draws sentences in which "her" or "him" shows the gender of a noun before it."""

    def her_or_him(self) -> Sentence:
        """Draw a sentence of any of the types below."""
        frames: tuple[tuple[float, Callable[[], Sentence]], ...] = (
            (0.25, self.state_and_care),
            (0.25, self.event_and_care),
            (0.2, self.event_by_others),
            (0.15, self.care_at_an_event),
            (0.15, self.meeting),
        )
        return self.weighted(frames)()

    def state_and_care(self) -> Joined:
        """Draw, for example, "The teacher was tired, and the children helped her"."""
        tense, mood = self.tense(), self.choose(MOODS)
        person = self._person(mood)
        return Joined(self._mood(person, mood, tense), "and", self._care(CARES, person, tense))

    def event_and_care(self) -> Joined:
        """Draw, for example, "The doctor came back, and we thanked her"."""
        tense, person = self.tense(), self._person()
        word = self.choose(("and", "but"))
        care = self._care(ACTS, person, tense, negated=word == "but" and self.happens(0.5))
        return Joined(self._event(person, tense), word, care)

    def event_by_others(self) -> Linked:
        """Draw, for example, "The teacher ran away because the dog followed her"."""
        tense, mood = self.tense(), self.choose(MOODS)
        person = self._person(mood)
        still = self.happens(0.4)
        main = self._mood(person, mood, tense) if still else self._event(person, tense)
        if self.happens(0.65):
            return Linked(main, "because", self._care(CAUSES, person, tense))
        return Linked(main, "although", self._care(MISSING, person, tense, negated=True))

    def care_at_an_event(self) -> Linked:
        """Draw, for example, "When the doctor came back, we thanked her"."""
        tense, person = self.tense(), self._person()
        event = replace(self._event(person, tense), time=None, fronted=False)
        # A noun as subject would follow the pronoun (dankten ihr die Kinder); ich and wir do not.
        care = replace(self._care(ACTS, person, tense), subject=self.choose((I, WE)))
        return Linked(care, "when", event, sub_first=True)

    def meeting(self) -> Shared:
        """Draw, for example, "The children saw the teacher and followed her"."""
        tense, person = self.tense(), self._person()
        first, second = self.choose(MEETINGS), self.choose(ACTS)
        if first is second:
            return self.meeting()
        subject = self._other_subject(first, person)
        if isinstance(subject, Phrase) and subject.noun not in second.subjects:
            return self.meeting()
        pronoun = pronoun_for(person)
        then = Clause(subject, second, pronoun, tense=tense, elided=True, about=person.noun)
        return Shared(Clause(subject, first, person, tense=tense), then)

    def _person(self, mood: Adjective | None = None) -> Phrase:
        """Draw a person of either gender.

        With a mood as the predicate, the phrase has neither the article "a" nor this adjective.
        """
        phrase = self.phrase(self.choose(TWO_GENDERS), adjective=0.12, plural=0)
        if mood is None:
            return phrase
        word = "the" if phrase.word == "a" else phrase.word
        adjective = None if phrase.adjective is mood else phrase.adjective
        return replace(phrase, word=word, adjective=adjective)

    def _mood(self, person: Phrase, mood: Adjective, tense: str) -> Clause:
        """Draw a clause that tells the mood of a person."""
        return self.described(person, mood, tense, self.time(tense, 0.15, negated=False))

    def _event(self, person: Phrase, tense: str) -> Clause:
        """Draw a clause of what a person does, perhaps with a place and a time."""
        verb, time = self.choose(EVENTS), self.time(tense, 0.15, negated=False)
        somewhere = "where" in verb.locations and self.happens(0.2)
        location = self.location("where", person) if somewhere else None
        fronted = time is not None
        return Clause(person, verb, tense=tense, location=location, time=time, fronted=fronted)

    def _care(
        self, verbs: tuple[Verb, ...], person: Phrase, tense: str, *, negated: bool = False
    ) -> Clause:
        """Draw a clause of what others do, with the person's pronoun as the object."""
        verb = self.choose(verbs)
        subject, pronoun = self._other_subject(verb, person), pronoun_for(person)
        return Clause(subject, verb, pronoun, tense=tense, negated=negated, about=person.noun)

    def _other_subject(self, verb: Verb, person: Phrase) -> Nominal:
        """Draw a subject that the pronoun cannot stand for.

        It is I, we, an animal, somebody of the other gender, or plural.
        """
        if self.happens(0.3):
            return self.choose((I, WE))
        noun = self.choose(verb.subjects)
        alike = noun.kind in (person.noun.kind, "young") or noun in TWO_GENDERS
        return self.phrase(noun, adjective=0.12, plural=1 if alike else 0.26)
