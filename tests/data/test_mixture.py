"""Sets of examples in given proportions."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.config import MixtureData, PartData
from regard.data.sources import load_splits
from regard.data.text.mixture import Mixture, shares
from regard.errors import InputError

PARTS = [0] * 30 + [1] * 6 + [2] * 4


@settings(deadline=None)
@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=6), st.integers(50, 500))
def test_shares_are_as_exact_as_whole_numbers_can_be(weights, total):
    counts = shares(weights, total)
    assert min(counts) >= 1
    exact = np.array(weights) * total / sum(weights)
    if exact.min() >= 1:
        assert sum(counts) == total
        assert np.abs(counts - exact).max() < 1


def test_an_epoch_is_a_pure_function_of_seed_and_epoch_and_has_each_share():
    first, second = Mixture(PARTS, [1, 2, 1], seed=5), Mixture(PARTS, [1, 2, 1], seed=5)
    second.epoch(7)  # what was asked before changes nothing
    for epoch in (0, 1, 9):
        assert first.epoch(epoch).tolist() == second.epoch(epoch).tolist()
        assert Counter(np.array(PARTS)[first.epoch(epoch)].tolist()) == {0: 10, 1: 20, 2: 10}
    assert first.epoch(0).tolist() != Mixture(PARTS, [1, 2, 1], seed=6).epoch(0).tolist()


def test_within_a_part_no_example_is_seen_more_than_once_more_often_than_another():
    mixture = Mixture(PARTS, [1, 2, 1])
    seen = Counter()
    for epoch in range(5):
        seen.update(mixture.epoch(epoch).tolist())
        for part in range(3):
            counts = [seen[example] for example, owner in enumerate(PARTS) if owner == part]
            assert max(counts) - min(counts) <= 1


def test_a_part_without_examples_is_refused():
    with pytest.raises(InputError, match="number 2"):
        Mixture([0, 0], [1, 1])


def test_the_pairs_of_a_mixture_say_what_to_do_and_where_they_are_from(tmp_path):
    for name in ("up", "down"):
        lines = [f"{name}{i}\t{name.upper()}{i}" for i in range(20)]
        (tmp_path / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    parts = {
        name: PartData(train=str(tmp_path / f"{name}.tsv"), prefix=f"{name}: ")
        for name in ("up", "down")
    }
    loaded = load_splits(MixtureData(parts=parts, held_out=2))
    assert len(loaded.splits.train) == 36
    assert len(loaded.splits.valid) == 4
    assert len(loaded.checksums) == 2
    for pair in loaded.splits.train + loaded.splits.valid:
        [name] = pair.tags
        assert pair.source.startswith(f"{name}: {name}")
