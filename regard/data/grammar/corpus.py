"""The embedded corpus: English-German pairs, any number from a seed, with what is held out.

The first stop of the data path when a recipe says `kind: grammar`. A count and a seed go in;
`Pair`s and `Splits` come out, for the tokenizers. These are never in training:

- combinations: some verb-object and adjective-noun combinations, whose words are all there;
- pronouns: some nouns as what an "it" with a certain adjective stands for;
- natural_gender: some nouns of two genders with the verb whose her or him tells which;
- long: sentences longer than nine in ten of training's;
- unpunctuated: sentences as training's, without their final mark, as a part of training's are.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice

from regard.data.grammar.frames import DECIDING, Frames
from regard.data.grammar.gloss import gloss, word_for_word
from regard.data.grammar.lexicon import ADJECTIVES, DATIVE, GIVING, NOUNS, TRANSITIVE, TWO_GENDERS
from regard.data.grammar.people import SETTLING
from regard.data.grammar.phenomena import Account, account, is_settled
from regard.data.grammar.phrases import IT, Phrase, Said
from regard.data.grammar.sentences import Clause, Linked, pair
from regard.data.text.pairs import Pair, Splits
from regard.errors import InputError

__all__ = ["DEMO", "gloss", "pronoun_is_right", "sample", "splits", "word_for_word"]

LONGEST = 22
"""The most English words in a training sentence."""
LONGEST_TEST = 26
"""The most in a sentence of the "long" test."""

UNPUNCTUATED = 25
"""How many in a hundred sentences, in training and validation, lack their final mark."""

TAKING = TRANSITIVE + DATIVE + GIVING
"""The verbs that take an object."""
DEMO_COMBINATIONS = {("cross", "street"), ("tired", "animal"), ("wide", "street")}
"""Always known: the lecture's two sentences are new, their parts are not."""


def _demo(adjective: str, meant: int) -> Pair:
    """The lecture's sentence, in which the last word decides what "it" is."""
    nouns = {noun.english: noun for noun in NOUNS}
    candidates = nouns["animal"], nouns["street"]
    cross = next(verb for verb in TRANSITIVE if verb.english == "cross")
    predicate = next(one for one in ADJECTIVES if one.english == adjective)
    main = Clause(Phrase(candidates[0]), cross, Phrase(candidates[1]), negated=True)
    noun = candidates[meant]
    sub = Clause(IT[noun.gender], predicate=predicate, degree="too", about=noun)
    sentence = Linked(main, "because", sub)
    return pair(sentence, account(sentence).phenomena())


DEMO: tuple[Pair, Pair] = (_demo("tired", 0), _demo("wide", 1))


Combination = tuple[str, str]


def _order(combination: Combination) -> tuple[int, Combination]:
    """What to sort by for an order as if by chance, the same on every machine."""
    return zlib.crc32(" ".join(combination).encode()), combination


def _chance(combination: Combination) -> int:
    """A number below 100 for two words, the same on every machine."""
    return _order(combination)[0] % 100


def _held_out() -> tuple[frozenset[Combination], frozenset[Combination], frozenset[Combination]]:
    """About eight in a hundred of (verb, object), (adjective, noun), and such a noun for "it"."""
    objects = {(verb.name, noun.english) for verb in TAKING for noun in verb.objects}
    adjectives = {(one.english, noun.english) for one in ADJECTIVES for noun in one.nouns}
    meant = {(one.english, noun.english) for (noun, _), ones in DECIDING.items() for one in ones}
    # What "it" can be is learnt from a word's other partners: it must have some.
    partners = Counter(word for combination in meant for word in combination)
    meant = {c for c in meant if min(partners[word] for word in c) > 3}
    return (
        frozenset(c for c in objects - DEMO_COMBINATIONS if _chance(c) < 8),
        frozenset(c for c in adjectives - DEMO_COMBINATIONS if _chance(c) < 8),
        _one_of_each(meant - DEMO_COMBINATIONS),
    )


def _one_of_each(combinations: set[Combination]) -> frozenset[Combination]:
    """As many as can be chosen with no word in two of them, so that each word keeps its others."""
    chosen: list[Combination] = []
    for one in sorted(combinations, key=_order):
        if all(set(one).isdisjoint(other) for other in chosen):
            chosen.append(one)
    return frozenset(chosen)


HELD_OBJECTS, HELD_ADJECTIVES, HELD_PRONOUNS = _held_out()
_PEOPLE = [{(verb.name, noun.english) for noun in TWO_GENDERS} for verb in SETTLING]
HELD_PEOPLE = frozenset(min(ones, key=_order) for ones in _PEOPLE if HELD_OBJECTS.isdisjoint(ones))
"""(verb, noun of two genders): in training, the verb's him or her never stands for the noun. A verb
that is without one of these nouns already keeps the others."""


def _combined(found: Account) -> bool:
    return not (
        HELD_OBJECTS.isdisjoint(found.objects) and HELD_ADJECTIVES.isdisjoint(found.adjectives)
    )


def _for_training(found: Account) -> bool:
    """Nothing held out; a noun held out for "it" is not said of its adjective in any other way."""
    return (
        not _combined(found)
        and HELD_PRONOUNS.isdisjoint(found.adjectives)
        and HELD_PEOPLE.isdisjoint(found.settling)
    )


