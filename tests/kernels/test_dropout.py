"""Dropout drops as often as it says, anywhere, and keeps the mean."""

from __future__ import annotations

import pytest
import torch

from regard.layers import Dropout


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5])
def test_every_place_is_dropped_as_often_as_said(p):
    out = Dropout(p)(torch.ones(8000, 24))
    rates = (out == 0).float().mean(0)  # by column: each byte of a random number has its own
    expected = torch.full((24,), round(256 * p) / 256)
    torch.testing.assert_close(rates, expected, rtol=0, atol=0.03)
    assert out.mean().item() == pytest.approx(1, abs=0.02)
    assert len(out.unique()) == 2


def test_neighbours_are_dropped_independently():
    dropped = (Dropout(0.5)(torch.ones(20000, 9)) == 0).float()
    together = torch.corrcoef(dropped.T) - torch.eye(9)
    assert together.abs().max() < 0.05


def test_the_gradient_passes_where_the_value_did():
    x = torch.ones(5, 7).mT.requires_grad_()  # not contiguous, not a multiple of eight
    out = Dropout(0.4)(x)
    out.sum().backward()
    assert torch.equal(x.grad, out)


def test_the_same_seed_drops_the_same():
    module, x = Dropout(0.5), torch.randn(10, 3)
    torch.manual_seed(1)
    first = module(x)
    torch.manual_seed(1)
    assert torch.equal(module(x), first)
    assert not torch.equal(module(x), first)


def test_it_does_nothing_in_eval_or_with_nothing_to_drop():
    x = torch.randn(4, 4)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x
    assert Dropout(0.5)(torch.zeros(0, 4)).shape == (0, 4)
    assert Dropout(0.9999)(x).isfinite().all()
