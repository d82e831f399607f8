from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.batch import Cursor
from regard.data.text import packing
from regard.data.text.corpus import Corpus
from regard.data.text.packing import KINDS, Packed, Stream, batches
from regard.errors import InputError


def corpus_of(sizes):
    """Documents whose ids are their places, so that each token tells where it comes from."""
    ends = np.cumsum(np.array(sizes, dtype=np.int64))
    return Corpus(np.arange(ends[-1], dtype=np.uint32), ends - sizes, ends)


def epoch_of(rows, epoch=0):
    return [rows.batch(epoch, number) for number in range(len(rows))]


def pieces(batch):
    return [torch.tensor(row) for row in batch.source.split()]


sizes_strategy = st.lists(st.integers(1, 40), min_size=1, max_size=40).filter(lambda s: max(s) > 1)


@given(sizes_strategy, st.integers(1, 12), st.integers(1, 60), st.integers(0, 3))
@settings(deadline=None, max_examples=30)
def test_packed_batches_are_full_and_give_every_token_once_but_for_a_batch(
    sizes, length, budget, epoch
):
    corpus = corpus_of(sizes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "POOL_BATCHES", 3)  # several pools
        rows = Packed(corpus, length=length, batch_tokens=budget, seed=7)
        batched = epoch_of(rows, epoch)
    total = corpus.tokens - len(corpus)  # the last token of each is only predicted
    size = min(budget, total)
    assert {batch.targets.ids.numel() for batch in batched} == {size}
    seen = torch.cat([batch.source.ids for batch in batched]).tolist()
    assert len(seen) == len(set(seen)) == total // size * size
    assert not set(seen) & set((corpus.stops - 1).tolist())
    for batch in batched:
        assert batch.targets.ids.dtype == batch.source.ids.dtype == torch.int64
        assert torch.equal(batch.targets.ids, batch.source.ids + 1)  # what follows in the document
        assert max(batch.source.lengths) <= length
        assert list(batch.index) == [piece[0] for piece in pieces(batch)]
        for piece in pieces(batch):  # of one document, without gaps
            assert piece.tolist() == list(range(piece[0], piece[-1] + 1))
            owner = np.searchsorted(corpus.stops, piece.numpy(), side="right")
            assert len(set(owner.tolist())) == 1


def test_documents_are_cut_where_they_are_too_long_or_a_batch_ends_only():
    sizes = np.random.default_rng(0).integers(10, 60, 2000)
    batched = epoch_of(Packed(corpus_of(sizes), length=64, batch_tokens=1024))
    count = sum(len(batch.index) for batch in batched)
    assert count <= 2000 + len(batched)


def test_sequences_of_a_batch_have_like_lengths():
    sizes = np.random.default_rng(0).integers(2, 400, 4000)
    batched = epoch_of(Packed(corpus_of(sizes), length=256, batch_tokens=4096))
    padded = sum(len(batch.index) * max(batch.source.lengths) for batch in batched)
    assert 1 - sum(batch.targets.ids.numel() for batch in batched) / padded < 0.1
    longest = [max(batch.source.lengths) for batch in batched]  # short and long batches come mixed
    assert abs(np.corrcoef(longest, np.arange(len(longest)))[0, 1]) < 0.3


def test_epochs_cut_a_long_document_elsewhere():
    rows = Packed(corpus_of([961]), length=64, batch_tokens=192)  # five batches, nothing to spare
    starts = [
        {start for batch in epoch_of(rows, epoch) for start in batch.index} for epoch in (0, 1)
    ]
    assert len(starts[0] & starts[1]) < 5


def test_epochs_drop_other_tokens():
    rows = Packed(corpus_of([1000]), length=64, batch_tokens=192)
    seen = [
        {token for batch in epoch_of(rows, epoch) for token in batch.source.ids.tolist()}
        for epoch in (0, 1)
    ]
    assert seen[0] != seen[1]


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_is_a_pure_function_of_seed_and_epoch(kind, monkeypatch):
    monkeypatch.setattr(packing, "POOL_BATCHES", 4)
    corpus = corpus_of([30, 5, 17, 60, 2, 9] * 5)

    def order(seed, epoch):
        rows = KINDS[kind](corpus, length=16, batch_tokens=64, seed=seed)
        return [batch.source.ids.tolist() for batch in epoch_of(rows, epoch)]

    orders = [order(seed, epoch) for seed in (0, 1) for epoch in (0, 1)]
    assert len({str(order) for order in orders}) == 4
    assert order(1, 0) == orders[2]


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_goes_on_exactly_where_it_was(kind, monkeypatch):
    monkeypatch.setattr(packing, "POOL_BATCHES", 4)
    corpus = corpus_of([30, 5, 17, 60, 2, 9] * 5)

    def rows():
        return KINDS[kind](corpus, length=16, batch_tokens=64)

    whole = list(islice(batches(rows(), Cursor()), 3 * len(rows())))
    assert [after.epoch for _, after in whole[:: len(rows())]] == [0, 1, 2]
    for stop in range(len(whole) - 1):
        cursor = Cursor(**json.loads(json.dumps(asdict(whole[stop][1]))))
        batch, after = next(batches(rows(), cursor))
        assert torch.equal(batch.source.ids, whole[stop + 1][0].source.ids)
        assert torch.equal(batch.targets.ids, whole[stop + 1][0].targets.ids)
        assert (batch.index, after) == (whole[stop + 1][0].index, whole[stop + 1][1])


