"""Examples of large files are kept in a file: they are split and trained on as those in memory."""

from __future__ import annotations

import json
import os
import time
import tracemalloc
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import regard
from regard.data.config import FileData, LabelledData, MixtureData
from regard.data.order import generator, training_batches
from regard.data.sources import load_splits
from regard.data.text import examples, id_rows
from regard.data.text.annotations import Excerpt, LabelledText, Question, TaggedWords
from regard.data.text.cache import ABANDONED
from regard.data.text.encoded import EncodedPairs
from regard.data.text.examples import Examples, Reading, collect
from regard.data.text.labelled import load_labelled
from regard.data.text.pairs import Pair
from regard.data.text.records import Problem
from regard.errors import InputError

ROWS = [(f"wört {i % 40}{'!' * (i % 3)}", f"word {i % 40} {i % 2}") for i in range(150)]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def in_files(monkeypatch):
    """Makes every dataset large enough to be stored in a file, and read in small blocks."""

    def _switch():
        for name, value in {"IN_MEMORY": 100, "LOOKED_UP": 1, "FLUSH": 50}.items():
            monkeypatch.setattr(examples, name, value)
        monkeypatch.setattr(examples, "BLOCK_EXAMPLES", 7)
        monkeypatch.setattr(examples, "BLOCK_BYTES", 300)

    return _switch


