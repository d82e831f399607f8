"""Which examples a model was trained on: found again, counted without chance, bounded, kept."""

from __future__ import annotations

import json

import numpy as np
import pytest

from regard.data import seen as module
from regard.data.seen import LARGEST, Overlap, Seen, keys_of_pairs, keys_of_texts, normalised
from regard.errors import InputError


def texts(first, count):
    return [(f"text {number}",) for number in range(first, first + count)]


def pairs(first, count):
    return [(f"source {number}", f"target {number}") for number in range(first, first + count)]


def seen_of(examples):
    return Seen.of("examples", keys_of_texts(examples), len(examples))


@pytest.mark.parametrize("copy", ["Größe und  Maß", " GRÖẞE UND MASS\n", "gro\u0308ße\tund maß"])
def test_form_case_and_white_space_make_no_other_text(copy):
    assert normalised(copy) == "grösse und mass"
    assert seen_of([("größe und maß",)]).overlap(keys_of_texts([(copy,)])).in_training == 1
    assert normalised("Mass!") != normalised("Mass")


def test_about_as_many_are_counted_as_were_in_the_training_data():
    seen = seen_of(texts(0, 5000))
    for inside in (0, 3, 120, 1000):
        mixed = texts(5000 - inside, 1000)
        assert seen.overlap(keys_of_texts(mixed)).in_training == pytest.approx(inside, abs=2)


def test_of_texts_read_together_both_count():
    seen = seen_of([("a", "b")])
    for other in (("a",), ("b", "a"), ("a b",), ("a", "c")):
        assert seen.overlap(keys_of_texts([other])).warning() is None
    assert seen.overlap(keys_of_texts([("A ", "b")])).in_training == 1


def test_of_pairs_the_source_alone_is_told_apart():
    train = pairs(0, 5000)
    seen = Seen.of("pairs", keys_of_pairs(train), len(train), keys_each=2)
    asked = [*pairs(0, 100), *((source, "another") for source, _ in pairs(100, 50)),
             *pairs(5000, 850)]  # fmt: skip
    overlap = seen.overlap(keys_of_pairs(asked))
    assert overlap.to_json() == {
        "about": 100, "of": 1000, "unit": "pairs", "sources_alone": pytest.approx(50, abs=2)
    }  # fmt: skip
    assert overlap.warning(held_out=True) == (
        "about 100 of 1,000 pairs were in the training data of this model"
    )
    assert ", and the source of " in overlap.warning()
    alone = seen.overlap(keys_of_pairs(asked[100:]))
    assert alone.warning(held_out=True) is None
    assert alone.warning().startswith("the source of about ")


def test_what_is_found_by_chance_is_no_overlap():
    assert Overlap("examples", 10_000, 10_000, (12,), 0.001).in_training == 0
    assert Overlap("examples", 10_000, 10_000, (110,), 0.001).in_training == 100
    assert Overlap("examples", 0, 0, (), 0.001).warning() is None


def test_a_held_out_text_may_repeat_single_passages():
    few, many = (Overlap("passages", 20_000, 10_000, (hits,), 1e-6, 32) for hits in (20, 900))
    assert few.warning(held_out=True) is None
    assert few.warning().startswith("about 0.2% of the text was in the training data")
    assert many.warning(held_out=True) == (
        "about 9.0% of the text was in the training data of this model, in passages of 32 tokens"
    )


def test_too_many_examples_are_a_sample_of_bounded_size(monkeypatch):
    monkeypatch.setattr(module, "LARGEST", 2**13)
    seen = seen_of(texts(0, 20_000))
    assert len(seen.to_bytes()) <= 2**13
    assert 0.05 < seen.share < 0.2
    assert seen.keys.false_share < 0.002
    whole = seen.overlap(keys_of_texts(texts(0, 20_000)))
    assert whole.in_training == 20_000
    assert whole.checked == pytest.approx(20_000 * seen.share, rel=0.1)
    half = seen.overlap(keys_of_texts(texts(15_000, 10_000)))
    assert half.in_training == pytest.approx(5000, rel=0.1)
    assert seen.overlap(keys_of_texts(texts(20_000, 10_000))).warning() is None


@pytest.mark.parametrize("count", [1, 170_000, 10**7, 10**12])
def test_it_is_never_larger_than_a_file_of_it_may_be(count):
    seen = Seen.of("pairs", (), count, keys_each=2)
    assert len(seen.to_bytes()) <= LARGEST
    assert 0 < seen.share <= 1


def test_it_comes_back_as_it_was_and_equal_data_gives_equal_bytes():
    train = pairs(0, 500)
    seen = Seen.of("pairs", keys_of_pairs(iter(train)), len(train), keys_each=2)
    again = Seen.of("pairs", keys_of_pairs(reversed(train)), len(train), keys_each=2)
    assert seen.to_bytes() == again.to_bytes()
    read = Seen.from_bytes(seen.to_bytes(), "seen.bin")
    assert read.to_bytes() == seen.to_bytes()
    assert read.overlap(keys_of_pairs(train)) == seen.overlap(keys_of_pairs(train))
    assert b"source 1" not in seen.to_bytes()


@pytest.mark.parametrize(
    "change",
    [{"seen": 2}, {"unit": "words"}, {"hashes": 0}, {"hashes": 10**9}, {"share": 0.0},
     {"share": 2.0}, {"window": -1}, {"more": 1}],
)  # fmt: skip
def test_a_file_of_something_else_is_refused(change):
    line, _, bits = seen_of(texts(0, 9)).to_bytes().partition(b"\n")
    changed = json.dumps(json.loads(line) | change).encode()
    for data in (changed + b"\n" + bits, line, line + b"\n", b"[" * 9999 + b"\n" + bits, b""):
        with pytest.raises(InputError, match=r"seen\.bin"):
            Seen.from_bytes(data, "seen.bin")
    with pytest.raises(InputError, match=r"seen\.bin"):
        Seen.from_bytes(line + b"\n" + bytes(LARGEST), "seen.bin")


def test_no_example_is_no_overlap():
    empty = Seen.of("examples", (), 0)
    assert empty.overlap(keys_of_texts(texts(0, 9))).in_training == 0
    assert np.count_nonzero(empty.keys.bits) == 0
    assert Seen.from_bytes(empty.to_bytes(), "seen.bin").share == 1
