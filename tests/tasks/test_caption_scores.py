"""BLEU-4 and CIDEr-D of captions: those of pycocoevalcap, on stored values."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from regard.tasks.measures.captions import score_captions
from regard.tasks.measures.cider import bleu_4, cider_d

GOLDEN = json.loads((Path(__file__).parent / "golden_captions.json").read_text())


def test_scores_are_those_of_the_published_code():
    captions, references = GOLDEN["captions"], GOLDEN["references"]
    assert cider_d(captions, references) == pytest.approx(GOLDEN["cider_d"], abs=1e-9)
    assert bleu_4(captions, references) == pytest.approx(GOLDEN["bleu_4"], abs=1e-9)
    shuffled = captions[1:] + captions[:1]  # each of another image
    assert cider_d(shuffled, references) < 0.5 * GOLDEN["cider_d"]


def test_what_cannot_be_compared_scores_nothing():
    scores = score_captions(["", "Ein Hund"], [["a dog"], ["a cat", "ein hund"]])
    assert (scores.images, scores.exact) == (2, 0.0)
    assert score_captions(["Ein Hund"], [["ein hund"]], lowercase=True).exact == 100
    assert cider_d(["a dog"], [["a dog"]]) == 0  # what all images have says nothing
    assert bleu_4(["", ""], [["a dog"], ["a cat"]]) == pytest.approx(0, abs=1e-3)
