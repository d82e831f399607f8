"""The peers that we write ourselves compute what transformers computes, with its weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from benchmarks import training
from benchmarks.peers import annotated, loop, marian, torch_transformer
from benchmarks.peers.work import flat
from benchmarks.run import experiments, main
from regard.models import TransformerConfig

PAIRS = [([4, 5, 6], [7, 8]), ([9, 4], [5, 6, 7, 8]), ([4, 5, 6, 7, 8], [9])]


def work(**changes: Any) -> dict[str, Any]:
    config = TransformerConfig(dim=16, heads=4, hidden=32, norm_place="post", max_length=20)
    return {
        "model": {**flat(config.model_dump()), **changes},
        "source_vocab": 11,
        "target_vocab": 11,
        "pad": 0,
        "begin": 1,
        "end": 2,
        "batches": {"same batches": [PAIRS[:2], PAIRS[1:]]},
    }


def shake(model: nn.Module) -> nn.Module:
    """Random numbers also where a fresh model has ones and zeros, which would hide a mix-up."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.rand_like(parameter) - 0.5)
    return model.eval()


def copy_attention(ours: annotated.MultiHeadedAttention, theirs: nn.Module) -> None:
    for mine, name in zip(ours.linears, ("q_proj", "k_proj", "v_proj", "out_proj"), strict=True):
        mine.load_state_dict(getattr(theirs, name).state_dict())


def copy_norm(ours: annotated.LayerNorm, theirs: nn.LayerNorm) -> None:
    ours.load_state_dict({"a_2": theirs.weight, "b_2": theirs.bias})


def copy_marian_layer(ours: annotated.Layer, theirs: nn.Module) -> None:
    copy_attention(ours.self_attn, theirs.self_attn)
    norms = [theirs.self_attn_layer_norm, theirs.final_layer_norm]
    if ours.src_attn is not None:
        copy_attention(ours.src_attn, theirs.encoder_attn)
        norms.insert(1, theirs.encoder_attn_layer_norm)
    for sublayer, norm in zip(ours.sublayers, norms, strict=True):
        copy_norm(sublayer.norm, norm)
    ours.feed_forward.w_1.load_state_dict(theirs.fc1.state_dict())
    ours.feed_forward.w_2.load_state_dict(theirs.fc2.state_dict())


@pytest.mark.slow
def test_the_annotated_style_equals_marian() -> None:
    settings = work()
    theirs = shake(marian.build(settings))
    ours = annotated.EncoderDecoder(settings).eval()
    ours.source_embed.weight.data.copy_(theirs.get_input_embeddings().weight)
    ours.positions.copy_(theirs.model.encoder.embed_positions.weight)
    for mine, other in (
        (ours.encoder, theirs.model.encoder.layers),
        (ours.decoder, theirs.model.decoder.layers),
    ):
        for layer, counterpart in zip(mine, other, strict=True):
            copy_marian_layer(layer, counterpart)
    batch = loop.padded(PAIRS, settings)
    expected = theirs(
        input_ids=batch.source,
        attention_mask=batch.source_real,
        decoder_input_ids=batch.target_in,
    ).logits
    real = batch.target_out != 0
    torch.testing.assert_close(ours(batch)[real], expected[real], atol=1e-5, rtol=1e-5)


def copy_torch_attention(
    ours: annotated.MultiHeadedAttention, theirs: nn.MultiheadAttention
) -> None:
    weights, biases = theirs.in_proj_weight.chunk(3), theirs.in_proj_bias.chunk(3)
    for linear, weight, bias in zip(ours.linears, weights, biases, strict=False):
        linear.load_state_dict({"weight": weight, "bias": bias})
    ours.linears[-1].load_state_dict(theirs.out_proj.state_dict())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:enable_nested_tensor")  # said of every pre-norm