def _for_combinations(found: Account) -> bool:
    return (
        _combined(found)
        and HELD_PRONOUNS.isdisjoint(found.adjectives)
        and HELD_PEOPLE.isdisjoint(found.settling)
    )


def _for_pronouns(found: Account) -> bool:
    """An "it" for a held-out noun, between two of different gender: else any guess is right."""
    new = not HELD_PRONOUNS.isdisjoint(found.pronouns)
    return new and len(found.genders) > 1 and not _combined(found)


def _for_natural_gender(found: Account) -> bool:
    return not HELD_PEOPLE.isdisjoint(found.settling) and not _combined(found)


def _length(one: Pair) -> int:
    return one.source.count(" ") + 1


def _take(
    draw: Callable[[], Said],
    wanted: Callable[[Account], bool],
    count: int,
    seen: set[str],
    *,
    lengths: range = range(LONGEST + 1),
    unpunctuated: int = 0,
) -> tuple[Pair, ...]:
    """Draw until there are `count` pairs that are wanted, of a length, and not in `seen` yet.

    So many in a hundred as are to be `unpunctuated` lose their final mark; `seen` has all with it.
    """
    taken: list[Pair] = []
    for one in _pairs(draw, wanted):
        if len(taken) == count:
            break
        if one.source not in seen and _length(one) in lengths:
            seen.add(one.source)
            taken.append(_perhaps_unpunctuated(one, unpunctuated))
    return tuple(taken)


def _pairs(draw: Callable[[], Said], wanted: Callable[[Account], bool]) -> Iterator[Pair]:
    """All that are wanted and have one translation, without end."""
    while True:
        sentence = draw()
        found = account(sentence)
        if wanted(found):
            one = pair(sentence, found.phenomena())
            if is_settled(found, one.source):
                yield one


def _perhaps_unpunctuated(one: Pair, share: int) -> Pair:
    """The pair, or for so many in a hundred the same without its full stop or question mark."""
    if zlib.crc32(one.source.encode()) % 100 >= share:
        return one
    return Pair(one.source[:-1], one.target[:-1], (*one.tags, "unpunctuated"))


def splits(pairs: int, held_out: int, seed: int) -> Splits:
    """Training, validation and five tests, no source sentence in two of them.

    What is validation does not depend on `pairs`, and a smaller training set is the beginning
    of a larger one. Which combinations are held out is the same for every seed.

    Args:
        pairs: How many training pairs.
        held_out: How many for validation and for each test.
        seed: What decides everything else.

    Returns:
        Splits with the tests "combinations", "pronouns", "natural_gender", "long" and
        "unpunctuated". All sentences of the last lack their final mark, none of the others does.

    Raises:
        InputError: If a count is below one.
    """
    for name, count in (("pairs", pairs), ("held_out", held_out)):
        if count < 1:
            raise InputError(f"data.{name}", got=count, expected="1 or more")
    seen = {one.source for one in DEMO}

    def frames(name: str) -> Frames:
        return Frames(f"{seed} {name}")

    def as_training(name: str, count: int, unpunctuated: int = UNPUNCTUATED) -> tuple[Pair, ...]:
        draw = frames(name).sentence
        return _take(draw, _for_training, count, seen, unpunctuated=unpunctuated)

    valid = as_training("valid", held_out)
    train = as_training("train", pairs)
    known = sorted(map(_length, train))
    longer = range(known[9 * (len(known) - 1) // 10] + 1, LONGEST_TEST + 1)
    tests = {
        "combinations": _take(frames("combinations").sentence, _for_combinations, held_out, seen),
        "pronouns": _take(frames("pronouns").contest, _for_pronouns, held_out, seen),
        "natural_gender": _take(
            frames("natural_gender").her_or_him, _for_natural_gender, held_out, seen
        ),
        "long": _take(frames("long").long, _for_training, held_out, seen, lengths=longer),
        "unpunctuated": as_training("unpunctuated", held_out, unpunctuated=100),
    }
    return Splits(train, valid, tests)


def sample(count: int, seed: int) -> tuple[Pair, ...]:
    """Pairs of the whole grammar, held out or not; a sentence may come twice."""
    drawn = islice(_pairs(Frames(f"{seed} sample").sentence, lambda _: True), count)
    return tuple(_perhaps_unpunctuated(one, UNPUNCTUATED) for one in drawn)


def pronoun_is_right(reference: Pair, hypothesis: str) -> bool:
    """Whether a translation has the reference's pronouns, whatever else it has.

    Compared are the pronouns that open a subordinate clause (weil sie …), where that of an
    "it" stands; if the reference has none there, all its pronouns of the third person.

    Args:
        reference: A pair whose translation has a pronoun.
        hypothesis: A translation of its source.

    Returns:
        False also if the reference has no pronoun at all, or the hypothesis is empty.
    """
    wanted = _OPENING.findall(reference.target.lower())
    if wanted:
        return _OPENING.findall(hypothesis.lower()) == wanted
    wanted = _PRONOUN.findall(reference.target)
    return bool(wanted) and _PRONOUN.findall(hypothesis) == wanted


_PRONOUN = re.compile(
    r"\b(?:(?i:er|sie|es)|ihn|ihm|ihnen|ihr(?! (?:\w+ )?[A-ZÄÖÜ]))\b"  # not in: ihr altes Auto
)
_OPENING = re.compile(r"\b(?:weil|obwohl|wenn|als|während|bevor|dass)\s+(er|sie|es)\b")
