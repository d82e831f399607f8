from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
import torch

from regard.data.batch import Batch, Cursor
from regard.data.text.corpus import Corpus
from regard.data.text.corruption import (
    CorruptedCorpus,
    Masking,
    SentencePairs,
    Symbols,
    mask_tokens,
)
from regard.data.text.packing import Packed, batches
from regard.errors import InputError
from regard.inputs.arrays import Ragged

PAD, CLS, SEP, MASK = range(4)
STOP = 4
SYMBOLS = Symbols(1000, MASK, CLS, SEP, frozenset({PAD, CLS, SEP, MASK}))


def sigmas(count, expected, trials):
    """How many standard deviations a share is from what it should be."""
    return abs(count / trials - expected) / np.sqrt(expected * (1 - expected) / trials)


def batch_of(*texts, index=None):
    ids = Ragged.of(texts)
    return Batch(
        ids, Ragged(ids.ids + 1, ids.lengths), tuple(index or range(0, 100 * len(texts), 100))
    )


def test_15_percent_are_chosen_of_which_80_are_hidden_10_changed_10_left():
    random = np.random.default_rng(0)
    hidden = changed = left = chosen = 0
    for _ in range(200):
        ids = random.integers(4, 1000, 200)
        before = ids.copy()
        shown, positions = mask_tokens(ids, SYMBOLS, random)
        assert ids.tolist() == before.tolist()
        assert len(positions) == len(set(positions.tolist())) == 30
        assert (np.delete(shown, positions) == np.delete(ids, positions)).all()
        chosen += 30
        hidden += int((shown[positions] == MASK).sum())
        left += int((shown[positions] == ids[positions]).sum())
        changed += int(((shown[positions] != ids[positions]) & (shown[positions] != MASK)).sum())
        assert not {PAD, CLS, SEP} & set(shown.tolist())  # symbols are put nowhere
    assert sigmas(hidden, 0.8, chosen) < 3
    assert sigmas(changed, 0.1 * 995 / 996, chosen) < 3  # any token may be the one that stood there
    assert sigmas(left, 0.1 + 0.1 / 996, chosen) < 3


def test_each_token_is_as_likely_to_be_chosen_and_symbols_never():
    ids = np.array([CLS, *range(10, 20), SEP, *range(20, 30), SEP])
    random = np.random.default_rng(1)
    counts = np.zeros(len(ids))
    for _ in range(800):
        counts[mask_tokens(ids, SYMBOLS, random)[1]] += 1
    special = ids < 4
    assert counts[special].sum() == 0
    assert counts.sum() == 800 * 3  # of the 20 others
    assert max(sigmas(count, 0.15, 800) for count in counts[~special]) < 4


@pytest.mark.parametrize(("length", "count"), [(0, 0), (1, 1), (3, 1), (20, 3)])
def test_at_least_one_token_is_chosen_if_there_is_one(length, count):
    ids = np.array([CLS, *range(10, 10 + length), SEP])
    assert len(mask_tokens(ids, SYMBOLS, np.random.default_rng(0))[1]) == count


def test_words_are_hidden_as_wholes():
    continues = np.arange(1000) % 2 == 1  # odd entries go on with a word
    symbols = Symbols(1000, MASK, CLS, SEP, SYMBOLS.special, continues)
    words = [[10], [20, 21, 23], [30, 31], [40], [50, 51, 53, 55], [60], [70], [80, 81]] * 4
    ids = np.array([CLS, 11, *(token for word in words for token in word), SEP])
    number = np.cumsum(~continues[ids] | (np.arange(len(ids)) < 2))
    random = np.random.default_rng(0)
    ever = set()
    for _ in range(300):
        _, positions = mask_tokens(ids, symbols, random)
        of_word = set(number[positions].tolist())
        assert sorted(positions.tolist()) == [i for i in range(len(ids)) if number[i] in of_word]
        assert 8 <= len(positions) <= 9  # 15% of 61; a word that is too long is passed over
        ever |= of_word
    assert ever == set(number[1:-1].tolist())
    lone = np.array([CLS, 20, 21, 23, SEP])  # more than its share, yet one there must be
    assert mask_tokens(lone, symbols, random)[1].tolist() == [1, 2, 3]


def test_masked_sequences_have_their_symbols_and_the_masked_tokens_as_targets():
    texts = [list(range(10, 40)), [50], list(range(60, 80))]
    masked = Masking(SYMBOLS, seed=1)(batch_of(*texts), epoch=2)
    rows = masked.source.split()
    assert [(row[0], row[-1], len(row) - 2) for row in rows] == [(CLS, SEP, len(t)) for t in texts]
    whole = torch.tensor([token for text in texts for token in (CLS, *text, SEP)])
    assert torch.equal(masked.known_targets, whole[masked.target_positions])
    restored = masked.source.ids.clone()
    restored[masked.target_positions] = masked.known_targets
    assert torch.equal(restored, whole)
    assert masked.known_targets.numel() == 4 + 1 + 3
    assert (masked.source.types, masked.labels) == (None, None)


def test_masks_are_dynamic_and_a_pure_function_of_seed_epoch_and_text():
    texts = [list(range(10, 60)), list(range(60, 110))]
    batch = batch_of(*texts)

    def masked_at(seed, epoch, of=batch):
        masked = Masking(SYMBOLS, seed=seed)(of, epoch)
        return masked.target_positions.tolist(), masked.source.ids.tolist()

    assert masked_at(0, 0) == masked_at(0, 0)
    assert len({str(masked_at(seed, epoch)) for seed in (0, 1) for epoch in (0, 1)}) == 4
    alone = masked_at(0, 0, batch_of(texts[1], index=[100]))  # whatever it is batched with
    assert alone[0] == [position - 52 for position in masked_at(0, 0)[0] if position >= 52]
    assert masked_at(0, 0, batch_of(texts[1], index=[101]))[0] != alone[0]


