"""Loading once: each file is opened once, the optimizer's never, and memory is taken once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import safetensors.torch
import torch

from regard.checkpoint import run as checkpoint
from regard.checkpoint.run import Best, Snapshot
from regard.errors import InputError
from regard.hub.exchange import recipe_of
from regard.models import GPTConfig, build, describe
from regard.pipeline import Pipeline
from regard.recipes import recipe as recipes
from regard.runs.load import load, outline, vocabulary
from tests import tiny_bert

IDS = [3, 5, 7, 2]
_openings: Counter[str] | None = None


def _count(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open" and _openings is not None and isinstance(arguments[0], str | Path):
        _openings[str(arguments[0])] += 1


sys.addaudithook(_count)  # sees every file that Python opens, by whatever way


@contextmanager
def openings(folder: Path) -> Iterator[dict[str, int]]:
    """How often each file below a folder is opened in the body."""
    global _openings
    _openings, counts = Counter(), {}
    try:
        yield counts
        below = [name for name in [*_openings] if Path(name).is_relative_to(folder)]
        counts |= {str(Path(name).relative_to(folder)): _openings[name] for name in below}
    finally:
        _openings = None


def model_of(**changes: object) -> Pipeline:
    torch.manual_seed(0)
    small = {"size": "gpt2", "dim": 16, "heads": 2, "layers": 2, "hidden": 32, "max_length": 16}
    config = GPTConfig(**small | changes)
    vocab = tiny_bert.tokenizer().get_vocab_size()
    return Pipeline(build(config, vocab), None, recipe_of(config, (vocab,), Path("nowhere")))


def snapshot(step: int, pipeline: Pipeline, best: int) -> Snapshot:
    weights = pipeline.model.state_dict()
    return Snapshot(
        step=step,
        weights=weights,
        config=describe(pipeline.model),
        tokenizer="{}",
        recipe=recipes.dump(pipeline.recipe),
        training_tensors={f"moment.{name}": tensor for name, tensor in weights.items()},
        training={"place": {"step": step, "best": {"step": best, "loss": 0.5}}},
    )


def run_of(folder: Path, steps: list[int], best: int) -> Path:
    for step in steps:
        known = min(best, step)
        checkpoint.save(folder, snapshot(step, model_of(), known), 9, Best(known, 0.5))
    return folder


@pytest.fixture(scope="module")
def theirs(tmp_path_factory) -> Path:
    folder = model_of().export(tmp_path_factory.mktemp("hub") / "theirs")
    tiny_bert.tokenizer().save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text('{"pad_token": "[PAD]"}')
    return folder


USED = ("manifest.json", "config.json", "model.safetensors", "tokenizer.json", "recipe.yaml")


@pytest.mark.parametrize("best", [1, 2, 3])
def test_of_a_run_each_file_of_the_best_is_opened_once_and_its_optimizer_never(tmp_path, best):
    run = run_of(tmp_path, [1, 2, 3], best)
    with openings(run / "checkpoints") as counts:
        loaded = load(run)
    assert torch.equal(loaded.logits(IDS), model_of().logits(IDS))
    asked = {"00000003/manifest.json", "00000003/training.json"}  # which is the best
    assert counts == dict.fromkeys({f"{best:08d}/{name}" for name in USED} | asked, 1)


def test_of_a_checkpoint_each_file_is_opened_once(tmp_path):
    folder = run_of(tmp_path, [1], 1) / "checkpoints" / "00000001"
    with openings(folder) as counts:
        load(folder)
    assert counts == dict.fromkeys(USED, 1)
    with openings(folder) as counts, pytest.raises(InputError, match="takes ids"):
        vocabulary(folder)
    assert counts == dict.fromkeys(("manifest.json", "config.json", "tokenizer.json"), 1)
    with openings(folder) as counts:
        outline(str(folder))
    assert counts == dict.fromkeys(("config.json", "recipe.yaml"), 1)


def test_a_changed_optimizer_is_no_matter_for_use_but_a_cut_one_is(tmp_path):
    folder = run_of(tmp_path, [1], 1) / "checkpoints" / "00000001"
    state = folder / "training.safetensors"
    state.write_bytes(b"x" * state.stat().st_size)
    assert torch.equal(load(tmp_path).logits(IDS), model_of().logits(IDS))
    with pytest.raises(InputError, match=r"training\.safetensors: checksum differs"):
        checkpoint.latest(tmp_path)
    state.write_bytes(b"x")
    with pytest.raises(InputError, match=r"training\.safetensors: 1 bytes instead of"):
        load(folder)


@pytest.mark.parametrize("at", [0, 20, -1])
def test_a_changed_byte_of_the_weights_is_a_changed_byte_wherever_it_is(tmp_path, at):
    folder = model_of().save(tmp_path / "x")
    data = bytearray((folder / "model.safetensors").read_bytes())
    data[at] ^= 64
    (folder / "model.safetensors").write_bytes(data)
    with pytest.raises(InputError, match=r"model\.safetensors: checksum differs"):
        load(folder)


def test_a_changed_config_is_noticed_though_it_is_read_first(tmp_path):
    folder = model_of().save(tmp_path / "x")
    text = (folder / "config.json").read_text()
    (folder / "config.json").write_text(text.replace('"regard": 2', '"regard":  2'))
    with pytest.raises(InputError, match=r"config\.json: \d+ bytes instead of"):
        load(folder)
    (folder / "config.json").write_text(text.replace("gelu_tanh", "gelu_tanx"))
    with pytest.raises(InputError, match=r"config\.json: checksum differs"):
        load(folder)


def test_of_a_hugging_face_folder_each_file_is_opened_once(theirs):
    with openings(theirs) as counts:
        loaded = load(theirs)
    assert counts == dict.fromkeys([file.name for file in theirs.iterdir()], 1)
    assert torch.equal(loaded.logits(IDS), model_of().logits(IDS))
    with openings(theirs) as counts:
        vocabulary(theirs)
    names = ("config.json", "tokenizer.json", "tokenizer_config.json")
    assert counts == dict.fromkeys(names, 1)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float64])
def test_of_parts_in_other_bits_each_is_opened_once(theirs, tmp_path, kind):
    for file in theirs.glob("*.json"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    whole = safetensors.torch.load_file(theirs / "model.safetensors")
    names, weight_map = sorted(whole), {}
    for number, part in enumerate((names[:9], names[9:])):
        file = f"model-{number}.safetensors"
        tensors = {name: whole[name].to(kind) for name in part}
        safetensors.torch.save_file(tensors, tmp_path / file)
        weight_map |= dict.fromkeys(part, file)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))
    with openings(tmp_path) as counts:
        loaded = load(tmp_path)
    assert counts == dict.fromkeys([file.name for file in tmp_path.iterdir()], 1)
    rounded = {
        name: tensor.to(kind).float() for name, tensor in model_of().model.state_dict().items()
    }
    for name, tensor in loaded.model.state_dict().items():
        assert torch.equal(tensor, rounded[name])


def test_the_averaged_checkpoints_are_opened_once_each(tmp_path):
    run_of(tmp_path, [1, 2, 3], 1)
    with openings(tmp_path) as counts:
        weights = checkpoint.last_weights(tmp_path, checkpoint.AveragedSteps(2, 1), 3)
    assert len(weights) == 2
    assert set(counts.values()) == {1}
    assert {Path(name).parent.name for name in counts} == {"00000001", "00000002"}


SIZED = {"dim": 512, "heads": 8, "layers": 8, "hidden": 2048}
"""Of 100 MB."""
MEASURE = """
import ctypes, gc, json, sys
import regard
from benchmarks.measure.memory import forget_peak, peak, resident

