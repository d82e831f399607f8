"""Recurrent language models, ELMo, classifiers and taggers through the commands."""

from __future__ import annotations

import json

import pytest
import torch

import regard as package
from tests.commands import is_refused

TEXT = ("The old dog sleeps. The young cat sees the old dog. A cat sleeps. " * 6 + "\n\n") * 8
SMALL = [
    "data.kind=text", "data.files=mine.txt", "data.rows=packed", "tokens.vocab=300",
    "model.dim=16", "model.max_length=32", "train.steps=4", "train.batch_tokens=200",
    "train.evaluate_every=2", "train.save_every=2", "-q",
]  # fmt: skip


def done(result):
    assert (result.code, result.err) == (0, ""), result.err
    return result.out


@pytest.mark.slow
def test_a_language_model_writes_suggests_and_is_planned(regard, tmp_path):
    (tmp_path / "mine.txt").write_text(TEXT)
    done(regard("train", "tiny/rnn", "-o", "run", *SMALL))
    drawn = ["--seed", "3", "--max-length", "8"]
    assert done(regard("generate", "run", "The old", *drawn))
    assert done(regard("generate", "run", "The old", "--beam", "3", "--max-length", "8"))
    assert len(done(regard("suggest", "run", "The old", "--top", "2")).strip().splitlines()) >= 1
    assert json.loads(done(regard("eval", "run", "--json")))
    pipeline = package.load("run")
    planned = json.loads(done(regard("plan", "run", "--flops", "1e12", "--json")))
    assert planned["parameters"]["total"] == sum(p.numel() for p in pipeline.model.parameters())
    assert planned["inference_bytes"]["keys_and_values"] == 4 * 2 * 2 * 16  # h and c of 2 layers
    for words in (("look", "run", "The old dog"), ("heads", "run")):
        is_refused(regard(*words), "got a rnn model without attention")
    is_refused(regard("embed", "run", "The old dog"), "cannot embed")
    pipeline.save(tmp_path / "saved")
    assert torch.equal(package.load("saved").logits([5, 6]), pipeline.logits([5, 6]))
    is_refused(regard("export", "run", "-o", "theirs", "--to", "hf"), "got a rnn")


@pytest.mark.slow
def test_elmo_embeds_compares_words_and_writes(regard, tmp_path):
    (tmp_path / "mine.txt").write_text(TEXT)
    done(regard("train", "tiny/elmo", "-o", "run", *SMALL))
    [vector] = [json.loads(line) for line in done(
        regard("embed", "run", "The old dog sleeps.", "--json")
    ).splitlines()]  # fmt: skip
    assert len(vector["vector"]) == 16
    said = ["--in", "The old dog sleeps.", "--in", "The cat sees the old dog."]
    out = done(regard("words", "run", "dog", *said))
    assert "cosine, top" in out
    again = done(regard("words", "run", "dog", *said, "--layer", "0"))
    assert "cosine, layer 0" in again
    assert done(regard("generate", "run", "The old", "--seed", "1", "--max-length", "5"))
    pipeline = package.load("run")
    assert pipeline.embed([5, 6, 7]).shape == (16,)


RECIPES = {
    "own/rnn": ["model.both_ways=false"],
    "own/classify-scratch": ["model.heads=2", "model.hidden=32", "model.layers=1"],
}
"""The recipes that need no pretrained model, each with what makes it small."""


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("task", ["classify", "tag"])
def test_labels_are_learned_from_nothing(regard, tmp_path, task, recipe):
    """What decides is at the other end of the text: a state carries it there, or attention."""
    words = ["dog", "cat", "tree", "house", "bird", "street"]
    texts = [(first, words[i % 6], words[(i // 6) % 6], words[i % 5])
             for i in range(120) for first in ("good", "bad")]  # fmt: skip
    if task == "classify":
        file = tmp_path / "mine.tsv"
        file.write_text("".join(f"{' '.join(text)}\t{text[0]}\n" for text in texts))
    else:
        file = tmp_path / "mine.conll"
        lines = ["".join(f"{word} {'B-' + text[0] if index == 3 else 'O'}\n"
                         for index, word in enumerate(text)) for text in texts]  # fmt: skip
        file.write_text("\n".join(lines))
    small = [f"task={task}", f"data.train={file.name}", "data.held_out=40", "model.dim=16",
             "tokens.kind=words", "train.steps=80", "train.learning_rate=2e-2", "train.warmup=5",
             "train.evaluate_every=40", "train.save_every=40", "model.dropout=0", "-q",
             *RECIPES[recipe]]  # fmt: skip
    done(regard("train", recipe, "-o", "run", *small))
    scores = json.loads(done(regard("eval", "run", "--json")))
    assert "100" in json.dumps(scores)
    if task == "classify":
        assert done(regard("classify", "run", "bad house bird dog")).startswith("bad")
        assert package.load("run").embed("good dog").shape == (16,)
    else:
        [*_, last] = package.load("run").tag("bad house bird dog")
        assert last.tag == "B-bad"


@pytest.mark.parametrize(("recipe", "task"), [("own/classify", "classify"), ("own/tag", "tag")])
def test_without_a_pretrained_model_the_recipe_that_needs_none_is_named(
    regard, monkeypatch, recipe, task
):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    result = regard("train", recipe, "data.train=mine.tsv", "-o", "run")
    more = "" if task == "classify" else " task=tag"
    is_refused(result, "start.folder: no folder bert", f"regard train own/classify-scratch{more}")
    is_refused(regard("plan", recipe), f"regard train own/classify-scratch{more}")


def test_pairs_of_texts_are_classified_from_nothing(regard, tmp_path):
    rows = [f"a {a} {i}\ta {b} {i}\t{'same' if a == b else 'other'}\n"
            for i in range(10) for a in ("dog", "cat") for b in ("dog", "cat")]  # fmt: skip
    (tmp_path / "mine.tsv").write_text("".join(rows))
    done(regard("train", "own/classify-scratch", "data.train=mine.tsv", "train.steps=2",
                "data.held_out=4", "model.dim=16", "-o", "run", "-q"))  # fmt: skip
    assert done(regard("classify", "run", "a dog\ta cat")).partition("\t")[0] in ("same", "other")
    assert package.load("run").model.config.classes == ("other", "same")


def test_what_it_cannot_be_is_refused(regard):
    recipe = ("train", "tiny/rnn", "-o", "run")
    is_refused(regard(*recipe, "task=fill"), "task: fill needs model.family: bert, got rnn")
    is_refused(regard(*recipe, "model.cell=mamba"), "expected one of rnn, gru, gru_before, lstm")
    both = ("model.dim=15", "model.direction=both")
    is_refused(regard(*recipe, *both), "needs an even dim, got 15")
