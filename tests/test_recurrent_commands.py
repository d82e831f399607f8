"""The recurrent translator through every command, as a person types them."""

from __future__ import annotations

import json

import pytest
import torch

import regard as package
from tests.commands import is_refused

SMALL = [
    "data.kind=copy", "data.pairs=60", "data.held_out=10", "model.dim=16",
    "train.steps=4", "train.batch_tokens=200", "train.evaluate_every=2", "train.save_every=2",
]  # fmt: skip


@pytest.fixture
def run(regard):
    """A small training, in `run`."""

    def make(*more):
        trained = regard("train", "tiny/recurrent", "-o", "run", "--quiet", *SMALL, *more)
        assert (trained.code, trained.err) == (0, "")
        return regard

    return make


@pytest.mark.slow
def test_every_command_knows_it(run, tmp_path):
    regard = run()
    said = regard("translate", "run", "1 2 3", "--beam", "4").out
    assert regard("translate", "run", "1 2 3", "--beam", "4", "--stream").out == said
    assert (
        len(regard("translate", "run", "1 2", "--beam", "3", "--n-best", "3").out.split("\n")) > 3
    )
    assert regard("translate", "run", "1 2", "--sample", "--seed", "3").code == 0
    assert regard("translate", "run", "1 2", "--knock-out", "decoder.0.cross.0").code == 0
    assert regard("look", "run", "1 2 3", "-o", "alignment.png").code == 0
    assert (tmp_path / "alignment.png").stat().st_size > 1000
    assert regard("look", "run", "1 2 3", "-o", "look.html", "--target", "1 2 3").code == 0
    assert "decoder" in (tmp_path / "look.html").read_text()
    gone = ["--beam", "3", "--knock-out", "decoder.0.cross.0"]
    assert regard("look", "run", "1 2 3", "-o", "gone.png", *gone).code == 0
    heads = [json.loads(line) for line in regard("heads", "run", "--json").out.splitlines()]
    assert [row["head"] for row in heads] == ["decoder.0.cross.0"]
    assert json.loads(regard("eval", "run", "--json").out)
    assert "run" in regard("ls", ".").out

    pipeline = package.load("run")
    planned = json.loads(regard("plan", "run", "--flops", "1e12", "--json").out)
    assert planned["parameters"]["total"] == sum(p.numel() for p in pipeline.model.parameters())
    assert planned["parameters"]["decoder_readout"] == 3 * 16 * 16 + 16
    states, source = 4 * 16, 2 * planned["length"] * 16  # a beam of 4; keys and values
    assert planned["inference_bytes"]["keys_and_values"] == 4 * (states + source)

    pipeline.save(tmp_path / "saved")
    again = package.load("saved")
    logits = [model.logits([5, 6, 7], [1, 5]) for model in (pipeline, again)]
    assert torch.equal(*logits)
    assert regard("export", "run", "-o", "half", "--store", "fp16").code == 0
    assert regard("translate", "half", "1 2 3", "--beam", "4").code == 0
    is_refused(
        regard("export", "run", "-o", "theirs", "--to", "hf"),
        "export to Hugging Face: got a seq2seq, which transformers does not have",
    )
    begun = ["start.folder=saved", "start.freeze=1", "train.steps=1", "train.save_every=1"]
    assert regard("train", "tiny/recurrent", "-o", "on", "--quiet", *SMALL[:3], *begun).code == 0
    after, before = (package.load(model_name).model.state_dict() for model_name in ("on", "saved"))
    kept_names = {name for name, tensor in before.items() if torch.equal(tensor, after[name])}
    assert "encoder.blocks.0.recurrent.cells.weight_ih_l0" in kept_names
    assert "decoder.blocks.0.recurrent.cells.weight_ih_l0" not in kept_names


@pytest.mark.slow
def test_a_model_without_attention_translates_and_has_nothing_to_look_at(run):
    regard = run("model.attention=none")
    assert regard("translate", "run", "1 2 3", "--beam", "4").code == 0
    for words in (("look", "run", "1 2", "-o", "x.png"), ("heads", "run")):
        is_refused(regard(*words), "got a seq2seq model without attention", "model.attention")


@pytest.mark.slow
def test_in_8_bits_it_still_translates(run):
    regard = run()
    if "error" in (said := regard("translate", "run", "1 2 3", "--precision", "int8")).err:
        pytest.skip(said.err)
    assert said.code == 0


def test_what_a_recurrence_does_not_have_is_refused(regard):
    recipe = ("train", "tiny/recurrent", "-o", "run")
    is_refused(regard(*recipe, "model.heads=4"), "heads belongs to kind: attention")
    is_refused(
        regard(*recipe, "model.attention=hard"), "expected one of additive, dot, location, none"
    )
    is_refused(regard(*recipe, "model.dim=15"), "needs an even dim, got 15")
    is_refused(regard(*recipe, "task=generate"), "task: generate needs model.family: gpt")
