"""A family that Regard does not have: a file, one line, and every command knows it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest
import torch

from regard.errors import InputError
from regard.hub.kind import HubFormat
from regard.hub.needs import fixed
from regard.hub.rules import Rule, Table
from regard.hub.tables import KINDS
from regard.models import FAMILIES, build, describe, rebuild
from regard.models.config import EncoderDecoderConfig
from regard.models.families import Family
from regard.recipes import recipe as recipes
from regard.runs.load import load
from tests import near_family
from tests.commands import is_refused
from tests.near_family import NearConfig

ROOT = Path(__file__).parents[2]

RECIPE = """
version: 2
task: generate
data: {kind: text, files: [text.txt], held_out: 0.2}
tokens: {kind: bytes}
model: {family: near, size: little}
train: {steps: 2, batch_tokens: 128, warmup: 1, evaluate_every: 2, save_every: 2}
decode: {}
"""


@pytest.fixture
def family(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one line."""
    monkeypatch.setitem(FAMILIES, "near", near_family.FAMILY)


@pytest.fixture
def run(family: None, regard, tmp_path) -> Any:
    """A training of it, in `run`."""
    del family  # which is in the table now
    (tmp_path / "text.txt").write_text("\n\n".join(f"Text {n} is of words." for n in range(40)))
    (tmp_path / "near.yaml").write_text(RECIPE)
    trained = regard("train", "near.yaml", "-o", "run", "--quiet")
    assert (trained.code, trained.err) == (0, "")
    return load(tmp_path / "run")


def test_a_family_is_one_line_for_every_command(run, regard, tmp_path):
    assert type(run.model).__name__ == "Near"
    assert run.model.config == NearConfig(size="little")

    assert regard("generate", "run", "Text", "--tokens", "3", "--greedy").code == 0
    scored = json.loads(regard("eval", "run", "--json").out)
    assert scored["tokens"] > 0
    listed = [json.loads(line) for line in regard("ls", ".", "--json").out.splitlines()]
    assert [entry["step"] for entry in listed if entry["name"] == "run"] == [2]
    planned = json.loads(regard("plan", "run", "--flops", "1e12", "--json").out)
    assert planned["parameters"]["total"] == sum(p.numel() for p in run.model.parameters())
    assert planned["parameters"]["extra"] == 16 * 16 + 16
    assert planned["inference_bytes"]["keys_and_values"] == 4 * 2 * 2 * 16 * planned["length"]
    assert regard("look", "run", "Text 1 is", "--out", "look.html").code == 0
    assert "decoder" in (tmp_path / "look.html").read_text()
    heads = [json.loads(line) for line in regard("heads", "run", "--json").out.splitlines()]
    assert len(heads) == 4
    again = regard("train", "near.yaml", "-o", "run", "--resume", "--quiet", "train.steps=3")
    assert again.code == 0
    assert load(tmp_path / "run").model.config == run.model.config


def test_it_is_saved_loaded_and_begun_from(run, regard, tmp_path):
    ids = [5, 6, 7]
    run.save(tmp_path / "saved")
    again = load(tmp_path / "saved")
    assert torch.equal(again.logits(ids), run.logits(ids))

    begun = ["start.folder=saved", "start.freeze=1", "train.steps=1", "train.save_every=1"]
    tuned = regard("train", "near.yaml", "-o", "tuned", "--quiet", *begun)
    assert (tuned.code, tuned.err) == (0, "")
    after = load(tmp_path / "tuned").model.state_dict()
    equal_names = {name for name, tensor in again.model.state_dict().items()
            if torch.equal(tensor, after[name])}  # fmt: skip
    below, above = (
        "decoder.blocks.0.feed_forward.out.weight",
        "decoder.blocks.1.feed_forward.out.weight",
    )
    assert below in equal_names
    assert above not in equal_names
    assert "extra.weight" not in equal_names


