"""From a recipe to a run and back, killed at random moments."""

from __future__ import annotations

import json
import multiprocessing
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
import torch

import regard
from regard.checkpoint import run as checkpoint
from regard.cli import main
from regard.errors import InputError
from regard.layers.short import with_value
from regard.models import parse_description
from regard.recipes import recipe as recipes
from regard.runs import train as training
from regard.runs.load import load
from regard.runs.train import _facts, flatten, train
from regard.runtime import device as runtime
from regard.tasks import Translate
from regard.train import step as shards
from regard.train.log import read_metrics
from tests.checkpoint.test_checkpoint import forge

SMALL = {
    "data": {"pairs": 200, "held_out": 20, "longest": 5},
    "model": {"dim": 16, "heads": 2, "hidden": 16},
    "train": {
        "steps": 12,
        "batch_tokens": 200,
        "evaluate_every": 6,
        "save_every": 3,
        "log_every": 2,
    },
}
WORDS = flatten(SMALL)
FORKS = multiprocessing.get_context("forkserver")
# Processes are forks of one that has imported torch, which would take two seconds every time.
FORKS.set_forkserver_preload(["regard.runs.train", "regard.explain.plot"])


def command(run: Path, *more: str, words: Sequence[str] = WORDS) -> list[str]:
    words = [sys.executable, "-m", "regard", "train", "tiny/copy", *words, "-o", str(run)]
    return [*words, "--quiet", "--threads", "1", *more]


def small(out: Path | None = None, **more: object) -> regard.Pipeline:
    return train("tiny/copy", out, quiet=True, threads=1, **{**SMALL, **more})  # type: ignore[arg-type]


def same(first: Path, second: Path) -> bool:
    a, b = (checkpoint.read(checkpoint.find(run), training=True) for run in (first, second))
    tensors = a.weights.keys() == b.weights.keys() and a.step == b.step
    return tensors and all(torch.equal(a.weights[name], b.weights[name]) for name in a.weights)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run that came to its end; nobody writes into it."""
    run = tmp_path_factory.mktemp("trained") / "run"
    small(run)
    return run


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A run of one's own that came to its end."""
    return shutil.copytree(trained, tmp_path / "run")


def test_a_run_holds_what_people_expect(tmp_path: Path) -> None:
    pipeline = small(tmp_path / "run")
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert {"recipe.yaml", "metrics.jsonl", "loss.png", "checkpoints", "best.json"} <= names
    files = {path.name for path in checkpoint.find(tmp_path / "run").iterdir()}
    assert files == {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "recipe.yaml",
        "seen.bin",
        "training.safetensors",
        "training.json",
        "manifest.json",
    }
    lines = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert [line["step"] for line in lines if "loss" in line] == [2, 4, 6, 8, 10, 12]
    assert [line["step"] for line in lines if "validation_loss" in line] == [6, 12]
    assert load(tmp_path / "run").translate("1 2") == pipeline.translate("1 2")


def test_a_folder_that_holds_a_run_is_not_overwritten(run: Path) -> None:
    with pytest.raises(InputError, match="already holds a run"):
        small(run)


def test_who_comes_second_takes_nothing_from_who_came_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    winner = checkpoint.RunLock(run)

    class Late(checkpoint.RunLock):
        def __enter__(self) -> checkpoint.RunLock:
            winner.__enter__()  # another process starts after this one looked, before it locks
            (run / "recipe.yaml").write_text("the winner's")
            return super().__enter__()

    monkeypatch.setattr(training, "RunLock", Late)
    with pytest.raises(InputError, match=r"another process \(\d+\) is training in"):
        small(run)
    assert (run / "recipe.yaml").read_text() == "the winner's"
    assert (run / ".lock").exists()
    winner.__exit__(None, None, None)


def test_resume_before_the_first_checkpoint_starts_anew_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    small(tmp_path / "run", resume=True)
    assert caplog.messages[0].startswith("no checkpoint was found in ")
    assert caplog.messages[0].endswith("training starts from step 0")


def test_resume_refuses_a_changed_key_by_name(run: Path) -> None:
    with pytest.raises(InputError, match=r"model\.dim changed"):
        small(run, resume=True, model={**SMALL["model"], "dim": 32})


def test_resume_with_more_steps_goes_on(run: Path) -> None:
    small(run, resume=True, train={**SMALL["train"], "steps": 15})
    last = checkpoint.latest(run)
    assert last is not None
    assert last[1].step == 15


