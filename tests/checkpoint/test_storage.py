"""Models in 16 and 8 bits on disk: how far off they are, what takes them, what is refused."""

from __future__ import annotations

import hashlib
import json

import pytest
import safetensors.torch
import torch
from torch import nn

from regard.checkpoint.folder import Manifest, Snapshot, read, write_folder
from regard.checkpoint.storage import from_stored, to_stored
from regard.data.synthetic.grammar import corpus as grammar
from regard.errors import InputError
from regard.hub.exchange import recipe_of
from regard.kernels.int8 import quantise_rows
from regard.models import GPTConfig, build
from regard.pipeline import Pipeline
from regard.recipes import recipe as recipes
from regard.runs.load import load, outline, vocabulary
from regard.runs.start import begin

pytestmark = pytest.mark.slow

SENTENCES = [
    *(pair.source for pair in grammar.DEMO),
    "The old dog didn't see the cat.",
    "The teacher thinks that her dog sleeps.",
    "The old woman opened the door because she heard a dog.",
]
MATRIX = "encoder.blocks.0.feed_forward.into.weight"
SCALES = MATRIX + ".scales"


@pytest.fixture(scope="module")
def pipeline() -> Pipeline:
    return load("tiny/translate")


@pytest.fixture(scope="module")
def folders(pipeline, tmp_path_factory):
    root = tmp_path_factory.mktemp("stored")
    return {store: pipeline.save(root / store, store=store) for store in ("fp16", "int8")}


def snapshot(weights, **config) -> Snapshot:
    return Snapshot(0, weights, {"regard": 1, **config}, "{}", "")


def rewrite(folder, change, **config):
    """The folder with other tensors or another config, and a manifest that vouches for them."""
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    change(tensors)
    (folder / "model.safetensors").write_bytes(safetensors.torch.save(tensors))
    said = json.loads((folder / "config.json").read_text()) | config
    (folder / "config.json").write_text(json.dumps(said))
    files = json.loads((folder / "manifest.json").read_text())["files"]
    for name in files:
        data = (folder / name).read_bytes()
        files[name] = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    manifest = Manifest.model_validate({"step": 0, "files": files})
    (folder / "manifest.json").write_bytes(manifest.render())


@pytest.mark.parametrize("steps", [64, 127])
def test_a_matrix_by_rows_is_off_by_half_a_scale_at_most(steps):
    matrix = torch.randn(300, 40) ** 3 * 10 ** torch.randint(-30, 30, (300, 1)).float()
    matrix[7], matrix[8], matrix[9, 1:] = 0, 1e-44, 0
    whole, scales = quantise_rows(matrix, steps)
    assert whole.dtype == torch.int8
    assert (scales > 0).all()
    assert whole.abs().max() == steps
    off = (matrix.double() - whole.double() * scales.double()[:, None]).abs()
    assert (off <= scales.double()[:, None] * (0.5 + 1e-5)).all()


@pytest.mark.parametrize(("store", "share"), [("fp16", 0.51), ("int8", 0.28)])
def test_a_stored_model_is_smaller_and_loaded_in_32_bits(pipeline, folders, store, share):
    size = (folders[store] / "model.safetensors").stat().st_size
    assert size < share * 4 * pipeline.parameters
    assert json.loads((folders[store] / "config.json").read_text())["stored"] == store
    again = load(folders[store])
    exact, rounded = pipeline.model.state_dict(), again.model.state_dict()
    assert all(tensor.dtype == torch.float32 for tensor in rounded.values())
    steps = {"fp16": 2**10, "int8": 127}[store]
    for name, tensor in exact.items():
        rows, off = torch.atleast_2d(tensor), torch.atleast_2d(rounded[name] - tensor).abs()
        assert (off <= rows.abs().amax(1, keepdim=True) / steps / 2 * 1.001).all(), name
    assert again.recipe == pipeline.recipe


@pytest.mark.parametrize("store", ["fp16", "int8"])
def test_a_stored_model_translates_looks_and_goes_out_as_the_whole_one(
    pipeline, folders, store, tmp_path
):
    again = load(folders[store])
    assert again.translate(SENTENCES) == pipeline.translate(SENTENCES)
    look = again.look(SENTENCES[0])
    assert look.target == grammar.DEMO[0].target
    assert vocabulary(folders[store]).tokens("The dog.")[1].token == "dog"
    assert outline(str(folders[store]))[0] == pipeline.recipe
    assert len(again.heads(grammar.DEMO)) == 40
    again.save(tmp_path / "again", store=store)  # rounding what is rounded changes nothing
    names = ("config.json", "model.safetensors")
    for name in names if store == "fp16" else names[:1]:
        assert (tmp_path / "again" / name).read_bytes() == (folders[store] / name).read_bytes()
    third = load(tmp_path / "again").model.state_dict()
    for name, tensor in again.model.state_dict().items():
        assert torch.allclose(third[name], tensor, rtol=1e-6, atol=0), name


def test_matrices_in_8_bits_run_in_8_bits_too(folders, pipeline):
    translated = load(folders["int8"], precision="int8").translate(SENTENCES)
    assert translated == pipeline.translate(SENTENCES)


@pytest.mark.parametrize("store", ["fp16", "int8"])
def test_training_begins_from_a_stored_model_and_commands_take_it(regard, folders, store, tmp_path):
    folder = str(folders[store])
    begun = begin(recipes.load("tiny/translate", [f"start.folder={folder}"]), None)
    assert torch.equal(begun.weights[MATRIX], load(folder).model.state_dict()[MATRIX])
    heads = ["heads", folder, "--pairs", "2", "--data", "few.tsv"]
    plan = ["plan", folder, "--flops", "1e9"]
    for command in (plan, ["ls", folder], ["tokens", folder, "The dog."], heads):
        (tmp_path / "few.tsv").write_text("The dog sleeps.\tDer Hund schläft.\n" * 3)
        assert regard(*command).code == 0
    assert regard("export", folder, "--store", "fp32", "-o", "whole").code == 0
    assert load(tmp_path / "whole").translate(SENTENCES[1]) == grammar.DEMO[1].target


