"""Scores are sacrebleu's; groups by length hold every sentence once."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest
import sacrebleu

from regard.tasks.metrics import by_length, score

HYPOTHESES = ["the cat sat on the mat", "a dog", "one two three four five"]
REFERENCES = ["the cat sat on a mat", "a dog", "one two three five four"]


def test_scores_are_sacrebleu_s() -> None:
    found = score(HYPOTHESES, REFERENCES)
    assert found.bleu == pytest.approx(sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score, abs=1e-3)
    assert found.chrf == pytest.approx(sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score, abs=1e-3)
    assert found.exact == pytest.approx(100 / 3, abs=1e-3)
    assert "tok:13a" in found.bleu_signature
    assert "case:mixed" in found.bleu_signature


def test_lowercase_is_in_the_signature() -> None:
    assert score(["THE CAT SAT DOWN"], ["the cat sat down"], lowercase=True).bleu == pytest.approx(100)
    assert "case:lc" in score(["a"], ["a"], lowercase=True).bleu_signature


def test_groups_hold_every_sentence_once() -> None:
    sources = [" ".join("x" * n) for n in (1, 1, 2, 3, 5, 8, 8, 13, 21, 21, 30)]
    texts = [f"{source} y z w" for source in sources]
    groups = by_length(sources, texts, texts)
    assert sum(count for _, count, _ in groups) == len(sources)
    assert all(bleu == pytest.approx(100) for _, _, bleu in groups)
    assert groups[0][0].startswith("1")
    assert groups[-1][0].endswith("30")


def test_real_systems_get_their_published_scores() -> None:
    folder = Path(os.environ.get("REGARD_DATA", "../shared/data")) / "mt_metrics"
    if not folder.is_dir():
        pytest.skip(f"no real system outputs at {folder}")
    golden = json.loads(gzip.open(folder / "sacrebleu_golden.json.gz").read())
    read = lambda name: gzip.open(folder / name, "rt", encoding="utf-8").read().splitlines()  # noqa: E731
    references = read("newstest2017.en-de.ref.de.gz")
    assert golden
    found = score(read("newstest2017.uedin-nmt.4722.en-de.de.gz"), references)
    assert f"{found.bleu:.1f}" in json.dumps(golden)
