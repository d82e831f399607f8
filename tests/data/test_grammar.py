"""The embedded corpus is right German, is a function, and leaks nothing into training."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter

import pytest

from regard.data import sources
from regard.data.synthetic.grammar import corpus as grammar
from regard.data.synthetic.grammar.corpus import (
    DEMO,
    HELD_ADJECTIVES,
    HELD_OBJECTS,
    HELD_PEOPLE,
    HELD_PRONOUNS,
    LONGEST,
    pronoun_is_right,
    sample,
    splits,
    translate_words,
    word_for_word,
)
from regard.data.synthetic.grammar.frames import CONTESTED, DECIDING, Frames
from regard.data.synthetic.grammar.lexicon import (
    ADJECTIVES,
    DATIVE,
    GIVING,
    INTRANSITIVE,
    NOUNS,
    SAYING,
    TRANSITIVE,
)
from regard.data.synthetic.grammar.phenomena import PHENOMENA
from regard.data.synthetic.grammar.phrases import HE
from regard.data.synthetic.grammar.sentences import Clause, pair
from regard.data.text.pairs import Pair
from regard.errors import InputError

pytestmark = pytest.mark.slow

NOUN = {noun.english: noun for noun in NOUNS}
ADJECTIVE = {word.english: word for word in ADJECTIVES}
VERB = {v.name: v for v in TRANSITIVE + DATIVE + GIVING + INTRANSITIVE + SAYING}
WORD = re.compile(r"\w+(?:'\w+)?")


@pytest.fixture(scope="module")
def corpus():
    return splits(8_000, 200, 0)


# The lecture's sentences


def test_the_lectures_two_sentences_differ_in_one_word_and_flip_the_pronoun():
    tired, wide = DEMO
    assert tired.source == "The animal didn't cross the street because it was too tired."
    assert tired.target == "Das Tier überquerte die Straße nicht, weil es zu müde war."
    assert wide.source == "The animal didn't cross the street because it was too wide."
    assert wide.target == "Das Tier überquerte die Straße nicht, weil sie zu breit war."
    assert set(tired.tags) >= {"pronoun", "negation", "verb_final", "gender"}


def test_the_lectures_sentences_can_be_drawn_but_are_not_given_to_training(corpus):
    animal, street = NOUN["animal"], NOUN["street"]
    assert VERB["cross"] in CONTESTED
    assert ADJECTIVE["tired"] in DECIDING[animal, street]
    assert ADJECTIVE["wide"] in DECIDING[street, animal]
    given = [row.source for row in (*corpus.train, *corpus.valid)]
    assert not set(given) & {row.source for row in DEMO}
    like = re.compile(r"The \w+ didn't cross the \w+ because it was too \w+\.")
    assert sum(like.fullmatch(source) is not None for source in given) >= 10


# The splits


def test_no_source_is_in_two_places_and_none_comes_twice(corpus):
    groups = [corpus.train, corpus.valid, *corpus.tests.values()]
    sources = Counter(row.source.rstrip(".?") for group in groups for row in group)
    assert max(sources.values()) == 1
    assert len(corpus.train) == 8_000
    assert {name: len(pairs) for name, pairs in corpus.tests.items()} == {
        "combinations": 200,
        "pronouns": 200,
        "natural_gender": 200,
        "long": 200,
        "unpunctuated": 200,
    }


def _forms() -> dict[str, str]:
    """Each form of a verb with one object, and the verb's name."""
    forms = {}
    for verb in TRANSITIVE + DATIVE:
        for english in (
            verb.english,
            verb.english_past,
            Clause(HE, verb, tense="present").english()[3:],
        ):
            forms[f"{english.split()[0]} {verb.particle}".strip()] = verb.name
    return forms


def _read(pairs) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """What stands in the text, without the grammar's help: (verb, object), (adjective, noun)."""
    forms = _forms()
    nouns = {form: n.english for n in NOUNS for form in (n.english, n.english_plural)}
    verbs = "|".join(sorted(forms, key=len, reverse=True))
    words = "the|a|an|this|these|my|our|his|her|two|three|many"
    heads, adjectives = "|".join(nouns), "|".join(ADJECTIVE)
    taken = re.compile(rf"\b({verbs}) (?:(?:{words}) )?(?:(?:{adjectives}) )?({heads})\b")
    before = re.compile(rf"\b({adjectives}) ({heads})\b")
    after = re.compile(
        rf"(?:^|because |although |when |if |, and |, but )(?:{words}) (?:(?:{adjectives}) )?"
        rf"({heads}) (?:is|was|are|were)(?:n't)?(?: too| very)? ({adjectives})\b",
        re.MULTILINE,
    )
    text = "\n".join(row.source.lower() for row in pairs)
    objects = {(forms[verb], nouns[noun]) for verb, noun in taken.findall(text)}
    said = {(adjective, nouns[noun]) for adjective, noun in before.findall(text)}
    return objects, said | {(adjective, nouns[noun]) for noun, adjective in after.findall(text)}


