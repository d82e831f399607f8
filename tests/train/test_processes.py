"""Several processes that torchrun starts train as one does, end as one does, and go on as one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from regard.runs.train import flatten, train
from regard.train import step
from regard.train.checkpoint import run as checkpoint
from regard.train.checkpoint.folder import verify
from regard.train.log import read_metrics

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc").exists(), reason="looks for processes in /proc"),
]
SMALL = {
    "data": {"pairs": 200, "held_out": 20, "longest": 5},
    "model": {"dim": 16, "heads": 2, "hidden": 16, "dropout": 0.1},
    "train": {
        "steps": 8,
        "batch_tokens": 200,
        "evaluate_every": 4,
        "save_every": 4,
        "schedule": "constant",
    },
}
LONG = {**SMALL, "train": {**SMALL["train"], "steps": 3000, "save_every": 5, "log_every": 2}}


def torchrun(run, *more, changes=SMALL, processes=2):
    words = ["-m", "regard", "train", "tiny/copy", *flatten(changes), "-o", str(run), *more]
    start = ["-m", "torch.distributed.run", "--nproc-per-node", str(processes)]
    return subprocess.Popen(
        [sys.executable, *start, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finished(process):
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out, err


def weights(run):
    return checkpoint.read(checkpoint.newest(run), training=True).weights


def alike(one, two):
    assert one.keys() == two.keys()
    for name, tensor in one.items():
        torch.testing.assert_close(tensor, two[name], rtol=0, atol=1e-5, msg=name)


def in_one(run, changes, *, resume=False):
    """The same in one process, its batches cut in two as those of two processes are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step, "LEAST_NUMBERS", 1)
        train("tiny/copy", run, resume=resume, quiet=True, threads=2, **changes)
    return run


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return in_one(tmp_path_factory.mktemp("alone") / "run", SMALL)


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    run = tmp_path_factory.mktemp("two") / "run"
    return run, *finished(torchrun(run))


def test_two_processes_learn_what_one_does(two, alone):
    run, _, _ = two
    alike(weights(run), weights(alone))
    ours, theirs = read_metrics(run / "metrics.jsonl"), read_metrics(alone / "metrics.jsonl")
    assert [line["step"] for line in ours] == [line["step"] for line in theirs]
    for one, other in zip(ours, theirs, strict=True):
        for name in one.keys() & {"loss", "validation_loss", "gradient_norm"}:
            assert one[name] == pytest.approx(other[name], abs=1e-5)
    kept = [sorted(each.name for each in folder.iterdir()) for folder in (run, alone)]
    assert kept[0] == kept[1]


def test_only_one_of_them_speaks(two):
    _, out, err = two
    assert out == ""
    assert err.count("step 8: validation loss") == err.count("try: regard translate") == 1
    assert "Warning" not in err


def test_a_run_that_one_began_goes_on_in_two(alone, tmp_path):
    in_one(tmp_path / "run", of_steps(SMALL, 4))
    finished(torchrun(tmp_path / "run", "--resume"))
    alike(weights(tmp_path / "run"), weights(alone))


def of_steps(changes, steps):
    return {**changes, "train": {**changes["train"], "steps": steps}}


def ranks_of(process):
    """The process ids by rank, of what torchrun has started."""
    found = {}
    for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
        words = Path(f"/proc/{child}/environ").read_text().split("\0")
        found |= {word.removeprefix("RANK="): int(child) for word in words if word[:5] == "RANK="}
    return found


def under_way(process, run, lines=8):
    """Waits until a run has written some lines."""
    file, since = run / "metrics.jsonl", time.monotonic()
    while not file.exists() or file.read_text().count("\n") < lines:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() - since < 200
        time.sleep(0.05)


@pytest.mark.parametrize("rank", ["0", "1"])
def test_a_dead_process_ends_all_with_one_message_and_one_goes_on_alone(rank, tmp_path):
    run = tmp_path / "run"
    process = torchrun(run, changes=LONG)
    under_way(process, run)
    others = ranks_of(process)
    os.kill(others.pop(rank), signal.SIGKILL)
    _, err = process.communicate(timeout=120)
    assert process.returncode
    assert err.count("training stopped: another of its 2 processes has ended") == 1
    assert err.count("error: ") == 1
    assert not any(Path(f"/proc/{other}").exists() for other in others.values())
    for folder in (run / "checkpoints").glob("0*"):  # one that was being written has another name
        verify(folder)
    saved = checkpoint.summary(run)["step"]
    assert saved >= 5
    more = of_steps(LONG, saved + 5)
    in_one(run, more, resume=True)
    assert checkpoint.summary(run)["step"] == saved + 5
    alike(weights(run), weights(in_one(tmp_path / "unbroken", more)))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_torchrun_saves_and_ends(number, tmp_path):
    run = tmp_path / "run"
    process = torchrun(run, changes=LONG)
    under_way(process, run)
    process.send_signal(number)
    _, err = process.communicate(timeout=120)
    name = "Ctrl-C" if number == signal.SIGINT else "SIGTERM"
    saved = checkpoint.summary(run)["step"]
    assert err.count(f"stopped by {name} after step {saved}, saved; continue with the same") == 1
    verify(checkpoint.newest(run))


def test_what_all_of_them_refuse_is_said_once(tmp_path):
    for words in (("--device", "tpu"), ("model.max_length=2",)):
        _, err = (process := torchrun(tmp_path / "run", *words)).communicate(timeout=120)
        assert process.returncode
        assert err.count("error: ") == 1, err
    assert not (tmp_path / "run").exists()
