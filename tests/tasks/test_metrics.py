"""Scores are sacrebleu's; groups by length hold every sentence once."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest
import sacrebleu

from regard.tasks.measures.bleu import by_length, score_translations

HYPOTHESES = ["the cat sat on the mat", "a dog", "one two three four five"]
REFERENCES = ["the cat sat on a mat", "a dog", "one two three five four"]


def test_scores_are_sacrebleu_s() -> None:
    scores = score_translations(HYPOTHESES, REFERENCES)
    bleu, chrf = (
        measure(HYPOTHESES, [REFERENCES]).score
        for measure in (sacrebleu.corpus_bleu, sacrebleu.corpus_chrf)
    )
    assert (scores.bleu, scores.chrf) == (
        pytest.approx(bleu, abs=1e-3),
        pytest.approx(chrf, abs=1e-3),
    )
    assert scores.exact == pytest.approx(100 / 3, abs=1e-3)
    assert "tok:13a" in scores.bleu_signature
    assert "case:mixed" in scores.bleu_signature


def test_lowercase_is_in_the_signature() -> None:
    scores = score_translations(["THE CAT SAT DOWN"], ["the cat sat down"], lowercase=True)
    assert scores.bleu == pytest.approx(100)
    assert "case:lc" in scores.bleu_signature


def test_each_sentence_may_have_several_references() -> None:
    several = [("a cat sat", REFERENCES[0]), ("a dog",), ("one two three four five", "x", "y")]
    streams = [[texts[i] if i < len(texts) else None for texts in several] for i in range(3)]
    scores = score_translations(HYPOTHESES, several)
    assert scores.bleu == pytest.approx(sacrebleu.corpus_bleu(HYPOTHESES, streams).score, abs=1e-3)
    assert scores.chrf == pytest.approx(sacrebleu.corpus_chrf(HYPOTHESES, streams).score, abs=1e-3)
    assert scores.exact == pytest.approx(200 / 3, abs=1e-3)
    assert "nrefs:var" in scores.bleu_signature


def test_groups_hold_every_sentence_once() -> None:
    sources = [" ".join("x" * n) for n in (1, 1, 2, 3, 5, 8, 8, 13, 21, 21, 30)]
    texts = [f"{source} y z w" for source in sources]
    groups = by_length(sources, texts, texts)
    assert sum(count for _, count, _ in groups) == len(sources)
    assert all(bleu == pytest.approx(100) for _, _, bleu in groups)
    assert groups[0][0].startswith("1")
    assert groups[-1][0].endswith("30")


@pytest.mark.slow
def test_real_systems_get_their_published_scores() -> None:
    folder = Path(os.environ.get("REGARD_DATA", "../shared/data")) / "mt_metrics"
    if not folder.is_dir():
        pytest.skip(f"no real system outputs at {folder}")

    def read(name: str) -> str:
        return gzip.decompress((folder / name).read_bytes()).decode()

    golden = json.loads(read("sacrebleu_golden.json.gz"))
    references = read("newstest2017.en-de.ref.de.gz").splitlines()
    scores = score_translations(
        read("newstest2017.uedin-nmt.4722.en-de.de.gz").splitlines(), references
    )
    assert f"{scores.bleu:.1f}" in json.dumps(golden)
