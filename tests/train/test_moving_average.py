"""A moving average of weights: the formula, tied weights, evaluation, and resuming bit for bit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from regard.checkpoint import run as checkpoint
from regard.errors import Interrupted
from regard.train import log
from regard.train.config import TrainConfig
from regard.train.loop import Trainer
from regard.train.moving_average import MovingAverage
from tests.train.test_loop import Line, job

DECAY = 0.8


@pytest.fixture(autouse=True)
def _no_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "plot_losses", lambda _, path: path.touch())


def test_it_is_the_formula_for_weights_and_buffers_and_copies_counts():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    average = MovingAverage(model, DECAY)
    expected = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for step in range(1, 60):
        model(torch.randn(5, 2))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter))
        average.update(model, step)
        decay = min(DECAY, (1 + step) / (10 + step))
        for name, tensor in model.state_dict().items():
            if tensor.is_floating_point():
                expected[name] = decay * expected[name] + (1 - decay) * tensor
    for name, tensor in average.weights.items():
        if tensor.is_floating_point():
            torch.testing.assert_close(tensor, expected[name])
    assert average.weights["1.num_batches_tracked"] == 59
    raw = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with average.used_in(model):
        state = model.state_dict()
        assert all(torch.equal(state[name], average.weights[name]) for name in state)
    state = model.state_dict()
    assert all(torch.equal(state[name], raw[name]) for name in state)


def test_a_tied_weight_stays_one():
    model = nn.ModuleDict({"one": nn.Linear(2, 2), "two": nn.Linear(2, 2)})
    model["two"].weight = model["one"].weight
    average = MovingAverage(model, DECAY)
    with torch.no_grad():
        model["one"].weight.add_(1)
    average.update(model, 1)
    assert average.weights["one.weight"] is average.weights["two.weight"]
    expected = model["one"].weight - 2 / 11  # decay 2 / 11 in the first step
    torch.testing.assert_close(average.weights["one.weight"], expected)


def test_the_average_is_evaluated_saved_and_resumed_bit_for_bit(tmp_path: Path) -> None:
    task = Line()
    whole = Trainer(job(task, tmp_path / "whole", ema=DECAY))
    whole.run()
    assert whole.average is not None
    _, last, _ = checkpoint.latest(tmp_path / "whole")
    for name, tensor in last.weights.items():
        assert torch.equal(tensor, whole.average.weights[name])
        assert torch.equal(tensor, task.evaluated[-1][name])  # the last evaluation saw it
        assert torch.equal(tensor, whole.model.state_dict()[name])  # and it is what is left
        assert not torch.equal(tensor, last.training_tensors[f"weights.{name}"])

    class Stopping(Line):
        def evaluate(self, model: nn.Module) -> dict[str, float]:
            scores = super().evaluate(model)
            if len(self.evaluated) == 2:
                import os
                import signal

                os.kill(os.getpid(), signal.SIGTERM)
            return scores

    with pytest.raises(Interrupted):
        Trainer(job(Stopping(), tmp_path / "cut", ema=DECAY)).run()
    _, snapshot, _ = checkpoint.latest(tmp_path / "cut")
    assert snapshot.step == 8
    again = job(Line(), tmp_path / "cut", ema=DECAY)
    Trainer(replace(again), snapshot).run()
    _, resumed, _ = checkpoint.latest(tmp_path / "cut")
    for name, tensor in last.training_tensors.items():
        assert torch.equal(tensor, resumed.training_tensors[name]), name
    for name, tensor in last.weights.items():
        assert torch.equal(tensor, resumed.weights[name])


def test_without_a_folder_the_best_average_is_left() -> None:
    task = Line()
    task.losses = iter((3.0, 1.0, 2.0))
    trained = job(task, ema=DECAY)
    Trainer(trained).run()
    state = trained.model.state_dict()
    assert all(torch.equal(state[name], task.evaluated[1][name]) for name in state)


@pytest.mark.parametrize(
    "fields", [{"ema": 0.9, "average": 3}, {"layer_decay": 0.5, "optimizer": "muon"}]
)
def test_what_does_not_go_together_is_refused(fields):
    with pytest.raises(ValueError, match=r"set one of them|needs optimizer"):
        TrainConfig.model_validate(fields)
