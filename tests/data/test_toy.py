"""The toys do what their names say, and keep their splits apart."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from regard.data.config import GrammarData, ToyData
from regard.data.synthetic.toy import toy_splits
from regard.errors import InputError


def _pairs(splits):
    return [*splits.train, *splits.valid, *splits.tests["test"]]


@pytest.mark.parametrize(
    ("kind", "make"),
    [("copy", list), ("reverse", lambda s: s[::-1]), ("sort", lambda s: sorted(s, key=int))],
)
def test_the_target_is_what_the_toy_makes_of_the_source(kind, make):
    splits = toy_splits(kind, pairs=500, held_out=50, symbols=12, longest=8, seed=0)
    assert (len(splits.train), len(splits.valid), len(splits.tests["test"])) == (500, 50, 50)
    for pair in _pairs(splits):
        assert pair.target.split() == make(pair.source.split())


def test_sorting_is_by_number_not_by_letter():
    splits = toy_splits("sort", pairs=500, held_out=10, symbols=12, longest=8, seed=0)
    assert any("2 10" in pair.target for pair in splits.train)


def test_no_sequence_is_in_two_splits_or_comes_twice():
    sources = [pair.source for pair in _pairs(toy_splits("copy", 800, 50, 5, 5, seed=1))]
    assert len(sources) == len(set(sources)) == 900


def test_every_length_and_symbol_is_in_training():
    splits = toy_splits("reverse", 2000, 50, symbols=10, longest=6, seed=2)
    assert {len(pair.source.split()) for pair in splits.train} == set(range(1, 7))
    assert {symbol for pair in splits.train for symbol in pair.source.split()} == set(
        map(str, range(10))
    )


def test_the_same_seed_gives_the_same_and_another_another():
    first, again = (toy_splits("copy", 100, 10, 8, 6, seed=3) for _ in range(2))
    assert first == again
    assert toy_splits("copy", 100, 10, 8, 6, seed=4) != first


def test_at_most_all_different_sequences_can_be_generated():
    every = 2 + 4 + 8
    assert len(_pairs(toy_splits("copy", every - 4, 2, symbols=2, longest=3, seed=0))) == every
    with pytest.raises(InputError, match="no more than 14"):
        toy_splits("copy", every - 3, 2, symbols=2, longest=3, seed=0)


def test_an_unknown_toy_is_refused_by_name():
    with pytest.raises(InputError, match="one of copy, reverse, sort"):
        toy_splits("shuffle", 10, 1, 5, 5, seed=0)


def test_what_would_not_end_is_refused_at_once():
    for key, value in {"pairs": 10**12, "held_out": 10**12, "longest": 10**6}.items():
        with pytest.raises(ValidationError, match=f"{key}\n.*less than or equal to 1"):
            ToyData(kind="copy", **{key: value})
    with pytest.raises(ValidationError, match="pairs\n"):
        GrammarData(pairs=10**12)
    with pytest.raises(InputError, match=r"data.pairs=10000000 of data.longest=10000: got a need"):
        toy_splits("copy", 10**7, 1, symbols=20, longest=10**4, seed=0)


def test_long_sequences_do_not_take_long():
    """Without computing how many there are of each length: numbers of thousands of digits."""
    splits = toy_splits("copy", 20, 1, symbols=1000, longest=10_000, seed=0)
    assert max(len(pair.source.split()) for pair in splits.train) > 5000