@pytest.fixture
def pairs_file(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{a}\t{b}\n" for a, b in ROWS), encoding="utf-8")
    return str(path)


def as_lists(splits):
    tests = {name: list(pairs) for name, pairs in splits.tests.items()}
    return {"train": list(splits.train), "valid": list(splits.valid), **tests}


@pytest.mark.parametrize("group", ["pair", "source"])
def test_pairs_in_a_file_are_split_as_those_in_memory(pairs_file, in_files, group):
    config = FileData(train=pairs_file, group=group, held_out=4, held_out_test=3, seed=5)
    memory = load_splits(config)
    in_files()
    for _ in range(2):  # the second time from the cache
        stored = load_splits(config)
        assert isinstance(stored.splits.train, Examples)
        assert as_lists(stored.splits) == as_lists(memory.splits)
        assert (stored.skipped, stored.checksums) == (memory.skipped, memory.checksums)


@pytest.mark.parametrize(("group", "seed"), [("pair", 0), ("pair", 2**40), ("source", 1)])
def test_pairs_are_held_out_as_by_sets_of_keys(pairs_file, in_files, group, seed):
    """The reference keeps all keys as Python objects, as the first versions did."""

    def key(pair):
        letters = "".join(filter(str.isalnum, pair.source.casefold()))
        return letters if group == "source" else pair

    pairs = [Pair(*row) for row in ROWS]
    keys = list(dict.fromkeys(map(key, dict.fromkeys(pairs))))
    order = generator(seed).permutation(len(keys))
    chosen = {keys[i] for i in order[: max(1, min(6, len(keys) // 10))]}
    in_files()
    splits = load_splits(FileData(train=pairs_file, group=group, held_out=6, seed=seed)).splits
    assert list(splits.train) == [pair for pair in pairs if key(pair) not in chosen]
    assert list(splits.valid) == [pair for pair in dict.fromkeys(pairs) if key(pair) in chosen]


LABELLED = {
    "classify": [{"text": f"text {i % 37}", "label": f"c{i % 3}"} for i in range(120)],
    "tag": [{"words": ["a", f"b{i % 50}"], "tags": ["O", "X"]} for i in range(120)],
    "answer": [
        {"context": f"Anna {i // 3}", "question": f"q{i}", "answers": {"text": "Anna", "start": 0}}
        for i in range(120)
    ],
}


@pytest.mark.parametrize("task", LABELLED)
def test_labelled_examples_in_a_file_are_those_in_memory(tmp_path, in_files, task):
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(map(json.dumps, LABELLED[task])), encoding="utf-8")
    config = LabelledData(train=str(path), held_out=9, seed=3)
    memory = load_labelled(config, task)
    in_files()
    stored = load_labelled(config, task)
    assert isinstance(stored.train, Examples)
    assert as_lists(stored) == as_lists(memory)
    sizes = Counter(example.key for example in [*memory.train, *memory.valid])
    keys = [example.key for example in [*memory.valid]]
    assert all(keys.count(key) == sizes[key] for key in keys)  # whole groups


def test_a_mixture_in_a_file_is_the_one_in_memory(tmp_path, pairs_file, in_files):
    other = tmp_path / "other.tsv"
    other.write_text("".join(f"s {i}.\tt {i}.\n" for i in range(60)), encoding="utf-8")
    parts = {
        "one": {"train": pairs_file, "prefix": "a: ", "unpunctuated": 0.5},
        "two": {"train": str(other), "prefix": "b: ", "unpunctuated": 0.5},
        "three": {"kind": "questions", "pairs": 50},
    }
    config = MixtureData(parts=parts, held_out=4, group="source")
    memory = load_splits(config).splits
    in_files()
    stored = load_splits(config).splits
    assert isinstance(stored.train, Examples)
    assert as_lists(stored) == as_lists(memory)


def reading(**changes):
    settings = {
        "type": Pair, "key": lambda pair: pair, "name": "x", "noun": "pair",
        "depends_on": lambda: {"a": 1}, "size": 1000,
    }  # fmt: skip
    return Reading(**{**settings, **changes})


EVERY_TYPE = [
    Pair("a\t“b”\u2028", "\x7f", ("tag",), ("c", "d")),
    LabelledText("a", None, "x"),
    LabelledText("a", "b", "x"),
    TaggedWords(("a", "b"), ("O", "X")),
    Question("q", "context", (Excerpt("con", 0), Excerpt("text", 3))),
]


@pytest.mark.parametrize("example", EVERY_TYPE)
def test_an_example_of_each_type_is_read_back_whole(in_files, example):
    in_files()
    stored, _ = collect(lambda: [example] * 9, reading(type=type(example)))
    assert [*stored] == [example] * 9
    assert stored[-1] == stored[8] == example
    assert [*stored[2:4]] == [example] * 2
    with pytest.raises(IndexError):
        stored[9]


def test_bad_lines_are_counted_and_an_error_leaves_nothing(in_files, cache):
    in_files()
    rows = [Pair(str(i), "x" * 40) for i in range(50)]
    bad = Problem("x.tsv", 7, "over-long")
    with pytest.raises(InputError, match=r"x\.tsv:7: over-long"):
        collect(lambda: [*rows, bad], reading())
    assert not [*cache.glob("examples/*")]
    examples, skipped = collect(lambda: [*rows, bad, bad], reading(on_bad="skip"))
    assert (len(examples), skipped) == (50, {"over-long": 2})
    again, skipped = collect(list, reading(on_bad="skip"))  # nothing is read
    assert (len(again), skipped) == (50, {"over-long": 2})


def test_a_damaged_cache_is_read_again_and_abandoned_files_are_deleted(in_files, cache):
    in_files()
    rows = [Pair(str(i), "x" * 40) for i in range(50)]
    collect(lambda: rows, reading())
    [folder] = cache.glob("examples/*")
    (folder / "ends.bin").write_bytes(b"short")
    abandoned = folder.with_name(".other.tmp-1")
    abandoned.mkdir()
    os.utime(abandoned, times=(0, time.time() - ABANDONED - 60))
    assert [*collect(lambda: rows, reading())[0]] == rows
    assert not abandoned.exists()


def test_a_sample_of_many_examples_is_bounded_and_always_the_same(in_files, monkeypatch):
    in_files()
    monkeypatch.setattr(examples, "SCANNED", 100)
    stored, _ = collect(lambda: (Pair(f"{i:4}", "y" * 36) for i in range(2000)), reading())
    whole = stored.size
    part = [*stored.sample(whole // 10)]
    assert 120 < len(part) < 280
    assert part == [*stored.sample(whole // 10)] == sorted(part, key=lambda pair: pair.source)
    assert stored.sample(whole) is stored


def test_pairs_of_the_training_set_are_recognised(in_files, monkeypatch):
    in_files()
    monkeypatch.setattr(examples, "SCANNED", 16)
    stored, _ = collect(lambda: (Pair(str(i), "y" * 40) for i in range(99)), reading())
    others = [Pair("3", "y" * 40), Pair("98", "y" * 40), Pair("99", "y" * 40)]
    assert {*stored.with_keys_of(others)} == {*others[:2]}


MODEL = {"size": "small", "dim": 16, "heads": 2, "hidden": 16, "encoder_layers": 1,
         "decoder_layers": 1}  # fmt: skip


def recipe(tmp_path: Path, pairs_file: str) -> str:
    path = tmp_path / "recipe.yaml"
    sections = {
        "version": 2,
        "task": "translate",
        "data": {"kind": "files", "train": pairs_file, "held_out": 5},
        "tokens": {"kind": "words", "vocab": 100},
        "model": MODEL,
        "train": {"steps": 6, "batch_tokens": 60, "save_every": 3, "evaluate_every": 3},
        "decode": {"beam": 1},
        "seed": 0,
    }
    path.write_text(json.dumps(sections), encoding="utf-8")
    return str(path)


def weights(pipeline):
    return {name: value.numpy() for name, value in pipeline.model.state_dict().items()}


def test_training_from_a_file_is_training_from_memory_also_if_resumed(
    tmp_path, pairs_file, in_files, cache
):
    where = recipe(tmp_path, pairs_file)
    memory = weights(regard.train(where, tmp_path / "memory", quiet=True, threads=1))
    assert not cache.exists()
    in_files()
    regard.train(where, tmp_path / "stored", quiet=True, threads=1, train={"steps": 3})
    assert len([*cache.glob("ids/*")]) == 1
    stored = weights(regard.train(where, tmp_path / "stored", resume=True, quiet=True, threads=1))
    assert memory.keys() == stored.keys()
    for name, value in memory.items():
        np.testing.assert_array_equal(value, stored[name])


def test_a_file_that_changed_is_read_again(pairs_file, in_files):
    in_files()
    config = FileData(train=pairs_file, held_out=1)
    before = load_splits(config).splits
    with Path(pairs_file).open("a", encoding="utf-8") as file:
        file.write("new\tneu\n")
    after = load_splits(config).splits
    assert len(after.train) + len(after.valid) > len(before.train) + len(before.valid)


@pytest.mark.slow
def test_a_pair_takes_some_tens_of_bytes_of_memory(tmp_path, monkeypatch):
    for name, value in {"IN_MEMORY": 2**18, "FLUSH": 2**16, "BLOCK_EXAMPLES": 2**10}.items():
        monkeypatch.setattr(examples, name, value)
    count, path = 30_000, tmp_path / "pairs.tsv"
    path.write_text("".join(f"a text {i} b\tein Text {i} c\n" for i in range(count)))
    sides = {"source": np.dtype(np.uint16), "target": np.dtype(np.uint16)}
    tracemalloc.start()
    train = load_splits(FileData(train=str(path))).splits.train
    lists = id_rows.encode(train, lambda block: ([[5, 6, 7]] * len(block),) * 2, sides, dict)
    pairs = EncodedPairs(*lists, begin=1, end=2)
    pairs.batch(training_batches(pairs.lengths, 1000, seed=0, epoch=0)[0])
    highest = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # Some 4 MB for blocks, and tens of bytes for each pair; as objects of Python they take 500.
    assert highest / count < 250
