from __future__ import annotations

import json
import math
import re
import shutil
from importlib import import_module

import pytest
import torch

import regard
from regard.cost.names import RECIPES, published_models
from regard.cost.plan import (
    PAPER_TRAINING,
    measure_rate,
    paper_training_flops,
    plan,
    training_flops,
)
from regard.cost.sizes import compute_sizes
from regard.errors import InputError
from regard.inputs.arrays import Ragged
from regard.models import SIZES, TransformerConfig, build
from regard.models.families import CONFIGS
from regard.recipes import recipe as recipes
from regard.runs.load import load
from regard.runtime.units import duration, short
from tests import tiny_bert
from tests.commands import is_refused
from tests.their_models import save

RATE = 1e12
planning = import_module("regard.cost.plan")  # where `plan` is the function


def test_every_size_has_a_recipe_of_that_size():
    assert list(RECIPES) == list(SIZES)
    assert {size: recipes.load(name).model.size for size, name in RECIPES.items()} == {
        size: size for size in SIZES
    }


def test_base_is_the_papers():
    estimate = plan("base", flops=RATE)
    assert estimate.without_vocabulary == 44_138_496
    assert estimate.total == 44_138_496 + 37_000 * 512
    assert (estimate.vocab, estimate.tokens) == (37_000, 5e9)
    assert plan("big", flops=RATE).total == pytest.approx(213e6, rel=0.02)  # table 3


def test_the_published_training_costs_are_reproduced():
    base, big = (paper_training_flops(*PAPER_TRAINING[size]) for size in ("base", "big"))
    assert base == pytest.approx(3.3e18, rel=0.02)
    assert big == pytest.approx(2.3e19, rel=0.02)


@pytest.mark.parametrize(
    ("size", "dim", "hidden", "steps"),
    [("base", 512, 2048, 100_000), ("big", 1024, 4096, 300_000)],
)
def test_our_count_of_the_papers_trainings_is_the_textbooks(size, dim, hidden, steps):
    length, side = 30, 25_000 * steps
    source = 6 * (4 * dim**2 + 2 * dim * hidden) + 6 * 2 * dim**2  # encoder; K and V of memory
    target = 6 * (6 * dim**2 + 2 * dim * hidden) + 37_000 * dim
    products = 18 * 2 * length * dim
    expected = 6 * side * (source + target + products)
    assert training_flops(size, 2 * side, length=length) == pytest.approx(expected, rel=1e-9)
    # Less than what the paper's GPUs could have done, and not absurdly less.
    assert 0.2 < expected / paper_training_flops(*PAPER_TRAINING[size]) < 0.5


def test_the_published_cost_stands_only_beside_the_same_training():
    assert plan("base", flops=RATE).published == pytest.approx(3.28e18, rel=0.01)
    assert plan("own/big", flops=RATE).published == pytest.approx(2.3e19, rel=0.01)
    text = plan("big", flops=RATE).table()
    assert "counted: every matrix product, forward and backward" in text
    assert "what 8 P100 can do in 84 hours, at 9.5 TFLOP/s each" in text
    for changed in (plan("base", ["model.dim=1024"], flops=RATE),
                    plan("base", ["train.steps=10"], flops=RATE),
                    plan("base", tokens=1e6, flops=RATE),
                    plan("tiny", flops=RATE)):  # fmt: skip
        assert changed.published is None
        assert "published" not in changed.table()


def test_time_is_flops_over_rate_and_cost_is_time_times_price():
    estimate = plan("small", tokens=1e9, flops=2e12, price_per_hour=3.0)
    values = estimate.to_json()
    per_token = values["flops_per_token"]
    assert per_token["training"] == 3 * per_token["forward"]
    assert values["hours"] == pytest.approx(per_token["training"] * 1e9 / 2e12 / 3600)
    assert values["hours_at_half"] == 2 * values["hours"]
    assert values["cost"] == pytest.approx(3 * values["hours"])
    assert values["cost_at_half"] == pytest.approx(2 * values["cost"])