@pytest.mark.slow
def test_resume_refuses_changed_data(tmp_path: Path) -> None:
    files = tmp_path / "pairs.tsv"
    files.write_text("".join(f"a{i % 7} b\tb a{i % 7}\n" for i in range(60)))
    overrides = {"data": {"kind": "files", "train": str(files), "held_out": 5}}
    small(tmp_path / "run", **overrides)
    files.write_text(files.read_text() + "c d\td c\n")
    with pytest.raises(InputError, match=r"other data.*pairs\.tsv changed"):
        small(tmp_path / "run", **overrides, resume=True)


@pytest.mark.slow
def test_another_thread_count_is_warned_about(run: Path, caplog: pytest.LogCaptureFixture) -> None:
    overrides = {**SMALL, "train": {**SMALL["train"], "steps": 13}}
    train("tiny/copy", run, resume=True, quiet=True, threads=2, **overrides)
    torch.set_num_threads(1)
    assert "threads: 2 now, 1 when the run began" in caplog.text


@pytest.mark.slow
def test_resuming_takes_threads_and_parts_from_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(shards, "LEAST_NUMBERS", 2**8)  # so that these small batches are cut

    def go(run: str, steps: int, threads: int | None) -> dict[str, object]:
        changed = {"steps": steps, "evaluate_every": 9, "schedule": "constant"}
        overrides = {**SMALL, "train": {**SMALL["train"], **changed}}
        train("tiny/copy", tmp_path / run, resume=True, quiet=True, threads=threads, **overrides)
        last = checkpoint.latest(tmp_path / run)
        assert last is not None
        return last[1].training

    try:
        assert go("whole", 4, 2)["parts"] == 2
        go("run", 2, 2)
        monkeypatch.setenv("REGARD_THREADS", "1")
        monkeypatch.setattr(shards, "LEAST_NUMBERS", 2**18)
        caplog.clear()
        after = go("run", 4, None)
        assert (after["threads"], after["parts"]) == (2, 2)
        assert torch.get_num_threads() == 1
        assert caplog.messages[0].startswith("threads: 2, as when the run began, not 1")
        assert same(tmp_path / "whole", tmp_path / "run")
        asked = go("run", 5, 1)
        assert (asked["threads"], asked["parts"]) == (1, 2)
    finally:
        torch.set_num_threads(1)


def test_damaged_newest_checkpoint_is_passed_over_with_a_message(
    run: Path, trained: Path, caplog: pytest.LogCaptureFixture
) -> None:
    newest = run / "checkpoints" / "00000012" / "model.safetensors"
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1
    newest.write_bytes(bytes(content))
    small(run, resume=True)
    assert "00000012 is damaged" in caplog.text
    assert same(run, trained)


