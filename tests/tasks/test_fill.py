"""Masked tokens as a task: what is summed, what is counted, what is hidden, and exact resuming."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from regard.checkpoint import run as checkpoint
from regard.data.batch import Cursor
from regard.data.text.corpus import Corpus
from regard.data.text.corruption import CorruptedCorpus
from regard.data.text.packing import Packed
from regard.errors import InputError
from regard.inputs.text.config import TokensConfig
from regard.inputs.text.learn import TaskSymbols, learn_plain
from regard.models import BertConfig
from regard.models.encoder import Encoder
from regard.recipes.recipe import load
from regard.runs.train import flatten, train
from regard.tasks.fill import Fill, corruption, max_text_tokens, symbols_of

TEXTS = [f"the {a} eats {b} . then it sleeps at {c} !" for a, b, c in [
    ("cat", "fish", "home"), ("cow", "grass", "night"), ("dog", "bones", "noon")]] * 4  # fmt: skip
SIZES = {"dim": 16, "heads": 2, "hidden": 16, "layers": 1, "dropout": 0.0}


def corpus_of(tokenizer, texts):
    rows = [[*tokenizer.encode(text), tokenizer.end] for text in texts]
    stops = np.cumsum([len(row) for row in rows])
    return Corpus(np.concatenate(rows), stops - [len(row) for row in rows], stops)


def made(*, pairs, valid=TEXTS[:5]):
    vocabulary = learn_plain(TEXTS, TokensConfig(kind="words", vocab=64), Fill.around)
    tokenizer = vocabulary.source
    train_corpus, valid_corpus = corpus_of(tokenizer, TEXTS), corpus_of(tokenizer, valid)
    holes = [
        CorruptedCorpus(
            Packed(corpus, length=max_text_tokens(32, pairs=pairs), batch_tokens=60),
            corruption(tokenizer, corpus, 3, pairs=pairs, spare=train_corpus),
        )
        for corpus in (train_corpus, valid_corpus)
    ]
    config = BertConfig(**SIZES, max_length=32, next_sentence=pairs)
    return Fill(vocabulary, *holes), Encoder(config, tokenizer.vocab).eval()


def reference(model, batch):
    """Sequence by sequence: -log p of each hidden token, and of each pair its class, BERT's way."""
    starts = np.cumsum([0, *batch.source.lengths])
    total = 0.0
    for number, ids in enumerate(batch.source.split()):
        here = (batch.target_positions >= starts[number]) & (
            batch.target_positions < starts[number + 1]
        )
        types = (
            None
            if batch.source.types is None
            else batch.source.types[starts[number] : starts[number + 1]]
        )
        texts = type(batch.source).of([ids]).typed(types)
        hidden = model.hidden(texts)
        logits = model.masked(hidden)[batch.target_positions[here] - starts[number]]
        said = logits.log_softmax(1)
        total -= sum(
            float(row[want]) for row, want in zip(said, batch.known_targets[here], strict=True)
        )
        if batch.labels is not None:
            scores = model.next_sentence(model.pooled(texts, hidden))[0].log_softmax(0)
            total -= float(scores[0 if batch.labels[number] else 1]) * int(here.sum())
    return total


@pytest.mark.parametrize("pairs", [False, True])
def test_the_loss_is_a_sum_over_hidden_tokens_whatever_the_parts(pairs):
    task, model = made(pairs=pairs)
    batch, _ = next(task.batches(Cursor()))
    assert (batch.labels is not None) == pairs
    with torch.no_grad():
        whole = task.loss(model, batch)
        parts = task.split(batch, 3)
        assert len(parts) == 3
        assert float(whole) == pytest.approx(reference(model, batch), rel=1e-4)
        assert float(sum(task.loss(model, part) for part in parts)) == pytest.approx(float(whole))
    assert task.targets(batch) == sum(map(task.targets, parts)) == len(batch.known_targets)


def test_evaluation_has_the_same_holes_each_time_and_measures_only_those():
    task, model = made(pairs=True)
    scores = task.evaluate(model)
    assert scores == task.evaluate(model)
    total = right = count = pairs_right = pairs = 0
    with torch.no_grad():
        for batch in task.valid.evaluation():
            texts = batch.source
            logits = model(texts)[batch.target_positions]
            total += float(F.cross_entropy(logits, batch.known_targets, reduction="sum"))
            right += int((logits.argmax(1) == batch.known_targets).sum())
            count += len(batch.known_targets)
            together = model.next_sentence(model.pooled(texts, model.hidden(texts))).argmax(1) == 0
            pairs_right += int((together == batch.labels.bool()).sum())
            pairs += len(batch.labels)
    assert scores["loss"] == pytest.approx(total / count)
    assert scores["accuracy"] == pytest.approx(right / count)
    assert scores["perplexity"] == pytest.approx(math.exp(total / count))
    assert scores["next_sentence_accuracy"] == pytest.approx(pairs_right / pairs)