def test_the_choice_is_the_same_on_every_machine():
    masked = Masking(SYMBOLS, seed=3)(batch_of(list(range(10, 50))), epoch=1)
    assert masked.target_positions.tolist() == [6, 9, 11, 13, 14, 19]


def corpus_of(documents=30, sentences=6, words=5):
    """Documents whose tokens tell their document, and sentences that end with a stop."""
    body = [[100 + number] * words + [STOP] for number in range(documents)]
    rows = [sentence * sentences + [SEP] for sentence in body]
    ends = np.cumsum([len(row) for row in rows])
    starts = ends - len(rows[0])
    return Corpus(np.array([token for row in rows for token in row], dtype=np.uint16), starts, ends)


def test_pairs_follow_each_other_or_come_from_two_documents():
    corpus = corpus_of()
    pairs = SentencePairs(Masking(SYMBOLS), corpus, frozenset({STOP}))
    rows = Packed(corpus, length=20, batch_tokens=400)
    follows = sequences = 0
    for epoch in range(4):
        for number in range(len(rows)):
            batch = rows.batch(epoch, number)
            pair = pairs(batch, epoch)
            whole = pair.source.ids.clone()
            whole[pair.target_positions] = pair.known_targets
            types = torch.split(pair.source.types, list(pair.source.lengths))
            texts = zip(
                batch.source.split(), Ragged(whole, pair.source.lengths).split(), strict=True
            )
            for (text, row), kinds, follow in zip(texts, types, pair.labels.tolist(), strict=True):
                border = row.index(SEP)
                first, second = row[1:border], row[border + 1 : -1]
                assert (row[0], row[-1]) == (CLS, SEP)
                assert kinds.tolist() == [0] * (border + 1) + [1] * (len(second) + 1)
                assert text[: len(first)] == first
                if follow:
                    assert first + second == text
                elif len(text) > 1:
                    assert len(first) + len(second) == len(text)  # lengths do not tell
                    assert {*first} & {*second} <= {STOP}
                if STOP in text[:-1]:
                    assert first[-1] == STOP  # cut where a sentence ends
                sequences += len(text) > 1
                follows += follow
    assert sequences > 150
    assert sigmas(follows, 0.5, sequences) < 3


def test_pairs_need_a_second_document():
    with pytest.raises(InputError, match="got one document"):
        SentencePairs(Masking(SYMBOLS), corpus_of(1), frozenset())


def test_other_texts_come_from_every_document_even_if_short():
    corpus = corpus_of(documents=5, sentences=1)
    pairs = SentencePairs(Masking(SYMBOLS), corpus, frozenset())
    drawn = set()
    for epoch in range(60):
        pair = pairs(batch_of([100] * 40, index=[0]), epoch)
        whole = pair.source.ids.clone()
        whole[pair.target_positions] = pair.known_targets
        drawn |= set(whole.tolist()) if not pair.labels.item() else set()
    assert drawn == {CLS, SEP, STOP, 100, 101, 102, 103, 104}


def test_parts_of_a_masked_batch_are_disjoint_and_complete():
    corpus = corpus_of()
    rows = Packed(corpus, length=20, batch_tokens=200)
    pair = SentencePairs(Masking(SYMBOLS), corpus, frozenset({STOP}))(rows.batch(0, 0), 0)
    parts = pair.split(3)
    for number, part in enumerate(parts):
        assert part.index == pair.index[number::3]
        assert part.source.split() == pair.source.split()[number::3]
        assert part.labels.tolist() == pair.labels.tolist()[number::3]
        assert len(part.source.types) == len(part.source.ids)
    said = {(i, w) for part in parts for i, w in spoken(part)}
    assert said == set(spoken(pair))
    assert sum(part.known_targets.numel() for part in parts) == pair.known_targets.numel()
    assert len(pair.split(1000)) == len(pair.index)
    moved = pair.to("meta")
    assert {t.device.type for t in (moved.source.ids, moved.source.types, moved.labels)} == {"meta"}


def spoken(batch):
    """(text, place in it, what is said there) of all holes."""
    starts = np.cumsum([0, *batch.source.lengths])
    rows = np.searchsorted(starts, batch.target_positions.numpy(), side="right") - 1
    return [
        ((batch.index[row], int(position - starts[row])), word)
        for row, position, word in zip(
            rows, batch.target_positions, batch.known_targets.tolist(), strict=True
        )
    ]


def test_corrupted_batches_resume_where_they_were():
    rows = Packed(corpus_of(), length=20, batch_tokens=200)
    masking = Masking(SYMBOLS)
    whole = list(islice(batches(CorruptedCorpus(rows, masking), Cursor()), 2 * len(rows) + 1))
    plain = list(islice(batches(rows, Cursor()), 2 * len(rows) + 1))
    epochs = [0] * len(rows) + [1] * len(rows) + [2]
    for (masked, after), (batch, plain_after), epoch in zip(whole, plain, epochs, strict=True):
        assert after == plain_after
        assert torch.equal(masked.source.ids, masking(batch, epoch).source.ids)
    stop = len(rows) + 1
    again, _ = next(batches(CorruptedCorpus(rows, masking), whole[stop][1]))
    assert torch.equal(again.source.ids, whole[stop + 1][0].source.ids)