@pytest.mark.parametrize("store", ["fp16", "int8"])
def test_a_stored_model_goes_out_to_hugging_face_as_it_is_computed_with(tmp_path, store):
    config = GPTConfig(size="gpt2", dim=64, heads=2, layers=1, max_length=16)
    recipe = recipe_of(config, (90,), tmp_path)
    Pipeline(build(config, 90), None, recipe).save(tmp_path / "x", store=store)
    loaded = load(tmp_path / "x")
    loaded.export(tmp_path / "hf")
    ids = [3, 89, 4, 7]
    assert torch.equal(load(tmp_path / "hf").logits(ids), loaded.logits(ids))
    assert (tmp_path / "x/model.safetensors").stat().st_size < 0.6 * 4 * loaded.parameters


def test_the_command_says_what_it_can_store(regard):
    refused = regard("export", "tiny/translate", "--store", "int4", "-o", "x")
    assert (refused.code, "fp32 or fp16 or int8" in refused.err) == (2, True)
    assert regard("export", "tiny/translate", "--store", "int8", "--to", "hf", "-o", "x").code == 2
    assert regard("export", "tiny/translate", "--to", "tf", "-o", "x").code == 2
    done = regard("export", "tiny/translate", "--to", "regard", "-o", "x")
    assert (done.code, done.err) == (0, "tiny/translate is in x, in fp32\n")


def test_a_tied_matrix_is_stored_once_in_8_bits_too(tmp_path):
    model = nn.Sequential(nn.Embedding(1000, 8), nn.Linear(8, 1000, bias=False))
    model[1].weight = model[0].weight
    write_folder(tmp_path / "x", snapshot(model.state_dict(), stored="int8"))
    assert (tmp_path / "x" / "model.safetensors").stat().st_size < 1.1 * 1000 * (8 + 4)
    weights = read(tmp_path / "x").weights
    assert weights["0.weight"] is weights["1.weight"]


def test_small_and_other_tensors_stay_as_they_are():
    tensors = {"norm": torch.randn(4000), "few": torch.randn(2, 8), "count": torch.arange(3000)}
    assert all(to_stored(tensors, "int8")[name] is tensor for name, tensor in tensors.items())
    assert to_stored(tensors, "fp16")["count"] is tensors["count"]


@pytest.mark.parametrize(
    ("tensor", "store", "said"),
    [
        (torch.full((3,), 1e5), "fp16", "too large for 16 bits: got 100000"),
        (torch.full((3,), torch.nan), "fp16", "not finite"),
        (torch.full((64, 64), torch.inf), "int8", "not finite"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(tmp_path, tensor, store, said):
    with pytest.raises(InputError, match=said):
        write_folder(tmp_path / "x", snapshot({"w": tensor}, stored=store))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t.pop(SCALES), "got no scales, expected a matrix and its scales"),
        (lambda t: t[SCALES].__setitem__(3, 0.0), "got a scale that is none"),
        (lambda t: t[SCALES].__setitem__(3, -1.0), "got a scale that is none"),
        (lambda t: t[SCALES].__setitem__(3, torch.nan), "got a scale that is none"),
        (lambda t: t[SCALES].__setitem__(3, torch.inf), "got a scale that is none"),
        (lambda t: t[SCALES].fill_(3e38), "not finite"),
        (lambda t: t.update({SCALES: t[SCALES][:-1]}), r"got \(255,\) float32"),
        (lambda t: t.update({SCALES: t[SCALES].double()}), r"got \(256,\) float64"),
        (lambda t: t.update({MATRIX: t[MATRIX][None]}), "got 3 dimensions"),
        (lambda t: t.update({MATRIX: t[MATRIX].short()}), "weights: got .* int16|no .*scales"),
        (lambda t: t.update({MATRIX: t[MATRIX][:, :5].contiguous()}), "do not fit config.json"),
        (lambda t: t.update({"x.scales": torch.ones(3)}), "do not fit config.json"),
        (lambda t: t.pop(MATRIX), "do not fit config.json"),
    ],
)
def test_what_a_manifest_vouches_for_is_checked_all_the_same(pipeline, tmp_path, change, said):
    folder = pipeline.save(tmp_path / "x", store="int8")
    rewrite(folder, change)
    with pytest.raises(InputError, match=said):
        load(folder)


@pytest.mark.parametrize("store", ["int4", 8, False, ["int8"], {}])
def test_another_way_of_storing_is_refused(pipeline, tmp_path, store):
    folder = pipeline.save(tmp_path / "x", store="int8")
    rewrite(folder, lambda _: None, stored=store)
    with pytest.raises(InputError, match=r'"stored": got .*, expected fp32 or fp16 or int8'):
        load(folder)


def test_8_bits_that_are_not_said_to_be_some_are_refused(pipeline, tmp_path):
    folder = pipeline.save(tmp_path / "x", store="int8")
    rewrite(folder, lambda _: None, stored="fp16")
    with pytest.raises(InputError, match="do not fit"):
        load(folder)


def test_what_the_memory_cannot_hold_in_32_bits_is_refused_before_it_is_taken(monkeypatch):
    monkeypatch.setattr("regard.runtime.device.memory", lambda: 1000)
    with pytest.raises(InputError, match="at most the machine's"):
        from_stored({"w": torch.zeros(30, 10, dtype=torch.int8)}, "int8", "x")
