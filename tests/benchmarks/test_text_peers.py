"""GPT-2 and sentence vectors: with the same weights, everybody computes the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from benchmarks.measure.ours_text import Continue, Embed, TrainText
from benchmarks.measure.suite import Settings, select
from benchmarks.measure.texts import TextWork, random_rows, random_sentences
from benchmarks.peers import bert, gpt2, nanogpt
from benchmarks.run import experiments
from regard.hub.folder import read_model
from regard.models import BertConfig, GPTConfig

pytestmark = pytest.mark.slow

VOCAB, WRITTEN = 50, 12
NEW = ("gpt-training", "gpt-decoding-1", "gpt-decoding-16", "embedding")


@pytest.fixture
def gpt_work(tmp_path: Path) -> str:
    config = GPTConfig(dim=16, heads=4, hidden=64, layers=2, max_length=24, dropout=0.0)
    texts = random_rows(3, 9, VOCAB)
    work = TextWork(config.model_dump(), VOCAB, texts, WRITTEN, end=VOCAB - 1)
    return work.save(tmp_path / "work.json")


@pytest.fixture
def bert_work(tmp_path: Path) -> str:
    config = BertConfig(dim=16, heads=4, hidden=64, layers=2, pooler="none", masked=False)
    work = TextWork(config.model_dump(), VOCAB, random_sentences(40, VOCAB))
    return work.save(tmp_path / "work.json")


def shaken(model: Any) -> Any:
    """Larger numbers, and some also where a fresh model has ones and zeros."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn_like(parameter)
            parameter.add_(noise if parameter.dim() > 1 else 0.1 * noise)
    return model


@pytest.fixture
def _shaken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The peers' fresh models are shaken, the same in each process and for each contender."""
    for peer in (gpt2, bert):
        build = peer.build
        monkeypatch.setattr(peer, "build", lambda work, build=build: shaken(build(work)))


def prepared(contender: Any) -> Any:
    contender.prepare(threads=1)
    return contender


def as_ours(theirs: Any, folder: Path) -> nn.Module:
    """Their model as ours, by the importer."""
    theirs.save_pretrained(folder)
    return read_model(folder)


def as_nanogpt(theirs: Any) -> dict[str, Tensor]:
    """Their weights by the names of nanoGPT."""
    # transformers keeps the matrices of GPT-2 transposed, as the original did
    turned = ("c_attn.weight", "c_proj.weight", "c_fc.weight")
    weights = theirs.transformer.state_dict()
    return {name: tensor.T if name.endswith(turned) else tensor for name, tensor in weights.items()}


def test_the_nanogpt_style_equals_gpt2() -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=50, n_positions=12, n_embd=16, n_layer=2, n_head=4)
    theirs = shaken(GPT2LMHeadModel(config)).eval()
    ours = nanogpt.GPT(nanogpt.Sizes(12, 50, 2, 4, 16)).eval()
    ours.load_state_dict(as_nanogpt(theirs))
    ids = torch.randint(50, (3, 12))
    torch.testing.assert_close(ours(ids), theirs(ids).logits, atol=1e-5, rtol=1e-5)


@pytest.mark.usefixtures("_shaken")
def test_everybody_learns_from_the_same_loss_by_the_same_steps(
    gpt_work: str, tmp_path: Path
) -> None:
    theirs, nano = prepared(gpt2.Train(gpt_work)), prepared(nanogpt.Train(gpt_work))
    ours = prepared(TrainText(gpt_work))
    nano.loop.model.load_state_dict(as_nanogpt(theirs.loop.model))
    trainer, batch = ours.trainer, ours.batch
    trainer.model.load_state_dict(as_ours(theirs.loop.model, tmp_path).state_dict())

    def losses() -> list[float]:
        with torch.no_grad():
            total = trainer.task.loss(trainer.model, batch)
            mean = total / batch.targets.ids.numel()
            return [float(loss) for loss in (theirs.loop.loss(), nano.loop.loss(), mean)]

    before = losses()
    assert before == pytest.approx([before[0]] * 3, rel=1e-5)
    for _ in range(3):
        assert theirs.measure("") == nano.measure("") == ours.measure("") == 3 * 8
    after = losses()
    assert after[1] == pytest.approx(after[0], rel=1e-3)
    assert all(new < old for new, old in zip(after, before, strict=True))


