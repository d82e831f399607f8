"""Which value counts: keys and `size` of a file, and those of the command line over it."""

from __future__ import annotations

import pytest

import regard as package
from regard.errors import InputError
from regard.models import SIZES, GPTConfig, TransformerConfig
from regard.recipes.recipe import dump, load
from tests.commands import is_refused

NANO = {"size": "nano", "dim": 192, "heads": 6, "hidden": 512}
"""The sizes of tiny/generate, whose family follows from its task."""


def sizes(model):
    return {key: getattr(model, key) for key in ("dim", "heads", "hidden", "layers", "max_length")}


@pytest.fixture
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


# Within one source, keys beat `size`


def test_in_a_file_keys_beat_its_size_without_a_notice(caplog):
    model = load("tiny/generate").model
    assert sizes(model) == sizes(GPTConfig(**NANO))
    assert (model.dim, model.layers) == (192, 4)
    assert not caplog.text


def test_on_the_command_line_keys_beat_its_size(caplog):
    model = load("tiny/generate", ["model.heads=4", "model.size=mini"]).model
    assert sizes(model) == sizes(GPTConfig(size="mini", heads=4))
    assert caplog.messages == ["model.size=mini replaces dim 192, hidden 512 of tiny/generate.yaml"]


# A size of the command line replaces the sizes of the file, and says which


def test_a_size_replaces_the_sizes_of_the_file_and_nothing_else(caplog):
    model = load("tiny/generate", ["model.size=mini"]).model
    assert sizes(model) == sizes(GPTConfig(size="mini"))
    assert (model.positions.kind, model.norm, model.bias) == ("rotary", "rms", False)
    assert caplog.messages == [
        "model.size=mini replaces dim 192, heads 6, hidden 512 of tiny/generate.yaml"
    ]


def test_even_the_size_that_the_file_names(caplog):
    model = load("tiny/translate", ["model.size=tiny"]).model
    assert model == TransformerConfig(size="tiny", tied="output")
    assert caplog.messages == ["model.size=tiny replaces encoder.layers 1 of tiny/translate.yaml"]


def test_what_a_size_gives_beside_numbers_is_replaced_too(caplog):
    model = load("tiny/generate", ["model.size=mini-llama"]).model
    llama = GPTConfig(size="mini-llama")
    assert model == llama.model_copy(update={"dropout": model.dropout, "bias": False})
    assert "tied" not in caplog.text  # it is not in the file
    assert load("own/big", ["model.size=tiny"]).model.dropout == 0.1
    assert load("own/rnn", ["model.size=tiny"]).model.dropout == 0.3  # tiny gives none


def test_a_size_that_changes_nothing_says_nothing(caplog):
    assert load("own/translate", ["model.size=tiny"]).model.dim == 128
    assert load("own/translate", ["model.size=null"]).model.dim == 128
    assert not caplog.text


def test_no_size_leaves_the_keys_of_the_file(caplog):
    model = load("tiny/generate", ["model.size=null"]).model
    assert (model.size, model.dim, model.heads) == (None, 192, 6)
    assert not caplog.text


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["own/translate", "own/base", "own/big", "tiny/copy"])
def test_a_size_applies_to_a_resolved_recipe_too(in_folder, name, size):
    (in_folder / "resolved.yaml").write_text(dump(load(name)), "utf-8")
    override = [f"model.size={size}"]
    assert load("resolved.yaml", override) == load(name, override)
    model = load(name, override).model
    expected = TransformerConfig(size=size, tied=model.tied)
    if name == "tiny/copy":  # which sets a dropout of its own
        dropout = SIZES[size].get("dropout", 0.0)
        expected = expected.model_copy(update={"dropout": dropout})
    assert model == expected


def test_another_family_and_a_size_of_it_go_together():
    model = load("tiny/translate", ["model.family=seq2seq", "model.size=small"]).model
    assert (model.family, model.dim, model.dropout) == ("seq2seq", 256, 0.2)
    layers = load("tiny/fill", ["task=generate", "model.family=gpt", "model.size=nano"]).model
    assert sizes(layers) == sizes(GPTConfig(size="nano"))


