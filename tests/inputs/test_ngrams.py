"""The set of a text's word n-grams: none is missed, few others are taken for members."""

from __future__ import annotations

import json
from random import Random

import pytest

from regard.errors import InputError
from regard.inputs.text import ngrams
from regard.inputs.text.ngrams import Ngrams, words_in


def pieces_of(*documents):
    """Documents given as lists of pieces."""
    for pieces in documents:
        for number, text in enumerate(pieces, 1):
            yield text, number == len(pieces)


@pytest.fixture(scope="module")
def texts():
    random = Random(0)
    return [" ".join(random.choices("abcdefghij", k=random.randrange(2, 300))) for _ in range(40)]


def test_every_ngram_is_found_and_about_one_in_a_hundred_others(texts):
    ngrams = Ngrams.of(pieces_of(*([text] for text in texts)), 5)
    splits = [text.split() for text in texts]
    assert all(words[i : i + 5] in ngrams for words in splits for i in range(len(words) - 4))
    random = Random(1)
    others = {tuple(random.choices("klmnopqrst", k=5)) for _ in range(5000)}
    assert sum(words in ngrams for words in others) < 0.02 * len(others)


def test_pieces_of_a_document_are_joined_and_documents_are_not():
    ngrams = Ngrams.of(pieces_of(["One, two ", "three"], ["four five"]), 3)
    assert ("one", "two", "three") in ngrams
    assert ("two", "three", "four") not in ngrams


@pytest.mark.parametrize(
    ("before", "after", "copied"),
    [
        ("a b", "a b c", True),
        ("A, B", "A, B: C", True),
        ("a b", "a b d", False),
        ("a b d", "a b de", False),
        ("a b", "a b!", False),
        ("a b c", "a b c.", False),  # it was complete before
        ("a b cat", "a b cats", True),  # a token that ends the word
        ("x a b", "x a b c d", True),  # within several new words
    ],
)
def test_a_text_is_copied_when_its_new_words_complete_an_ngram(before, after, copied):
    ngrams = Ngrams.of(pieces_of(["a b c"], ["a b cats"]), 3)
    assert ngrams.copies(before, after) == copied


def test_the_set_survives_json_and_damage_is_refused(texts):
    ngrams = Ngrams.of(pieces_of([texts[0]]), 4)
    spec = json.loads(json.dumps(ngrams.to_spec()))
    assert Ngrams.from_spec(spec) == ngrams
    for damage in ({}, {**spec, "bits": "?"}, {**spec, "bits": "é"}, {**spec, "size": 0},
                   {**spec, "bits": ""}, []):  # fmt: skip
        with pytest.raises(InputError, match="damaged n-grams"):
            Ngrams.from_spec(damage)


def test_a_text_with_too_many_ngrams_is_refused_before_all_of_it_is_read(monkeypatch):
    def endless():
        for number in range(1000):
            assert number < 50, "it is read on"
            yield f"{number} a b c", True

    monkeypatch.setattr(ngrams, "MAX_NGRAMS", 20)
    with pytest.raises(InputError, match="more than 20"):
        Ngrams.of(endless(), 2)


def test_words_have_no_case_and_no_punctuation():
    assert words_in("«Don't», she said") == ["don", "t", "she", "said"]
