"""What was written before configs were nested: it loads, resumes and gives the same bits.

`version_1.json` has the configs of all shipped recipes, of all named sizes and of unusual models as
version 1 wrote them, with a hash of the names and shapes of their tensors; `version_1.yaml` is the
recipe of a run.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path

import pytest
import torch

from regard.checkpoint import run as checkpoint
from regard.checkpoint.folder import Snapshot
from regard.errors import InputError
from regard.models import FAMILIES, build, parse_description
from regard.models.meta_model import meta_model
from regard.models.version_1 import upgraded
from regard.recipes import recipe as recipes
from regard.recipes import shelf
from regard.runs.train import _compare_facts

STORED = json.loads((Path(__file__).parent / "version_1.json").read_text())
RECIPE = (Path(__file__).parent / "version_1.yaml").read_text()


def tensors(config):
    """A hash of the names and shapes of a model's tensors."""
    model = meta_model(config, *[13] * len(config.VOCABULARIES))
    lines = [f"{name} {tuple(tensor.shape)}" for name, tensor in model.state_dict().items()]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def parsed(model):
    """The config of a stored `model` section, read as that of a checkpoint."""
    sizes = dict.fromkeys(("vocab", "source_vocab", "target_vocab"), 13)
    config, _ = parse_description({"regard": 1, "family": model["family"], "model": model, **sizes})
    return config


@pytest.mark.parametrize("name", STORED["recipes"])
def test_the_config_of_a_shipped_recipe_is_the_same_as_before(name):
    assert parsed(STORED["recipes"][name]) == recipes.load(name).model


@pytest.mark.slow
@pytest.mark.parametrize("stored", STORED["models"], ids=lambda stored: str(stored["written"]))
def test_a_stored_config_has_the_same_tensors(stored):
    config = parsed(stored["model"])
    assert tensors(config) == stored["tensors"]
    kind = FAMILIES[config.family].config
    assert kind.model_validate(config.model_dump()) == config
    written = {key: tuple(value) if isinstance(value, list) else value
               for key, value in stored["written"].items()}  # fmt: skip
    assert tensors(kind.model_validate(upgraded(kind, written))) == stored["tensors"]


def test_keys_that_nothing_used_are_left_out_and_misspelt_ones_are_not():
    kind = FAMILIES["gpt"].config
    assert kind.model_validate(upgraded(kind, {"kernel": 5, "cell": "lstm"})) == kind()
    assert upgraded(kind, {"kernle": 5}) == {"kernle": 5}


def test_checkpoints_of_version_1_are_on_the_shelf():
    """They are loaded by most tests of commands."""
    files = [entry / "config.json" for entry in shelf.shipped().values()]
    versions = [json.loads(file.read_text())["regard"] for file in files if file.is_file()]
    assert versions.count(1) >= 8


TRAINING = ["model.dim=8", "model.heads=2", "model.hidden=8", "data.pairs=60", "data.held_out=10",
            "train.batch_tokens=200", "train.save_every=2", "train.warmup=1"]  # fmt: skip


def test_a_run_of_version_1_is_resumed_to_the_same_bits(regard, tmp_path, caplog):
    """A run of today whose recipe and config are replaced by those that version 1 wrote."""
    assert regard("train", "tiny/copy", *TRAINING, "train.steps=2", "-o", "run", "-q").code == 0
    snapshot = checkpoint.read(checkpoint.newest(tmp_path / "run"), training=True)
    old_config = {**snapshot.config, "regard": 1, "model": old_model()}
    old = dataclasses.replace(snapshot, recipe=RECIPE, config=old_config)
    checkpoint.save(tmp_path / "old", old, keep=1, best=None)
    (tmp_path / "old/recipe.yaml").write_text(RECIPE)
    assert regard("train", "run", "--resume", "train.steps=4", "-q").code == 0
    caplog.clear()
    resumed = regard("train", "old", "--resume", "train.steps=4")
    assert resumed.code == 0, resumed.err
    assert sum("version 1" in message for message in caplog.messages) == 1
    weights = [checkpoint.read(checkpoint.newest(tmp_path / name)).weights
               for name in ("run", "old")]  # fmt: skip
    assert weights[0].keys() == weights[1].keys()
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    written = json.loads((checkpoint.newest(tmp_path / "old") / "config.json").read_text())
    assert written["regard"] == 2
    assert set(written["model"]) == {"family", "size", "encoder", "decoder", "head"}


def old_model():
    """The `model` section of the stored recipe."""
    from regard.recipes.yaml import read

    return json.loads(json.dumps(read(RECIPE, str).values["model"]))


def test_overrides_may_use_old_keys():
    model = recipes.load("tiny/copy", ["model.encoder_layers=3", "model.decoder_layers=1"]).model
    assert model.stacks == {"encoder": 3, "decoder": 1}
    old = recipes.from_text(RECIPE, "old.yaml", ["model.decoder_layers=1", "model.dim=16"]).model
    assert (old.stacks, old.encoder.dim, old.decoder.dim) == (
        {"encoder": 2, "decoder": 1}, 16, 16,
    )  # fmt: skip


def test_a_recipe_of_version_1_is_read_with_one_notice(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old.yaml").write_text(RECIPE)
    recipe = recipes.load("old.yaml")
    assert recipe.version == 2
    assert len(caplog.messages) == 1
    assert "old.yaml is a recipe of version 1, read as version 2" in caplog.messages[0]
    assert recipes.from_text(recipes.dump(recipe), "new.yaml") == recipe
    torch.manual_seed(0)
    model = build(recipe.model, 24, 24)
    assert sum(parameter.numel() for parameter in model.parameters()) > 0


def test_a_teacher_is_compared_in_runs_of_today_alone():
    """Version 1 hashed another form of the teacher's config; other data is compared in both."""
    facts = {"threads": 1, "torch": "2.13", "data": {"train": "a", "teacher": "new"}}
    old_data = {"train": "a", "teacher": "old"}
    training = {**facts, "data": old_data, "place": {}}
    snapshot = Snapshot(1, {}, {"regard": 1}, "", "", training=training)
    _compare_facts(facts, snapshot)
    with pytest.raises(InputError, match="teacher changed"):
        _compare_facts(facts, dataclasses.replace(snapshot, config={"regard": 2}))
    training["data"] = {**old_data, "train": "b"}
    with pytest.raises(InputError, match="train changed"):
        _compare_facts(facts, snapshot)
