"""Vectors from text: gradients against autograd, runs that go on bit for bit, words that belong."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.checkpoint import run as checkpoint
from regard.data.text.documents import TextFiles
from regard.errors import InputError, Interrupted
from regard.recipes import recipe as recipes
from regard.runs import train as training
from regard.vectors import training as loop
from regard.vectors.recipe import FORM, WordsConfig
from regard.vectors.store import vectors
from regard.vectors.text import END, read_text
from regard.vectors.training import cbow, context, keep_probability, skip_gram, train_vectors
from tests.commands import is_refused, regard  # noqa: F401 (a fixture)


def two_topics(path: Path, lines: int = 1500) -> Path:
    """Sentences of animals, and others of numbers: words of one kind stand together."""
    draw = np.random.default_rng(0)
    kinds = [["cat", "dog", "cow", "hen", "pig"], ["one", "two", "six", "ten", "nine"]]
    text = [" ".join(draw.choice(kinds[line % 2], 8)) + " ." for line in range(lines)]
    path.write_text("\n".join(text) + "\n")
    return path


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return two_topics(tmp_path_factory.mktemp("text") / "topics.txt")


def recipe(file: Path, *changes: str):
    usual = [f"data.files={file}", "model.dim=16", "train.epochs=3", "train.subsample=0"]
    return recipes.load_form(FORM, "own/vectors", [*usual, *changes])


@pytest.mark.parametrize("kind", ["skip-gram", "cbow"])
def test_gradients_are_those_of_the_loss(kind):
    torch.manual_seed(0)
    inputs, outputs, negatives = (
        torch.randn(2, 6, 5, dtype=torch.float64, requires_grad=True) for _ in range(3)
    )
    pairs = (torch.rand(2, 6, 6) < 0.4).double()
    pairs[:, :, 0] = 0  # a word with nothing near
    share = 5 / 6
    log_of = torch.nn.functional.logsigmoid
    if kind == "skip-gram":
        good = (log_of(inputs @ outputs.transpose(1, 2)) * pairs).sum()
        counted = pairs.sum(2, keepdim=True)
        used = inputs
    else:
        used, counted = context(inputs, pairs)
        good = (log_of((used * outputs).sum(2, keepdim=True)) * counted).sum()
    whole = good + share * (log_of(-used @ negatives.transpose(1, 2)) * counted).sum()
    wanted = torch.autograd.grad(whole, [used, outputs, negatives])
    with torch.no_grad():
        step = skip_gram if kind == "skip-gram" else cbow
        gradients = step(inputs, outputs, negatives, pairs, share)
    if kind == "cbow":  # each input gets the whole of the mean's
        wanted = (pairs @ wanted[0], *wanted[1:])
    for got, expected in zip(gradients, wanted, strict=True):
        assert torch.allclose(got, expected)


@pytest.mark.slow
def test_pairs_are_words_of_a_line_within_the_drawn_reach(file):
    text = read_text(TextFiles((str(file),)), WordsConfig(min_count=1))
    drawing = loop._Sampler(text, recipe(file, "train.window=3").train, 0)
    batches = drawing.block(0)
    assert batches is not None
    tokens = batches.tokens.view(-1, drawing.length)
    pairs = batches.pairs.view(-1, drawing.length, drawing.length)
    indices = pairs.nonzero()
    apart = (indices[:, 1] - indices[:, 2]).abs()
    assert apart.min() == 1
    assert apart.max() == 3
    # 9 words a line, the reach uniform in 1, 2, 3: 8·2·1 + 7·2·⅔ + 6·2·⅓ pairs; some are cut
    lines = int((text.stream == END).sum())
    assert 0.9 < len(indices) / (lines * (16 + 28 / 3 + 4)) < 1
    full_stop, animals = (
        text.words.index("."),
        {text.words.index(word) for word in ("cat", "dog", "cow", "hen", "pig")},
    )
    first, second = tokens[indices[:, 0], indices[:, 1]], tokens[indices[:, 0], indices[:, 2]]
    kinds = [(int(a) in animals, int(b) in animals) for a, b in zip(first, second, strict=True)
             if full_stop not in (int(a), int(b))]  # fmt: skip
    assert all(a == b for a, b in kinds)


def test_frequent_words_are_read_more_rarely_and_rare_ones_always():
    chance = keep_probability(np.array([5e5, 1e3, 10.0]), 1e-3)
    assert chance == pytest.approx([(0.001 / 0.998) ** 0.5 + 0.001, 1, 1], abs=2e-3)
    assert (keep_probability(np.array([5.0, 1.0]), 0) == 1).all()


def test_words_are_numbered_by_frequency_and_lines_end(tmp_path):
    (tmp_path / "t.txt").write_text("B a, A\n\nb a rare\n")
    config = WordsConfig(min_count=2)
    text = read_text(TextFiles((str(tmp_path / "t.txt"),)), config)
    assert (text.words, text.counts.tolist(), text.total) == (["a", "b"], [3, 2], 7)
    assert text.stream.tolist() == [1, 0, 0, END, 1, 0, END]
    spaces = config.model_copy(update={"split": "spaces", "lowercase": False, "min_count": 1})
    words = read_text(TextFiles((str(tmp_path / "t.txt"),)), spaces).words
    assert sorted(words) == ["A", "B", "a", "a,", "b", "rare"]
    few = config.model_copy(update={"vocab": 2, "min_count": 1})
    assert read_text(TextFiles((str(tmp_path / "t.txt"),)), few).words == ["a", "b"]
    with pytest.raises(InputError, match="occurs 3 times"):
        read_text(TextFiles((str(tmp_path / "t.txt"),)), WordsConfig(min_count=4))


@pytest.mark.parametrize("kind", ["skip-gram", "cbow"])
def test_words_that_stand_together_come_together(kind, file):
    trained = train_vectors(recipe(file, f"model.kind={kind}", "train.epochs=8"), quiet=True)
    animals = {neighbour.word for neighbour in trained.nearest("cat", 4)}
    assert animals == {"dog", "cow", "hen", "pig"}
    assert np.isfinite(trained.vectors).all()


def test_the_result_depends_on_text_recipe_and_seed_alone(file):
    first, second = (train_vectors(recipe(file), quiet=True, threads=n).vectors for n in (1, 2))
    assert (first == second).all()
    assert (first != train_vectors(recipe(file, "seed=1"), quiet=True).vectors).any()


def stop_after(step: int, monkeypatch: pytest.MonkeyPatch, how) -> None:
    """Has something happen after a step of training."""
    after = loop._Training._save_or_stop

    def then(self, request):
        after(self, request)
        if self.step == step:
            how()

    monkeypatch.setattr(loop._Training, "_save_or_stop", then)


class Killed(BaseException):
    """As kill -9: nothing of the program runs any more."""


def test_a_killed_run_goes_on_bit_for_bit(file, tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "BLOCK", 5000)  # three steps an epoch
    whole = recipe(file, "train.save_every=2")
    train_vectors(whole, tmp_path / "whole", quiet=True)

    def kill():
        raise Killed

    with monkeypatch.context() as once:
        stop_after(5, once, kill)
        with pytest.raises(Killed):
            train_vectors(whole, tmp_path / "again", quiet=True)
    resumed = train_vectors(whole, tmp_path / "again", resume=True, quiet=True)
    assert (resumed.vectors == vectors(tmp_path / "whole").vectors).all()
    for name in ("model.safetensors", "training.safetensors", "tokenizer.json", "config.json"):
        files = [tmp_path / run / "checkpoints/00000009" / name for run in ("whole", "again")]
        assert files[0].read_bytes() == files[1].read_bytes()
    lines = (tmp_path / "again/metrics.jsonl").read_text().splitlines()
    steps = [json.loads(line)["step"] for line in lines]
    assert steps == list(range(1, 10))


def test_a_signal_saves_and_says_how_to_go_on(file, tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "BLOCK", 5000)
    stop_after(2, monkeypatch, lambda: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(Interrupted, match="after step 3, saved; continue with the same") as stopped:
        train_vectors(recipe(file), tmp_path / "run", quiet=True)
    assert stopped.value.exit_code == 128 + signal.SIGTERM
    assert checkpoint.newest(tmp_path / "run").name == "00000003"


def test_a_run_goes_on_only_with_its_own_recipe_and_text(tmp_path, regard):  # noqa: F811
    mine = two_topics(tmp_path / "mine.txt", 200)
    train = ("train", "own/vectors", "data.files=mine.txt", "model.dim=4", "-q", "-o", "run")
    assert regard(*train, "train.epochs=1").code == 0
    is_refused(regard(*train, "train.epochs=1"), "already holds a run")
    is_refused(regard(*train, "train.epochs=2", "--resume"), "train.epochs changed")
    again = regard(*train, "train.epochs=1", "--resume")
    assert again.code == 0
    mine.write_text(mine.read_text() + "one more line\n")
    is_refused(regard(*train, "train.epochs=1", "--resume"), "other data")
    assert regard("vectors", "run", "nearest", "cat", "--top", "2").code == 0
    assert "own questions" in regard("eval", "run").out
    assert "run " in regard("ls").out


def test_the_column_of_a_table_is_said(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    row = '{"content": "the dog and the cat and the dog", "url": "x"}\n'
    (tmp_path / "a.jsonl").write_text(row * 9)
    changes = ["data.files=a.jsonl", "tokens.min_count=1", "model.dim=4", "train.epochs=1"]
    train_vectors(recipes.load_form(FORM, "own/vectors", changes), quiet=True)
    assert "data: a.jsonl: text from content; not used: url" in caplog.text


def test_recipes_of_vectors_are_checked_like_others(regard, tmp_path):  # noqa: F811
    train = ("train", "own/vectors", "-o", "run")
    is_refused(regard(*train, "model.kind=glove"), "skip-gram, cbow")
    is_refused(regard(*train, "train.steps=5"), "train.steps", "a key of train")
    is_refused(regard(*train, "train.window=99"), "at most 31")
    is_refused(regard(*train, "model.heads=2"), "a key of model")
    is_refused(regard(*train), "my.txt", "no such file")
    (tmp_path / "short.txt").write_text("a b c\n")
    is_refused(regard(*train, "data.files=short.txt"), "tokens.min_count")
    assert not (tmp_path / "run").exists()
    is_refused(regard("plan", "own/vectors"), "regard train")


def test_python_trains_them_too(file):
    trained = training.train(
        "own/vectors", data={"files": str(file)}, model={"dim": 4}, train={"epochs": 1}, quiet=True
    )
    assert trained.dim == 4


@pytest.mark.parametrize("words", [2, 5])
def test_few_words_that_come_often_do_not_run_away(words, tmp_path):
    draw = np.random.default_rng(0)
    lines = [" ".join(f"w{n}" for n in draw.integers(0, words, 40)) for _ in range(500)]
    (tmp_path / "few.txt").write_text("\n".join(lines))
    for kind in ("skip-gram", "cbow"):
        trained = train_vectors(recipe(tmp_path / "few.txt", f"model.kind={kind}"), quiet=True)
        assert np.abs(trained.vectors).max() < 20
