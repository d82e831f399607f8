"""Dropout by bytes: the right share, the right mean, nothing outside training."""

from __future__ import annotations

import pytest
import torch

from regard.layers import Dropout


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5])
@pytest.mark.parametrize("shape", [(1000, 101), (99991,)])
def test_drops_the_share_it_should_and_keeps_the_mean(p: float, shape: tuple[int, ...]) -> None:
    x = torch.ones(shape)
    y = Dropout(p).train()(x)
    assert float((y == 0).float().mean()) == pytest.approx(p, abs=0.01)
    assert float(y.mean()) == pytest.approx(1.0, abs=0.02)
    assert y.unique().numel() == 2


def test_every_place_is_dropped_equally_often() -> None:
    # A byte of a random word whose sign bit is fixed would be dropped too rarely.
    x, dropout = torch.ones(64), Dropout(0.5).train()
    share = torch.stack([dropout(x) == 0 for _ in range(4000)]).float().mean(0)
    assert float((share - 0.5).abs().max()) < 0.05


def test_places_are_independent() -> None:
    dropped = (Dropout(0.5).train()(torch.ones(200_000)) == 0).float()
    for distance in (1, 7, 8, 9):
        both = (dropped[:-distance] * dropped[distance:]).mean()
        assert float(both) == pytest.approx(0.25, abs=0.01)


def test_gradient_goes_where_the_value_went() -> None:
    x = torch.ones(1000, requires_grad=True)
    y = Dropout(0.3).train()(x)
    y.sum().backward()
    torch.testing.assert_close(x.grad, y.detach())


def test_nothing_happens_outside_training_or_at_0() -> None:
    x = torch.randn(5)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0).train()(x) is x


def test_the_seed_decides() -> None:
    x, dropout = torch.ones(100), Dropout(0.5).train()
    torch.manual_seed(3)
    first = dropout(x)
    torch.manual_seed(3)
    assert torch.equal(dropout(x), first)
