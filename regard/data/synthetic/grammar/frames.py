"""Drawing sentences: the types of sentence structures, and their probabilities.

In: a seed. Out: sentence structures, which `sentences` writes in both languages. The probabilities
make each phenomenon frequent, above all an "it" whose referent only its predicate shows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from regard.data.synthetic.grammar import lexicon, phrases, sentences
from regard.data.synthetic.grammar.choices import ATTRIBUTES, INDOORS, PREDICATES, STATES
from regard.data.synthetic.grammar.lexicon import ADJECTIVES, NOUNS, PERSON, TRANSITIVE, verbs_of
from regard.data.synthetic.grammar.people import MOODS, People
from regard.data.synthetic.grammar.phrases import IT, WHO, Phrase, Pronoun, Sentence, pronoun_for
from regard.data.synthetic.grammar.sentences import Clause, Joined, Linked, Question, Reported
from regard.data.synthetic.grammar.words import Adjective, Noun, Verb

CONTESTED = verbs_of("contested")
"""Verbs whose subject and object can both be "it", and whose action can be prevented by the
subject's state (tired) or the object's (deep)."""
CROSSINGS = verbs_of("crossings")
BEFORE = verbs_of("before")
AFTER = verbs_of("after")
"""Verbs of the first action (`BEFORE`) and the second (`AFTER`) on a thing: the dog found the ball
and hid it."""
URGING = ("brave", "curious", "sweet")
"""Predicates of "it" that are a reason for an action; all others are a reason against it."""
NEEDS = (("drink", "thirsty"), ("steal", "hungry"), ("eat", "hungry"), ("buy", "hungry"))
"""(verb, predicate) in which the predicate is a reason for this action only."""


def _nouns_for_it(verb: Verb) -> tuple[tuple[Noun, ...], tuple[Noun, ...]]:
    """Return the subjects and the objects of a verb that "it" can stand for."""
    subjects = tuple(noun for noun in verb.subjects if noun.kind not in PERSON)
    objects = tuple(noun for noun in verb.objects if noun.kind not in (*PERSON, "beast"))
    return subjects, objects


CONTESTANTS = {verb: _nouns_for_it(verb) for verb in CONTESTED}


def _deciding_adjectives() -> dict[tuple[Noun, Noun], tuple[Adjective, ...]]:
    """For each (noun, other): the adjectives that fit the noun but not the other.

    With such an adjective, "it" can stand only for the noun.
    """
    return {
        (noun, other): tuple(
            word for word in PREDICATES[noun] if word.decides and other not in word.nouns
        )
        for subjects, objects in CONTESTANTS.values()
        for subject in subjects
        for thing in objects
        for noun, other in ((subject, thing), (thing, subject))
    }


DECIDING = _deciding_adjectives()
TAKERS = {noun: tuple(verb for verb in AFTER if noun in verb.objects) for noun in NOUNS}
TARGETED = {
    noun: tuple(verb for verb in TRANSITIVE + lexicon.DATIVE if noun in verb.objects)
    for noun in NOUNS
}


def _urges(adjective: Adjective, verb: Verb) -> bool:
    """Whether the adjective is a reason for the action, as in: drank because it was thirsty."""
    return adjective.english in URGING or (verb.name, adjective.english) in NEEDS


class Frames(People):
    """Draws sentences with a seeded random generator."""

    def __init__(self, seed: str) -> None:
        super().__init__(seed)
        self._sentences: tuple[tuple[float, Callable[[], Sentence]], ...] = (
            (0.22, self.plain),
            (0.04, self.being),
            (0.22, self.contest),
            (0.05, self.reason),
            (0.06, self.taking),
            (0.07, self.her_or_him),
            (0.13, self.linked),
            (0.07, self.reported),
            (0.04, self.relative),
            (0.04, self.question),
            (0.06, self.long),
        )

    def sentence(self) -> Sentence:
        """Draw a sentence of any type, with the probabilities of the training split."""
        return self.weighted(self._sentences)()

    def plain(self) -> Sentence:
        """Draw one clause with a verb."""
        return self.clause(self.tense())

    def being(self) -> Sentence:
        """Draw one clause with "is"."""
        return self.state(self.tense())

    def contest(self) -> Linked:
        """Draw two nouns, and an "it" that can stand for only one of them, by its predicate."""
        verb = self.choose(CROSSINGS if self.happens(0.3) else CONTESTED)
        subjects, objects = CONTESTANTS[verb]
        subject, thing = self.choose(subjects), self.choose(objects)
        referent, other = (subject, thing) if self.happens(0.5) else (thing, subject)
        adjectives = DECIDING[referent, other]
        # If both nouns have one gender, the German pronoun is the same; keep only some of these.
        if not adjectives or (subject.gender == thing.gender and self.happens(0.7)):
            return self.contest()
        tense, adjective = self.tense(), self.choose(adjectives)
        word, negated = self._because(verb, adjective)
        modal = "" if self.happens(0.75) else "want" if self.happens(0.3) else "can"
        modal = "can" if modal and subject.kind == "vehicle" else modal
        time = self.time(tense, 0.08, negated)
        first, second = (self._contestant(noun, adjective) for noun in (subject, thing))
        main = Clause(first, verb, second, tense=tense, negated=negated, modal=modal)
        main = replace(main, time=time, fronted=time is not None)
        against = word == "because" and not _urges(adjective, verb)
        it, degree = IT[referent.gender], self.degree(adjective, against)
        sub = Clause(it, predicate=adjective, degree=degree, tense=tense, about=referent)
        return Linked(main, word, sub, sub_first=time is None and self.happens(0.15))

    def _because(self, verb: Verb, adjective: Adjective) -> tuple[str, bool]:
        """Draw the conjunction, and decide whether the main clause is negated, so that they fit.

        Tired and deep are reasons against crossing: "didn't cross … because", "crossed …
        although". The verb avoid and predicates such as brave each reverse this.
        """
        denied = self.happens(0.68)
        word = "because" if denied else "although"
        against = (verb.name == "avoid") != _urges(adjective, verb)
        return word, denied != against

    def _contestant(self, noun: Noun, predicate: Adjective) -> Phrase:
        """Draw a simple phrase, without the adjective that is the predicate."""
        word = "the" if self.happens(0.9) else "this"
        adjectives = ATTRIBUTES[noun]
        adjective = self.choose(adjectives) if adjectives and self.happens(0.12) else None
        return Phrase(noun, word, adjective=None if adjective is predicate else adjective)

    def reason(self) -> Linked:
        """Draw a sentence as `contest`, in which he, she, it or they alone shows the referent."""
        verb = self.choose(TRANSITIVE)
        tense, subject = self.tense(), self.phrase(self.choose(verb.subjects), adjective=0.15)
        thing = self.object(verb, subject, negated=True)
        meant, other = (subject, thing) if self.happens(0.5) else (thing, subject)
        pronoun = pronoun_for(meant)
        clear = pronoun.words != pronoun_for(other).words and meant.noun.kind != "young"
        deciding = [word for word in PREDICATES[meant.noun] if word.decides]
        adjectives = [word for word in deciding if word is not meant.adjective]
        if not clear or not adjectives or meant.word == "a":
            return self.reason()
        adjective = self.choose(adjectives)
        word, negated = self._because(verb, adjective)
        against = word == "because" and not _urges(adjective, verb)
        degree = self.degree(adjective, against)
        sub = Clause(pronoun, predicate=adjective, degree=degree, tense=tense, about=meant.noun)
        main = Clause(subject, verb, thing, tense=tense, negated=negated)
        return Linked(main, word, sub)

    def taking(self) -> Sentence:
        """Draw a sentence with a thing, and then "it" as the object of another verb."""
        first = self.choose(BEFORE)
        noun = self.choose(first.objects)
        takers = TAKERS[noun]
        if not takers or noun.kind in PERSON:
            return self.taking()
        second = self.choose(takers)
        subjects = [who for who in first.subjects if who in second.subjects and who is not noun]
        if second is first or not subjects:
            return self.taking()
        subject, tense = self.phrase(self.choose(subjects), adjective=0.15), self.tense()
        word = self.weighted(((0.55, "the"), (0.3, "a"), (0.15, "this")))
        plural = not noun.mass and self.happens(0.15)
        thing = Phrase(noun, word, plural)
        clause = Clause(subject, first, thing, tense=tense)
        then = Clause(subject, second, pronoun_for(thing), tense=tense, elided=True, about=noun)
        if subject.noun.kind in ("he", "she") and second.name != "leave" and self.happens(0.4):
            reason = replace(then, subject=pronoun_for(subject), elided=False, modal="want")
            return Linked(clause, "because", reason)
        return sentences.Shared(clause, then)

    def linked(self) -> Linked:
        """Draw a main clause and a subordinate clause, in either order."""
        word = self.choose(("because", "when", "although", "if", "while", "before"))
        tense = "present" if word == "if" else self.tense()
        main = self.clause(tense, small=True)
        sub = self._subordinate(tense, main, 0.6 if word in ("because", "although") else 0.2)
        if word in ("while", "before", "when"):
            verbs = [clause.verb.name for clause in (main, sub) if clause.verb]
            if len(verbs) < 2 or any(name in STATES for name in verbs) or sub.negated:
                return self.linked()
        return Linked(main, word, sub, sub_first=word != "before" and self.happens(0.4))

    def _subordinate(self, tense: str, main: Clause, still: float) -> Clause:
        """Draw a subordinate clause, often with the same subject as the main clause.

        Args:
            tense: The tense of both clauses.
            main: The main clause.
            still: The probability of a state ("is") instead of an action.
        """
        subject = main.subject
        if isinstance(subject, Phrase) and subject.noun.kind in ("he", "she"):
            again: Pronoun | None = pronoun_for(subject)
        else:
            again = subject if isinstance(subject, Pronoun) else None
        if again and self.happens(0.5):
            if self.happens(still):
                return self.described(again, self.choose(MOODS), tense)
            return self.clause(tense, again, small=True)
        if self.happens(still):
            return self.state(tense, small=True, third=False)
        return self.clause(tense, small=True, third=False)

    def reported(self) -> Reported:
        """Draw, for example, "The woman knows that …"."""
        tense = self.tense()
        if self.happens(0.3):
            return self._report(self.state(tense, small=True, third=False), tense)
        body = self.clause(tense, small=self.happens(0.6), third=False)
        return self._report(replace(body, fronted=False), tense)

    def _report(self, body: Sentence, tense: str) -> Reported:
        """Draw who says or knows what the body tells."""
        verb = self.choose(lexicon.SAYING)
        negated = verb.english == "know" and self.happens(0.3)
        return Reported(Clause(self.subject(verb), verb, tense=tense, negated=negated), body)

    def relative(self) -> Clause:
        """Draw a subject with a relative clause: the dog that chased the cat was tired."""
        adjective, tense = self.choose(ADJECTIVES), self.tense()
        noun = self.choose(adjective.nouns)
        plural = not noun.mass and self.happens(0.15)
        word = "the" if self.happens(0.75) else "this"
        subject = Phrase(noun, word, plural, relative=self._relative_clause(noun, plural, tense))
        if noun.kind in (*PERSON, "beast") and self.happens(0.4):
            return replace(self.clause(tense, subject, small=True), negated=False)
        return self.described(subject, adjective, tense)

    def _relative_clause(self, noun: Noun, plural: bool, tense: str) -> Clause:
        """Draw a relative clause, in which the noun is the subject or the object."""
        which = phrases.RelativePronoun(noun, plural)
        if noun.kind in (*PERSON, "beast") and self.happens(0.5):
            return self.clause(tense, which, small=True)
        verb = self.choose(TARGETED[noun])
        subject = self.subject(verb)
        while subject.noun is noun:
            subject = self.subject(verb)
        return Clause(subject, verb, which, tense=tense)

    def question(self) -> Question:
        """Draw a question with why, where, when or who; or with can, or is."""
        word, tense = self.choose(("why", "where", "when", "who", "", "is")), self.tense()
        if word == "is":
            state = self.state(tense, small=True)
            if not isinstance(state.subject, Phrase):
                return self.question()
            return Question(replace(state, negated=False))
        clause = replace(self.clause(tense, small=True), negated=False, modal="")
        if word == "who":
            speaks = clause.verb is not None and any(n.kind in PERSON for n in clause.verb.subjects)
            return Question(replace(clause, subject=WHO), word) if speaks else self.question()
        if not word:
            return Question(replace(clause, tense="present", modal="can"))
        verb = clause.verb
        if word == "where" and verb and "where" not in verb.locations and verb.name not in INDOORS:
            return self.question()
        return Question(clause, word)

    def long(self) -> Sentence:
        """Draw a longer sentence, which combines two others."""
        word = self.choose(("and", "but"))
        kind = self.choose(("report", "contest", "linked", "taking", "relative", "clauses"))
        if kind == "report":
            contest = self.contest()
            body = replace(contest, main=replace(contest.main, fronted=False), sub_first=False)
            return self._report(body, contest.main.tense)
        if kind == "contest":
            return Joined(self.plain(), word, replace(self.contest(), sub_first=False))
        if kind == "linked":
            return Joined(self.linked(), word, self.state(self.tense(), third=False))
        if kind == "taking":
            return Joined(self.contest(), word, self.taking())
        if kind == "relative":
            return Joined(self.relative(), word, self.clause(self.tense(), third=False))
        tense = self.tense()
        return Joined(self.clause(tense), word, self.clause(tense, third=False))

    def chain(self, longest: int) -> Sentence:
        """Draw sentences joined by "and" or "but", of any number of words up to about `longest`.

        Longer chains are drawn more often, as more of them have a held-out combination and are
        then not used.
        """
        words = int(longest * self._random() ** 0.5)
        sentence: Sentence = self._chain_part()
        while sentence.english().count(" ") + 1 < words - 3:  # a part has about six words
            sentence = Joined(sentence, self.choose(("and", "but")), self._chain_part())
        return sentence

    def _chain_part(self) -> Sentence:
        """Draw a part of a chain."""
        kinds = (0.5, self.plain), (0.2, self.contest), (0.2, self.linked), (0.1, self.taking)
        return self.weighted(kinds)()
