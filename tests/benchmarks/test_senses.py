from __future__ import annotations

import re
from collections import Counter

from benchmarks.senses import accuracy, homonyms


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