def test_the_tokens_are_those_of_the_recipes_steps():
    estimate = plan("tiny/copy", ["train.steps=10", "train.accumulate=3"], flops=RATE)
    assert estimate.tokens == 10 * 3 * 2048
    assert "10 steps of 6,144" in estimate.table()


def test_training_takes_16_bytes_a_parameter_and_activations_grow_with_the_batch():
    single, double, triple = (
        plan("small", [f"train.batch_tokens={tokens}"], flops=RATE).training_memory
        for tokens in (3000, 6000, 9000)
    )
    weights = {part: size for part, size in single.items() if part != "activations"}
    total = plan("small", flops=RATE).total
    assert sum(weights.values()) == 16 * total
    more = double["activations"] - single["activations"]
    assert triple["activations"] - double["activations"] == more > single["activations"] / 2


def test_inference_holds_the_weights_and_the_buffers_of_a_beam():
    estimate = plan("tiny", ["decode.beam=5"], flops=RATE, vocab=50, length=6)
    model = build(estimate.recipe.model, 50, 50).eval()
    source = Ragged(torch.zeros(6, dtype=torch.int64), (6,))
    state = model.start(
        model.encode(source), rows=5, length=22
    )  # room for twice the source, and 10 more
    tensors = [*state.cache.layers]
    tensors += [tensor for pair in state.memory.projected.values() for tensor in pair]
    assert estimate.inference_memory == {
        "weights": 4 * sum(p.numel() for p in model.parameters()),
        "keys and values": 4 * sum(tensor.numel() for tensor in tensors),
    }


def test_the_vocabulary_is_the_recipes_maximum_or_what_is_said():
    assert plan("tiny", flops=RATE).vocab == 4000
    assert plan("tiny", ["tokens.kind=bytes"], flops=RATE).vocab == 260
    said = plan("tiny", flops=RATE, vocab=123)
    assert said.parameters["source embedding"] == said.parameters["target embedding"] == 123 * 128
    assert "vocabulary of 123 for each side (--vocab)" in said.table()


def test_overrides_reach_the_model_and_a_file_is_a_recipe(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(recipes.text_of("tiny/copy"))
    wide = plan(str(file), ["model.dim=128"], flops=RATE, vocab=64)
    config = TransformerConfig(dim=128, heads=4, hidden=128, dropout=0.0)
    assert wide.recipe.model == config
    assert wide.total == sum(p.numel() for p in build(config, 64, 64).parameters())


def test_the_rate_is_measured_here_and_threads_are_left_as_they_were(monkeypatch):
    monkeypatch.setattr(planning, "BENCHMARK_SIZE", 64)
    monkeypatch.setattr(planning, "BENCHMARK_SECONDS", 0.001)
    before = torch.get_num_threads()
    assert 1e6 < measure_rate(threads=before + 1) < 1e16
    assert torch.get_num_threads() == before
    with pytest.raises(InputError, match="--threads: got 0"):
        measure_rate(threads=0)


@pytest.mark.parametrize("value", [0, -1.0, math.nan, math.inf])
@pytest.mark.parametrize("option", ["tokens", "flops", "price_per_hour", "vocab"])
def test_a_number_that_makes_no_sense_is_refused_by_its_option(option, value):
    with pytest.raises(InputError, match=f"^--{option.replace('_', '-')}: got {value}, expected"):
        plan("tiny", **{option: value})


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("bse", "did you mean base"),
        ("BERT", "did you mean bert-tiny, bert-mini, bert-base or bert-large? `regard plan`"),
        ("tiny/copi", "did you mean tiny/copy"),
        ("xyzzy", "\n`regard plan` lists all"),
    ],
)
def test_an_unknown_name_is_told_the_nearest(name, near):
    with pytest.raises(InputError) as raised:
        plan(name)
    message = str(raised.value)
    assert near in message
    assert len(message.splitlines()) == 2


def test_every_size_of_every_family_has_one_name():
    sizes = {(n.model["family"], n.model.get("size")) for n in published_models().values()}
    for family, config in CONFIGS.items():
        if family != "transformer":
            assert {size for of, size in sizes if of == family and size} == set(config.SIZES)
    assert not {*RECIPES} & {*published_models()}