def test_holes_change_from_epoch_to_epoch_and_not_between_two_runs():
    task, _ = made(pairs=False)
    for epoch in (0, 1):
        first, second = (next(task.batches(Cursor(epoch, 1)))[0] for _ in range(2))
        assert torch.equal(first.source.ids, second.source.ids)
    batch = next(iter(task.train.rows.evaluation()))
    before, after = (task.train.corrupt(batch, epoch) for epoch in (0, 1))
    assert not torch.equal(before.target_positions, after.target_positions)


def test_symbols_and_unknown_words_are_never_hidden():
    tokenizer = made(pairs=False)[0].tokenizer
    symbols = symbols_of(tokenizer)
    assert {tokenizer.symbol(token) for token in symbols.special} == {
        "<pad>", "<s>", "</s>", "<unk>", "<mask>"}  # fmt: skip


def test_a_vocabulary_without_a_mask_is_refused():
    tokenizer = learn_plain(
        TEXTS, TokensConfig(kind="words", vocab=64), TaskSymbols("<s> $A", "<s> $A $B")
    ).source
    with pytest.raises(InputError, match="without a mask"):
        symbols_of(tokenizer)


def test_a_single_document_to_validate_with_takes_its_other_sentences_from_the_training_text():
    task, model = made(pairs=True, valid=TEXTS[:1])
    assert "next_sentence_loss" in task.evaluate(model)


def own_text(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    (tmp_path / "text.txt").write_text("\n\n".join(TEXTS * 2))
    return {
        "data": {"kind": "text", "files": [str(tmp_path / "text.txt")], "separator": ""},
        "tokens": {"kind": "words", "vocab": 64},
    }


def small(data, out, steps, **more):
    settings = {"steps": steps, "batch_tokens": 80, "schedule": "constant", "warmup": 0}
    settings |= {"evaluate_every": 50, "save_every": 3, "learning_rate": 1e-3}
    sizes = {**SIZES, "size": None, "dropout": 0.1, "max_length": 24, "next_sentence": True,
             "token_types": 2, "pooler": "tanh"}  # fmt: skip
    return train("tiny/fill", out, quiet=True, threads=1, **data, model=sizes, train=settings,
                 **more)  # fmt: skip


@pytest.mark.slow
def test_resuming_is_exact_and_the_trained_model_fills_and_embeds(tmp_path, monkeypatch):
    data = own_text(tmp_path, monkeypatch)
    small(data, tmp_path / "whole", 6)
    small(data, tmp_path / "run", 3)
    pipeline = small(data, tmp_path / "run", 6, resume=True)
    whole, resumed = (checkpoint.latest(tmp_path / name)[1] for name in ("whole", "run"))
    assert whole.step == resumed.step == 6
    assert whole.weights.keys() == resumed.weights.keys()
    assert all(torch.equal(whole.weights[name], resumed.weights[name]) for name in whole.weights)
    [mask] = pipeline.fill("the cow eats [MASK] .", count=3)
    assert len(mask) == 3
    [everything] = pipeline.fill("the cow eats [MASK] .", count=pipeline.vocabulary.source.vocab)
    assert {"<pad>", "cow"} <= {filling.word for filling in everything}  # no name is empty
    assert pipeline.embed(["the cow", "a dog sleeps"]).shape == (2, 16)


def test_pairs_of_texts_need_documents_apart(tmp_path, monkeypatch):
    data = own_text(tmp_path, monkeypatch)
    data["data"]["rows"] = "stream"
    with pytest.raises(InputError, match=r"data\.rows: stream"):
        small(data, None, 1)


def test_only_the_training_text_is_masked_at_the_rate_of_the_recipe(tmp_path, monkeypatch):
    sections = own_text(tmp_path, monkeypatch)
    rates = {}
    for masked in (0.15, 0.6):
        sections["data"]["masked"] = masked
        recipe = load("tiny/fill", flatten(sections))
        prepared = Fill.prepare(recipe, None)
        batches = {"train": next(prepared.task.batches(Cursor()))[0]}
        batches["valid"] = next(iter(prepared.task.valid.evaluation()))
        rates[masked] = {
            split: batch.target_positions.numel() / sum(batch.source.lengths)
            for split, batch in batches.items()
        }
    assert rates[0.6]["train"] > 2 * rates[0.15]["train"]
    assert rates[0.6]["valid"] == rates[0.15]["valid"]