# Recipes that start from a model, commands, and resuming


def test_a_size_beside_a_start_is_refused_by_its_name(regard):
    result = regard("plan", "own/classify", "start.folder=small/fill", "model.size=large")
    is_refused(result, "model.dim: got 1024 by model.size: large, expected 256, as in small/fill")


def test_plan_says_what_a_size_replaces_once(regard, caplog):
    result = regard("plan", "tiny/generate", "model.size=mini", "--flops", "1e12")
    assert "6 layers, 256 wide, 8 heads, 1024 hidden" in result.out
    notice = "model.size=mini replaces dim 192, heads 6, hidden 512 of tiny/generate.yaml"
    assert caplog.messages == [notice]


TRAINING = ["data.pairs=60", "data.held_out=10", "train.batch_tokens=200", "train.save_every=2",
            "model.size=tiny", "train.steps=2"]  # fmt: skip


def test_a_run_of_a_size_is_resumed_as_it_began(regard, in_folder, caplog):
    first = regard("train", "tiny/copy", *TRAINING, "-o", "run")
    assert first.code == 0, first.err
    notice = "model.size=tiny replaces dim 64, heads 4, hidden 128 of tiny/copy.yaml"
    assert notice in caplog.messages
    again = regard("train", "tiny/copy", *TRAINING, "-o", "run", "--resume", "train.steps=4")
    assert again.code == 0, again.err
    other = regard("train", "run", "--resume", "model.size=small")
    is_refused(other, "--resume with another recipe: model.size, model.dim")
    model = package.load(in_folder / "run").model.config
    assert (model.dim, model.heads, model.hidden) == (128, 8, 256)
    caplog.clear()
    assert regard("train", "tiny/copy", *TRAINING, "-o", "other", "-q").code == 0
    assert not caplog.messages


# Keys that do not exist


@pytest.mark.parametrize(
    ("override", "meant"),
    [
        ("train.lr=1e-3", "did you mean train.learning_rate?"),
        ("lr=1e-3", "did you mean train.learning_rate?"),
        ("train.batch_size=4", "did you mean train.batch_tokens?"),
        ("train.batch=4", "did you mean train.batch_tokens?"),
        ("train.decay=4", "did you mean train.layer_decay or train.weight_decay?"),
        ("train.max_length=4", "did you mean model.max_length or decode.max_length?"),
        ("model.d_model=4", "did you mean model.dim?"),
        ("model.num_layers=4",
         "did you mean model.layers?"),
        ("decode.num_beams=4", "did you mean decode.beam?"),
        ("random_seed=4", "did you mean seed?"),
        ("train.zzz=4", "`regard recipe --keys train` lists the keys of train"),
        ("tokens.zzz=4", "keys of tokens: kind, vocab, shared, lowercase"),
    ],
)  # fmt: skip
def test_an_unknown_key_is_told_the_one_that_was_meant(override, meant):
    with pytest.raises(InputError) as caught:
        load("tiny/copy", [override])
    assert str(caught.value).splitlines()[1] == meant


def test_all_keys_are_listed_with_what_they_take(regard):
    lines = regard("recipe", "--keys").out.splitlines()
    assert "train.steps" in "".join(lines)
    assert len(lines) > 200
    train = regard("recipe", "--keys", "train").out.splitlines()
    assert train[0].startswith("train.steps ")
    assert train[0].endswith(" a whole number of at least 1 (2000)")
    assert {line.partition(".")[0] for line in train} == {"train"}
    sizes = [line for line in lines if line.startswith("model.size ")]
    assert "transformer: one of tiny, small, base, big" in sizes[0]
    is_refused(regard("recipe", "--keys", "trian"), "expected a section: data, tokens, model")


@pytest.mark.parametrize("size", ["{}", "[1]", "3", "huge"])
def test_a_size_that_is_no_name_is_refused(size):
    with pytest.raises(InputError, match=r"model\.size="):
        load("tiny/copy", [f"model.size={size}"])
