from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.batch import Batch
from regard.data.text.spans import (
    Infilling,
    SpanCorruption,
    cut_spans,
    fill_spans,
    infill,
    span_lengths,
    span_mask,
)
from regard.errors import InputError
from regard.inputs.arrays import Ragged

SENTINELS = [999 - number for number in range(100)]


def spans_of(mask):
    """The lengths of the runs of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], mask, [0]])))
    return (edges[1::2] - edges[::2]).tolist()


def batch_of(*lengths):
    ids = torch.arange(10, 10 + sum(lengths))
    starts = np.cumsum([0, *lengths])[:-1].tolist()
    return Batch(Ragged(ids, lengths), Ragged(ids + 1, lengths), tuple(starts))


@given(st.integers(2, 600), st.floats(0.05, 0.6), st.floats(1, 8), st.integers(0, 9))
@settings(deadline=None, max_examples=40)
def test_spans_have_the_counts_of_the_paper(length, rate, mean, seed):
    mask = span_mask(length, np.random.default_rng(seed), rate, mean)
    hidden = min(max(int(np.round(length * rate)), 1), length - 1)
    assert mask.shape == (length,)
    assert mask.sum() == hidden
    spans = max(int(np.round(hidden / mean)), 1)
    assert len(spans_of(mask)) == min(spans, length - hidden)
    assert not mask[0]  # from a kept span
    assert mask[-1]  # to a hidden one


def test_every_way_to_hide_spans_is_as_likely():
    random = np.random.default_rng(0)
    masks = [tuple(span_mask(7, random, 3 / 7, 1.5).tolist()) for _ in range(1800)]
    counts = np.unique(masks, axis=0, return_counts=True)[1]
    # 4 kept tokens in 2 parts, 3 ways; 3 hidden tokens in 2 parts, 2 ways
    assert len(counts) == 6
    assert np.abs(counts - 300).max() < 4 * np.sqrt(300)


def test_rows_that_are_512_long_when_corrupted_come_from_568_tokens():
    assert span_lengths(512) == (568, 114)  # T5's own numbers
    for length in (8, 64, 100, 512):
        tokens, target = span_lengths(length)
        ids = np.arange(tokens)
        shown, said = cut_spans(ids, span_mask(tokens, np.random.default_rng(0)), SENTINELS)
        assert (len(shown) + 1, len(said) + 1) == (length, target)


def test_sentinels_stand_for_spans_in_order():
    ids = np.array([10, 11, 12, 13, 14, 15])
    hidden = np.array([0, 1, 1, 0, 0, 1], dtype=bool)
    shown, target = cut_spans(ids, hidden, [99, 98, 97])
    assert shown.tolist() == [10, 99, 13, 14, 98]
    assert target.tolist() == [99, 11, 12, 98, 15]


@given(st.integers(1, 200), st.integers(0, 99))
@settings(deadline=None, max_examples=60)
def test_spans_put_back_at_their_sentinels_restore_the_text(length, seed):
    random = np.random.default_rng(seed)
    ids = random.integers(0, 900, length)
    before = ids.copy()
    shown, target = cut_spans(ids, span_mask(length, random), SENTINELS)
    assert fill_spans(shown, target, SENTINELS).tolist() == before.tolist() == ids.tolist()


def test_more_spans_than_sentinels_are_refused():
    with pytest.raises(InputError, match="got 3 spans in 6 tokens, expected at most 2"):
        cut_spans(np.arange(6), np.arange(6) % 2 > 0, [99, 98])


@pytest.mark.parametrize(
    "corrupt",
    [SpanCorruption(SENTINELS, begin=0, end=1, seed=5), Infilling(99, begin=0, end=1, seed=5)],
    ids=["T5", "BART"],
)
def test_a_text_is_corrupted_alike_twice_and_otherwise_in_another_epoch_or_place(corrupt):
    batch = batch_of(40, 40, 1)
    first, again, later = corrupt(batch, 0), corrupt(batch, 0), corrupt(batch, 1)
    assert torch.equal(first.source.ids, again.source.ids)
    assert torch.equal(first.targets.ids, again.targets.ids)
    assert first.source.ids.tolist() != later.source.ids.tolist()
    ids, others, _ = first.source.split()
    assert [token + 40 for token in ids if 10 <= token < 90] != [t for t in others if 10 <= t < 90]
    # alone it is corrupted as it is among others
    alone = Batch(Ragged(torch.arange(50, 90), (40,)), Ragged(torch.arange(51, 91), (40,)), (40,))
    assert corrupt(alone, 0).source.split() == [others]


def test_the_batch_of_spans_is_one_of_a_translator():
    batch = SpanCorruption(SENTINELS, begin=0, end=1)(batch_of(30, 20, 1), epoch=0)
    sources, targets = batch.source.split(), batch.decoder_input.split()
    assert [source.pop() for source in sources] == [1, 1, 1]
    assert [target.pop(0) for target in targets] == [0, 0, 0]
    assert (sources[2], targets[2]) == ([60], [])  # nothing can be hidden of one token
    for number, text in enumerate([list(range(10, 40)), list(range(40, 60))]):
        shown, target = np.array(sources[number]), np.array(targets[number])
        assert fill_spans(shown, target, SENTINELS).tolist() == text
        assert targets[number][0] == SENTINELS[0]
    assert batch.targets.ids.tolist() == [*targets[0], 1, *targets[1], 1, 1]
    assert batch.index == (0, 30, 50)


@given(st.integers(0, 200), st.floats(0, 0.9), st.floats(0.1, 6), st.integers(0, 9))
@settings(deadline=None, max_examples=40)
def test_infilling_hides_that_many_tokens_behind_masks_that_do_not_touch(length, rate, mean, seed):
    ids = np.arange(length)
    shown = infill(ids, -1, np.random.default_rng(seed), rate, mean)
    visible = shown[shown >= 0]
    assert (np.diff(visible) > 0).all()  # in order
    assert len(visible) == length - round(length * rate)
    masks = np.flatnonzero(shown < 0)
    assert (np.diff(masks) > 1).all()


def test_infilled_spans_have_poisson_lengths():
    random = np.random.default_rng(0)
    lengths = []
    for _ in range(150):
        shown = np.concatenate([[-2], infill(np.arange(300), -1, random), [300]])
        masks = np.flatnonzero(shown == -1)
        before = np.where(shown[masks - 1] == -2, -1, shown[masks - 1])
        lengths += (shown[masks + 1] - before - 1).tolist()
    mean, none = np.mean(lengths), np.mean(np.array(lengths) == 0)
    assert abs(mean - 3) < 0.1
    assert abs(none - np.exp(-3)) < 0.015


def test_infilling_wants_the_whole_text():
    batch = Infilling(99, begin=0, end=1)(batch_of(30, 20), epoch=0)
    assert batch.decoder_input.split() == [[0, *range(10, 40)], [0, *range(40, 60)]]
    assert all(source[-1] == 1 and 99 in source for source in batch.source.split())
