"""Schedules against the formulas, the optimizer's memory through names."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from regard.errors import InputError
from regard.train.config import TrainConfig
from regard.train.optim import (
    check_optimizer,
    learning_rate,
    optimizer,
    optimizer_tensors,
    parameters_without_state,
    restore_optimizer,
)


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


@pytest.mark.parametrize(("kind", "theirs"), [("adam", "Adam"), ("adamw", "AdamW")])
def test_the_updates_are_torch_s_bit_for_bit(kind: str, theirs: str) -> None:
    config = TrainConfig.model_validate({"optimizer": kind, "weight_decay": 0.1})
    model = nn.Linear(3, 2)
    other = copy.deepcopy(model)
    mine = optimizer(model, config)
    groups = [
        {"params": [other.weight], "weight_decay": 0.1},
        {"params": [other.bias], "weight_decay": 0.0},
    ]
    reference = getattr(torch.optim, theirs)(
        groups, lr=config.learning_rate, betas=config.betas, eps=config.epsilon, fused=True
    )
    for _ in range(4):
        inputs = torch.randn(5, 3)
        for network, memory in ((model, mine), (other, reference)):
            memory.zero_grad()
            network(inputs).square().sum().backward()
            memory.step()
        assert torch.equal(model.weight, other.weight)
        assert torch.equal(model.bias, other.bias)
    mine.zero_grad()
    assert model.weight.grad is None
    assert model.weight.requires_grad


def test_the_optimizer_s_memory_survives_by_name() -> None:
    def step(model: nn.Module, memory: torch.optim.Optimizer) -> None:
        model(torch.ones(1, 2)).sum().backward()
        memory.step()
        memory.zero_grad()

    config = TrainConfig()
    saved, restored = nn.Linear(2, 2), nn.Linear(2, 2)
    first, second = optimizer(saved, config), optimizer(restored, config)
    step(saved, first)
    restored.load_state_dict(saved.state_dict())
    restore_optimizer(restored, second, optimizer_tensors(saved, first))
    step(saved, first)
    step(restored, second)
    assert torch.equal(saved.weight, restored.weight)


def test_memory_of_another_model_is_refused() -> None:
    model = nn.Linear(2, 2)
    other = {"optimizer.other.weight.exp_avg": torch.zeros(1)}
    with pytest.raises(InputError, match=r"x: got optimizer\.other\.weight\.exp_avg of \(1,\)"):
        check_optimizer("x", model, other, step=1)


WRONG = {
    "shape": ("weight.exp_avg", torch.zeros(2, 3), r"\(2, 3\) float32, expected .* of \(2, 2\)"),
    "order of axes": ("bias.exp_avg", torch.zeros(2, 1), r"\(2, 1\) float32, expected .*\(2,\)"),
    "empty": ("bias.exp_avg_sq", torch.zeros(0), r"of \(0,\) float32, expected .* of \(2,\)"),
    "type": ("weight.exp_avg", torch.zeros(2, 2).double(), "float64, expected .* float32"),
    "a half": ("bias.exp_avg_sq", None, r"no optimizer\.bias\.exp_avg_sq, expected"),
    "more": ("bias.max_exp_avg_sq", torch.zeros(2), r"expected no optimizer\.bias\.max_exp_avg_sq"),
    "steps": ("weight.step", torch.zeros(1), r"step of \(1,\)"),
    "a whole number": ("weight.step", torch.tensor(3), "int64, expected"),
    "step before": ("weight.step", torch.tensor(-1.0), "got -1.0, expected a step from 0 to 5"),
    "step after": ("weight.step", torch.tensor(6.0), "got 6.0, expected a step from 0 to 5"),
    "no step": ("weight.step", torch.tensor(torch.nan), "got nan, expected a step"),
    "endless": ("weight.step", torch.tensor(torch.inf), "got inf, expected a step"),
    "between": ("weight.step", torch.tensor(1.5), "got 1.5, expected a step"),
    "no mean": ("bias.exp_avg", torch.full((2,), torch.nan), "bias.exp_avg: got nan"),
    "an endless mean": ("bias.exp_avg", torch.full((2,), -torch.inf), "exp_avg: got nan or inf"),
    "an endless square": ("bias.exp_avg_sq", torch.full((2,), torch.inf), "expected finite"),
    "no square": ("bias.exp_avg_sq", torch.full((2,), -1.0), "expected squares"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_every_tensor_of_the_memory_is_compared_with_the_model(wrong: str) -> None:
    model = nn.Linear(2, 2)
    memory = optimizer(model, TrainConfig())
    model(torch.randn(3, 2)).sum().backward()
    memory.step()
    tensors = optimizer_tensors(model, memory)
    check_optimizer("x", model, tensors, step=5)
    name, tensor, message = WRONG[wrong]
    tensors = {key: value for key, value in tensors.items() if key != f"optimizer.{name}"}
    if tensor is not None:
        tensors[f"optimizer.{name}"] = tensor
    with pytest.raises(InputError, match=message):
        check_optimizer("x", model, tensors, step=5)


def test_what_does_not_learn_has_no_memory() -> None:
    model = nn.Linear(2, 2)
    model.bias.requires_grad_(requires_grad=False)
    assert parameters_without_state(model, {}) == ["weight"]
    frozen = {f"optimizer.bias.{key}": torch.zeros(2) for key in ("exp_avg", "exp_avg_sq")}
    with pytest.raises(InputError, match=r"expected no optimizer\.bias\.exp_avg"):
        check_optimizer("x", model, frozen, step=5)


def test_lower_layers_learn_at_a_fraction_of_the_rate() -> None:
    from regard.models import ViTConfig, build

    sizes = {"dim": 8, "heads": 2, "hidden": 8, "layers": 3, "image": (4, 4), "patch": 2}
    model = build(ViTConfig.model_validate(sizes | {"classes": ("a", "b")}))
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    groups = optimizer(model, TrainConfig(layer_decay=0.5)).param_groups
    scales = {names[id(p)]: group["scale"] for group in groups for p in group["params"]}
    assert scales.keys() == dict(model.named_parameters()).keys()
    for name, scale in scales.items():
        depth = 0 if name.startswith(("embed.", "encoder.positions")) else 4
        depth = int(name.split(".")[2]) + 1 if ".blocks." in name else depth
        assert scale == 0.5 ** (4 - depth), name
    plain = optimizer(model, TrainConfig()).param_groups
    assert [group["scale"] for group in plain] == [1.0, 1.0]
