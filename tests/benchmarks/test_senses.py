from __future__ import annotations

import random
import re
from collections import Counter

import pytest

from benchmarks.senses import accuracy, cosines, homonyms, rule_of, sense_test
from regard import load
from regard.recipes.shelf import card_of, shipped


def test_half_of_the_pairs_of_forty_words_have_the_same_sense():
    pairs = list(homonyms())
    assert len(pairs) == len(set(pairs)) == 200
    assert sum(pair.same for pair in pairs) == 100
    assert set(Counter(pair.word for pair in pairs).values()) == {5}
    for pair in pairs:
        assert all(re.search(rf"\b{pair.word}\b", text.lower()) for text in pair.sentences)


def test_the_threshold_comes_from_other_words():
    pairs = list(homonyms())
    assert accuracy(pairs, [0.9 if pair.same else 0.1 for pair in pairs]) == 1
    assert accuracy(pairs, [0.5] * 200) == 0.5
    words = sorted({pair.word for pair in pairs})
    high = {word: float(word in words[::2]) for word in words}  # its scale tells nothing of others
    assert accuracy(pairs, [high[p.word] + 0.1 * p.same for p in pairs]) < 0.6


def test_thresholds_are_where_four_of_five_pairs_are_as_said():
    pairs = list(homonyms())
    rule = rule_of(pairs, [0.9 if pair.same else 0.1 for pair in pairs])
    assert (rule.verdict(0.9), rule.verdict(0.1), rule.verdict(0.5)) == (
        "same meaning", "other meaning", "cannot tell",
    )  # fmt: skip
    noise = random.Random(0)
    values = [noise.random() for _ in pairs]
    test = sense_test(pairs, values, pairs, values)
    assert (test.same, test.other) == (None, None)
    assert test.verdict(0.99) == "cannot tell"


@pytest.mark.slow
def test_the_card_of_the_shipped_model_says_what_is_measured():
    pairs = list(homonyms())
    measured = sense_test(pairs, cosines(load("small/fill"), pairs, None), pairs, [0.0] * 200)
    [said] = [test for test in card_of(shipped()["small/fill"]).senses if test.layer is None]
    assert (said.right, said.decided) == (measured.right, measured.decided)
    assert (said.same, said.other) == pytest.approx((measured.same, measured.other), abs=1e-3)
