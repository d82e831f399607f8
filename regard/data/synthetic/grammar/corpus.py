"""The generated English-German dataset: training, validation and five test splits.

The start of the data path for a recipe with `kind: grammar`. In: how many pairs, and a seed. Out:
`Splits` of `Pair`s, for the tokenizers. No test sentence is in training. The test splits are:

- combinations: verb-object or adjective-noun combinations that are not in training, though all
  their words are;
- pronouns: an "it" that stands for a noun which training never has with the same adjective;
- natural_gender: a noun with a feminine and a masculine form, with a verb whose object "her" or
  "him" shows its gender; training does not have this verb's pronoun for this noun;
- long: sentences longer than nine in ten training sentences;
- unpunctuated: new sentences of the same kind as in training, all without their final punctuation
  mark, as a part of the training sentences are.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice

from regard.data.config import LONGEST
from regard.data.synthetic.grammar.frames import DECIDING, Frames
from regard.data.synthetic.grammar.gloss import translate_words, word_for_word
from regard.data.synthetic.grammar.lexicon import ADJECTIVES, TAKING, TWO_GENDERS, nouns_of
from regard.data.synthetic.grammar.people import SETTLING
from regard.data.synthetic.grammar.phenomena import Analysis, analyse, is_settled
from regard.data.synthetic.grammar.phrases import IT, Phrase, Sentence
from regard.data.synthetic.grammar.sentences import Clause, Linked, pair
from regard.data.text.pairs import Pair, Splits
from regard.errors import InputError

__all__ = [
    "DEMO",
    "Contest",
    "contests",
    "pronoun_is_right",
    "sample",
    "splits",
    "translate_words",
    "word_for_word",
]

LONGEST_TEST = 26
"""The most English words in a sentence of the "long" test."""

UNPUNCTUATED = 25
"""Percentage of training and validation sentences without their final punctuation mark."""

DEMO_COMBINATIONS = {("cross", "street"), ("tired", "animal"), ("wide", "street")}
"""Never held out: the two `DEMO` sentences are not in training, but their combinations are."""


def _demo(adjective: str, meant: int) -> Pair:
    """Build the demo sentence, in which the last word decides what "it" stands for."""
    candidates = nouns_of("animal street")
    cross = next(verb for verb in TAKING if verb.english == "cross")
    predicate = next(word for word in ADJECTIVES if word.english == adjective)
    main = Clause(Phrase(candidates[0]), cross, Phrase(candidates[1]), negated=True)
    noun = candidates[meant]
    sub = Clause(IT[noun.gender], predicate=predicate, degree="too", about=noun)
    sentence = Linked(main, "because", sub)
    return pair(sentence, analyse(sentence).phenomena())


DEMO: tuple[Pair, Pair] = (_demo("tired", 0), _demo("wide", 1))


Combination = tuple[str, str]


def _rank(combination: Combination) -> tuple[int, Combination]:
    """Return a sort key for a pseudo-random order that is the same on every machine."""
    return zlib.crc32(" ".join(combination).encode()), combination


def _percentile(combination: Combination) -> int:
    """Return a pseudo-random number below 100 for two words, the same on every machine."""
    return _rank(combination)[0] % 100


def _holdouts() -> tuple[frozenset[Combination], frozenset[Combination], frozenset[Combination]]:
    """Choose the held-out combinations.

    Returns:
        About 8 % of all (verb, object), about 8 % of all (adjective, noun), and the (adjective,
        noun) that are held out for an "it".
    """
    objects = {(verb.name, noun.english) for verb in TAKING for noun in verb.objects}
    adjectives = {(word.english, noun.english) for word in ADJECTIVES for noun in word.nouns}
    meant = {(word.english, noun.english) for (noun, _), fit in DECIDING.items() for word in fit}
    # A model learns what "it" stands for from the other partners of each word: require some.
    partners = Counter(word for combination in meant for word in combination)
    meant = {c for c in meant if min(partners[word] for word in c) > 3}
    return (
        frozenset(c for c in objects - DEMO_COMBINATIONS if _percentile(c) < 8),
        frozenset(c for c in adjectives - DEMO_COMBINATIONS if _percentile(c) < 8),
        _choose_disjoint(meant - DEMO_COMBINATIONS),
    )


def _choose_disjoint(combinations: set[Combination]) -> frozenset[Combination]:
    """Choose combinations greedily so that no word is in two of them.

    Each word then keeps all its other combinations in training.
    """
    combinations_kept: list[Combination] = []
    for combination in sorted(combinations, key=_rank):
        if all(set(combination).isdisjoint(other) for other in combinations_kept):
            combinations_kept.append(combination)
    return frozenset(combinations_kept)


HELD_OBJECTS, HELD_ADJECTIVES, HELD_PRONOUNS = _holdouts()
_PEOPLE = [{(verb.name, noun.english) for noun in TWO_GENDERS} for verb in SETTLING]
HELD_PEOPLE = frozenset(min(ones, key=_rank) for ones in _PEOPLE if HELD_OBJECTS.isdisjoint(ones))
"""Held-out (verb, noun of two genders): in training, the verb's object "him" or "her" never stands
for the noun. A verb of which `HELD_OBJECTS` has one of these nouns keeps the others."""


def _has_held_combination(analysis: Analysis) -> bool:
    """Whether a sentence has a held-out combination of verb and object, or adjective and noun."""
    known_objects = HELD_OBJECTS.isdisjoint(analysis.objects)
    return not (known_objects and HELD_ADJECTIVES.isdisjoint(analysis.adjectives))


def _has_no_held_referent(analysis: Analysis) -> bool:
    """Whether no pronoun stands for a noun that is held out for it."""
    known_it = HELD_PRONOUNS.isdisjoint(analysis.adjectives)
    return known_it and HELD_PEOPLE.isdisjoint(analysis.settling)


def _for_training(analysis: Analysis) -> bool:
    """Whether a sentence has nothing held out.

    A noun that is held out for "it" with an adjective does not occur with it in any other way.
    """
    return not _has_held_combination(analysis) and _has_no_held_referent(analysis)


def _for_combinations(analysis: Analysis) -> bool:
    """Whether a held-out combination is all that the sentence has held out."""
    return _has_held_combination(analysis) and _has_no_held_referent(analysis)


def _for_pronouns(analysis: Analysis) -> bool:
    """Whether "it" stands for a held-out noun, in a sentence with nouns of different genders.

    With one gender only, any guess would be correct.
    """
    new = not HELD_PRONOUNS.isdisjoint(analysis.pronouns)
    return new and len(analysis.genders) > 1 and not _has_held_combination(analysis)


def _for_gender(analysis: Analysis) -> bool:
    """Whether "him" or "her" stands for a held-out noun; no combination may be held out."""
    return not HELD_PEOPLE.isdisjoint(analysis.settling) and not _has_held_combination(analysis)


def _count_words(example: Pair) -> int:
    return example.source.count(" ") + 1


def _draw(
    draw: Callable[[], Sentence],
    accepts: Callable[[Analysis], bool],
    count: int,
    used: set[str],
    *,
    lengths: range = range(LONGEST + 1),
    unpunctuated: int = 0,
) -> tuple[Pair, ...]:
    """Draw `count` pairs that are accepted, have a length in `lengths`, and are not in `used`.

    Args:
        draw: Draws a sentence.
        accepts: Whether to take a sentence, by its analysis.
        count: How many pairs to draw.
        used: English sentences drawn before, with their final mark; new ones are added.
        lengths: Allowed numbers of English words.
        unpunctuated: Percentage of the pairs whose final punctuation mark is removed.
    """
    taken: list[Pair] = []
    for candidate in _pairs(draw, accepts):
        if len(taken) == count:
            break
        if candidate.source not in used and _count_words(candidate) in lengths:
            used.add(candidate.source)
            taken.append(_drop_final_mark(candidate, unpunctuated))
    return tuple(taken)


def _pairs(draw: Callable[[], Sentence], accepts: Callable[[Analysis], bool]) -> Iterator[Pair]:
    """Yield endlessly the pairs that are accepted and have only one translation."""
    while True:
        sentence = draw()
        analysis = analyse(sentence)
        if accepts(analysis):
            candidate = pair(sentence, analysis.phenomena())
            if is_settled(analysis, candidate.source):
                yield candidate


def _drop_final_mark(example: Pair, share: int) -> Pair:
    """Remove the full stop or question mark of `share` percent of pairs, chosen by a hash."""
    if zlib.crc32(example.source.encode()) % 100 >= share:
        return example
    return Pair(example.source[:-1], example.target[:-1], (*example.tags, "unpunctuated"))


def splits(pairs: int, held_out: int, seed: int, longest: int = LONGEST) -> Splits:
    """Generate training, validation and five test splits; no source sentence is in two of them.

    The validation split does not depend on `pairs`, and a smaller training split is the beginning
    of a larger one. The held-out combinations are the same for every seed.

    Args:
        pairs: How many training pairs.
        held_out: How many pairs of the validation split and of each test split.
        seed: Seed of the random choice.
        longest: The most English words of a training sentence. Above 22, half of the sentences are
            chains of joined sentences, and "long" has chains of 23 to `longest` words.

    Returns:
        Splits with the tests "combinations", "pronouns", "natural_gender", "long" and
        "unpunctuated". In the last, all sentences lack their final mark; in the other tests, none.

    Raises:
        InputError: If a count is below one.
    """
    for name, count in (("pairs", pairs), ("held_out", held_out)):
        if count < 1:
            raise InputError(f"data.{name}", got=count, expected="1 or more")
    used = {example.source for example in DEMO}

    def frames(name: str) -> Frames:
        return Frames(f"{seed} {name}")

    def draw_split(name: str, count: int, unpunctuated: int = UNPUNCTUATED) -> tuple[Pair, ...]:
        """Draw pairs as in training, with nothing held out."""
        draw, lengths = sampler(name), range(longest + 1)
        return _draw(draw, _for_training, count, used, lengths=lengths, unpunctuated=unpunctuated)

    def sampler(name: str) -> Callable[[], Sentence]:
        """Return a function that draws a sentence; half of them are chains if they may be long."""
        drawer = frames(name)
        if longest == LONGEST:
            return drawer.sentence
        return lambda: drawer.chain(longest) if drawer.happens(0.5) else drawer.sentence()

    valid = draw_split("valid", held_out)
    train = draw_split("train", pairs)
    train_lengths = sorted(map(_count_words, train))
    long_lengths = range(train_lengths[9 * (len(train_lengths) - 1) // 10] + 1, LONGEST_TEST + 1)
    maker = frames("long")
    draw_long = maker.long
    if longest > LONGEST:
        long_lengths, draw_long = range(LONGEST + 1, longest + 1), partial(maker.chain, longest)
    tests = {
        "combinations": _draw(frames("combinations").sentence, _for_combinations, held_out, used),
        "pronouns": _draw(frames("pronouns").contest, _for_pronouns, held_out, used),
        "natural_gender": _draw(frames("natural_gender").her_or_him, _for_gender, held_out, used),
        "long": _draw(draw_long, _for_training, held_out, used, lengths=long_lengths),
        "unpunctuated": draw_split("unpunctuated", held_out, unpunctuated=100),
    }
    return Splits(train, valid, tests)


def sample(count: int, seed: int) -> tuple[Pair, ...]:
    """Draw pairs from the whole grammar, held-out ones included; a sentence may occur twice."""
    pairs = islice(_pairs(Frames(f"{seed} sample").sentence, lambda _: True), count)
    return tuple(_drop_final_mark(example, UNPUNCTUATED) for example in pairs)


@dataclass(frozen=True)
class Contest:
    """A sentence in which "it" may stand for one of two nouns.

    Attributes:
        pair: The sentence and its translation.
        nouns: The two nouns, in the order of the sentence; "it" follows both.
        meant: Which of them is meant: 0 or 1.
    """

    pair: Pair
    nouns: tuple[str, str]
    meant: int


def contests(count: int, seed: int) -> list[Contest]:
    """Draw different sentences in which training never has the noun of "it" with its adjective.

    Half of them mean the first noun and half the second, so that a rule such as "the nearest noun"
    is right in half of them. The two nouns have different genders in German.

    Args:
        count: How many; an even number.
        seed: The seed of the draws.
    """
    frames, halves = Frames(f"{seed} contests"), tuple[list[Contest], list[Contest]](([], []))
    while any(len(half) < count // 2 for half in halves):
        sentence = frames.contest()
        subject, thing = sentence.main.subject, sentence.main.object
        assert isinstance(subject, Phrase)
        assert isinstance(thing, Phrase)
        nouns = subject.noun, thing.noun
        differs = nouns[0].gender != nouns[1].gender
        if sentence.sub_first or not differs or not _for_pronouns(analyse(sentence)):
            continue
        meant = int(sentence.sub.about is not nouns[0])
        contest = Contest(pair(sentence), (nouns[0].english, nouns[1].english), meant)
        if contest not in halves[meant] and len(halves[meant]) < count // 2:
            halves[meant].append(contest)
    return halves[0] + halves[1]


def pronoun_is_right(reference: Pair, hypothesis: str) -> bool:
    """Whether a translation has the same pronouns as the reference.

    Compared are the pronouns that begin a subordinate clause (weil sie …), where the translation
    of "it" stands; if the reference has none there, all its pronouns of the third person.

    Args:
        reference: A pair whose translation has a pronoun.
        hypothesis: A translation of its source.

    Returns:
        Whether they are equal; False if the reference has no pronoun or the hypothesis is empty.
    """
    expected = _OPENING.findall(reference.target.lower())
    if expected:
        return _OPENING.findall(hypothesis.lower()) == expected
    expected = _PRONOUN.findall(reference.target)
    return bool(expected) and _PRONOUN.findall(hypothesis) == expected


_PRONOUN = re.compile(
    r"\b(?:(?i:er|sie|es)|ihn|ihm|ihnen|ihr(?! (?:\w+ )?[A-ZÄÖÜ]))\b"  # not in: ihr altes Auto
)
_OPENING = re.compile(r"\b(?:weil|obwohl|wenn|als|während|bevor|dass)\s+(er|sie|es)\b")
