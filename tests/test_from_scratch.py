"""`examples/transformer_from_scratch.py` computes what Regard computes."""

from __future__ import annotations

import importlib.util
import runpy
import sys
from pathlib import Path

import pytest
import torch

import regard
from regard.data.synthetic.grammar import corpus
from regard.recipes.shelf import shipped

FILE = Path(__file__).parents[1] / "examples" / "transformer_from_scratch.py"
FOLDER = Path(str(shipped()["small/translate"]))
SAID = ("I walk my dog every day.", "Where is the station?", "He didn't say a word.", "Thanks!")


@pytest.fixture(scope="module")
def scratch():
    spec = importlib.util.spec_from_file_location("transformer_from_scratch", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_a_hundred_sentences_are_translated_to_the_same_text(scratch):
    pairs = corpus.splits(200, 200, 7).tests["combinations"]
    sentences = sorted((pair.source for pair in pairs), key=len)[:96]
    sentences += SAID
    parts = scratch.load(FOLDER)
    texts = [scratch.translate(sentence, *parts) for sentence in sentences]
    assert texts == regard.load(FOLDER).translate(sentences)
    assert len(set(texts)) > 90


def test_a_model_learns_to_reverse_a_sequence(scratch):
    torch.manual_seed(0)
    sizes = {"dim": 16, "heads": 2, "hidden": 32, "encoder_layers": 1, "decoder_layers": 1}
    model = scratch.Transformer(12, sizes)
    source, target = torch.tensor([[5, 6, 7]]), torch.tensor([[1, 7, 6, 5, 2]])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    first = scratch.loss(model, source, target, smoothing=0.0).item()
    for _ in range(60):
        optimizer.zero_grad()
        scratch.loss(model, source, target, smoothing=0.0).backward()
        optimizer.step()
    with torch.inference_mode():
        assert scratch.loss(model, source, target, smoothing=0.0).item() < first / 10
        assert scratch.beam_search(model, source, 1, 2, beam=3, penalty=1.0) == [7, 6, 5]


def test_it_needs_no_import_of_regard_and_stays_short():
    text = FILE.read_text()
    assert "import regard" not in text
    assert "from regard" not in text
    assert len(text.splitlines()) <= 250


def test_another_model_is_refused_in_a_line(scratch):
    with pytest.raises(SystemExit, match="this file is for"):
        scratch.load(Path(str(shipped()["small/jobs"])))


def test_the_last_line_is_the_translation(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [str(FILE), str(FOLDER), SAID[0]])
    runpy.run_path(str(FILE), run_name="__main__")
    assert capsys.readouterr().out.splitlines()[-1] == regard.load(FOLDER).translate(SAID[0])
    monkeypatch.setattr(sys, "argv", [str(FILE)])
    with pytest.raises(SystemExit, match="FOLDER SENTENCE"):
        runpy.run_path(str(FILE), run_name="__main__")
