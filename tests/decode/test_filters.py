"""Each filter computes what transformers' processor of that name computes."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from regard.decode import DecodeConfig, Symbols
from regard.decode import filters as ours


class Theirs:
    """The processors of transformers, imported on first use: that takes seconds."""

    def __getattr__(self, name):
        if not name[0].isupper():
            raise AttributeError(name)  # pytest asks every object for marks of its own
        return getattr(pytest.importorskip("transformers.generation.logits_process"), name)


theirs = Theirs()
pytestmark = pytest.mark.slow

VOCAB = 9


@st.composite
def rows(draw, *, unique=False):
    """Scores (rows, vocab), some of them equal unless `unique`, and the history of each row."""
    count, length = draw(st.integers(1, 4)), draw(st.integers(1, 8))
    scores = st.lists(st.integers(-64, 64), min_size=VOCAB, max_size=VOCAB, unique=unique)
    history = st.lists(st.integers(0, 3), min_size=length, max_size=length)
    drawn = [(draw(scores), draw(history)) for _ in range(count)]
    return torch.tensor([row for row, _ in drawn]) / 8, torch.tensor([row for _, row in drawn])


def assert_same(given_scores, kept_copy, got, expected):
    assert torch.equal(given_scores, kept_copy), "a filter leaves what it is given as it is"
    assert torch.equal(got, expected)


@given(rows(), st.floats(0.5, 3))
def test_repetition_penalty(drawn, penalty):
    scores, history = drawn
    original = scores.clone()
    expected = theirs.RepetitionPenaltyLogitsProcessor(penalty)(history, scores)
    assert_same(scores, original, ours.repetition_penalty(scores, history, penalty), expected)


@given(rows(), st.integers(1, 4))
def test_no_repeat_ngram(drawn, size):
    scores, history = drawn
    original = scores.clone()
    expected = theirs.NoRepeatNGramLogitsProcessor(size)(history, scores)
    assert_same(scores, original, ours.no_repeat_ngram(scores, history, size), expected)


@given(rows(), st.integers(1, 12))
def test_top_k(drawn, count):
    scores, history = drawn
    original = scores.clone()
    assert_same(
        scores, original, ours.top_k(scores, count), theirs.TopKLogitsWarper(count)(history, scores)
    )


@given(rows(unique=True), st.floats(0.01, 0.99))
def test_top_p(drawn, mass):
    scores, history = drawn
    probability = scores.softmax(dim=1).sort(descending=True).values.cumsum(dim=1)
    assume((probability - mass).abs().min() > 1e-5)  # away from rounding
    original = scores.clone()
    expected = theirs.TopPLogitsWarper(mass)(history, scores)
    assert_same(scores, original, ours.top_p(scores, mass), expected)


def test_top_p_keeps_the_first_of_equals_and_never_nothing():
    equals = ours.top_p(torch.zeros(1, 4), 0.5)
    assert equals.tolist() == [[0, 0, -torch.inf, -torch.inf]]
    certain = ours.top_p(torch.tensor([[9.0, 0.0]]), 0.01)
    assert certain.tolist() == [[9, -torch.inf]]


@given(rows(), st.floats(0, 0.99))
def test_min_p(drawn, share):
    scores, history = drawn
    original = scores.clone()
    assert_same(
        scores, original, ours.min_p(scores, share), theirs.MinPLogitsWarper(share)(history, scores)
    )


@given(rows(), st.floats(0.1, 4))
def test_temperature(drawn, value):
    scores, history = drawn
    original = scores.clone()
    expected = theirs.TemperatureLogitsWarper(value)(history, scores)
    assert_same(scores, original, ours.temperature(scores, value), expected)


@given(rows(), st.integers(1, 9))
def test_the_end_is_held_back_below_the_minimal_length(drawn, minimum):
    scores, history = drawn
    original, end = scores.clone(), 2
    early = torch.full((len(scores),), history.shape[1] < minimum)
    expected = theirs.MinLengthLogitsProcessor(minimum, end)(history, scores)
    assert_same(scores, original, ours.ban(scores, (), (end,), early), expected)


def test_the_end_is_held_back_only_in_rows_that_are_early():
    got = ours.ban(torch.zeros(2, 3), (2,), (1,), torch.tensor([True, False]))
    assert got.tolist() == [[0, -torch.inf, -torch.inf], [0, 0, -torch.inf]]


@given(rows(), st.sets(st.integers(0, VOCAB - 1), min_size=1, max_size=5))
def test_banned_tokens(drawn, tokens):
    scores, history = drawn
    original = scores.clone()
    expected = theirs.SuppressTokensLogitsProcessor(sorted(tokens))(history, scores)
    assert_same(scores, original, ours.ban(scores, tuple(tokens), ends=(0,), early=None), expected)


@given(rows(unique=True))
def test_constrain_and_sharpen_apply_all_in_the_order_of_transformers(drawn):
    scores, history = drawn
    config = DecodeConfig(
        sample=True,
        repetition_penalty=1.4,
        no_repeat_ngram=2,
        min_length=5,
        temperature=0.7,
        top_k=4,
        top_p=0.8,
        min_p=0.05,
    )
    early = torch.full((len(scores),), history.shape[1] < 5)
    got = ours.constrain(scores, history, early, config, Symbols(8, 7, 6, banned=(6, 8)))
    got = ours.filter_for_sampling(got, config)
    for processor in (
        theirs.RepetitionPenaltyLogitsProcessor(1.4),
        theirs.NoRepeatNGramLogitsProcessor(2),
        theirs.SuppressTokensLogitsProcessor([6, 8]),
        theirs.MinLengthLogitsProcessor(5, 7),
        theirs.TemperatureLogitsWarper(0.7),
        theirs.TopKLogitsWarper(4),
    ):
        scores = processor(history, scores)
    # A penalty can make two scores equal; which of them top-p keeps is not defined.
    possible = [[score for score in row if score > -math.inf] for row in scores.tolist()]
    assume(all(len({*row}) == len(row) for row in possible))
    probability = scores.softmax(dim=1).sort(descending=True).values
    assume((probability.cumsum(dim=1) - 0.8).abs().min() > 1e-5)
    scores = theirs.TopPLogitsWarper(0.8)(history, scores)
    assert torch.equal(got, theirs.MinPLogitsWarper(0.05)(history, scores))


def test_nothing_to_do_costs_nothing():
    scores = torch.zeros(2, 3)
    history = torch.zeros(2, 1, dtype=torch.int64)
    config = DecodeConfig(sample=True)
    assert ours.constrain(scores, history, None, config, Symbols(0, 1, 2)) is scores
    assert ours.filter_for_sampling(scores, config) is scores


def test_a_row_with_everything_banned_may_end():
    scores = torch.tensor([[0.0, -2.0, 1.0], [0.5, -3.0, 0.0]])
    config = DecodeConfig(min_length=2)
    got = ours.constrain(
        scores,
        torch.zeros(2, 1, dtype=torch.int64),
        torch.tensor([True, True]),
        config,
        Symbols(begin=0, end=1, pad=2, banned=(0, 2)),
    )
    assert got.tolist() == [[-torch.inf, -2, -torch.inf], [-torch.inf, -3, -torch.inf]]
