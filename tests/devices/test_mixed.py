"""Mixed precision of GPUs, as far as the CPU can show it: PyTorch's autocast knows the CPU, too.

On a CPU, Regard has products of its own (tests/kernels/test_mixed.py); here autocast replaces them.
"""

from __future__ import annotations

from functools import partial

import pytest
import torch

from regard.models.mode import evaluating, precision_of
from regard.runtime.device import Runtime
from tests.devices.checks import Twins, given, models, outputs

NAMES = {name: (family, changes) for name, family, changes in models()}


@pytest.fixture
def twins(monkeypatch):
    monkeypatch.setattr("regard.models.mode.products_in", partial(torch.autocast, "cpu"))
    monkeypatch.setattr("tests.devices.checks.DEVICE", "cpu")
    return lambda name: Twins(*NAMES[name])


@pytest.mark.parametrize("name", NAMES)
def test_products_of_16_bits_stay_near_those_of_32(twins, name):
    pair = twins(name)
    pair.there.mixed = torch.bfloat16
    inputs = given(pair, "cpu")
    with precision_of(pair.there):
        found = outputs(pair.there, inputs)
        total = sum(each.float().square().mean() for each in found)
    assert any(each.dtype == torch.bfloat16 for each in found)
    total.backward()
    for one, two in zip(outputs(pair.cpu, inputs), found, strict=True):
        torch.testing.assert_close(two.float(), one, rtol=0.1, atol=0.1)
    for each in pair.there.parameters():
        assert each.grad is None or (
            each.grad.dtype == torch.float32 and each.grad.isfinite().all()
        )


def test_a_model_computes_in_its_dtype_only_while_it_is_used(twins):
    model = twins("bert").there
    assert Runtime(1, 0, quiet=True).move(model) is model
    assert model.mixed is None
    with evaluating(model):
        assert not torch.is_autocast_enabled("cpu")
    model.mixed = torch.bfloat16
    with evaluating(model):
        assert torch.is_autocast_enabled("cpu")
        assert torch.get_autocast_dtype("cpu") == torch.bfloat16
    assert not torch.is_autocast_enabled("cpu")