trim = getattr(ctypes.CDLL(None), "malloc_trim", lambda _: None)
shares = {}
for name, (small, sized) in json.loads(sys.argv[1]).items():
    regard.load(small)  # what is imported and built for the first time is not counted
    gc.collect()
    trim(0)  # nor is memory that was freed and not yet given back
    forget_peak()
    before = resident()
    if peak() - before > 2**20:
        continue  # this system does not say how much memory was held at most
    model = regard.load(sized)
    shares[name] = (peak() - before) / (4 * model.parameters)
    del model
print(json.dumps(shares))
"""


def stored(root: Path, **changes: object) -> dict[str, Path]:
    """One model in each way it can be stored."""
    pipeline = model_of(**changes)
    folders = {
        store: pipeline.save(root / store, store=store) for store in ("fp32", "fp16", "int8")
    }
    folders["theirs"] = pipeline.export(root / "theirs")
    folders["theirs in 16 bits"] = root / "half"
    folders["theirs in 16 bits"].mkdir()
    for file in folders["theirs"].iterdir():
        (root / "half" / file.name).write_bytes(file.read_bytes())
    whole = safetensors.torch.load_file(root / "theirs/model.safetensors")
    half = {name: tensor.bfloat16() for name, tensor in whole.items()}
    safetensors.torch.save_file(half, root / "half/model.safetensors")
    state = replace(snapshot(1, pipeline, 1), training_tensors={"m": torch.zeros(2**24)})
    checkpoint.save(root / "run", state, 1, Best(1, 0.5))
    return folders | {"run": root / "run"}


@pytest.mark.slow
def test_loading_takes_the_memory_of_the_weights_once(tmp_path):
    # In a process of its own: other tests of this one take and free memory of their own.
    small, sized = stored(tmp_path / "small"), stored(tmp_path / "sized", **SIZED)
    pairs = {name: [str(small[name]), str(sized[name])] for name in small}
    child = [sys.executable, "-c", MEASURE, json.dumps(pairs)]
    root = Path(__file__).parents[1]  # for benchmarks/, which is not installed
    ran = subprocess.run(child, check=True, capture_output=True, text=True, cwd=root)
    shares = json.loads(ran.stdout)
    if not shares:
        pytest.skip("this system does not say how much memory was held at most")
    assert shares.keys() == pairs.keys()
    assert {name: share for name, share in shares.items() if share > 1.1} == {}
    assert min(shares.values()) > 0.9  # the weights were really counted