@pytest.mark.parametrize(
    ("name", "exactly"),
    [  # as transformers counts them; T5 1.1 with the output matrix of its own that it has
        ("gpt2", 124_439_808), ("gpt2-medium", 354_823_168), ("gpt2-large", 774_030_080),
        ("gpt2-xl", 1_557_611_200), ("llama-7b", 6_738_415_616), ("bert-base", 110_106_428),
        ("bert-large", 336_226_108), ("t5-small", 60_506_624), ("t5-base", 222_903_552),
        ("t5-large", 737_668_096), ("t5-small-1.1", 76_961_152), ("t5-base-1.1", 247_577_856),
        ("vit-ti", 5_717_416), ("vit-s", 22_050_664), ("vit-b", 86_567_656),
        ("vit-l", 304_326_632), ("resnet-18", 11_689_512), ("resnet-50", 25_557_032),
        ("cnn-lenet", 62_006),
    ],
)  # fmt: skip
def test_known_models_have_the_parameters_that_others_count(name, exactly):
    assert plan(name, flops=RATE).total == exactly


def test_gpt2s_forward_flops_are_those_of_nanogpt():
    estimate = plan("gpt2", flops=RATE)
    assert estimate.lengths == (1024,)
    assert sum(estimate.forward.values()) * 1024 == 291_648_307_200
    biases = 12 * 11 * 768 + 768  # projections and norms: nanoGPT counts a model without them
    assert estimate.total - biases == 124_337_664


def test_gpt3_costs_what_its_paper_says():
    estimate = plan("gpt3", flops=RATE)
    assert estimate.total == pytest.approx(174.6e9, rel=1e-3)
    assert estimate.tokens == pytest.approx(300e9, rel=1e-4)
    assert estimate.published == 3.14e23
    # They leave out the products of attention, which are 3% at 2,048 tokens.
    assert estimate.training_flops / estimate.published == pytest.approx(1.03, abs=0.005)
    assert plan("gpt3", ["model.layers=95"], flops=RATE).published is None
    keys_values = 2 * 96 * 12288 * 2048
    assert estimate.inference_memory["keys and values"] == 4 * keys_values


def test_an_encoder_computes_logits_of_hidden_tokens_alone_and_remembers_nothing():
    estimate = plan("bert-base", flops=RATE)
    assert estimate.forward["output"] * 512 == 2 * 77 * 30522 * 768  # 15% of 512
    assert list(estimate.inference_memory) == ["weights"]
    assert estimate.to_json()["target_length"] is None


def test_tokens_nobody_published_are_20_a_parameter_and_steps_outvote_them():
    estimate = plan("gpt2", flops=RATE)
    assert (estimate.tokens, estimate.tokens_from) == (20 * estimate.total, "20 a parameter")
    told = plan("gpt2", ["train.steps=7"], flops=RATE)
    assert told.tokens == 7 * 8 * 1024
    assert plan("t5-small", flops=RATE).tokens == 1_000_000 * 2048 * (512 + 114)


def test_a_text_longer_than_the_learned_positions_is_refused():
    with pytest.raises(InputError, match="length: got 1025, expected at most 1024"):
        plan("gpt2", flops=RATE, length=1025)
    assert plan("llama-7b", flops=RATE, length=8192).lengths == (8192,)


@pytest.mark.parametrize(
    ("name", "table_name"), [("gopher", "Gopher"), ("xlnet-large", "XLNet-Large")]
)
def test_one_count_for_models_with_relative_positions(name, table_name):
    """`regard plan`, `regard plan --table` and `regard show sizes` count the same."""
    estimate = plan(name, flops=RATE)
    dim, layers = estimate.recipe.model.dim, estimate.layers
    assert estimate.parameters["relative positions"] == layers * dim**2
    columns = compute_sizes()
    row = columns["models"].index(table_name)
    assert columns["parameters_computed"][row] == estimate.total
    text = estimate.table()
    assert "dim × dim in each layer, as in Transformer-XL" in text
    assert "without relative positions" in text
    assert "relative positions" not in plan("gpt3", flops=RATE).parameters


