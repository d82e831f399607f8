"""Schedules against the formulas, the optimizer's memory through names."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from regard.errors import InputError
from regard.train.config import TrainConfig
from regard.train.optim import learning_rate, optimizer, optimizer_tensors, restore_optimizer


@pytest.mark.parametrize("step", [1, 100, 4000, 4001, 100_000])
def test_paper_schedule_is_the_paper_s_equation(step: int) -> None:
    config = TrainConfig(schedule="paper", learning_rate=1.0, warmup=4000)
    expected = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
    assert learning_rate(step, config, dim=512) == pytest.approx(expected)


@given(
    st.sampled_from(["cosine", "constant"]),
    st.integers(0, 50),
    st.integers(1, 200),
    st.integers(1, 300),
)
def test_rate_stays_between_0_and_the_peak(kind: str, warmup: int, steps: int, step: int) -> None:
    config = TrainConfig.model_validate({"schedule": kind, "warmup": warmup, "steps": steps})
    assert 0 < learning_rate(step, config, dim=8) <= config.learning_rate * (1 + 1e-9)


def test_cosine_goes_from_peak_to_its_final_fraction() -> None:
    config = TrainConfig(schedule="cosine", learning_rate=1.0, warmup=10, steps=110)
    rates = [learning_rate(step, config, dim=8) for step in range(1, 111)]
    assert rates[9] == max(rates) == 1.0
    assert rates[59] == pytest.approx(0.05 + 0.95 * 0.5)
    assert rates[-1] == pytest.approx(0.05)
    assert rates[9:] == sorted(rates[9:], reverse=True)


def test_decay_acts_on_matrices_only() -> None:
    groups = optimizer(nn.Linear(2, 2), TrainConfig(weight_decay=0.1)).param_groups
    assert [(g["weight_decay"], [p.dim() for p in g["params"]]) for g in groups] == [
        (0.1, [2]),
        (0.0, [1]),
    ]


def test_the_optimizer_s_memory_survives_by_name() -> None:
    def step(model: nn.Module, memory: torch.optim.Optimizer) -> None:
        model(torch.ones(1, 2)).sum().backward()
        memory.step()
        memory.zero_grad()

    config = TrainConfig()
    one, two = nn.Linear(2, 2), nn.Linear(2, 2)
    first, second = optimizer(one, config), optimizer(two, config)
    step(one, first)
    two.load_state_dict(one.state_dict())
    restore_optimizer(two, second, optimizer_tensors(one, first))
    step(one, first)
    step(two, second)
    assert torch.equal(one.weight, two.weight)


def test_memory_of_another_model_is_refused() -> None:
    model = nn.Linear(2, 2)
    with pytest.raises(InputError, match=r"state of other\.weight"):
        restore_optimizer(
            model,
            optimizer(model, TrainConfig()),
            {"optimizer.other.weight.exp_avg": torch.zeros(1)},
        )