def test_held_out_combinations_never_occur_in_training(corpus):
    objects, adjectives = _read((*corpus.train, *corpus.valid))
    assert len(objects) > 300  # the reading finds what there is
    assert len(adjectives) > 300
    assert not objects & HELD_OBJECTS
    assert not adjectives & (HELD_ADJECTIVES | HELD_PRONOUNS)


def test_each_test_sentence_has_a_held_out_combination(corpus):
    parsed = [_read([row]) for row in corpus.tests["combinations"]]
    plain = sum(bool(o & HELD_OBJECTS or a & HELD_ADJECTIVES) for o, a in parsed)
    assert plain > 0.6 * len(parsed)  # the others are said of a pronoun, or by giving


def test_each_test_pronoun_stands_for_a_noun_it_never_stood_for(corpus):
    said = re.compile(r"\bit (?:is|was)(?: too| very)? (\w+)")
    for row in corpus.tests["pronouns"]:
        adjective = said.search(row.source.lower())[1]
        nouns = [noun for known, noun in HELD_PRONOUNS if known == adjective]
        assert re.search(rf"\b(?:{'|'.join(nouns)})\b", row.source)


def test_every_held_out_word_is_in_training_with_others():
    meant = {(word.english, noun.english) for (noun, _), fit in DECIDING.items() for word in fit}
    known = meant - HELD_PRONOUNS - HELD_ADJECTIVES
    by_adjective, by_noun = Counter(a for a, _ in known), Counter(n for _, n in known)
    for adjective, noun in HELD_PRONOUNS:
        assert by_adjective[adjective] >= 2, adjective
        assert by_noun[noun] >= 2, noun
    objects = {(v.name, n.english) for v in TRANSITIVE + DATIVE + GIVING for n in v.objects}
    assert 0.05 < len(HELD_OBJECTS) / len(objects) < 0.12
    assert {verb for verb, _ in objects - HELD_OBJECTS} == {verb for verb, _ in objects}


