"""BERT and T5 learn from plain text, in seconds, what its words determine."""

from __future__ import annotations

import pytest

from regard.runs.train import train

ANIMALS = {"cat": ("fish", "home"), "cow": ("grass", "night"), "dog": ("bones", "noon"),
           "bird": ("seeds", "dawn")}  # fmt: skip
SIZES = {"size": None, "dim": 64, "heads": 4, "hidden": 128, "max_length": 32, "dropout": 0.0}
SETTINGS = {"batch_tokens": 512, "warmup": 10, "learning_rate": 3e-3, "label_smoothing": 0.0}


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """Texts in which the animal determines what it eats, and when it sleeps."""
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    texts = [
        f"the {animal} eats {food} . then the {animal} sleeps at {when} !"
        for animal, (food, when) in ANIMALS.items()
    ]
    (tmp_path / "toy.txt").write_text("\n\n".join(texts * 40))
    return {
        "data": {"kind": "text", "files": [str(tmp_path / "toy.txt")], "separator": ""},
        "tokens": {"kind": "words", "vocab": 80},
    }


@pytest.mark.slow
def test_a_masked_word_is_told_by_its_neighbour(toy):
    pipeline = train(
        "tiny/fill",
        quiet=True,
        threads=1,
        **toy,
        model={**SIZES, "layers": 2},
        train={**SETTINGS, "steps": 140, "evaluate_every": 140},
    )
    for animal, (food, when) in ANIMALS.items():
        masks = pipeline.fill(f"the {animal} eats [MASK] . then the {animal} sleeps at [MASK] !")
        assert [mask[0].word for mask in masks] == [food, when]


@pytest.mark.slow
def test_a_span_is_told_by_what_is_left(toy):
    pipeline = train(
        "tiny/restore",
        quiet=True,
        threads=1,
        **toy,
        model={**SIZES, "layers": 1},
        train={**SETTINGS, "steps": 175, "evaluate_every": 175},
    )
    # 15 % of so short a text are two tokens in one span, which T5's way of cutting has at its end.
    for animal, (food, when) in ANIMALS.items():
        text = f"the {animal} eats {food} . then the {animal} sleeps at ___"
        assert pipeline.restore(text).spans == (f"{when} !",)
        assert pipeline.generate(text) == f"<extra_id_0> {when} !"
