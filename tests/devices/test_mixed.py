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
        mixed_outputs = outputs(pair.there, inputs)
        total = sum(tensor.float().square().mean() for tensor in mixed_outputs)
    assert any(tensor.dtype == torch.bfloat16 for tensor in mixed_outputs)
    total.backward()
    for full, mixed in zip(outputs(pair.cpu, inputs), mixed_outputs, strict=True):
        torch.testing.assert_close(mixed.float(), full, rtol=0.1, atol=0.1)
    for parameter in pair.there.parameters():
        assert parameter.grad is None or (
            parameter.grad.dtype == torch.float32 and parameter.grad.isfinite().all()
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