FAMILIES = {
    "transformer": WORDS,
    "seq2seq": flatten({**SMALL, "model": {"family": "seq2seq", "dim": 16}}),
}


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_killed_at_random_moments_ends_with_the_same_weights(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Steps enough for several kills, however fast the machine is.
    overrides = ["train.save_every=1", "train.steps=150", "train.evaluate_every=50"]

    def start(run: Path) -> BaseProcess:
        typed = command(run, *overrides, "--resume", words=FAMILIES[family])
        monkeypatch.setattr(sys, "argv", typed[2:])
        process = FORKS.Process(target=main)  # which has the same sys.argv
        process.start()
        return process

    chance = random.Random(0)
    killed = 0
    for _ in range(12):
        going = start(tmp_path / "run")
        began = wait_for_checkpoint(tmp_path / "run", going)
        time.sleep(chance.uniform(0, 0.6) if began else 0)
        going.kill()
        going.join()
        killed += going.exitcode == -signal.SIGKILL
        newest = checkpoint.latest(tmp_path / "run")
        if newest is not None and newest[1].step == 150:
            break
    for run in ("run", "whole"):
        last = start(tmp_path / run)
        last.join(120)
        assert last.exitcode == 0
    assert killed >= 2
    assert same(tmp_path / "run", tmp_path / "whole")


def wait_for_checkpoint(run: Path, going: BaseProcess) -> bool:
    """Until the process has written one more checkpoint, or ended."""

    def newest() -> str:
        names = (path.name for path in run.glob("checkpoints/*"))
        return max((name for name in names if name.isdigit()), default="")

    before, until = newest(), time.monotonic() + 60
    while going.exitcode is None and time.monotonic() < until:
        if newest() != before:
            return True
        time.sleep(0.01)
    return False


LONG = ["train.steps=120", "train.save_every=100000", "train.evaluate_every=100000"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A long run that nobody stopped."""
    run = tmp_path_factory.mktemp("long") / "whole"
    train(recipes.load("tiny/copy", [*WORDS, *LONG]), run, quiet=True, threads=1)
    return run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)]
)
def test_a_signal_saves_after_the_step_and_resuming_is_exact(
    tmp_path: Path, whole: Path, number: signal.Signals, code: int
) -> None:
    going = subprocess.Popen(command(tmp_path / "run", *LONG), stderr=subprocess.PIPE, text=True)
    metrics = tmp_path / "run" / "metrics.jsonl"
    until = time.monotonic() + 60
    while time.monotonic() < until and not (metrics.exists() and metrics.stat().st_size):
        time.sleep(0.01)
    going.send_signal(number)
    _, said = going.communicate(timeout=60)
    assert going.returncode == code
    assert "saved" in said
    assert "--resume" in said
    assert "Traceback" not in said
    recipe = recipes.load("tiny/copy", [*WORDS, *LONG])
    train(recipe, tmp_path / "run", resume=True, quiet=True, threads=1)
    assert same(tmp_path / "run", whole)


@pytest.mark.slow
def test_a_forged_training_json_and_config_are_refused_in_two_lines(tmp_path: Path) -> None:
    short = {**SMALL, "train": {**SMALL["train"], "steps": 3, "evaluate_every": 3}}

    def resumed() -> None:
        train("tiny/copy", tmp_path / "run", resume=True, quiet=True, threads=1, **short)

    train("tiny/copy", tmp_path / "run", quiet=True, threads=1, **short)
    folder = tmp_path / "run" / "checkpoints" / "00000003"
    resumed()
    good = {name: (folder / name).read_bytes() for name in ("training.json", "config.json")}

    def refused(file: str, content: dict[str, object], message: str) -> None:
        forge(folder, file, json.dumps(content).encode())
        with pytest.raises(InputError, match=message) as caught:
            resumed()
        assert len(str(caught.value).splitlines()) <= 2
        forge(folder, file, good[file])

    facts = json.loads(good["training.json"])
    refused("training.json", {**facts, "data": [1]}, r"00000003/training\.json: data")
    refused("training.json", {**facts, "place": [1]}, r"00000003/training\.json: place")
    config = json.loads(good["config.json"])
    refused("config.json", {**config, "source_vocab": 10**12}, "the weights do not fit config")
    other = {**config, "model": with_value(config["model"], ["dropout"], 0.5)}
    refused("config.json", other, "got another model than that of recipe.yaml")
    resumed()
    snapshot = checkpoint.read(folder, training=True)
    for key in ("threads", "torch", "data"):
        for value in (None, True, -1, 1e308, 10**30, [], {"a": {}}, {"a": 1}):
            with pytest.raises(InputError, match=rf"training\.json: {key}"):
                _facts(replace(snapshot, training={**facts, key: value}))
        left = {name: value for name, value in facts.items() if name != key}
        with pytest.raises(InputError, match=rf"{key}: got nothing"):
            _facts(replace(snapshot, training=left))
    with pytest.raises(InputError, match="more: got an unknown key"):
        _facts(replace(snapshot, training={**facts, "more": 1}))


@pytest.mark.parametrize(
    "size", ["model.dim=10000000", "model.dim=100000000", "model.hidden=1000000000"]
)
def test_what_the_machine_cannot_hold_is_refused_before_the_data_is_read(
    monkeypatch, tmp_path, size
):
    monkeypatch.setattr(Translate, "prepare", lambda *_: pytest.fail("the data was read"))
    recipe = recipes.load("tiny/copy", [size])
    both = r"got a need for [\d,.]+ GB of memory, expected at most the machine's [\d,.]+ GB"
    with pytest.raises(InputError, match=both) as caught:
        train(recipe, tmp_path / "run", quiet=True)
    assert len(str(caught.value).splitlines()) == 2
    assert not (tmp_path / "run").exists()


def test_a_vocabulary_counts_once_it_is_known(monkeypatch):
    few = recipes.load("tiny/copy", WORDS)
    needed = 16 * sum(p.numel() for p in train(few, quiet=True).model.parameters())
    monkeypatch.setattr(runtime, "memory", lambda: needed - 1)
    monkeypatch.setattr(training, "build", lambda *_: pytest.fail("it was built"))
    with pytest.raises(InputError, match="GB of memory"):
        train(few, quiet=True)


@pytest.mark.parametrize("family", [["gpt"], {"a": 1}, None, 3])
def test_a_family_that_is_no_name_is_refused(family):
    with pytest.raises(InputError, match="a family of transformer"):
        parse_description({"regard": 1, "family": family})


@pytest.mark.parametrize(
    ("layers", "said"),
    [(10**9, "at most 1000|less than or equal to 1000"), ("x", "a valid integer")],
)
def test_a_size_that_no_model_has_is_named_with_its_bound(layers, said):
    model = {"layers": layers}
    with pytest.raises(
        InputError, match=rf"config\.json: decoder\.layers: got {layers!r}, expected .*({said})"
    ):
        parse_description({"regard": 1, "family": "gpt", "vocab": 5, "model": model})