@pytest.mark.parametrize("kind", KINDS)
@given(sizes=sizes_strategy, length=st.integers(1, 12), budget=st.integers(12, 60))
@settings(deadline=None, max_examples=20)
def test_evaluation_predicts_each_token_once_and_is_always_the_same(kind, sizes, length, budget):
    corpus = corpus_of([*sizes, 13])
    rows = KINDS[kind](corpus, length=length, batch_tokens=budget, seed=3)
    batched = list(rows.evaluation())
    wanted = sorted(torch.cat([batch.targets.ids for batch in batched]).tolist())
    first = set(corpus.starts.tolist()) if kind == "packed" else {0}
    assert wanted == [token for token in range(corpus.tokens) if token not in first]
    assert all(batch.targets.ids.numel() <= max(budget, length) for batch in batched)
    assert all(max(batch.source.lengths) <= length for batch in batched)
    other = KINDS[kind](corpus, length=length, batch_tokens=budget, seed=4)
    assert [batch.index for batch in other.evaluation()] == [batch.index for batch in batched]


@pytest.mark.parametrize("kind", KINDS)
@given(sizes=sizes_strategy, length=st.integers(1, 12), budget=st.integers(12, 60))
@settings(deadline=None, max_examples=20)
def test_a_part_of_an_evaluation_has_the_sequences_of_the_whole(kind, sizes, length, budget):
    rows = KINDS[kind](corpus_of([*sizes, 13]), length=length, batch_tokens=budget, seed=3)

    def sequences(packed):
        return {
            start: (read, following)
            for batch in packed.evaluation()
            for start, read, following in zip(
                batch.index, batch.source.split(), batch.targets.split(), strict=True
            )
        }

    whole = sequences(rows)
    assert rows.passages == len(whole)
    indices = range(0, rows.passages, 3)
    part = rows.limited(indices)
    in_text = sorted(whole)
    assert sequences(part) == {in_text[i]: whole[in_text[i]] for i in indices}
    assert part.passages == len(indices)
    assert part.corpus.tokens == sum(1 + len(read) for read, _ in sequences(part).values())
    assert sequences(rows) == whole


def test_evaluation_cuts_documents_from_their_beginning():
    rows = Packed(corpus_of([8, 3]), length=4, batch_tokens=100)
    (batch,) = rows.evaluation()
    assert batch.source.split() == [[8, 9], [4, 5, 6], [0, 1, 2, 3]]
    assert batch.targets.ids.tolist() == [9, 10, 5, 6, 7, 1, 2, 3, 4]
    assert batch.index == (8, 4, 0)


def test_the_stream_takes_rows_from_any_token_across_documents():
    corpus = corpus_of([30, 5, 17, 60, 2, 9])
    rows = Stream(corpus, length=16, batch_tokens=64 + 15)
    assert len(rows) == 123 // 64
    starts: Counter[int] = Counter()
    for epoch in range(500):
        batch = rows.batch(epoch, 0)
        assert batch.source.lengths == (16,) * 4
        assert torch.equal(batch.targets.ids, batch.source.ids + 1)
        starts.update(batch.index)
    assert set(starts) == set(range(123 - 16))
    assert max(starts.values()) < 2.5 * 2000 / 107


def test_the_stream_passes_over_what_is_held_out():
    whole = corpus_of([10, 10, 10])
    rows = Stream(
        Corpus(whole.ids, whole.starts[[0, 2]], whole.stops[[0, 2]]), length=19, batch_tokens=1
    )
    batch = rows.batch(0, 0)
    assert batch.source.ids.tolist() == [*range(10), *range(20, 29)]
    assert batch.targets.ids.tolist() == [*range(1, 10), *range(20, 30)]


def test_texts_that_are_too_short_are_refused_or_make_one_small_batch():
    with pytest.raises(InputError, match="got 9 tokens, expected more than 9"):
        Stream(corpus_of([9]), length=9, batch_tokens=90)
    with pytest.raises(InputError, match="no token to learn from"):
        Packed(corpus_of([1, 1]), length=9, batch_tokens=90)
    rows = Packed(corpus_of([9, 4]), length=9, batch_tokens=90)
    assert [len(rows), rows.batch(5, 0).targets.ids.numel()] == [1, 11]


def test_parts_of_a_batch_are_dealt_out_and_hold_all_of_it():
    batch = Packed(corpus_of([8, 3, 5, 2]), length=4, batch_tokens=100).batch(0, 0)
    parts = batch.split(3)
    assert [len(part.index) for part in parts] == [2, 2, 2] or len(batch.index) != 6
    for part in parts:
        assert torch.equal(part.targets.ids, part.source.ids + 1)
        assert [row[0] for row in part.source.split()] == list(part.index)
    assert sorted(i for part in parts for i in part.index) == sorted(batch.index)
    assert len(batch.split(100)) == len(batch.index)
    assert batch.to("meta").targets.ids.device.type == "meta"


def test_a_batch_of_many_documents_is_found_at_once():
    sizes = np.full(300_000, 7)
    ends = np.cumsum(sizes)
    corpus = Corpus(np.broadcast_to(np.uint16(3), (int(ends[-1]),)), ends - 7, ends)
    batch = Packed(corpus, length=64, batch_tokens=4096).batch(3, 400)
    assert batch.targets.ids.tolist() == [3] * 4096
