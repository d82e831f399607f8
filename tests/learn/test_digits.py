"""The ViT on digits: killed at random moments, it ends with the same weights."""

from __future__ import annotations

import multiprocessing
import random
import signal
import sys
import time

import pytest
import torch

from regard.cli import main
from regard.train.checkpoint import run as checkpoint

FORKS = multiprocessing.get_context("forkserver")
WORDS = ["model.dim=16", "model.heads=2", "model.hidden=16", "model.layers=1", "train.steps=30",
         "train.save_every=1", "train.evaluate_every=5", "train.batch_tokens=170",
         "model.dropout=0.1"]  # fmt: skip


@pytest.mark.slow
def test_a_run_that_is_killed_goes_on_bit_for_bit(tmp_path, monkeypatch):
    FORKS.set_forkserver_preload(["regard.runs.train", "regard.explain.plot"])

    def start(run):
        words = ["regard", "train", "tiny/digits", *WORDS, "-o", str(tmp_path / run)]
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
