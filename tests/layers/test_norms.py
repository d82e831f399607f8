"""Norms, against their formulas."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.errors import InputError
from regard.layers import norm


@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_norms_are_their_formulas(kind):
    module, x = norm(kind, 6), torch.randn(5, 6)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.uniform_(0.5, 1.5)
    for row, out in zip(x.double(), module(x), strict=True):
        if kind == "layer":  # the biased variance
            variance = ((row - row.mean()) ** 2).sum() / 6
            expected = (row - row.mean()) / (variance + 1e-5).sqrt() * module.weight + module.bias
        else:
            expected = row / ((row**2).mean() + 1e-6).sqrt() * module.weight
        torch.testing.assert_close(out, expected.float())


def test_none_leaves_x_as_it_is():
    assert isinstance(norm("none", 6), nn.Identity)


def test_an_unknown_norm_is_refused():
    with pytest.raises(InputError, match="got batch, expected layer, rms or none"):
        norm("batch", 6)


@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_the_epsilon_is_added_under_the_root(kind):
    x = torch.tensor([[1e-3, -1e-3, 1e-3, -1e-3]])  # mean 0, mean square 1e-6
    torch.testing.assert_close(norm(kind, 4, 3e-6)(x), x / (1e-6 + 3e-6) ** 0.5)
    usual = {"layer": 1e-5, "rms": 1e-6}[kind]
    torch.testing.assert_close(norm(kind, 4)(x), x / (1e-6 + usual) ** 0.5)
