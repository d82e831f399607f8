"""ROUGE against published values, and what it must be by its definition."""

import gzip
import json
import os
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.tasks.measures.rouge import longest_common, mean_rouge, rouge

GOLDEN = Path(os.environ.get("REGARD_DATA", "../shared/data"), "mt_metrics", "rouge_golden.json.gz")
WORDS = st.lists(st.sampled_from("abcd"), max_size=7)


@pytest.mark.skipif(not GOLDEN.exists(), reason="the metrics' golden values are not here")
def test_two_hundred_captions_get_the_values_of_rouge_score():
    rows = [
        row for row in json.loads(gzip.decompress(GOLDEN.read_bytes())) if not row["use_stemmer"]
    ]
    assert len(rows) == 200
    for row in rows:
        for name, overlap in rouge(row["prediction"], row["target"]).items():
            assert overlap == pytest.approx(row[name], abs=1e-12), (name, row)


@given(WORDS, WORDS)
def test_the_longest_common_subsequence_is_the_longest_of_all(first, second):
    def subsequences(words):
        return {c for size in range(len(words) + 1) for c in combinations(words, size)}

    longest = max(map(len, subsequences(first) & subsequences(second)))
    assert longest_common(first, second) == longest


@given(WORDS, WORDS)
def test_summary_and_reference_swapped_swap_precision_and_recall(first, second):
    overlaps = rouge(" ".join(first), " ".join(second))
    swapped = rouge(" ".join(second), " ".join(first))
    for name in overlaps:
        assert overlaps[name].precision == swapped[name].recall
        assert overlaps[name].f == pytest.approx(swapped[name].f)


def test_a_word_counts_as_often_as_both_have_it():
    assert rouge("the the the", "the cat")["rouge1"] == pytest.approx((1 / 3, 1 / 2, 0.4))


def test_words_of_any_script_count():
    assert rouge("Müde Straße", "müde straße!")["rouge2"].f == 1.0


def test_nothing_shares_nothing():
    assert rouge("", "")["rougeL"] == (0.0, 0.0, 0.0)
    assert mean_rouge([], []) == {"rouge1": 0.0, "rouge2": 0.0, "rougeL": 0.0}