def test_long_sentences_are_longer_than_nine_tenths_of_training(corpus):
    lengths = sorted(len(row.source.split()) for row in corpus.train)
    shortest = min(len(row.source.split()) for row in corpus.tests["long"])
    assert sum(length < shortest for length in lengths) >= 0.9 * len(lengths)
    assert lengths[-1] <= LONGEST
    assert 9 <= lengths[len(lengths) // 2] <= 12


def test_validation_does_not_depend_on_the_size_and_training_grows_at_its_end():
    small, large = splits(50, 20, 3), splits(80, 20, 3)
    assert large.valid == small.valid
    assert large.train[:50] == small.train
    assert splits(50, 20, 4).train != small.train


@pytest.mark.parametrize(("pairs", "held_out"), [(0, 5), (5, 0)])
def test_an_empty_split_is_refused(pairs, held_out):
    with pytest.raises(InputError, match="1 or more"):
        splits(pairs, held_out, 0)


def test_another_process_with_another_hash_seed_makes_the_same_corpus():
    code = (
        "import zlib; from regard.data.synthetic.grammar.corpus import splits;"
        "s = splits(300, 30, 5);"
        "text = repr((s.train, s.valid, sorted(s.tests.items())));"
        "import sys; sys.stdout.write(str(zlib.crc32(text.encode())))"
    )
    checksums = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(checksums) == 1


# The corpus as a whole


def test_one_english_sentence_has_one_german_sentence():
    targets: dict[str, str] = {}
    for row in sample(20_000, 11):
        assert targets.setdefault(row.source, row.target) == row.target


def test_it_is_as_often_the_subject_as_the_object_and_genders_mostly_differ():
    frames, drawn = Frames("balance"), 4000
    contests = [frames.contest() for _ in range(drawn)]
    nouns = [(linked.main.subject.noun, linked.main.object.noun) for linked in contests]
    subject = sum(linked.sub.about is both[0] for linked, both in zip(contests, nouns, strict=True))
    same = sum(first.gender == second.gender for first, second in nouns)
    assert 0.45 < subject / drawn < 0.55
    assert 0.05 < same / drawn < 0.25


def test_the_predicate_fits_one_of_the_two_only():
    frames = Frames("one referent")
    for _ in range(2000):
        sentence = frames.contest()
        fits = [
            noun for noun in (sentence.main.subject.noun, sentence.main.object.noun)
            if noun in sentence.sub.predicate.nouns
        ]  # fmt: skip
        assert fits == [sentence.sub.about]


@pytest.mark.parametrize("side", ["source", "target"])
def test_there_are_at_least_250_words_a_side_and_at_most_900(corpus, side):
    words = {word for row in corpus.train for word in WORD.findall(getattr(row, side))}
    assert 250 <= len(words) <= 900
    assert len({word.lower() for word in words}) >= 250


def test_no_word_form_is_too_rare_to_be_learnt_and_none_is_new_in_the_tests():
    corpus = sources.GENERATORS["grammar"](60_000, 500, 0)  # made once for all tests
    for side in ("source", "target"):
        counts = Counter(word for row in corpus.train for word in WORD.findall(getattr(row, side)))
        assert min(counts.values()) >= 20
        for pairs in corpus.tests.values():
            assert {word for row in pairs for word in WORD.findall(getattr(row, side))} <= set(
                counts
            )


def test_every_phenomenon_is_frequent(corpus):
    counts = Counter(tag for row in corpus.train for tag in row.tags)
    assert set(counts) == set(PHENOMENA)
    assert min(counts.values()) > 0.03 * len(corpus.train)


def test_sentences_are_well_formed(corpus):
    for row in corpus.train:
        for text in (row.source, row.target):
            mark = "" if "unpunctuated" in row.tags else "?" if "question" in row.tags else "."
            assert re.fullmatch(rf"[A-ZÄÖÜ][\w', ]*\w{re.escape(mark)}", text), text
            assert "  " not in text
            assert " ," not in text
            assert ",," not in text


# Sentences without their final mark


def test_a_part_of_training_and_validation_lacks_its_final_mark_on_both_sides(corpus):
    for pairs in (corpus.train, corpus.valid):
        bare = [row for row in pairs if "unpunctuated" in row.tags]
        assert 0.15 < len(bare) / len(pairs) < 0.35
        for row in pairs:
            ends = row.source[-1], row.target[-1]
            assert all(end.isalpha() for end in ends) == ("unpunctuated" in row.tags)
    assert any("question" in row.tags for row in corpus.train if "unpunctuated" in row.tags)


def test_one_held_out_set_lacks_its_final_marks_and_the_others_have_them(corpus):
    for name, pairs in corpus.tests.items():
        for row in pairs:
            assert ("unpunctuated" in row.tags) == (name == "unpunctuated")
            assert (row.source[-1] in ".?") == (row.target[-1] in ".?") == (name != "unpunctuated")


def test_without_its_mark_a_sentence_is_otherwise_the_same(monkeypatch):
    drawn = sample(300, 3)
    monkeypatch.setattr(grammar, "UNPUNCTUATED", 0)
    for row, whole in zip(drawn, sample(300, 3), strict=True):
        cut = -1 if "unpunctuated" in row.tags else None
        assert (row.source, row.target) == (whole.source[:cut], whole.target[:cut])
    assert len({"unpunctuated" in row.tags for row in drawn}) == 2


# Nouns whose gender a later pronoun tells


GENDERED = {
    "teacher": ("Lehrerin", "Lehrer"),
    "doctor": ("Ärztin", "Arzt"),
    "friend": ("Freundin", "Freund"),
}


def _natural(pairs):
    """Each sentence with such a noun in the singular, and the noun, read from the English."""
    for row in pairs:
        nouns = re.findall(rf"\b(?:{'|'.join(GENDERED)})\b", row.source)
        if nouns:
            yield row, nouns


def test_a_noun_of_two_genders_always_has_a_later_pronoun_that_shows_which(corpus):
    seen = Counter()
    for group in (corpus.train, corpus.valid, *corpus.tests.values(), sample(3000, 7)):
        for row, nouns in _natural(group):
            assert len(nouns) == 1, row
            assert "natural_gender" in row.tags
            before, after = re.split(rf"\b{nouns[0]}\b", row.source.lower())
            said = re.findall(r"\b(?:he|him|his|she|her)\b", after)
            assert not re.search(r"\b(?:he|him|his|she|her)\b", before), row
            genders = {word in ("she", "her") for word in said}
            assert len(genders) == 1, row
            feminine, masculine = GENDERED[nouns[0]]
            meant = feminine if genders == {True} else masculine
            assert re.search(rf"\b{meant}\b", row.target), row
            seen[meant] += 1
    assert set(seen) == {word for both in GENDERED.values() for word in both}


def test_nobody_else_could_be_she_or_he(corpus):
    women, men = ("she", "her"), ("he", "him", "his")
    alone = {noun.english: noun.kind for noun in NOUNS if noun.english not in GENDERED}
    for row, _ in _natural(corpus.train):
        words = WORD.findall(row.source.lower())
        kinds = {alone.get(word) for word in words}
        assert "young" not in kinds, row
        assert ("she" not in kinds) if set(words) & set(women) else True, row
        assert ("he" not in kinds) if set(words) & set(men) else True, row


def test_several_are_masculine_and_the_feminine_plural_never_comes(corpus):
    text = " ".join(row.target for row in corpus.train)
    assert "Freunde" in text
    assert "Ärzten" in text
    assert not re.search(r"Lehrerinnen|Ärztinnen|Freundinnen", text)


def test_both_genders_come_equally_often():
    frames = Frames("either")
    words = Counter(pair(frames.her_or_him()).source.split()[-1] for _ in range(4000))
    assert 0.9 < words["her."] / words["him."] < 1.1


def test_her_and_him_are_tested_with_verbs_they_never_had_for_that_noun(corpus):
    train = _settling(corpus.train)
    assert not train & HELD_PEOPLE
    assert len(train) >= 20
    assert {noun for _, noun in train} == {noun for _, noun in HELD_PEOPLE} == set(GENDERED)
    for row in corpus.tests["natural_gender"]:
        assert "natural_gender" in row.tags
        assert _settling([row]) <= HELD_PEOPLE
        assert _settling([row])
    known = {row.source for row in corpus.train}
    assert not known & {row.source for row in corpus.tests["natural_gender"]}


def _settling(pairs) -> set[tuple[str, str]]:
    """(verb, noun) of each him or her that is an object, read from the English."""
    forms = _forms() | {f"{form} for": "wait for" for form in ("wait", "waits", "waited")}
    verbs = "|".join(sorted(forms, key=len, reverse=True))
    taken = re.compile(rf"\b({verbs}) (?:him|her)(?:[.,?]|$)")
    return {
        (forms[verb], nouns[0])
        for row, nouns in _natural(pairs)
        for verb in taken.findall(row.source.lower())
    }


# The baseline and the score


def test_word_for_word_keeps_english_order_and_marks():
    assert (
        translate_words(DEMO[0].source)
        == "Die Tier nicht überqueren die Straße weil es war zu müde."
    )
    assert translate_words("Who saw the zebra?") == "Wer sah die zebra?"


def test_the_dictionary_knows_every_word_of_the_corpus(corpus):
    words = word_for_word()
    missing = {
        w for row in corpus.train for w in WORD.findall(row.source) if w.lower() not in words
    }
    assert not missing


@pytest.mark.parametrize(
    ("hypothesis", "right"),
    [
        ("Das Tier überquerte die Straße nicht, weil es zu müde war.", True),
        ("Das Pferd überquerte den Weg nicht, weil es müde war.", True),
        ("Das Tier überquerte die Straße nicht, weil sie zu müde war.", False),
        ("Das Tier überquerte es nicht, weil die Straße breit war.", False),
        ("", False),
    ],
)
def test_the_pronoun_is_scored_whatever_the_other_words_are(hypothesis, right):
    assert pronoun_is_right(DEMO[0], hypothesis) is right


def test_an_object_pronoun_is_scored_too():
    reference = Pair("", "Der Hund fand den Ball und versteckte ihn.")
    assert pronoun_is_right(reference, "Der Hund fand einen Ball und trug ihn.")
    assert not pronoun_is_right(reference, "Der Hund fand den Ball und versteckte sie.")
    assert not pronoun_is_right(Pair("", "Der Hund schlief."), "Der Hund schlief.")


def test_her_in_the_dative_is_scored_and_her_car_is_not():
    reference = Pair("", "Die Ärztin kam zurück und wir dankten ihr.")
    assert pronoun_is_right(reference, "Die Frau kam zurück und ihr Hund dankte ihr.")
    assert not pronoun_is_right(reference, "Die Ärztin kam zurück und wir dankten ihm.")
    assert not pronoun_is_right(reference, "Die Ärztin verkaufte ihr altes Auto.")


def test_longer_sentences_are_chains_of_clauses():
    drawn = splits(400, 60, seed=0, longest=50)

    def lengths(pairs):
        return [pair.source.count(" ") + 1 for pair in pairs]

    assert max(lengths(drawn.train)) <= 50
    assert sum(length > 30 for length in lengths(drawn.train)) > 40
    assert set(lengths(drawn.tests["long"])) <= set(range(23, 51))
    assert max(lengths(drawn.tests["combinations"])) <= 22
    longest = max(drawn.train, key=lambda pair: len(pair.source))
    joints = [len(re.findall(r", (?:and|but) ", longest.source)),
              len(re.findall(r"\b(?:und|aber) ", longest.target))]  # fmt: skip
    assert min(joints) >= 2
    every = [pair.source for pairs in (drawn.train, drawn.valid, *drawn.tests.values())
             for pair in pairs]  # fmt: skip
    assert len(set(every)) == len(every)
