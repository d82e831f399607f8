"""Passages of plain text: the same tokens have the same key, wherever they stand."""

from __future__ import annotations

import numpy as np
import pytest

from regard.data.text import passages
from regard.data.text.corpus import Corpus
from regard.data.text.passages import keys_of_passages, passage_tokens, seen_text


def corpus(documents):
    sizes = [len(document) for document in documents]
    stops = np.cumsum(sizes)
    return Corpus(np.concatenate(documents).astype(np.uint16), stops - sizes, stops)


def drawn(seed, *sizes):
    random = np.random.default_rng(seed)
    return [random.integers(0, 5000, size) for size in sizes]


def four_bytes(_):
    return b"word"


@pytest.mark.parametrize("at_once", [1, 7, 2**18])
def test_two_passages_have_the_same_key_if_their_tokens_are_the_same(monkeypatch, at_once):
    monkeypatch.setattr(passages, "AT_ONCE", at_once)
    documents = [*drawn(0, 30, 9, 1, 10, 3, 25), np.tile([7, 8, 9], 12), np.array([7, 8, 9])]
    keys = [key for part in keys_of_passages(corpus(documents), 10) for key in part[:, 0].tolist()]
    wanted = [
        tuple(document[start : start + 10].tolist())
        for document in documents
        for start in range(max(1, len(document) - 9))
    ]
    by_tokens = dict(zip(wanted, map(tuple, keys), strict=True))
    assert [by_tokens[tokens] for tokens in wanted] == [tuple(key) for key in keys]
    assert len(set(by_tokens.values())) == len(by_tokens)


def test_a_passage_has_as_many_tokens_as_make_some_words():
    text = corpus(drawn(1, 500))
    assert passage_tokens(text, four_bytes) == 32
    assert passage_tokens(text, lambda _: b"x") == 128
    assert passage_tokens(text, lambda _: b"x" * 90) == passages.LEAST_TOKENS


def test_copied_text_is_found_at_any_place_and_new_text_is_not():
    text = drawn(2, *[300] * 400)
    seen = seen_text(corpus(text), four_bytes)
    assert seen.window == 32
    assert seen.share < 0.2
    new = drawn(3, *[300] * 40)
    overlap = seen.overlap(keys_of_passages(corpus(new), 32))
    assert (overlap.in_training, overlap.warning()) == (0, None)
    mixed = [np.concatenate([new[i][:100], text[i][57:257], new[i][100:]]) for i in range(40)]
    overlap = seen.overlap(keys_of_passages(corpus(mixed), 32))
    assert overlap.in_training / overlap.examples == pytest.approx(169 / 469, abs=0.05)
    assert "% of the text was in the training data of this model" in overlap.warning()


def test_the_part_that_is_held_out_is_none_of_the_training_text():
    for documents in (drawn(4, *[200] * 50), drawn(5, 10_000)):
        train, aside = corpus(documents).split(0.1, seed=0)
        seen = seen_text(train, four_bytes)
        assert seen.overlap(keys_of_passages(aside, seen.window)).warning() is None
        assert seen.overlap(keys_of_passages(train, seen.window)).in_training > 4000


def test_short_documents_are_passages_as_a_whole():
    lines = drawn(6, *[5] * 200)
    seen = seen_text(corpus(lines[:100]), four_bytes)
    overlap = seen.overlap(keys_of_passages(corpus(lines[90:110]), seen.window))
    assert (overlap.in_training, overlap.examples) == (10, 20)
