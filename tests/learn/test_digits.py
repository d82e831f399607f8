"""A ViT on digits and on a folder of images: killed at random moments, it ends the same."""

from __future__ import annotations

import multiprocessing
import random
import signal
import sys
import time

import pytest
import torch

from regard.checkpoint import run as checkpoint
from regard.cli import main
from regard.data.synthetic.scenes import make_scene
from regard.train.log import read_metrics

FORKS = multiprocessing.get_context("forkserver")
WORDS = ["model.dim=16", "model.heads=2", "model.hidden=16", "model.layers=1", "train.steps=30",
         "train.save_every=1", "train.evaluate_every=5", "train.batch_tokens=170",
         "model.dropout=0.1", "train.log_every=1", "data.mixup=0.5"]  # fmt: skip
CHANGED = ["data.folder=scenes", "data.shift=2", "data.crop=0.6", "data.randaugment=2",
           "data.cutmix=1.0", "model.image=[16, 16]"]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["tiny/digits", "own/images"])
def test_a_run_that_is_killed_goes_on_bit_for_bit(tmp_path, monkeypatch, recipe):
    """The run that is killed prepares its batches in a thread, the other one does not."""
    monkeypatch.chdir(tmp_path)
    for number in range(60):
        scene = make_scene(0, 0, number, most=1)
        (tmp_path / "scenes" / scene.labels["colour"]).mkdir(parents=True, exist_ok=True)
        scene.draw(20).save(tmp_path / "scenes" / scene.labels["colour"] / f"{number}.png")
    FORKS.set_forkserver_preload(["regard.runs.train", "regard.explain.plot"])

    def start(run):
        more = [] if recipe == "tiny/digits" else CHANGED
        more = [*more, f"data.workers={int(run == 'run')}"]
        words = ["regard", "train", recipe, *WORDS, *more, "-o", str(tmp_path / run)]
        monkeypatch.setattr(sys, "argv", [*words, "--quiet", "--threads", "1", "--resume"])
        process = FORKS.Process(target=main)  # which has the same sys.argv
        process.start()
        return process

    def weights(run):
        return checkpoint.latest(tmp_path / run)[1].weights

    dice, killed = random.Random(0), 0
    for _ in range(4):
        going = start("run")
        until = time.monotonic() + 60
        before = checkpoint.latest(tmp_path / "run")
        reached = -1 if before is None else before[1].step
        while going.is_alive() and time.monotonic() < until:
            found = checkpoint.latest(tmp_path / "run")
            if found is not None and found[1].step > reached:
                break
            time.sleep(0.05)
        time.sleep(dice.uniform(0, 0.3))
        going.kill()
        going.join()
        killed += going.exitcode == -signal.SIGKILL
    for run in ("run", "whole"):
        last = start(run)
        last.join(120)
        assert last.exitcode == 0
    assert killed >= 1
    one, other = weights("run"), weights("whole")
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    losses = [
        [(line["step"], line["loss"]) for line in read_metrics(tmp_path / run / "metrics.jsonl")
         if "loss" in line]
        for run in ("run", "whole")
    ]  # fmt: skip
    assert losses[0] == losses[1]
    assert len(losses[0]) == 30
