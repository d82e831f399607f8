from __future__ import annotations

import json
import os
import tracemalloc
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.text import corpus as module
from regard.data.text.corpus import Corpus, choose, encode, survey
from regard.data.text.documents import DocumentPiece, TextFiles, join_parts
from regard.errors import InputError, WriteError

TEXTS = ["to be or not to be", "that is the question", "whether", "it is nobler in the mind"]


class Loose:
    """Documents in memory, counting how often they are read."""

    def __init__(self, texts, longest=10):
        self.texts, self.longest, self.reads = texts, longest, 0

    def pieces(self, skipped: Counter[str]):
        self.reads += 1
        skipped["odd"] += 2
        return join_parts((part for text in self.texts for part in (text, None)), self.longest)

    def checksums(self):
        return {"loose": str(hash(tuple(self.texts)))}

    def settings(self):
        return {}


class Letters:
    """A tokenizer of characters: the id is the code point and a few."""

    begin, end = 1, 2

    def __init__(self, vocab=300):
        self.vocab = vocab

    def encode_batch(self, texts):
        return [[ord(letter) + self.vocab - 296 for letter in text] for text in texts]

    def to_json(self):
        return f'{{"letters": {self.vocab}}}'


def ids_of(text, frame=True):
    return [ord(letter) + 4 for letter in text] + [2] * frame


@pytest.mark.parametrize("at_once", [1, 25, 10**6])
def test_the_ids_on_disk_are_those_of_each_document_and_its_end(tmp_path, monkeypatch, at_once):
    monkeypatch.setattr(module, "AT_ONCE", at_once)
    done = []
    corpus = encode(Loose(TEXTS), Letters(), tmp_path / "cache", progress=done.append)
    assert isinstance(corpus.ids, np.memmap)
    assert corpus.ids.dtype == np.uint16
    assert [corpus.document(i).tolist() for i in range(len(corpus))] == [ids_of(t) for t in TEXTS]
    assert corpus.tokens == sum(len(text) + 1 for text in TEXTS)
    assert corpus.characters.tolist() == [len(text) for text in TEXTS]
    assert corpus.skipped == {"odd": 2}
    assert done == sorted(done)
    assert done[-1] == sum(map(len, TEXTS))


def test_a_begin_symbol_is_put_in_front_of_documents_not_of_pieces(tmp_path):
    corpus = encode(Loose(TEXTS), Letters(), tmp_path, begin=True)
    assert corpus.document(0).tolist() == [1, *ids_of(TEXTS[0])]


def test_a_large_vocabulary_has_wider_ids(tmp_path):
    at_most, beyond = (encode(Loose(["a"]), Letters(vocab), tmp_path) for vocab in (2**16, 2**17))
    assert (at_most.ids.dtype, beyond.ids.dtype) == (np.uint16, np.uint32)
    assert beyond.document(0).tolist() == [ord("a") + 2**17 - 296, 2]


def test_the_cache_answers_for_the_same_bytes_settings_and_vocabulary_only(tmp_path):
    text, cache = Loose(TEXTS), tmp_path / "cache"
    for _ in range(2):
        corpus = encode(text, Letters(), cache)
        assert (corpus.tokens, corpus.skipped) == (sum(map(len, TEXTS)) + 4, {"odd": 2})
    assert text.reads == 1
    encode(text, Letters(301), cache)
    encode(text, Letters(), cache, begin=True)
    encode(Loose(TEXTS[:2]), Letters(), cache)
    assert len(list(cache.iterdir())) == 4


def test_files_are_known_by_their_bytes_wherever_they_lie(tmp_path):
    cache = tmp_path / "cache"
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("one\n\ntwo")
        corpus = encode(TextFiles((str(tmp_path / name),), separator=""), Letters(), cache)
        assert list(corpus.checksums) == [str(tmp_path / name)]
    assert len(list(cache.iterdir())) == 1
    assert len(encode(TextFiles((str(tmp_path / "a.txt"),)), Letters(), cache)) == 1
    (tmp_path / "a.txt").rename(tmp_path / "a.jsonl")  # the same bytes, read in another way
    with pytest.raises(InputError, match="not JSON"):
        encode(TextFiles((str(tmp_path / "a.jsonl"),), separator=""), Letters(), cache)