def test_published_weights_of_it_are_one_entry(run, regard, tmp_path, monkeypatch):
    is_refused(
        regard("export", "run", "-o", "theirs", "--to", "hf"),
        "a near, which transformers does not have",
    )
    kind = HubFormat(
        "nearby",
        "near",
        "",
        read=lambda their, _: NearConfig(size="little", gain=their["gain"]),
        write=lambda config, vocab: {"gain": config.gain, "vocab_size": vocab},
        names=lambda _: Table(
            tuple(Rule((name,), (f"theirs.{name}",)) for name in run.model.state_dict()),
            {"theirs.head.weight": "theirs.embed.weight"},
        ),
        needs=fixed(size="little"),
    )
    monkeypatch.setitem(KINDS, "nearby", kind)
    assert regard("export", "run", "-o", "theirs", "--to", "hf").code == 0
    assert json.loads((tmp_path / "theirs/config.json").read_text())["model_type"] == "nearby"
    pipeline = load(tmp_path / "theirs")
    assert pipeline.recipe.task == "generate"
    assert torch.equal(pipeline.logits([5, 6, 7]), run.logits([5, 6, 7]))


@pytest.mark.usefixtures("family")
def test_its_names_are_planned(regard):
    plan = json.loads(regard("plan", "near-little", "--flops", "1e12", "--json").out)
    assert (plan["vocab"], plan["length"]) == (300, 48)
    is_refused(regard("plan", "near-litle"), "did you mean near-little?")


@pytest.mark.usefixtures("family")
def test_its_recipe_is_checked_as_those_of_the_others():
    recipe = recipes.from_text(RECIPE, "near.yaml", ["model.gain=2.0"])
    assert recipe.model == NearConfig(size="little", gain=2.0)
    assert recipes.from_text(recipes.dump(recipe), "again.yaml") == recipe
    for override, words in {
        "model.gain=much": ("override model.gain=much", "got 'much', expected a number"),
        "model.gian=1.0": ("got an unknown key", "did you mean model.gain?"),
        "model.size=large": ("got 'large', expected little, or null",),
        "model.masked=true": ("masked belongs to model.family: bert",),
        "model.family=nearby": (
            "got 'nearby', expected a known family",
            "did you mean near? `regard recipe --keys model` lists all",
        ),
        "task=translate": ("task: translate needs model.family: transformer, got near",),
    }.items():
        with pytest.raises(InputError) as raised:
            recipes.from_text(RECIPE, "near.yaml", [override])
        for word in words:
            assert word in str(raised.value)


@pytest.mark.usefixtures("family")
def test_what_describes_it_builds_it_again():
    torch.manual_seed(1)
    model = build(NearConfig(size="little"), 30)
    torch.manual_seed(1)
    again = rebuild(describe(model))
    assert describe(again) == describe(model)
    assert all(
        torch.equal(*pair) for pair in zip(model.parameters(), again.parameters(), strict=True)
    )


def test_neither_the_tables_nor_its_file_import_torch():
    code = (
        "import sys, regard.models.families, regard.tasks.specs, regard.recipes.recipe; "
        "import tests.near_family; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_without_the_line_it_is_refused():
    with pytest.raises(InputError, match=rf"expected one of {', '.join(FAMILIES)}$"):
        recipes.from_text(RECIPE, "near.yaml")
    with pytest.raises(InputError, match="expected regard 1 or 2 and a family of transformer, t5"):
        rebuild({"regard": 1, "family": "near", "model": {}, "vocab": 9})


def test_a_family_of_two_stacks_can_translate(monkeypatch):
    class Deep(EncoderDecoderConfig):
        family: Literal["deep"] = "deep"
        DEFAULTS: ClassVar[dict[str, Any]] = {"heads": 2}

    def never(*_: Any) -> None:
        raise AssertionError

    monkeypatch.setitem(FAMILIES, "deep", Family(Deep, never, task="translate"))
    recipe = recipes.load("tiny/translate", ["model.family=deep", "model.size=null"])
    assert type(recipe.model) is Deep
    assert recipe.model.has_target
