"""The figures of recurrent networks: what they show is what the layers compute."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.errors import InputError
from regard.layers import Recurrent
from regard_lectures import show
from regard_lectures.figures.recurrence import unrolled
from regard_lectures.figures.vanishing import gradient_norms, words_vanishing
from tests.lectures.drawn import drawn
from tests.legible import problems


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
    with pytest.raises(InputError, match="expected 2 words or more"):
        show("gates", text="dog")


def test_an_ordinary_sentence_has_gates_and_stand_ins_are_marked():
    drawing = show("gates", text="Unfortunately, the muddy dog didn't bark.")
    words = drawing.numbers["words"]
    assert words == ["unfortunately", "the", "muddy*", "dog", "didn't*", "bark*"]
    assert "random numbers stand in: muddy, didn't, bark." in drawing.caption
    assert problems(drawing.figure) == []
    long = show("gates", text="Donaudampfschifffahrtsgesellschaft " * 14)
    assert "Shown: the first 12 of 14 words." in long.caption
    assert problems(long.figure) == []


def test_the_factors_that_gates_states_are_those_of_a_loop():
    numbers = drawn("gates").numbers
    for kind, table in (("gates", numbers["weights"]), ("attention", numbers["attention"])):
        factors = [
            table[t + 1][i] / table[t][i] for t in range(len(table) - 1) for i in range(t + 1)
        ]
        largest = max(factors)
        stated = numbers[f"largest_factor_{kind}"]
        # of the gates the mean over the features is drawn, and the largest of them stated
        assert stated == pytest.approx(largest) if kind == "attention" else stated >= largest
    assert numbers["largest_factor_gates"] <= 1 < numbers["largest_factor_attention"]
    still = show("gates", text="hello world")  # two words that attention does not compare
    assert still.numbers["largest_factor_attention"] < 1
    assert "here none grows, either" in still.caption


def test_gradients_through_time_vanish_grow_or_stay():
    numbers = show("vanishing", length=30, dim=32).numbers
    rnn, gru, lstm, attention = (
        np.array(numbers[f"gradient_{name}"]) for name in ("rnn", "gru", "lstm", "attention")
    )
    assert rnn.shape == (3, 30)  # (draws of the weights, distance)
    for one_rnn, one_gru, one_lstm in zip(rnn, gru, lstm, strict=True):
        assert one_rnn[-1] < 1e-6 * one_rnn[0]
        assert one_rnn[-1] < one_gru[-1] < 1e-2 * one_gru[0]
        assert one_rnn[-1] < one_lstm[-1] < 1e-2 * one_lstm[0]
    for large in numbers["gradient_rnn_large"]:
        assert large[-1] > 2 * large[0]
    assert attention[:, -1] == pytest.approx(attention[:, 10], rel=0.5)
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
    norms = gradient_norms(layer, torch.randn(32, 6, 4))
    assert [norms[k] / norms[0] for k in range(6)] == pytest.approx(
        [0.5**k for k in range(6)], 1e-3
    )


def test_gradients_of_a_text_of_ones_own_are_those_of_its_words():
    short = show("vanishing", text="The muddy dog, it slept.", tries=2)
    assert short.numbers["length"] == 5
    assert np.shape(short.numbers["gradient_gru"]) == (2, 5)
    assert "vanish in" not in short.title  # five words are too few
    assert "shrink in rnn, gru and lstm, stay in" in short.title  # but none keeps a tenth
    assert "random numbers stand in: muddy, slept." in short.caption
    assert problems(short.figure) == []
    with pytest.raises(InputError, match="2 words or more"):
        show("vanishing", text="Go!")


def test_a_gradient_that_only_some_draws_lose_is_said_to_differ():
    numbers = {**drawn("vanishing").numbers}
    reaching = numbers["reaching"]
    assert drawn("vanishing").title.startswith("Gradients vanish in rnn, gru and lstm, grow in")
    numbers["reaching"] = {**reaching, "gru": [1e-5, 0.5, 0.5], "attention": [20.0, 1.0, 1.0]}
    title = words_vanishing(numbers).title
    assert "vanish in rnn and lstm" in title
    assert "differ by draw in gru and attention" in title


def test_a_gradient_of_a_hundredth_shrinks_and_is_not_said_to_stay():
    reaching = {"rnn": [1e-5] * 2, "gru": [0.01] * 2, "attention": [0.9] * 2}
    words = words_vanishing({"length": 13, "note": "", "reaching": reaching})
    assert words.title == "Gradients vanish in rnn, shrink in gru, stay in attention"
    assert "below 0.1 as shrunk" in words.caption
