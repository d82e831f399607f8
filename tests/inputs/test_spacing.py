from __future__ import annotations

import pytest

from regard.inputs.text.kinds import split_words
from regard.inputs.text.spacing import join_words


@pytest.mark.parametrize(
    "sentence",
    [
        "Das Tier überquerte die Straße nicht, weil es zu müde war.",
        "Didn't the man's dog bark?",
        "The dogs' bowl fell.",
        "It’s “well-known” that ‘this’ works; doesn't it?",
        "„Ja“, sagte er, „das ist ‚gut‘!“",
        "Er las »Faust« und «Candide».",
        'He said "yes", then "no" (twice).',
        "'Stop!' she said.",
        "It costs $3.50 (or 5%) at 10:30; see [1].",
        "Was?! Nein…",
        "Berlin – die Stadt – schläft.",
        "and/or",
        "",
    ],
)
def test_sentences_are_put_back_as_they_were_written(sentence):
    words = [word for word, _ in split_words().pre_tokenize_str(sentence)]
    assert join_words(words) == sentence


def test_half_quotations_do_no_harm():
    assert join_words(['"', "yes"]) == '"yes'
    assert join_words(["yes", "”", "no"]) == "yes” no"
    assert join_words([",", "yes"]) == ", yes"