def test_a_network_of_convolutions_is_counted_for_an_image():
    estimate = plan("resnet-50", flops=RATE)
    values = estimate.to_json()
    assert values["flops_per_image"]["forward_multiply_adds"] == pytest.approx(4.09e9, rel=0.002)
    assert not {"flops_per_token", "tokens"} & set(values)
    assert values["images"] == 600_000 * 256
    assert estimate.training_flops == 3 * 2 * estimate.multiply_adds * 600_000 * 256
    text = re.sub(" +", " ", estimate.table())
    assert "resnet-50: 4 stages, 3-4-6-3 bottleneck" in text  # 50 layers in them
    assert "images of 224 x 224 by convolutions\n" in text
    assert "FLOPs per image, forward 8.18 G 4.09 G multiply-adds" in text
    assert "estimate, 8 images at a time" in text
    assert not re.search("token|6N", text)
    larger = plan("resnet-50", ["model.image=[448, 448]"], flops=RATE)
    assert larger.multiply_adds == pytest.approx(4 * estimate.multiply_adds, rel=0.01)
    assert larger.tokens == estimate.tokens
    assert plan("resnet-18", ["train.steps=3"], flops=RATE).tokens_from == "3 steps of 256 images"
    assert plan("cnn-lenet", flops=RATE, tokens=1e6).tokens == 1e6
    with pytest.raises(InputError, match="--length: got 7, expected none for convolutions"):
        plan("cnn-lenet", flops=RATE, length=7)


def test_patches_have_both_counts():
    text = re.sub(" +", " ", plan("vit-b", flops=RATE).table())
    assert "FLOPs per token, forward" in text
    assert "FLOPs per image, forward 35.1 G 17.6 G multiply-adds" in text


@pytest.mark.parametrize(
    "name", ["gpt3", "bert-large", "t5-base", "gopher", "roberta-large", "xlnet-large", "resnet-50"]
)
def test_the_tables_of_all_families_fit_a_terminal(name):
    estimate = plan(name, flops=RATE, price_per_hour=1)
    assert max(map(len, estimate.table().splitlines())) <= 100
    values = json.loads(json.dumps(estimate.to_json()))
    counts = values["parameters"]
    total = counts.pop("total")
    counts.pop("without_embeddings_and_output")
    assert sum(counts.values()) == total


def test_a_recipe_that_begins_from_a_folder_is_planned_with_the_folders_model(
    tmp_path, monkeypatch
):
    pytest.importorskip("transformers")
    theirs = tiny_bert.save(tmp_path / "bert")
    from regard.hub import folder

    monkeypatch.setattr(folder, "read_tensors", None)  # weights stay where they are
    start = [f"start.folder={tmp_path / 'bert'}"]
    estimate = plan("own/classify", [*start, "model.classes=[bad, good]"], flops=RATE)
    body = sum(p.numel() for p in theirs.bert.parameters())
    head = (32 * 32 + 32) + (2 * 32 + 2)  # the pooler and two classes
    assert estimate.total == body + head
    assert estimate.vocab == theirs.config.vocab_size
    assert estimate.recipe.model.max_length == 48 == estimate.lengths[0]
    assert "(start.folder's)" in estimate.table()
    assert plan("own/classify", start, flops=RATE, vocab=50).vocab == 50
    with pytest.raises(InputError, match="no folder nowhere"):
        plan("own/tag", ["start.folder=nowhere"], flops=RATE)


def test_a_run_and_a_shipped_model_are_folders_to_begin_from_too(tmp_path):
    p = regard.load("tiny/translate")
    p.save(tmp_path / "ours")
    for model_name in ("tiny/translate", str(tmp_path / "ours")):
        estimate = plan("own/translate", [f"start.folder={model_name}"], flops=RATE)
        assert estimate.recipe.model == p.model.config
        assert estimate.total == p.parameters