def test_an_interrupted_encoding_leaves_nothing(tmp_path):
    class Broken(Loose):
        def pieces(self, _skipped):
            yield DocumentPiece("a", last=True)
            raise KeyboardInterrupt

    cache = tmp_path / "cache"
    with pytest.raises(KeyboardInterrupt):
        encode(Broken(TEXTS), Letters(), cache)
    assert list(cache.iterdir()) == []
    assert len(encode(Loose(TEXTS), Letters(), cache)) == 4


@pytest.mark.parametrize("name", ["ids.bin", "stops.npy", "characters.npy", "corpus.json"])
@pytest.mark.parametrize("damage", ["gone", "short"])
def test_a_damaged_cache_is_made_anew(tmp_path, name, damage):
    encode(Loose(TEXTS), Letters(), tmp_path)
    path = next(tmp_path.iterdir()) / name
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-2])
    corpus = encode(Loose(TEXTS), Letters(), tmp_path)
    assert corpus.document(3).tolist() == ids_of(TEXTS[3])
    assert len(list(tmp_path.iterdir())) == 1


def test_what_a_killed_process_left_is_removed_when_it_is_old(tmp_path):
    old, new = tmp_path / ".a.tmp-1", tmp_path / ".b.tmp-2"
    for folder in (old, new):
        folder.mkdir()
        (folder / "ids.bin").write_bytes(b"half")
    for path in (old / "ids.bin", old):
        os.utime(path, (1, 1))
    encode(Loose(TEXTS), Letters(), tmp_path)
    assert not old.exists()
    assert new.exists()


