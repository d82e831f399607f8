"""The rule by which the lectures' claims are judged, and its table."""

from __future__ import annotations

import math
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from regard_lectures import FIGURES
from regard_lectures.claims import CLAIMS, interval, judge, numbers_of
from regard_lectures.claims.journal import Journal, source_of
from regard_lectures.claims.rule import T_95
from tests.lectures.drawn import drawn

LEDGER = Path(__file__).parents[2] / "docs" / "lectures.md"


def test_the_interval_covers_the_true_mean_in_95_of_100_draws():
    random = np.random.default_rng(0)
    for count in (3, 5, 11):
        draws = [interval(random.normal(0.7, 2.0, count).tolist()) for _ in range(4000)]
        inside = np.mean([draw.low <= 0.7 <= draw.high for draw in draws])
        assert inside == pytest.approx(0.95, abs=0.012)
    middle = interval([1.0, 2.0, 4.0])
    error = np.std([1.0, 2.0, 4.0], ddof=1) / math.sqrt(3)
    assert (middle.mean, middle.high - middle.mean) == pytest.approx((7 / 3, T_95[1] * error))


def test_two_seeds_tell_nothing():
    assert interval([1.0, 1.0]).verdict == "cannot tell"
    assert "one or two seeds" in interval([1.0]).shown()


@pytest.mark.parametrize(
    ("little", "shrinks", "much", "verdict"),
    [
        ((4, 5, 6), (3, 4, 3), (1, 1.2, 1.1), "holds"),
        ((4, 5, 6), (3, 4, 3), (-1, -1.2, -1.1), "holds in part"),
        ((-4, -5, -6), (-3, 4, -3), (-1, 1, 0), "does not hold"),
        ((-4, 5, 6), (-3, 4, -3), (-1, 1, 0), "cannot tell"),
    ],
)
def test_a_claim_is_judged_by_all_of_its_parts(little, shrinks, much, verdict):
    differences = {"little": little, "shrinks": shrinks, "much": much}
    judged = judge("hunger", differences)
    assert judged.verdict == verdict
    numbers = numbers_of("hunger", differences)
    assert numbers["verdict"] == verdict
    assert numbers["differences_much"] == list(much)


def test_a_claim_with_other_parts_is_an_error():
    with pytest.raises(ValueError, match="hunger: got"):
        judge("hunger", {"little": [1.0]})


def test_every_claim_is_a_row_of_the_ledger():
    rows = set(re.findall(r"^\| (\S+) \|", LEDGER.read_text(encoding="utf-8"), re.MULTILINE))
    for name, claim in CLAIMS.items():
        assert claim.row in rows, name
        assert claim.parts, name


def test_a_figure_of_a_claim_has_its_verdict_among_its_numbers():
    for name in CLAIMS:
        if name in FIGURES:
            numbers = drawn(name).numbers
            differences = {part: numbers[f"differences_{part}"] for part in CLAIMS[name].parts}
            assert judge(name, differences).verdict == numbers["verdict"]


def test_folders_of_the_same_name_have_journals_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    results = []
    for number, parent in enumerate(("a", "b")):
        folder = tmp_path / parent / "photos"
        folder.mkdir(parents=True)
        journal = Journal("hunger", {"data": source_of(str(folder), folder.name)})
        journal.__enter__()  # and is interrupted: what is known is kept
        results.append(journal.get("one", partial(int, number)))
    assert results == [0, 1]
    assert source_of("", "drawn shapes") == source_of("nowhere", "drawn shapes") == "drawn shapes"
