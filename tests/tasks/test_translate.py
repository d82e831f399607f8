"""Translation as a task: the loss against the equation, the order of data, predictions in order."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace

import pytest
import torch

from regard.data.batch import Cursor
from regard.data.text.pairs import Pair
from regard.decode.config import DecodeConfig
from regard.errors import InputError
from regard.inputs.text import TokensConfig, learn
from regard.models import TransformerConfig, build
from regard.tasks import Translate, pair_task

PAIRS = tuple(Pair(" ".join("abcd"[: i % 4 + 1]), " ".join("dcba"[: i % 3 + 1])) for i in range(12))
VOCABULARY = learn(PAIRS, TokensConfig(kind="words", vocab=20))


@pytest.fixture
def task() -> Translate:
    return Translate(VOCABULARY, PAIRS, PAIRS[:5], batch_tokens=12, smoothing=0.1, seed=3)


@pytest.fixture
def model():
    size = {"dim": 16, "heads": 2, "hidden": 16, "dropout": 0.0, "max_length": 20}
    config = TransformerConfig.model_validate(size)
    return build(config, VOCABULARY.source.vocab, VOCABULARY.target.vocab).eval()


def test_loss_is_the_sum_of_cross_entropies_to_smoothed_targets(task: Translate, model) -> None:
    batch = task.encode(PAIRS[:4]).batch([0, 1, 2, 3])
    with torch.no_grad():
        loss = float(task.loss(model, batch))
        logits = model(*batch.sides)
    vocab, expected = logits.shape[1], 0.0
    for row, right in zip(logits, batch.targets.ids.tolist(), strict=True):
        logs = row.double().log_softmax(0)
        for token in range(vocab):
            share = 0.1 / vocab + (0.9 if token == right else 0.0)
            expected -= share * float(logs[token])
    assert loss == pytest.approx(expected, rel=1e-5)
    words = sum(len(pair.target.split()) + 1 for pair in PAIRS[:4])  # and the end of each
    assert task.targets(batch) == len(batch.targets.ids) == words


def test_loss_of_a_batch_is_the_sum_of_its_sentences(task: Translate, model) -> None:
    pairs = task.encode(PAIRS)
    with torch.no_grad():
        together = float(task.loss(model, pairs.batch(range(12))))
        alone = sum(float(task.loss(model, pairs.batch([i]))) for i in range(12))
    assert together == pytest.approx(alone, rel=1e-5)


def test_evaluation_has_no_smoothing_and_leaves_the_mode(task: Translate, model) -> None:
    model.train()
    scores = task.evaluate(model)
    assert model.training
    assert scores["perplexity"] == pytest.approx(math.exp(scores["loss"]))
    plain = Translate(VOCABULARY, smoothing=0.0)
    batch = plain.encode(PAIRS[:5]).batch(range(5))
    model.eval()
    with torch.no_grad():
        mean = float(plain.loss(model, batch)) / plain.targets(batch)
    assert scores["loss"] == pytest.approx(mean, rel=1e-5)


def test_batches_go_on_from_any_cursor(task: Translate) -> None:
    first = list(itertools.islice(task.batches(Cursor()), 20))
    assert {cursor.epoch for _, cursor in first} >= {0, 1}
    for start in (0, 3, 7, 12):
        again = list(itertools.islice(task.batches(first[start][1]), 4))
        expected = first[start + 1 : start + 5]
        assert [b.index for b, _ in again] == [b.index for b, _ in expected]
        assert [c for _, c in again] == [c for _, c in expected]


def test_predictions_come_in_the_order_of_the_sources(task: Translate, model) -> None:
    texts = ["a b c d", "a", "a b", "a b c d", "a"]
    config = DecodeConfig(beam=2, max_length=4)
    together = [best.text for best, *_ in task.predict(model, task.read(model, texts), config)]
    assert together == [
        task.predict(model, task.read(model, [text]), config)[0][0].text for text in texts
    ]


def test_predictions_have_no_unknown_word(task: Translate, model) -> None:
    config = DecodeConfig(sample=True, n_best=20, max_length=6, temperature=3.0)
    [outputs] = task.predict(model, task.read(model, ["a b"]), config)
    banned = {VOCABULARY.target.pad, VOCABULARY.target.begin, VOCABULARY.target.unknown}
    assert all(banned.isdisjoint(output.hypothesis.ids) for output in outputs)


def test_a_sentence_as_long_as_the_model_reads_is_translated(task: Translate, model) -> None:
    longest = " ".join("abcd"[i % 4] for i in range(20))
    [[best, *_]] = task.predict(model, task.read(model, [longest]), DecodeConfig(beam=2))
    assert len(best.hypothesis.ids) <= 20


@pytest.mark.parametrize(("text", "message"), [("", "got nothing"), ("a " * 21, "21 tokens")])
def test_what_cannot_be_read_is_refused(task: Translate, model, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        task.read(model, [text])


def test_a_translation_may_become_twice_as_long_and_ten_more(task: Translate, model) -> None:
    source, end = PAIRS[0].source, VOCABULARY.target.end
    endless = DecodeConfig(banned=(end,))
    [read] = task.read(model, [source])
    count = min(2 * len(read.values) + 10, 20)
    [[best]] = task.predict(model, task.read(model, [source]), endless)
    assert len(best.hypothesis.ids) == count
    assert "".join(task.stream(model, read, endless)) == best.text
    [[best]] = task.predict(
        model, task.read(model, [source]), endless.model_copy(update={"max_length": 4})
    )
    assert len(best.hypothesis.ids) == 4


def test_the_suggested_command_does_without_data(task: Translate, monkeypatch) -> None:
    monkeypatch.setattr(pair_task, "few_pairs", lambda *_: PAIRS)
    assert task.suggested_command(SimpleNamespace(data=None), "run") == "translate run 'a b c d'"
    monkeypatch.setattr(pair_task, "few_pairs", lambda *_: [])
    assert task.suggested_command(SimpleNamespace(data=None), "run") == "translate run"