def test_a_wrong_override_is_said_as_a_recipe_says_it():
    with pytest.raises(InputError, match="heads"):
        plan("base", ["model.heads=7"])
    with pytest.raises(InputError, match=r"model\.dimm"):
        plan("base", ["model.dimm=7"])
    with pytest.raises(InputError, match="below 2"):
        plan("base", vocab=10**18)


def test_json_has_every_number_and_totals_that_add_up():
    values = json.loads(json.dumps(plan("base", flops=RATE, price_per_hour=1).to_json()))
    counts = values["parameters"]
    total, without_embeddings = counts.pop("total"), counts.pop("without_embeddings_and_output")
    assert sum(counts.values()) == total > without_embeddings
    for memory in (values["training_bytes"], values["inference_bytes"]):
        whole = memory.pop("total")
        assert whole == sum(memory.values())
    assert values["flops_per_token"]["rule_6n"] == 6 * without_embeddings
    names = [*values, *counts, *values["flops_per_token"], *values["training_bytes"]]
    assert all(re.fullmatch(r"[a-z0-9_]+", name) for name in names)


def test_the_table_is_aligned_and_in_human_units():
    estimate = plan("base", flops=RATE, price_per_hour=2.5)
    text = estimate.table()
    assert str(estimate) == text
    for row in ("parameters 63.1 M", "without embeddings and output 44.1 M",
                "target embedding the source embedding's matrix", "training 9.53e17 FLOPs",
                "tokens 5.00 G 100,000 steps of 50,000", "rate 1.00 TFLOP/s --flops",
                "time 11.0 days", "cost 661.8", "trained as own/base"):  # fmt: skip
        assert row in re.sub(" +", " ", text)
    rows = [line for section in text.split("\n\n")[1:] for line in section.splitlines()]
    assert {line[32:46] == line[32:46].rjust(14) and line[46:48].strip() for line in rows} == {""}
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize(
    ("hours", "words"),
    [(1e-4, "0.36 seconds"), (0.03, "108 seconds"), (0.5, "30.0 minutes"), (40, "40.0 hours"),
     (480, "20.0 days"), (8766 * 2000, "2,000 years")],
)  # fmt: skip
def test_durations_have_three_digits(hours, words):
    assert duration(hours) == words


@pytest.mark.parametrize(
    ("number", "words"),
    [(0.4, "0 B"), (950, "950 B"), (999.6, "1.00 kB"), (9_996, "10.0 kB"), (63_082_496, "63.1 MB"),
     (99_960_000, "100 MB"), (3.3e18, "3300 PB")],
)  # fmt: skip
def test_sizes_have_three_digits(number, words):
    assert short(number, "B") == words


def test_a_folder_is_planned_without_its_weights(regard, tmp_path):
    p = load("tiny/translate")
    p.save(tmp_path / "mine")
    (tmp_path / "mine/model.safetensors").write_bytes(b"not read")
    (tmp_path / "run/checkpoints").mkdir(parents=True)
    shutil.copytree(tmp_path / "mine", tmp_path / "run/checkpoints/00000005")
    for name in ("mine", "run"):
        estimate = plan(str(tmp_path / name), flops=1e12)
        assert estimate.total == p.parameters
        assert estimate.vocab == p.vocabulary.target.vocab
        assert estimate.tokens == plan("tiny/translate", flops=1e12).tokens
    result = regard("plan", "run", "train.steps=7", "--flops", "1e12", "--json")
    assert json.loads(result.out)["plan"] == "run"
    is_refused(regard("plan", "."), "run")  # a folder of something else


def test_somebody_elses_folder_is_planned_from_its_config(tmp_path):
    theirs = save("gpt2", tmp_path / "theirs")
    estimate = plan(str(tmp_path / "theirs"), flops=1e12)
    assert estimate.total == sum(parameter.numel() for parameter in theirs.parameters())
    assert estimate.tokens == 20 * estimate.total
    (tmp_path / "theirs/model.safetensors").unlink()
    assert plan(str(tmp_path / "theirs"), flops=1e12).total == estimate.total