@pytest.mark.usefixtures("_shaken")
def test_everybody_writes_the_same_tokens(gpt_work: str, tmp_path: Path) -> None:
    theirs, ours = prepared(gpt2.Decode(gpt_work)), prepared(Continue(gpt_work))
    ours.model = as_ours(theirs.model, tmp_path)
    expected = theirs.written(3)
    assert len({token for row in expected for token in row}) > 3  # not one token again and again
    assert ours.written(3) == expected
    assert theirs.measure("2") == ours.measure("2") == 2 * WRITTEN
    assert prepared(Continue(gpt_work, "int8")).measure("3") == 3 * WRITTEN


@pytest.mark.usefixtures("_shaken")
def test_ctranslate2_writes_what_transformers_writes(gpt_work: str) -> None:
    pytest.importorskip("ctranslate2")
    fast = prepared(gpt2.DecodeCTranslate2(gpt_work))
    assert fast.written(3) == prepared(gpt2.Decode(gpt_work)).written(3)
    assert prepared(gpt2.DecodeCTranslate2(gpt_work, "int8")).measure("2") == 2 * WRITTEN


@pytest.mark.usefixtures("_shaken")
def test_sentences_have_the_same_vectors(bert_work: str, tmp_path: Path) -> None:
    theirs, ours = prepared(bert.Embed(bert_work)), prepared(Embed(bert_work))
    ours.model = as_ours(theirs.model, tmp_path)
    vectors = ours.vectors()
    torch.testing.assert_close(vectors, theirs.vectors(), atol=1e-5, rtol=1e-5)
    with torch.no_grad():  # and each is its own sentence's
        hidden = theirs.model(torch.tensor(theirs.sentences[7:8])).last_hidden_state
    alone = nn.functional.normalize(hidden[0].mean(0), dim=0)
    torch.testing.assert_close(vectors[7], alone, atol=1e-5, rtol=1e-5)
    assert theirs.measure("") == ours.measure("") == 40


@pytest.mark.parametrize("name", NEW)
def test_bars_are_about_what_is_measured(name: str, tmp_path: Path) -> None:
    experiment = experiments({}, quick=True)[name](Settings(tmp_path, quick=True))
    labels = {line.label for line in experiment.lines()}
    assert experiment.name == name
    assert experiment.bars
    assert {label for bar in experiment.bars for label in (bar.label, *bar.against)} <= labels


def test_nothing_but_the_end_symbol_is_left_out_of_the_rows() -> None:
    ids = {token for row in random_rows(50, 20, VOCAB) for token in row}
    assert ids == set(range(VOCAB - 1))
    assert min(map(min, random_sentences(40, VOCAB))) > bert.PAD


def test_useful_flops_are_those_of_the_tokens_that_are_read() -> None:
    config = GPTConfig(dim=8, heads=2, hidden=16, layers=1)
    work = TextWork(config.model_dump(), 10, [[1, 2, 3], [4, 5, 6]])
    # 2 FLOPs for each entry of each matrix that a token meets, and the products of attention
    matrices, products = 4 * 64 + 2 * 128 + 80, 4 * 2 * 2 * 8
    assert work.flops(unread=1) == 2 * (2 * 2 * matrices + products)


def test_a_whole_name_chooses_that_experiment_alone() -> None:
    makers = {"gpt-decoding-1": min, "gpt-decoding-16": max, "embedding": len}
    assert select(makers, ["gpt-decoding-1"]) == [min]
    assert select(makers, ["gpt-d", "embedding"]) == [min, max, len]
