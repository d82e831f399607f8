"""Figures from recurrence to attention: what they print is what loops and formulas give."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.errors import InputError
from regard.layers import plain_context
from regard.layers.convolution import GatedConvolution
from regard_lectures import show
from regard_lectures.figures import cells, crossover, depth, fields, recall, road
from tests.lectures.drawn import drawn
from tests.legible import problems


def loop(step, x, number):
    """The states of one text x (n, dim) in a loop over words, by the equations of the slides."""
    free = step.candidates(x[None])[0]  # h̃ or f(x)
    states = []
    for t in range(len(x)):
        if number == 0:
            before = states[-1] if states else torch.zeros(road.DIM)
            update = step.gates(x[None, t : t + 1], before[None, None])["update"][0, 0]
            states.append(update * before + (1 - update) * free[t])
        elif number < 3:
            scores = torch.stack([free[i] @ x[t] for i in range(t + 1)]) / road.DIM**0.5
            states.append(sum(a * free[i] for i, a in enumerate(scores.softmax(0))))
        else:
            q, k, v, out = step.attention.matrices()
            heads, width = step.attention.heads, road.DIM // step.attention.heads
            parts = []
            for head in range(heads):
                rows = slice(head * width, (head + 1) * width)
                scores = torch.stack([(k[rows] @ free[i]) @ (q[rows] @ x[t]) for i in range(t + 1)])
                shares = (scores / width**0.5).softmax(0)
                parts.append(sum(a * (v[rows] @ free[i]) for i, a in enumerate(shares)))
            states.append(out @ torch.cat(parts))
    return torch.stack(states)


STEPS = [
    road.Gated,
    lambda: road.Freed(candidates_free=False),
    lambda: road.Freed(candidates_free=True),
    lambda: road.Attended(1),
    lambda: road.Attended(4),
]


@pytest.mark.parametrize("number", range(5))
@torch.no_grad()
def test_each_step_is_the_equation_of_the_slide(number):
    step, x = STEPS[number](), torch.randn(6, road.DIM)
    states = step(x[None])[0]
    torch.testing.assert_close(states, loop(step, x, number), atol=1e-5, rtol=1e-4)
    assert (step.rebuilt(x[None]) - states).abs().max() < 1e-6
    both = step(torch.stack((x, torch.randn_like(x))))  # the other text of a batch changes nothing
    torch.testing.assert_close(both[0], states, atol=1e-6, rtol=1e-5)


def test_a_question_is_answered_once_the_weights_are_free():
    drawing = drawn("road")
    numbers = drawing.numbers
    gates, *freed, heads = numbers["right"]
    assert len(gates) == len(heads) == 3  # trainings
    assert max(gates) < 45
    assert min(min(shares) for shares in freed) > 50
    assert min(heads) > 95
    assert "free weights more, 2 heads all" in drawing.title
    assert "at once in step 2, 3 and 4" in drawing.caption
    near = {**numbers, "right": [[54.0, 55.0], *freed, heads]}  # within the noise of the free ones
    assert "not surely more digits than gates" in road.words_road(near).title
    assert numbers["words_needed"] == [7, 7, 1, 1, 1]
    assert numbers["growth"][0] <= 1 < min(numbers["growth"][1:])
    assert numbers["error"][0] < 1e-6
    assert numbers["answer"][-1] == "37"  # of b7 e2 a3 h0 d1 c5 ab
    assert len(numbers["weights"]) == len(numbers["rows"]) == 6


def test_a_text_of_ones_own_is_asked():
    drawing = show("road", text="a1 b2 ba", steps=2, tries=1)
    numbers = drawing.numbers
    assert numbers["words"] == ["a1", "b2", "ba"]
    assert "not surely more" in drawing.title  # after two steps nothing is learned
    assert "one seed" in drawing.limits
    assert numbers["rows"][-2:] == ["4 head 0", "4 head 1"]  # heads count from 0
    assert problems(drawing.figure) == []
    assert [round(sum(row), 4) for row in numbers["weights"][1:]] == [1.0] * 5
    for wrong in ("a1 ab", "a1 b2 ac", "a1 a2 aa", "a1 b2", "z1 b2 bz", " "):
        with pytest.raises(InputError, match="pairs of different letters"):
            show("road", text=wrong, steps=2)


def test_the_formulas_of_parameters_are_counted_in_the_layers():
    drawing = show("cells", dim=48)
    numbers = drawing.numbers
    assert numbers["pairs_of_matrices"] == {"rnn": 1, "gru": 3, "lstm": 4}
    assert "a GRU has 2 gates, 3 pairs; an LSTM 3 gates, 4 pairs" in drawing.caption
    assert numbers["counted_lstm"] == 4 * (2 * 48**2 + 2 * 48)
    assert numbers["counted_gru"] == 3 * (2 * 48**2 + 2 * 48)
    for name in cells.KINDS:
        assert numbers[f"computed_{name}"] == numbers[f"counted_{name}"]
    assert sum(p.numel() for p in torch.nn.LSTM(48, 48).parameters()) == numbers["counted_lstm"]
    assert problems(show("cells", dim=4096).figure) == []


def test_the_receptive_field_is_what_the_formula_says():
    numbers = show("fields", length=30, layers=3, kernel=3, reach=2, dim=8).numbers
    measured = numbers["measured"]
    assert measured == {kind: [line] * 3 for kind, line in numbers["formula"].items()}
    assert measured["convolution"][0] == [3, 5, 7]
    assert measured["dilated_convolution"][0] == [3, 9, 27]
    assert measured["restricted_attention"][0] == [3, 5, 7]
    assert measured["attention"] == measured["recurrent"] == [[30] * 3] * 3
    for recurrent, attention in zip(
        *(numbers["most_of_the_gradient"][kind] for kind in ("recurrent", "attention")), strict=True
    ):
        assert recurrent[0] < 10 < attention[0]  # it sees all, and remembers little


def test_a_field_of_our_own_sizes_is_described_as_it_is():
    drawing = show("fields", length=8, layers=2, kernel=9, reach=8, dim=4, tries=2)
    assert drawing.title == "One layer of each kind sees all 8 tokens"
    assert problems(drawing.figure) == []
    drawing = show("fields", length=20, layers=2, kernel=2, reach=3, dim=4, tries=1)
    assert drawing.title == "One layer sees all 20 tokens only if it is attention or recurrent"
    assert "convolution 3, dilated convolution 4, restricted attention 7" in drawing.caption
    wrong = {**drawing.numbers, "formula": {**drawing.numbers["formula"], "convolution": [2, 4]}}
    assert "not as the formulas say" in fields.words_fields(wrong).caption


def test_a_dilated_convolution_of_several_texts_is_that_of_each():
    layer, texts = GatedConvolution(4, kernel=3, causal=True), torch.randn(5, 7, 4)
    together = fields.dilated(layer, 3, texts=5)(texts.flatten(0, 1))
    alone = torch.cat([fields.dilated(layer, 3)(text) for text in texts])
    torch.testing.assert_close(together, alone)


def test_a_dilated_convolution_is_pytorchs():
    layer, x = GatedConvolution(4, kernel=3, causal=True), torch.randn(11, 4)
    weight = layer.into.weight.view(8, 3, 4).transpose(1, 2)  # (out, in, k)
    for step in (1, 3, 4):
        rows = torch.nn.functional.pad(x.T, (2 * step, 0))
        wide = torch.nn.functional.conv1d(rows[None], weight, layer.into.bias, dilation=step)
        expected = torch.nn.functional.glu(wide[0].T, dim=-1)
        out = fields.dilated(layer, step)(x)
        torch.testing.assert_close(out, expected, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(fields.dilated(layer, 1)(x), layer(x, plain_context((11,))))


@pytest.mark.slow
def test_by_operations_attention_costs_more_once_n_passes_d():
    numbers = show("crossover", dim=32, rounds=1).numbers
    assert numbers["slower_from_by_operations"] == pytest.approx([16, 32])
    assert len(numbers["slower_from_by_time"]) == 2
    assert numbers["seconds_attention"][-1] > numbers["seconds_recurrent"][-1] or (
        numbers["lengths"][-1] >= crossover.LONGEST
    )


def crossover_numbers(by_time):
    return {
        "widths": [16, 32],
        "slower_from_by_operations": [16.0, 32.0],
        "slower_from_by_time": [by_time, by_time],
    }


def test_where_the_times_cross_is_said_with_its_range_or_not_at_all():
    title = crossover.words_crossover(crossover_numbers([500.0, 700.0, 600.0])).title
    assert title.endswith("only in texts much longer than the width")
    words = crossover.words_crossover(crossover_numbers([500.0, None, 600.0]))
    assert "cannot tell" in words.title
    assert "from 500 to 600 tokens on, in 2 of 3" in words.caption
    assert "cannot tell" in crossover.words_crossover(crossover_numbers([500.0])).title
    early = crossover.words_crossover(crossover_numbers([20.0, 24.0, 28.0])).title
    assert "already in texts as long as the width" in early
    never = crossover.words_crossover(crossover_numbers([None] * 3))
    assert never.title == "Up to 16,384 tokens attention takes less time than a GRU"


def test_lines_cross_between_points():
    lengths = [10, 20, 40]
    flat, steep = [4.0] * 3, [1.0, 2.0, 8.0]
    assert crossover.crossing(lengths, steep, flat) == pytest.approx(40 / 2**0.5)
    assert crossover.crossing(lengths, [5.0, 6.0, 7.0], flat) == 10
    assert crossover.crossing(lengths, [1.0, 2.0, 3.0], flat) is None


def test_what_is_remembered_falls_with_the_steps_and_not_with_attention():
    numbers = drawn("recall").numbers
    assert np.min(numbers["right_attention"]) > 90
    rnn, gru, attention = (numbers[f"remembers_{kind}"] for kind in ("rnn", "gru", "attention"))
    assert max(rnn) < min(gru)
    assert max(gru) < min(attention)
    for kind in ("rnn", "gru", "lstm"):
        assert np.shape(numbers[f"right_{kind}"]) == (3, 6)  # of three seeds
        assert np.array(numbers[f"right_{kind}"])[:, -1].max() < 30
        assert np.array(numbers[f"reaching_{kind}"])[:, -1].max() < 1e-8
    assert recall.longest([95, 91, 80, 99]) == 8
    assert recall.longest([50]) == 0


def test_recall_says_that_its_limits_come_from_so_many_training_steps():
    drawing = drawn("recall")
    assert "After 200 training steps" in drawing.title
    assert "200 training steps for each length, 3 seeds" in drawing.limits
    # The longest text of each cell, found again in the shares that are drawn.
    for kind in recall.KINDS:
        shares = np.array(drawing.numbers[f"right_{kind}"])
        most = [recall.LENGTHS[int((line >= 90).cumprod().sum()) - 1] for line in shares]
        assert most == drawing.numbers[f"remembers_{kind}"]
        said = kind if kind == "attention" else kind.upper()
        assert f"{said} {most[0]}" in drawing.caption


def test_a_recall_that_is_hardly_trained_cannot_tell(monkeypatch):
    monkeypatch.setattr(recall, "LENGTHS", (4, 8))
    drawing = show("recall", steps=2, tries=2)
    assert np.shape(drawing.numbers["right_rnn"]) == (2, 2)
    assert "longer" not in drawing.title or "does not" in drawing.title
    assert "RNN 0, GRU 0, LSTM 0, attention 0" in drawing.caption
    assert problems(drawing.figure) == []


def test_the_first_symbol_is_asked_at_the_end():
    torch.manual_seed(0)
    ids = torch.randint(recall.SYMBOLS, (3, 5))
    for kind in recall.KINDS:
        model = recall.Rememberer(kind)
        assert model(ids).shape == (3, recall.SYMBOLS)
        torch.testing.assert_close(model(ids)[1:2], model(ids[1:2]), atol=1e-5, rtol=1e-4)
        changed = ids.clone()
        changed[:, 0] = (changed[:, 0] + 1) % recall.SYMBOLS
        assert not torch.equal(model(changed), model(ids))


def test_deep_stacks_need_residuals():
    drawing = drawn("depth")
    for kind in depth.KINDS:
        assert drawing.numbers[f"trained_residual_{kind}"] == [depth.DEPTHS[-1]] * 3
        assert min(drawing.numbers[f"trained_plain_{kind}"]) > 0
        assert max(drawing.numbers[f"trained_plain_{kind}"]) < depth.DEPTHS[-1]
    assert "let deeper stacks of every kind learn" in drawing.title
    assert depth.deepest([0.1, 0.2, 2.0, 0.1, 2.0]) == 8
    assert depth.deepest([2.0]) == 0


def test_a_kind_that_learns_no_deeper_is_named():
    numbers = dict(drawn("depth").numbers)
    numbers["trained_plain_gru"] = [8, 16, 8]  # once as deep as with residuals
    assert "rnn, lstm and transformer, not surely gru" in depth.words_depth(numbers).title
    assert "at least one learns" in depth.words_depth(numbers).caption
    assert "gru 8 to 16" in depth.words_depth(numbers).caption


def test_hardly_trained_stacks_do_not_speak_for_residuals(monkeypatch):
    monkeypatch.setattr(depth, "DEPTHS", (1, 2))
    drawing = show("depth", steps=2, tries=2)
    assert "do not surely let deeper stacks learn" in drawing.title
    assert drawing.numbers["trained_residual_gru"] == [0, 0]
    assert problems(drawing.figure) == []
