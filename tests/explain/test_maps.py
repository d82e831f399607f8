from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.draw.labels import visible
from regard.explain.maps import AttentionMap, mean_by_offset, merge_words, row_entropy


def softmax(scores):
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def random_map(seed, heads, queries, keys):
    weights = softmax(np.random.default_rng(seed).normal(size=(heads, queries, keys)))
    labels = [tuple(f"{side}{i}" for i in range(n)) for side, n in (("q", queries), ("k", keys))]
    return AttentionMap("decoder.0.cross", weights, *labels)


def merged_by_loops(weights, query_words, key_words):
    """One word pair at a time: sum over the pieces of the key, mean over those of the query."""
    heads = len(weights)
    out = np.zeros((heads, max(query_words) + 1, max(key_words) + 1))
    for head in range(heads):
        for query_word in range(out.shape[1]):
            pieces = [q for q, word in enumerate(query_words) if word == query_word]
            for key_word in range(out.shape[2]):
                sums = [
                    sum(weights[head, q, k] for k, word in enumerate(key_words) if word == key_word)
                    for q in pieces
                ]
                out[head, query_word, key_word] = sum(sums) / len(sums)
    return out


def word_numbers(breaks):
    """Numbers of words from whether each piece but the first begins one."""
    numbers = [0]
    for begins in breaks:
        numbers.append(numbers[-1] + begins)
    return numbers


@settings(max_examples=40, deadline=None)
@given(st.lists(st.booleans(), max_size=7), st.lists(st.booleans(), max_size=7), st.integers(0, 99))
def test_merging_sums_over_keys_and_averages_over_queries(query_breaks, key_breaks, seed):
    query_words, key_words = word_numbers(query_breaks), word_numbers(key_breaks)
    pieces = random_map(seed, 2, len(query_words), len(key_words))
    rows = [f"Q{i}" for i in range(max(query_words) + 1)]
    columns = [f"K{i}" for i in range(max(key_words) + 1)]
    words = merge_words(pieces, query_words, key_words, rows, columns)
    assert (words.site, words.queries, words.keys) == (pieces.site, tuple(rows), tuple(columns))
    np.testing.assert_allclose(
        words.weights, merged_by_loops(pieces.weights, query_words, key_words), atol=1e-12
    )
    np.testing.assert_allclose(words.weights.sum(-1), 1.0, atol=1e-12)


def test_merging_refuses_numbers_that_skip_a_word():
    pieces = random_map(0, 1, 2, 2)
    with pytest.raises(ValueError, match="query words"):
        merge_words(pieces, [0, 2], [0, 1], ["a", "b", "c"], ["d", "e"])
    with pytest.raises(ValueError, match="key words"):
        merge_words(pieces, [0, 1], [0], ["a", "b"], ["d"])


def test_row_entropy_is_that_of_the_row_scaled_to_one():
    weights = np.array([[0.25] * 4, [0.05] * 4, [0, 1, 0, 0], [0, 0, 0, 0]])
    entropy = row_entropy(weights)
    np.testing.assert_allclose(entropy[:3], [np.log(4), np.log(4), 0.0], atol=1e-12)
    assert np.isnan(entropy[3])


def test_row_entropy_takes_whole_numbers_and_single_precision():
    assert row_entropy(np.array([[1, 1]])).round(3).tolist() == [0.693]
    assert row_entropy(np.full((3, 2, 8), 0.125, np.float32)).shape == (3, 2)


def test_mean_by_offset_finds_the_head_that_looks_one_word_back():
    weights = np.zeros((2, 5, 5))
    weights[0] = np.eye(5)
    weights[1, 0, 0] = 1
    for query in range(1, 5):
        weights[1, query, query - 1] = 1
    means = mean_by_offset(weights, 2)  # offsets -2 to 2
    np.testing.assert_allclose(means[0], [0, 0, 1, 0, 0])
    np.testing.assert_allclose(means[1], [0, 1, 0.2, 0, 0])


def test_mean_by_offset_agrees_with_loops_and_leaves_out_rows_that_look_at_nothing():
    weights = random_map(3, 2, 6, 4).weights.copy()
    weights[:, 2] = 0
    means = mean_by_offset(weights, 5)
    for column, offset in enumerate(range(-5, 6)):
        rows = [q for q in range(6) if 0 <= q + offset < 4 and q != 2]
        for head in range(2):
            want = np.mean([weights[head, q, q + offset] for q in rows]) if rows else np.nan
            np.testing.assert_allclose(means[head, column], want)


@pytest.mark.parametrize(
    ("site", "shape"),
    [("decoder.cross", (1, 2, 3)), ("decoder.0.cross", (2, 3)), ("decoder.0.cross", (1, 3, 2))],
)
def test_a_map_whose_parts_do_not_fit_is_refused(site, shape):
    with pytest.raises(ValueError, match="expected"):
        AttentionMap(site, np.ones(shape), ("a", "b"), ("c", "d", "e"))


def test_a_map_names_its_stack_layer_and_heads():
    attention_map = AttentionMap("encoder.11.self", np.ones((3, 1, 1)), ("a",), ("a",))
    assert (attention_map.stack, attention_map.layer, attention_map.heads) == (
        "encoder.self",
        11,
        3,
    )


@pytest.mark.parametrize("label", ["", " ", "\n", "\x00", "\ud800", "a\tb", "plain", "漢字", "  "])
def test_every_label_can_be_seen_and_written(label):
    shown = visible(label)
    assert shown.strip()
    assert shown.encode()
    assert all(character.isprintable() for character in shown)