def test_the_annotated_style_equals_torch_in_its_own_place_of_norms() -> None:
    settings = work(norm_place="pre")
    theirs = shake(torch_transformer.Translator(settings))
    ours = annotated.EncoderDecoder(settings).eval()
    ours.source_embed.weight.data.copy_(theirs.source_embed.weight)
    inner = theirs.transformer
    for mine, stack, top in (
        (ours.encoder, inner.encoder, ours.tops[0]),
        (ours.decoder, inner.decoder, ours.tops[1]),
    ):
        copy_norm(top, stack.norm)
        for layer, other in zip(mine, stack.layers, strict=True):
            copy_torch_attention(layer.self_attn, other.self_attn)
            norms = [other.norm1, other.norm2]
            if layer.src_attn is not None:
                copy_torch_attention(layer.src_attn, other.multihead_attn)
                norms.append(other.norm3)
            for sublayer, norm in zip(layer.sublayers, norms, strict=True):
                copy_norm(sublayer.norm, norm)
            layer.feed_forward.w_1.load_state_dict(other.linear1.state_dict())
            layer.feed_forward.w_2.load_state_dict(other.linear2.state_dict())
    batch = loop.padded(PAIRS, settings)
    real = batch.target_out != 0
    with torch.enable_grad():  # without gradients nn.Transformer takes a nested, inexact path
        expected = theirs(batch)
    torch.testing.assert_close(ours(batch)[real], expected[real], atol=1e-5, rtol=1e-5)


@pytest.mark.slow
def test_nobody_has_attention_dropout_and_a_tied_matrix_stands_once() -> None:
    settings = work()
    peers = {
        "marian": marian.build(settings),
        "torch": torch_transformer.Translator(settings),
        "annotated": annotated.EncoderDecoder(settings),
    }
    for name, model in peers.items():
        vocabularies = [p for p in model.parameters() if p.dim() == 2 and p.shape[0] == 11]
        assert len(vocabularies) == 1, name
    attentions = [m for m in peers["torch"].modules() if isinstance(m, nn.MultiheadAttention)]
    assert {m.dropout for m in attentions} == {0.0}
    assert peers["marian"].config.attention_dropout == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("peer", [marian, torch_transformer, annotated])
def test_a_turn_of_training_counts_real_targets_and_learns(peer: Any, tmp_path: Path) -> None:
    path = tmp_path / "work.json"
    path.write_text(json.dumps(work(dropout=0.0)))
    contender = peer.Train(str(path))
    contender.prepare(threads=1)

    def loss() -> float:
        [batch, _] = contender.loop.batches["same batches"]
        with torch.no_grad():
            logits = contender.loop.logits(batch)
        real = batch.target_out != 0
        return float(nn.functional.cross_entropy(logits[real], batch.target_out[real]))

    before = loss()
    for _ in range(20):
        # ends included: 3 + 5 targets in the first batch, 5 + 2 in the second
        assert contender.measure("same batches") == 15
    assert loss() < 0.9 * before


def test_every_experiment_can_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    assert capsys.readouterr().out.split() == list(experiments({}))


def test_wrong_input_is_told_in_two_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--peer", "mine=nowhere.py"]) == 2
    assert main(["--only", "nothing"]) == 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.slow
def test_the_suite_runs_with_somebodys_own_peer_and_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # One of our peers shows that they stand beside somebody's; each has a process of its own.
    monkeypatch.setattr(training, "PEERS", {training.MARIAN: marian.Train})
    peer = tmp_path / "mine.py"
    peer.write_text(
        "from dataclasses import dataclass\n"
        "import json\n"
        "@dataclass\n"
        "class Train:\n"
        "    work: str\n"
        "    def prepare(self, threads):\n"
        "        self.batches = json.load(open(self.work))['batches']\n"
        "    def measure(self, case):\n"
        "        return sum(len(t) + 1 for batch in self.batches[case] for _, t in batch)\n"
    )
    text = tmp_path / "pairs.tsv"
    text.write_text("".join(f"word {n} and more\tWort {n} und mehr\n" for n in range(200)))
    words = "--quick --rounds 1 --threads 1 --quiet --only training-base"
    given = [*words.split(), "--peer", f"mine={peer}", "--data", str(text)]
    assert main([*given, "--output", str(tmp_path / "results")]) == 0
    assert "mine, random batches" in capsys.readouterr().out
    saved = json.loads((tmp_path / "results" / "results.json").read_text())
    [experiment] = saved["experiments"]
    status = {entry["label"]: entry["status"] for entry in experiment["entries"]}
    assert status["Regard"] == status["mine, same batches"] == "measured"
    assert status["Marian (transformers), same batches"] == "measured"