def test_a_cache_that_cannot_be_written_is_an_error_of_writing(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(WriteError, match="could not write"):
        encode(Loose(TEXTS), Letters(), tmp_path / "file")


def test_a_text_without_documents_is_refused(tmp_path):
    with pytest.raises(InputError, match="the text: got 2 x odd, expected at least one document"):
        encode(Loose([" "]), Letters(), tmp_path)
    with pytest.raises(InputError, match="expected at least one document"):
        survey(Loose([]))
    assert list(tmp_path.iterdir()) == []


def test_encoding_needs_memory_for_a_part_only(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "AT_ONCE", 20_000)

    class Long(Loose):
        def pieces(self, _skipped):
            return (DocumentPiece("word " * 2000, last=number % 7 == 6) for number in range(140))

    class Packs(Letters):
        def encode_batch(self, texts):
            return [list(text.encode()) for text in texts]

    tracemalloc.start()
    corpus = encode(Long([]), Packs(), tmp_path)
    sample = survey(Long([]), characters=100_000)
    assert tracemalloc.get_traced_memory()[1] < 1_500_000  # the text alone has 1.4 MB
    tracemalloc.stop()
    assert corpus.tokens == 1_400_020
    assert 50_000 <= sum(map(len, sample.texts)) <= 100_000


sizes_strategy = st.lists(st.integers(1, 50), min_size=1, max_size=40)


@given(sizes_strategy, st.floats(0.01, 0.9), st.integers(-3, 2**70))
@settings(deadline=None, max_examples=60)
def test_the_split_parts_whole_documents_or_cuts_the_ends_of_all(sizes, fraction, seed):
    ends = np.cumsum(np.array(sizes))
    corpus = Corpus(np.arange(ends[-1]), ends - sizes, ends)
    try:
        train, valid = corpus.split(fraction, seed)
    except InputError:
        return
    parts = [document.tolist() for part in (train, valid) for document in documents(part)]
    assert sorted(token for part in parts for token in part) == list(range(ends[-1]))  # once each
    whole = {tuple(range(end - size, end)) for size, end in zip(sizes, ends, strict=True)}
    if set(map(tuple, parts)) <= whole:
        assert valid.tokens <= fraction * ends[-1]
    else:
        assert min(sizes) > fraction * ends[-1]
        assert len(train) == len(valid) == len(sizes)
        assert abs(valid.tokens - fraction * ends[-1]) <= len(sizes)
    again = corpus.split(fraction, seed)
    assert [part.starts.tolist() for part in again] == [
        train.starts.tolist(),
        valid.starts.tolist(),
    ]


def documents(corpus):
    return [corpus.document(number) for number in range(len(corpus))]


def test_another_seed_holds_out_other_documents_of_about_that_much():
    sizes = np.random.default_rng(0).integers(5, 100, 2000)
    first, second = choose(sizes, 0.1, 0), choose(sizes, 0.1, 1)
    assert (first != second).any()
    for aside in (first, second):
        assert 0.095 < sizes[aside].sum() / sizes.sum() <= 0.1
        # like lengths, neither the first nor the last ones
        assert abs(sizes[aside].mean() - sizes.mean()) < 10
        assert 800 < np.flatnonzero(aside).mean() < 1200


def test_of_a_single_document_the_last_tokens_are_held_out():
    corpus = Corpus(np.arange(1000), np.array([0]), np.array([1000]))
    train, valid = corpus.split(0.1, seed=5)
    assert train.document(0).tolist() == list(range(900))
    assert valid.document(0).tolist() == list(range(900, 1000))


def test_too_little_text_to_hold_some_out_is_refused():
    with pytest.raises(InputError, match=r"data.held_out=0.1: got 3 tokens in 1 documents"):
        Corpus(np.arange(3), np.array([0]), np.array([3])).split(0.1, 0)


@given(sizes_strategy, st.data())
@settings(deadline=None, max_examples=60)
def test_any_stretch_of_a_part_can_be_had(sizes, data):
    ends = np.cumsum(np.array(sizes))
    chosen = data.draw(st.lists(st.sampled_from(range(len(sizes))), unique=True, min_size=1))
    chosen.sort()
    corpus = Corpus(np.arange(ends[-1]), (ends - sizes)[chosen], ends[chosen])
    line = [token for document in documents(corpus) for token in document.tolist()]
    start, stop = sorted(data.draw(st.tuples(*[st.integers(0, len(line))] * 2)))
    assert corpus.between(start, stop).tolist() == line[start:stop]
    if start < len(line):
        assert corpus.index_of(start) == line[start]


def test_a_short_text_is_sampled_whole_but_for_what_is_held_out():
    texts = [f"{number:03} " + "word " * (number % 9) for number in range(200)]
    assert "".join(survey(Loose(texts)).texts) == "".join(texts)
    sample = survey(Loose(texts), held_out=0.1, seed=3)
    assert sample.characters.tolist() == [len(text) for text in texts]
    assert sample.skipped == {"odd": 2}
    aside = choose(sample.characters, 0.1, 3)
    trained_on = [text for text, out in zip(texts, aside, strict=True) if not out]
    assert "".join(sample.texts) == "".join(trained_on)


def test_the_end_of_a_single_document_is_not_in_the_sample(monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 10)
    text = "".join(f"{number:04} " for number in range(1000))
    sample = "".join(survey(Loose([text]), held_out=0.2).texts)
    assert text.startswith(sample)
    assert abs(len(sample) - 4000) <= 10


def test_a_sample_is_bounded_and_from_everywhere(monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 10)
    texts = [f"{number:05} " * 3 for number in range(5000)]
    done = []
    sample = survey(Loose(texts), characters=9000, seed=1, progress=done.append)
    assert 4000 <= sum(map(len, sample.texts)) <= 9000
    assert done[-1] == sum(map(len, texts))
    numbers = [int(text.split()[0]) for text in sample.texts]
    assert numbers == sorted(numbers)
    assert max(after - before for before, after in pairwise([0, *numbers, 4999])) < 100
    assert sample.texts == survey(Loose(texts), characters=9000, seed=1).texts
    assert sample.texts != survey(Loose(texts), characters=9000, seed=2).texts


def test_the_facts_beside_the_ids_are_plain_json(tmp_path):
    encode(Loose(TEXTS), Letters(), tmp_path)
    folder = next(tmp_path.iterdir())
    facts = json.loads((folder / "corpus.json").read_text())
    assert facts == {"dtype": "uint16", "tokens": 73, "skipped": {"odd": 2}}
