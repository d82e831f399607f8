"""The synchronous grammar: sentence structures that are written in both languages.

In: phrases. Out: a sentence's `english()` and `german()`, which `pair` makes into a `Pair`. A
structure has no word order; each language orders it by its own rules. German has three orders:
"main" (verb second), "inverted" (verb first, as something before the clause takes the first
position) and "final" (verb last).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from regard.data.synthetic.grammar.german import BE, MODALS, THIRD, verb_forms
from regard.data.synthetic.grammar.phrases import (
    Nominal,
    Phrase,
    PrepositionalPhrase,
    Pronoun,
    RelativePronoun,
    Sentence,
)
from regard.data.synthetic.grammar.words import Adjective, Adverb, Noun, Verb, english_plural
from regard.data.text.pairs import Pair

DEGREES = {"": "", "too": "zu", "very": "sehr", "so": "so"}
CONJUNCTIONS = {"because": "weil", "although": "obwohl", "if": "wenn", "while": "während",
                "before": "bevor", "when": "wenn"}  # fmt: skip
QUESTIONS = {"": "", "why": "warum", "where": "wo", "when": "wann"}
ENGLISH_BE = {"present": ("am", "is", "are"), "past": ("was", "was", "were")}
ENGLISH_DO = {"present": ("do", "does", "do"), "past": ("did", "did", "did")}


@dataclass(frozen=True, slots=True)
class Clause:
    """A subject with a verb and its objects, or with "is" and an adjective.

    Attributes:
        subject: The subject.
        verb: The verb; None in a clause with "is".
        object: The object, in the case that the verb governs.
        indirect: The indirect object of a verb of giving, in the dative.
        predicate: The adjective after "is".
        degree: The word before that adjective: "too", "very", "so" or "".
        tense: "past" or "present".
        negated: Whether the clause is negated.
        modal: "can", "must", "want" or "".
        location: A prepositional phrase.
        time: An adverbial of time.
        fronted: Whether the time begins the clause.
        elided: Whether the subject is left out, after "and".
        about: The noun that the clause's pronoun (object, or else subject) stands for.
    """

    subject: Nominal
    verb: Verb | None = None
    object: Nominal | None = None
    indirect: Nominal | None = None
    predicate: Adjective | None = None
    degree: str = ""
    tense: str = "past"
    negated: bool = False
    modal: str = ""
    location: PrepositionalPhrase | None = None
    time: Adverb | None = None
    fronted: bool = False
    elided: bool = False
    about: Noun | None = None

    def english(self) -> str:
        """Subject, verb, objects, place, time; a relative pronoun or a fronted time is first."""
        time = self.time.english if self.time and self.fronted else ""
        relative = self.object.english() if isinstance(self.object, RelativePronoun) else ""
        subject = "" if self.elided else self.subject.english("nom")
        return _join([time, relative, subject, *self._english_verb(), self._english_rest()])

    def ask(self, word: str = "") -> str:
        """The English question: (why) did the dog sleep."""
        auxiliary, verb = self._english_verb(in_question=True)
        subject = self.subject.english("nom")
        return _join([word, auxiliary, subject, verb, self._english_rest()])

    def _english_verb(self, in_question: bool = False) -> tuple[str, str]:
        """Return the finite auxiliary ("" if there is none) and the rest of the verb."""
        agrees, tense = self.subject.agrees, self.tense
        if self.predicate:
            be = ENGLISH_BE[tense][agrees]
            not_be = "am not" if be == "am" else f"{be}n't"
            return not_be if self.negated else be, ""
        verb = self.verb
        assert verb is not None, "a clause has a verb or a predicate"
        base = verb.english
        if self.modal == "can":
            can = "can" if tense == "present" else "could"
            return ("can't" if can == "can" else "couldn't") if self.negated else can, base
        if self.modal == "must":
            return ("must", base) if tense == "present" else ("had", f"to {base}")
        # the third person is spelled like a plural: crosses, carries
        third, past = english_plural(base), verb.english_past
        if self.modal == "want":
            base, third, past = f"want to {base}", f"wants to {base}", f"wanted to {base}"
        if self.negated or in_question:
            do = ENGLISH_DO[tense][agrees]
            return f"{do}n't" if self.negated else do, base
        if tense == "past":
            return "", past
        return "", third if agrees == THIRD else base

    def _english_rest(self) -> str:
        """Return what follows the verb: particle, objects, predicate, place and time."""
        particle = self.verb.particle if self.verb else ""
        split = self.verb and self.verb.splits and isinstance(self.object, Pronoun)
        is_relative = isinstance(self.object, RelativePronoun)
        words = [
            "" if split else particle,
            self.indirect.english("dat") if self.indirect else "",
            self.object.english("acc") if self.object and not is_relative else "",
            particle if split else "",
            f"{self.degree} {self.predicate.english}".lstrip() if self.predicate else "",
            self.location.english() if self.location else "",
            self.time.english if self.time and not self.fronted else "",
        ]
        return _join(words)

    def german(self, order: str = "main") -> str:
        """Write the clause with its finite verb second (main), first (inverted) or last (final)."""
        finite, end = self._german_verb()
        middle = self._german_middle(time=not (self.fronted and order == "main"))
        subject = "" if self.elided else self.subject.german("nom")
        if order == "final":
            # The separable prefix is joined to a final verb: aufmachte.
            verb = f"{end} {finite}" if self.modal else f"{end}{finite}"
            case = self.verb.case if self.verb else "acc"
            relative = self.object.german(case) if isinstance(self.object, RelativePronoun) else ""
            words = [relative, subject, *middle, verb]
        elif order == "inverted":
            words = [finite, subject, *middle, end]
        elif self.time and self.fronted:
            words = [self.time.german, finite, subject, *middle, end]
        else:
            words = [subject, finite, *middle, end]
        return _join(words)

    def _german_verb(self) -> tuple[str, str]:
        """Return the finite verb, and the end of a main clause: a prefix or an infinitive."""
        agrees, verb = self.subject.agrees, self.verb
        if verb is None:
            return BE[self.tense][agrees], ""
        if self.modal:
            return MODALS[self.modal][self.tense][agrees], verb.prefix + verb.german
        return verb_forms(verb, self.tense)[agrees], verb.prefix

    def _german_middle(self, time: bool) -> list[str]:
        """Return pronoun, time, dative, accusative, nicht, place and predicate, in this order."""
        case = self.verb.case if self.verb else "acc"
        indirect = self.indirect.german("dat") if self.indirect else ""
        object_, negated = "", self.negated
        if self.object and not isinstance(self.object, RelativePronoun):
            phrase = self.object
            if negated and isinstance(phrase, Phrase) and phrase.indefinite:
                phrase, negated = phrase.denied(), False  # "not a dog" is "kein Hund"
            object_ = phrase.german(case)
        when = self.time.german if self.time and time else ""
        pronoun = isinstance(self.object, Pronoun)
        words = [object_, when, indirect] if pronoun else [when, indirect, object_]
        words.append("nicht" if negated else "")
        if self.verb and self.verb.preposition:  # for example: wartete heute nicht auf sie
            words = [*words[1:], f"{self.verb.preposition} {words[0]}"]
        if self.location:
            words.append(self.location.german())
        if self.predicate:
            words += [DEGREES[self.degree], self.predicate.german]
        return words


def _join(words: Iterable[str]) -> str:
    """Join the words that are not empty."""
    return " ".join(word for word in words if word)


@dataclass(frozen=True, slots=True)
class Linked:
    """A main clause and a subordinate clause, in either order."""

    main: Clause
    word: str
    sub: Clause
    sub_first: bool = False

    def english(self) -> str:
        """Write "main because sub", or "because sub, main"."""
        sub = f"{self.word} {self.sub.english()}"
        return f"{sub}, {self.main.english()}" if self.sub_first else f"{self.main.english()} {sub}"

    def german(self, order: str = "main") -> str:
        """Write both clauses; after a first subordinate clause, the main clause is inverted."""
        word = CONJUNCTIONS[self.word]
        if self.word == "when" and self.sub.tense == "past":
            word = "als"
        sub = f"{word} {self.sub.german('final')}"
        if self.sub_first:
            return f"{sub} , {self.main.german('inverted')}"
        return f"{self.main.german(order)} , {sub} ,"


@dataclass(frozen=True, slots=True)
class Reported:
    """A reported clause: what somebody knows, thinks, hopes or says."""

    head: Clause
    body: Sentence

    def english(self) -> str:
        """Write, for example, "the woman knows that …"."""
        return f"{self.head.english()} that {self.body.english()}"

    def german(self, order: str = "main") -> str:
        """Write, for example, "die Frau weiß, dass …"."""
        return f"{self.head.german(order)} , dass {self.body.german('final')} ,"


@dataclass(frozen=True, slots=True)
class Shared:
    """Two clauses with one common subject: the dog found the ball and hid it."""

    first: Clause
    second: Clause

    def english(self) -> str:
        """Write both with "and" between them."""
        return f"{self.first.english()} and {self.second.english()}"

    def german(self, order: str = "main") -> str:
        """Write the second inverted (und versteckte ihn) or final (und ihn versteckte)."""
        second = self.second.german("final" if order == "final" else "inverted")
        return f"{self.first.german(order)} und {second}"


@dataclass(frozen=True, slots=True)
class Joined:
    """Two sentences joined by "and" or "but"."""

    first: Sentence
    word: str
    second: Sentence

    def english(self) -> str:
        """Write a comma before "and" and before "but"."""
        return f"{self.first.english()}, {self.word} {self.second.english()}"

    def german(self, order: str = "main") -> str:
        """Write a comma before aber, and before und only after a subordinate clause."""
        word = "und" if self.word == "and" else ", aber"
        return f"{self.first.german(order)} {word} {self.second.german(order)}"


@dataclass(frozen=True, slots=True)
class Question:
    """A question, with or without a question word; "who" is the clause's subject."""

    clause: Clause
    word: str = ""

    def english(self) -> str:
        """Write, for example, "why did the dog sleep", "who saw the dog", "can the dog swim"."""
        if self.word == "who":
            return self.clause.english()
        return self.clause.ask(self.word)

    def german(self, order: str = "main") -> str:
        """Write the question word first, if there is one, then the inverted clause."""
        if self.word == "who":
            return self.clause.german(order)
        return f"{QUESTIONS[self.word]} {self.clause.german('inverted')}".lstrip()


def pair(sentence: Sentence, tags: tuple[str, ...] = ()) -> Pair:
    """Write a sentence in both languages, with initial capital and final punctuation."""
    end = "?" if isinstance(sentence, Question) else "."
    source = sentence.english() + end
    # A comma ends each subordinate clause; it is dropped before another punctuation mark.
    target = (sentence.german() + end).replace(" ,", ",").replace(",,", ",").replace("," + end, end)
    return Pair(source[0].upper() + source[1:], target[0].upper() + target[1:], tags)
