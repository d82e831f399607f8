"""Spans cut out of texts: what is said, what is put back, and exact resuming."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import torch

import regard
from regard.checkpoint import run as checkpoint
from regard.cli.verbs import command_of
from regard.data.batch import Cursor
from regard.data.text.corpus import Corpus
from regard.data.text.corruption import CorruptedCorpus
from regard.data.text.packing import Packed
from regard.decode.config import DecodeConfig
from regard.decode.search import Hypothesis
from regard.errors import InputError
from regard.inputs.arrays import Ragged
from regard.inputs.text.config import TokensConfig
from regard.inputs.text.learn import learn_plain, sentinels_of
from regard.layers import Tap
from regard.models import T5Config
from regard.models.encoder_decoder import EncoderDecoder
from regard.runs.evaluate import evaluate
from regard.runs.train import train
from regard.tasks.encoder_task import ENCODER_SYMBOLS
from regard.tasks.restore import Restore
from regard.tasks.translate import Output
from regard.tasks.verbs import RESTORE
from tests import tiny_t5

TEXTS = [f"the {a} eats {b} . then it sleeps at {c} !" for a, b, c in [
    ("cat", "fish", "home"), ("cow", "grass", "night"), ("dog", "bones", "noon")]] * 4  # fmt: skip
SIZES = {"dim": 16, "heads": 2, "hidden": 16, "encoder_layers": 1, "decoder_layers": 1}


@pytest.fixture
def task():
    vocabulary = learn_plain(TEXTS, TokensConfig(kind="words", vocab=64), Restore.around)
    tokenizer = vocabulary.source
    rows = [[*tokenizer.encode(text), tokenizer.end] for text in TEXTS]
    ends = torch.tensor([len(row) for row in rows]).cumsum(0).numpy()
    ids = torch.tensor([token for row in rows for token in row]).numpy()
    corpus = Corpus(ids, ends - [len(row) for row in rows], ends)
    bare = Restore(vocabulary)
    packed = Packed(corpus, length=bare.max_text_tokens(16), batch_tokens=60)
    rows = CorruptedCorpus(packed, bare.corruption(1))
    return Restore(vocabulary, rows, rows)


def ids_of(task, text):
    """The ids that a model of 100 positions reads."""
    model = SimpleNamespace(config=SimpleNamespace(max_length=100))
    return task.read(model, [text])[0].values


def said(task, text):
    ids = tuple(task.tokenizer.encode_with_specials(text))
    return Output("", Hypothesis(ids, 0.0, 0.0, finished=True, rows=()))


def test_source_and_target_together_are_the_text_and_fit_the_model(task):
    batch, _ = next(task.batches(Cursor()))
    known = {tuple(task.tokenizer.encode(text)) for text in TEXTS}
    whole = 0
    for shown, target in zip(batch.source.split(), batch.decoder_input.split(), strict=True):
        assert shown[-1] == task.tokenizer.end
        assert len(shown) <= 16
        assert target[0] == task.tokenizer.pad  # T5's decoder starts with the padding
        spans = task._spans_by_sentinel(target[1:])
        restored = tuple(t for token in shown[:-1] for t in spans.get(token, [token]))
        whole += restored in known
    assert whole > 0  # those that the border of a batch did not cut


def test_loss_of_parts_adds_up_and_evaluation_is_fixed(task):
    model = EncoderDecoder(T5Config(**SIZES, dropout=0.0), *[task.tokenizer.vocab] * 2)
    batch, _ = next(task.batches(Cursor()))
    with torch.no_grad():
        parts = task.split(batch, 2)
        total = sum(float(task.loss(model, part)) for part in parts)
        assert total == pytest.approx(float(task.loss(model, batch)), rel=1e-5)
    assert task.evaluate(model) == task.evaluate(model)
    assert task.targets(batch) == sum(map(task.targets, parts))


def test_what_was_said_goes_into_its_holes(task):
    text = "the ___ eats ___ ."
    ids = ids_of(task, text)
    restored = task.fill_holes(ids, said(task, "<extra_id_0> cow <extra_id_1> grass"))
    assert restored.spans == ("cow", "grass")
    assert restored.text == task.tokenizer.decode(task.tokenizer.encode("the cow eats grass ."))
    assert ids == ids_of(task, "the <extra_id_0> eats <extra_id_1> .")


def test_a_hole_nothing_was_said_for_stays_empty_and_the_first_of_two_answers_counts(task):
    ids = ids_of(task, "the ___ eats ___ .")
    restored = task.fill_holes(ids, said(task, "<extra_id_1> fish <extra_id_1> grass"))
    assert restored.spans == ("", "fish")


def test_what_is_said_before_any_sentinel_is_not_lost(task):
    ids = task.tokenizer.encode_with_specials("it sleeps <extra_id_1> fish <extra_id_0> cow")
    assert task.decode_output(ids) == "it sleeps <extra_id_1> fish <extra_id_0> cow"
    assert task.decode_output(task.tokenizer.encode("the cow sleeps")) == "the cow sleeps"


def test_the_share_of_spans_is_of_those_with_every_token_right(task, monkeypatch):
    targets = [
        target[1:] for batch in task.valid.evaluation() for target in batch.decoder_input.split()
    ]
    spans = [task._spans_by_sentinel(target) for target in targets]
    last = [next(reversed(holes)) for holes in spans]  # of each text, the last hole is told wrong
    wrong = {token: [*span[:-1], 3] for holes in spans[:4] for token, span in holes.items()}
    answers = []
    for number, holes in enumerate(spans):
        told = {t: wrong[t] if number < 4 and t == last[number] else s for t, s in holes.items()}
        ids = tuple(token for hole, span in told.items() for token in (hole, *span))
        answers.append([Output("", Hypothesis(ids, 0.0, 0.0, finished=True, rows=()))])
    monkeypatch.setattr(task, "outputs", lambda *_, **__: answers)
    accuracy = task.accuracy(None, DecodeConfig(), texts=1000)
    count = sum(map(len, spans))
    assert (accuracy.texts, accuracy.spans) == (len(targets), count)
    assert accuracy.exact == pytest.approx(100 * (count - 4) / count)


def test_too_few_sentinels_are_refused_before_training():
    vocabulary = learn_plain(TEXTS, TokensConfig(kind="words", vocab=16), Restore.around)
    assert len(sentinels_of(vocabulary.source)) == 2
    with pytest.raises(InputError, match="more spans than sentinels"):
        Restore(vocabulary).max_text_tokens(512)


def test_a_vocabulary_without_sentinels_is_refused():
    vocabulary = learn_plain(TEXTS, TokensConfig(kind="words", vocab=64), ENCODER_SYMBOLS)
    with pytest.raises(InputError, match="no <extra_id_0>"):
        Restore(vocabulary)


def small(data, out, steps, **more):
    settings = {"steps": steps, "batch_tokens": 80, "schedule": "constant", "warmup": 0}
    settings |= {"evaluate_every": 50, "save_every": 3, "learning_rate": 1e-3}
    sizes = {**SIZES, "size": None, "dropout": 0.1, "max_length": 24}
    return train("tiny/restore", out, quiet=True, threads=1, **data, model=sizes, train=settings,
                 **more)  # fmt: skip


def is_looked_into(pipeline):
    """Encoder, decoder and cross-attention, searched and forced, labelled with words and holes."""
    text, target = "the ___ sleeps", "<extra_id_0> cow"
    seen = pipeline.look(text, target=target)
    stacks = {weights.stack for weights in seen.maps}
    assert stacks == {"encoder.self", "decoder.self", "decoder.cross"}
    cross = next(weights for weights in seen.maps if weights.stack == "decoder.cross")
    assert cross.keys == ("the", "<extra_id_0>", "sleeps", "</s>")
    assert cross.queries == ("<extra_id_0>", "cow", "</s>")
    assert seen.target == target
    assert seen.note == "the output was given"
    ids = pipeline.task.target_ids(target, 24)
    tap = Tap("decoder.0.cross.weights")
    with torch.no_grad():
        source = Ragged.of([pipeline.task.read(pipeline.model, [text])[0].values])
        pipeline.model(source, Ragged.of([[pipeline.vocabulary.target.begin, *ids]]), tap)
    expected = tap.records["decoder.0.cross.weights"][0].double().numpy()
    assert cross.weights == pytest.approx(expected, abs=1e-5)
    look = pipeline.look(text, max_length=4)
    assert look.target == pipeline.generate(text, max_length=4)
    with pytest.raises(InputError, match="the target: got nothing, expected some words"):
        pipeline.look(text, target="")


def is_measured(pipeline, folder):
    """On what the recipe held out: the loss of training; on a file: the same as on its text."""
    report = evaluate(pipeline)
    rows = Restore.prepare(pipeline.recipe, pipeline.vocabulary).task
    assert report.loss == pytest.approx(rows.evaluate(pipeline.model)["loss"])
    assert report.to_json().keys() == {
        "name", "tokens", "loss", "perplexity", "spans", "unknown",
    }  # fmt: skip
    assert report.spans.spans >= report.spans.texts > 0
    other = evaluate(pipeline, files=str(folder / "text.txt"))
    assert other.tokens > report.tokens
    assert "spans restored exactly: " in other.table()


@pytest.mark.slow
def test_resuming_is_exact_and_the_trained_model_generates(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    (tmp_path / "text.txt").write_text("\n\n".join(TEXTS * 2))
    data = {
        "data": {"kind": "text", "files": [str(tmp_path / "text.txt")], "separator": ""},
        "tokens": {"kind": "words", "vocab": 64},
    }
    small(data, tmp_path / "whole", 6)
    small(data, tmp_path / "run", 3)
    pipeline = small(data, tmp_path / "run", 6, resume=True)
    whole, resumed = (checkpoint.latest(tmp_path / name)[1] for name in ("whole", "run"))
    assert whole.step == resumed.step == 6
    assert all(torch.equal(whole.weights[name], resumed.weights[name]) for name in whole.weights)
    several = pipeline.generate(["the <extra_id_0> sleeps", "___"], max_length=4)
    assert len(several) == 2
    assert len(pipeline.restore("the ___ sleeps", max_length=4).spans) == 1
    ask = command_of(RESTORE, RESTORE.options)
    ask(model=str(tmp_path / "run"), texts=["the ___ sleeps"], source=None, as_json=True,
        threads=1, precision="fp32")  # fmt: skip
    assert json.loads(capsys.readouterr().out).keys() == {"text", "restored", "spans"}
    is_looked_into(pipeline)
    is_measured(pipeline, tmp_path)
    with pytest.raises(InputError, match="cannot translate"):
        pipeline.translate("the cow")


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_a_t5_of_somebody_elses_rewrites_and_restores(tmp_path):
    import transformers

    theirs = tiny_t5.save(tmp_path / "t5")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "t5")
    p = regard.load(tmp_path / "t5")
    plain, torn = "translate to German : the cat", "the <extra_id_0> sat on <extra_id_1> ."
    said = p.generate([plain, torn, plain], max_length=6)
    for text, answer in zip([plain, torn], said, strict=False):
        ids = tokenizer(text, return_tensors="pt")["input_ids"]
        out = theirs.generate(ids, max_new_tokens=6, do_sample=False, num_beams=1)[0, 1:].tolist()
        out = out[: out.index(1) if 1 in out else None]
        assert answer == Restore(p.vocabulary).decode_output(out)
    assert said[2] == said[0] == p.translate(plain, max_length=6)
    restored = p.restore(torn.replace("<extra_id_0>", "___"), max_length=6)
    assert restored == p.restore(torn, max_length=6)
    assert len(restored.spans) == 2
    assert any("<extra_id_1>" in weights.keys for weights in p.look(torn, max_length=6).maps)
    p.save(tmp_path / "ours")
    assert regard.load(tmp_path / "ours").restore(torn, max_length=6) == restored
