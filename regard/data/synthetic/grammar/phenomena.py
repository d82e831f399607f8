"""Analysis of a sentence: the phenomena to report scores by, and the combinations to hold out.

In: a sentence structure. Out: an `Analysis` of it, from one pass over its clauses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from regard.data.synthetic.grammar import phrases, sentences
from regard.data.synthetic.grammar.lexicon import PERSON, PREPOSITIONS, TWO_GENDERS
from regard.data.synthetic.grammar.phrases import Nominal, Phrase, Pronoun, Sentence
from regard.data.synthetic.grammar.sentences import Clause, Question
from regard.data.synthetic.grammar.words import Noun

PHENOMENA = ("gender", "case", "adjective", "plural", "verb_second", "verb_final", "separable",
             "negation", "pronoun", "modal", "preposition", "relative", "question",
             "natural_gender", "unpunctuated")  # fmt: skip
"""Every tag that a pair can have."""
OTHER = {"he": "she", "she": "he"}
AGREEING = {"he": {"he", "him", "his"}, "she": {"she", "her"}}
_HE_OR_SHE = re.compile(r"\b(?:he|him|his|she|her)\b")


@dataclass(slots=True)
class Analysis:
    """The phenomena and combinations in a sentence.

    Attributes:
        tags: Its phenomena.
        genders: The genders of its singular nouns.
        objects: Each (verb, object).
        adjectives: Each (adjective, noun), before the noun or after "is".
        pronouns: Each (adjective, noun) in which "it" stands for the noun.
        people: Its singular nouns for people, one entry per occurrence.
        settling: Each (verb, noun) in which "him" or "her" stands for a noun of two genders.
    """

    tags: set[str] = field(default_factory=set)
    genders: set[str] = field(default_factory=set)
    objects: list[tuple[str, str]] = field(default_factory=list)
    adjectives: list[tuple[str, str]] = field(default_factory=list)
    pronouns: list[tuple[str, str]] = field(default_factory=list)
    people: list[Noun] = field(default_factory=list)
    settling: list[tuple[str, str]] = field(default_factory=list)

    def phenomena(self) -> tuple[str, ...]:
        """Return the tags in a fixed order."""
        if len(self.genders) > 1:
            self.tags.add("gender")
        return tuple(tag for tag in PHENOMENA if tag in self.tags)


def analyse(sentence: Sentence) -> Analysis:
    """Collect the phenomena and combinations of a sentence."""
    analysis = Analysis()
    if isinstance(sentence, Question):
        analysis.tags.add("question")
        if sentence.word:
            analysis.tags.add("verb_second")
    for clause, order in _clauses(sentence):
        _note_clause(analysis, clause, order)
    return analysis


def is_settled(analysis: Analysis, english: str) -> bool:
    """Whether a later pronoun determines the gender of a sentence's noun of two genders.

    Each "he" and "she" must follow the noun and agree with it, and must not be able to stand for
    anybody else: all other people in the sentence are plural, or of the other gender.

    Args:
        analysis: The analysis of the sentence.
        english: The sentence.

    Returns:
        Whether this holds; True for a sentence without such a noun.
    """
    if "natural_gender" not in analysis.tags:
        return True
    noun, *other_nouns = (person for person in analysis.people if person in TWO_GENDERS)
    other_genders = {person.kind for person in analysis.people if person is not noun}
    if other_nouns or not other_genders <= {OTHER[noun.kind]}:
        return False
    start, *after_noun = re.split(rf"\b{noun.english}\b", english.lower(), maxsplit=1)
    pronouns = set(_HE_OR_SHE.findall(" ".join(after_noun)))
    return bool(pronouns) and pronouns <= AGREEING[noun.kind] and not _HE_OR_SHE.search(start)


def _clauses(sentence: Sentence, order: str = "main") -> Iterator[tuple[Clause, str]]:
    """Yield each clause, including relative clauses, with its German word order."""
    if isinstance(sentence, Clause):
        yield sentence, order
        for part in (sentence.subject, sentence.object):
            if isinstance(part, Phrase) and part.relative:
                yield from _clauses(part.relative, "relative")
    elif isinstance(sentence, sentences.Linked):
        yield from _clauses(sentence.main, "inverted" if sentence.sub_first else order)
        yield from _clauses(sentence.sub, "final")
    elif isinstance(sentence, sentences.Reported):
        yield from _clauses(sentence.head, order)
        yield from _clauses(sentence.body, "final")
    elif isinstance(sentence, sentences.Shared | sentences.Joined):
        yield from _clauses(sentence.first, order)
        yield from _clauses(sentence.second, order)
    elif isinstance(sentence, Question):
        yield from _clauses(sentence.clause, order)


def _note_clause(analysis: Analysis, clause: Clause, order: str) -> None:
    """Add the phenomena and combinations of one clause to the analysis."""
    verb = clause.verb
    has_tag = {
        "verb_second": order == "inverted" or (order == "main" and clause.fronted),
        "verb_final": order in ("final", "relative"),
        "relative": order == "relative",
        "negation": clause.negated,
        "modal": bool(clause.modal),
        "separable": verb is not None and verb.prefix != "",
        "preposition": clause.location is not None,
    }
    analysis.tags.update(tag for tag, is_present in has_tag.items() if is_present)
    if not clause.elided:
        _note_nominal(analysis, clause.subject, "nom")
    if clause.object and verb:
        _note_nominal(analysis, clause.object, verb.case)
        noun = clause.about if isinstance(clause.object, Pronoun) else clause.object.noun
        if noun:
            analysis.objects.append((verb.name, noun.english))
            if clause.object in (phrases.HE, phrases.SHE) and noun in TWO_GENDERS:
                analysis.settling.append((verb.name, noun.english))
    if clause.indirect:
        _note_nominal(analysis, clause.indirect, "dat")
    if location := clause.location:
        _note_nominal(analysis, location.phrase, PREPOSITIONS[location.preposition][1])
    if clause.predicate:
        _note_predicate(analysis, clause)


def _note_predicate(analysis: Analysis, clause: Clause) -> None:
    """Add the combination of a predicate with its subject, or with the noun of its "it"."""
    assert clause.predicate is not None
    noun = clause.subject.noun
    if noun:
        analysis.adjectives.append((clause.predicate.english, noun.english))
    elif clause.about:
        combination = clause.predicate.english, clause.about.english
        analysis.adjectives.append(combination)
        if clause.subject in phrases.IT.values():
            analysis.pronouns.append(combination)


def _note_nominal(analysis: Analysis, nominal: Nominal, case: str) -> None:
    """Add the phenomena of a noun phrase or pronoun in a case."""
    if isinstance(nominal, Pronoun):
        if nominal not in (phrases.I, phrases.WE, phrases.WHO):
            analysis.tags.add("pronoun")
        return
    if not isinstance(nominal, Phrase):
        return
    if nominal.plural:
        analysis.tags.add("plural")
    else:
        analysis.genders.add(nominal.noun.gender)
    # In the plural the masculine is used for both genders: no English word implies Lehrerinnen.
    of_two = nominal.noun in TWO_GENDERS and not (nominal.plural and nominal.noun.gender == "m")
    if of_two:
        analysis.tags.add("natural_gender")
    if of_two or (nominal.noun.kind in PERSON and not nominal.plural):
        analysis.people.append(nominal.noun)
    # Only the masculine accusative differs from the nominative: den Hund, die Katze, das Pferd.
    if case == "dat" or (case == "acc" and nominal.noun.gender == "m" and not nominal.plural):
        analysis.tags.add("case")
    if nominal.adjective:
        analysis.tags.add("adjective")
        analysis.adjectives.append((nominal.adjective.english, nominal.noun.english))
