"""The figures of recurrent networks: what they show is what the layers compute."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.errors import InputError
from regard.layers import Recurrent
from regard_lectures import show
from regard_lectures.figures.recurrence import gradient_norms, unrolled


def test_the_weights_of_a_gate_are_products_over_the_way_to_each_candidate():
    u = torch.rand(4, 3)
    weights, of_start = unrolled(u)
    for t in range(4):
        for i in range(4):
            expected = (1 - u[i]) * u[i + 1 : t + 1].prod(0) if i <= t else torch.zeros(3)
            torch.testing.assert_close(weights[t, i], expected)
        torch.testing.assert_close(of_start[t], u[: t + 1].prod(0))


def test_a_state_is_rebuilt_from_the_weights_of_the_past():
    numbers = show("gates", text="the dog sees the cat").numbers
    assert numbers["difference"] < 1e-6
    assert numbers["least_sum"] == pytest.approx(1, abs=1e-6)
    assert numbers["largest_sum"] == pytest.approx(1, abs=1e-6)
    assert not np.triu(numbers["weights"], 1).any()
    with pytest.raises(InputError, match="1 words, expected 2 to 12"):
        show("gates", text="dog")


def test_gradients_through_time_vanish_grow_or_stay():
    numbers = show("vanishing", length=30, dim=32).numbers
    rnn, gru, lstm, attention = (
        numbers[f"gradient_{name}"] for name in ("rnn", "gru", "lstm", "attention")
    )
    assert rnn[-1] < 1e-6 * rnn[0]
    assert rnn[-1] < gru[-1] < 1e-2 * gru[0]
    assert rnn[-1] < lstm[-1] < 1e-2 * lstm[0]
    assert numbers["gradient_rnn_large"][-1] > 2 * numbers["gradient_rnn_large"][0]
    assert attention[-1] == pytest.approx(attention[10], rel=0.5)
    assert numbers["parameters_gru"] == 3 * numbers["parameters_rnn"]
    assert numbers["parameters_lstm"] == 4 * numbers["parameters_rnn"]


def test_the_gradient_at_a_distance_is_a_product_of_jacobians():
    """Of an RNN without inputs' noise in the way: the norm falls by U at every step."""
    layer = Recurrent(4, cell="rnn")
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        layer.cells.weight_ih_l0.copy_(1e-3 * torch.eye(4))  # tanh is nearly linear
        layer.cells.weight_hh_l0.copy_(0.5 * torch.eye(4))
    norms = gradient_norms(layer, 6, 4)
    assert [norms[k] / norms[0] for k in range(6)] == pytest.approx(
        [0.5**k for k in range(6)], 1e-3
    )
