"""Generator of English-German pairs in which the last word decides what "it" stands for.

The dataset of a mixture's part with `kind: pronouns`: "The bear didn't cross the road because it
was too tired" (er) and "… too wide" (sie). The grammar (`kind: grammar`) teaches the same with 90
nouns, each with its whole inflection; this generator has few forms of sentences but 300 nouns of
`pronouns.txt`, so that a model learns the rule and not the nouns. Nouns marked "?" there are never
in training: the test split has only these.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice

from regard.data.synthetic.jobs.drawn import Draw
from regard.data.synthetic.tables import read_tables
from regard.data.text.pairs import Pair, Splits

PRONOUN = {"m": "er", "f": "sie", "n": "es"}
NOMINATIVE = {"m": "der", "f": "die", "n": "das"}
ACCUSATIVE = {"m": "den", "f": "die", "n": "das"}


@dataclass(frozen=True)
class Noun:
    """A noun in both languages."""

    english: str
    german: str
    gender: str
    accusative: str
    in_test: bool

    @property
    def subject(self) -> str:
        """The German nominative with its article."""
        return f"{NOMINATIVE[self.gender]} {self.german}"

    @property
    def object(self) -> str:
        """The German accusative with its article."""
        return f"{ACCUSATIVE[self.gender]} {self.accusative}"


@dataclass(frozen=True)
class Frame:
    """A main clause with two nouns, in both languages."""

    english: str
    """With {s} and {o} for subject and object."""
    german: str
    """With {s}, or {p} for its pronoun, and {o}; the verb is second."""
    subject: str
    """The kind of noun of the subject, and of the object."""
    object: str


_TABLES = read_tables("jobs/pronouns.txt")


def _rows(table: str) -> list[list[str]]:
    """Return the cells of each row of a table of `pronouns.txt`."""
    return [re.split(" {2,}", row) for row in _TABLES[table]]


def _read_adjectives() -> Mapping[str, Mapping[str, str]]:
    """Read the adjectives of each kind of noun, with their translations."""
    kinds: dict[str, dict[str, str]] = defaultdict(dict)
    for kind, english, german in _rows("adjectives"):
        kinds[kind][english] = german
    return kinds


ADJECTIVES = _read_adjectives()
"""By kind of noun: the adjectives that, of the two nouns of a sentence, fit only this one."""
FRAMES = tuple(Frame(*cells) for cells in _rows("frames"))


@cache
def nouns() -> Mapping[str, Sequence[Noun]]:
    """Read the nouns of each kind."""
    kinds: dict[str, list[Noun]] = defaultdict(list)
    for kind, english, german, gender, *extra_columns in _rows("nouns"):
        accusative = next((cell for cell in extra_columns if cell != "?"), german)
        kinds[kind].append(Noun(english, german, gender, accusative, "?" in extra_columns))
    return kinds


def _pair(draw: Draw, frame: Frame, subject: Noun, thing: Noun, *, about_subject: bool) -> Pair:
    """Write one sentence: `it` stands for the subject or for the object."""
    noun, kind = (subject, frame.subject) if about_subject else (thing, frame.object)
    adjective = draw.one(ADJECTIVES[kind])
    german = ADJECTIVES[kind][adjective]
    degree, grad = draw.choice([("too ", "zu "), ("too ", "zu "), ("so ", "so "), ("", "")])
    is_present = any(word in frame.english for word in ("doesn't", "avoids"))
    be, sein = ("is", "ist") if is_present else ("was", "war")
    english = frame.english.format(s=f"the {subject.english}", o=f"the {thing.english}")
    clause = frame.german.format(s=subject.subject, o=thing.object)
    because, weil = draw.choice([("because", "weil"), ("because", "weil"), ("since", "da")])
    reason = f"{because} it {be} {degree}{adjective}"
    grund = f"{weil} {PRONOUN[noun.gender]} {grad}{german} {sein}"
    mark = draw.one([".", ".", ".", ""])
    tags = ("pronoun", *([] if mark else ["unpunctuated"]))
    return Pair(_sentence(f"{english} {reason}", mark), _sentence(f"{clause}, {grund}", mark), tags)


def _sentence(text: str, mark: str) -> str:
    return text[0].upper() + text[1:] + mark


def sample(seed: str, *, test: bool) -> Iterator[Pair]:
    """Yield endless pairs of sentences: for the subject, then for the object.

    Args:
        seed: Seed of the random choices.
        test: Draw only from the nouns marked "?"; else from all others.
    """
    draw = Draw(seed)
    choices: dict[str, list[Noun]] = defaultdict(list)
    for kind, group in nouns().items():
        choices[kind] += [noun for noun in group if noun.in_test is test]
    while True:
        frame = draw.choice(FRAMES)
        subject, thing = draw.choice(choices[frame.subject]), draw.choice(choices[frame.object])
        if subject.gender != thing.gender:  # with one gender any guess would be right
            yield _pair(draw, frame, subject, thing, about_subject=True)
            yield _pair(draw, frame, subject, thing, about_subject=False)


def splits(pairs: int, held_out: int, seed: int) -> Splits:
    """Generate training, validation and test pairs; the nouns of the test are not in training.

    Args:
        pairs: How many training pairs.
        held_out: How many validation pairs, and how many test pairs.
        seed: Seed of the random choice.
    """
    drawn = dict.fromkeys(islice(sample(f"{seed} train", test=False), pairs))
    valid = dict.fromkeys(islice(sample(f"{seed} valid", test=False), held_out))
    test = dict.fromkeys(islice(sample(f"{seed} test", test=True), held_out))
    train = tuple(pair for pair in drawn if pair not in valid)
    return Splits(train, tuple(valid), {"test": tuple(test)})
