"""Figures of learning in context and of scaling laws: what is measured, found and fitted."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

from regard.errors import InputError
from regard_lectures import show
from regard_lectures.figures import induction as heads
from regard_lectures.figures import laws as scaling
from regard_lectures.figures.fitting import Law, fit
from tests.lectures.drawn import drawn
from tests.legible import problems

HOFFMANN = Law(1.69, 406.4, 0.34, 410.7, 0.28)
SIZES = np.array([6e3, 2e4, 6e4, 2e5, 6e5])
DATA = np.geomspace(8e4, 1.3e6, 7)


def test_texts_repeat_a_pattern_of_tokens_that_differ():
    texts = heads.draw_texts(200, torch.Generator().manual_seed(0))
    assert texts.shape == (200, heads.LENGTH + 1)
    periods = []
    for text in texts.tolist():
        period = text.index(text[0], 1)
        assert len(set(text[:period])) == period
        assert text[period:] == text[:-period]
        periods.append(period)
    assert (min(periods), max(periods)) == heads.PERIODS


def test_the_token_to_copy_is_the_one_after_an_earlier_one_like_this():
    after = heads.tokens_after(torch.tensor([[5, 6, 7, 5, 6, 5]]))[0]
    # query 3 is the second 5: 6 came after; query 4 the second 6: 7; query 5: 6 came after twice
    assert after.nonzero().tolist() == [[3, 1], [4, 2], [5, 1], [5, 4]]


def test_scores_of_heads_are_shares_of_their_gaze():
    measure = heads.Measure(seed=0)
    length = heads.LENGTH
    back = torch.diag(torch.ones(length - 1), -1)
    even = torch.ones(length, length).tril() / torch.arange(1, length + 1)[:, None]
    copy = measure.after / measure.after.sum(-1, keepdim=True).clamp(min=1)
    weights = torch.stack([back.expand_as(copy), even.expand_as(copy), copy], dim=1)
    first, second, third = measure.induction(weights).tolist()
    assert (first, third) == (0, pytest.approx(1))
    assert 0 < second < 0.05
    first, second, third = measure.back(weights, 1).tolist()
    assert (first, third) == (1, 0)
    assert second == pytest.approx(sum(1 / (i + 1) for i in range(1, length)) / (length - 1))


@pytest.mark.slow
def test_induction_draws_and_its_numbers_are_plain():
    drawing = show("induction", steps=4, dim=16, heads=2, seed=3, tries=2)
    assert problems(drawing.figure) == []
    assert "seed 3" in drawing.text
    numbers = drawing.numbers
    assert json.loads(json.dumps(numbers, allow_nan=False)) == numbers
    assert numbers["steps"] == [0, 1, 2, 3, 4]
    assert numbers["loss_two_layers"] == pytest.approx([math.log(heads.VOCAB)] * 2, abs=0.1)
    assert numbers["fall"] == [[], []]
    curve = numbers["curve_one_layer"][0]
    assert numbers["one_layer_still_falls_by"][0] == curve[4] - curve[-1]
    assert "never" not in drawing.title + drawing.text
    assert "in 4 steps: two layers do not learn it, nor does one" in drawing.title
    assert numbers["loss_without_induction"] == numbers["loss_two_layers"]  # none was found
    assert "No head of a role was found" in drawing.caption
    assert np.array(numbers["map"]).sum(1) == pytest.approx(1, abs=1e-5)


def test_keys_after_the_query_are_no_zeros_in_the_map():
    [*_, axes] = drawn("induction").figure.axes
    shown = axes.collections[0].get_array().reshape(heads.LENGTH, heads.LENGTH)
    later = np.triu(np.ones(shown.shape), 1) > 0
    assert np.ma.getmaskarray(shown)[later].all()
    assert not np.ma.getmaskarray(shown)[~later].any()


@pytest.mark.parametrize(("dim", "count"), [(64, 5), (24, 8)])
def test_heads_must_cut_the_width_evenly(dim, count):
    with pytest.raises(InputError, match=f"heads: got {count}, expected .* = {dim} / heads"):
        show("induction", steps=1, dim=dim, heads=count)


def test_without_order_any_token_that_may_come_costs_the_same():
    """By hand: each text, each position, each pattern's length that is possible there."""
    measure = heads.Measure(seed=5)
    costs = []
    for text, again in zip(measure.ids.tolist(), measure.again.tolist(), strict=True):
        period = text.index(text[0], 1)
        for position in (i for i, told in enumerate(again) if told):
            assert position >= period
            possible = range(heads.PERIODS[0], min(heads.PERIODS[1], position) + 1)
            right = text[position + 1 - period]
            share = sum(text[position + 1 - back] == right for back in possible) / len(possible)
            costs.append(-math.log(share))
    assert measure.unordered == pytest.approx(sum(costs) / len(costs), rel=1e-5)


@pytest.mark.slow
def test_two_layers_learn_to_copy_in_context_and_one_does_not(monkeypatch):
    for name, value in {"VOCAB": 32, "LENGTH": 32, "PERIODS": (8, 24), "MEASURES": 45}.items():
        monkeypatch.setattr(heads, name, value)  # half as long: a quarter of the time
    drawing = show("induction", steps=450, tries=1)
    numbers = drawing.numbers
    guess = numbers["guess"]
    assert numbers["loss_two_layers"][0] < 0.1 * guess
    assert numbers["loss_one_layer"][0] > numbers["unordered"] - 0.1 > 0.5 * guess
    [[begin, end]] = numbers["fall"]
    assert end - begin < 0.25 * 450  # at once
    assert numbers["fall_one_layer"] == [[]]
    assert max(numbers["curves_induction"][-1]) > 0.8
    assert max(numbers["curves_previous"][-1]) > 0.5
    assert np.max(numbers["induction_scores_one_layer"]) < 0.3
    assert numbers["loss_without_induction"][0] > 0.7 * guess
    assert numbers["loss_without_previous"][0] > 0.5 * guess
    assert numbers["loss_without_others"][0] < 0.25 * guess
    assert "two layers learn it, one does not" in drawing.title
    needed = drawing.caption.partition("Heads needed: ")[2].partition(";")[0]
    assert "copying" in needed
    assert "previous" in needed


def table(law: Law, noise: float = 0.0) -> tuple[np.ndarray, ...]:
    n, d = np.repeat(SIZES, len(DATA)), np.tile(DATA, len(SIZES))
    spread = np.random.default_rng(0).normal(0, noise, len(n))
    return n, d, law.loss(n, d) * np.exp(spread)


@pytest.mark.parametrize(
    "law", [HOFFMANN, Law(0.9, 25.0, 0.35, 3e3, 0.7), Law(0.6, 9.0, 0.2, 80.0, 0.35)]
)
def test_a_law_is_recovered_from_its_own_losses(law):
    fitted = fit(*table(law))
    for name in ("floor", "size_factor", "size_power", "data_factor", "data_power"):
        assert getattr(fitted, name) == pytest.approx(getattr(law, name), rel=1e-3), name


def test_a_law_is_recovered_in_spite_of_noise():
    fitted = fit(*table(Law(0.9, 25.0, 0.35, 3e3, 0.7), noise=0.003))
    assert fitted.floor == pytest.approx(0.9, abs=0.1)
    assert fitted.size_power == pytest.approx(0.35, abs=0.05)
    assert fitted.data_power == pytest.approx(0.7, abs=0.07)


def test_the_best_size_is_that_of_the_least_loss():
    for compute in (1e18, 1e21):
        sizes = np.geomspace(1e6, 1e13, 200_001)
        losses = HOFFMANN.loss(sizes, compute / (6 * sizes))
        assert HOFFMANN.best_size(compute) == pytest.approx(sizes[losses.argmin()], rel=1e-3)
        assert HOFFMANN.frontier(compute) == pytest.approx(losses.min(), rel=1e-9)


def test_the_largest_size_is_foretold_and_not_fitted():
    losses = [HOFFMANN.loss(size, DATA).tolist() for size in SIZES]
    losses[-1] = [loss / 1.1 for loss in losses[-1]]
    runs = [scaling.Run(int(size), line) for size, line in zip(SIZES, losses, strict=True)]
    fitted = scaling.fit_runs(runs, [int(data) for data in DATA])
    assert fitted.off == pytest.approx([0.1] * len(DATA), abs=1e-4)
    assert fitted.law.floor == pytest.approx(HOFFMANN.floor, rel=1e-3)
    assert fitted.whole.floor != pytest.approx(HOFFMANN.floor, rel=1e-2)


def test_rows_are_text_that_is_read_once():
    rows = scaling.read_rows(40, seed=0)
    assert rows.shape == (40, scaling.LENGTH + 1)
    assert len({bytes(row) for row in rows.tolist()}) == 40
    text = b"".join(bytes(row) for row in rows.tolist()).decode(errors="ignore")
    assert sum(letter.isalpha() or letter.isspace() for letter in text) > 0.8 * len(text)
    again, other = scaling.read_rows(40, seed=0), scaling.read_rows(40, seed=1)
    assert torch.equal(rows, again)
    assert not torch.equal(rows, other)
    assert torch.equal(rows.sort(0).values, other.sort(0).values)  # the same rows


def test_more_text_than_there_is_is_refused(monkeypatch):
    monkeypatch.setattr(scaling, "python_text", lambda: iter([("a", "b" * 100_000)]))
    most = (100_002 // (scaling.LENGTH + 1) - scaling.UNSEEN) // scaling.BATCH
    with pytest.raises(InputError, match=rf"steps: got 5000, expected at most {most},"):
        show("laws", steps=5000)
    assert len(scaling.read_rows(scaling.UNSEEN + most * scaling.BATCH, seed=0))


@pytest.mark.slow
def test_a_file_of_ones_own_is_read_and_named(tmp_path, monkeypatch):
    monkeypatch.setattr(scaling, "UNSEEN", 16)
    file = tmp_path / "own.txt"
    file.write_text("A text of one's own, again and again. " * 400)
    drawing = show("laws", steps=3, file=str(file))
    assert problems(drawing.figure) == []
    assert "on bytes of own.txt" in drawing.limits
    with pytest.raises(InputError, match=r"steps: got 1500, expected at most \d+, since no text"):
        show("laws", file=str(file))
    with pytest.raises(InputError, match="file: cannot read nowhere: expected a text file"):
        show("laws", file="nowhere")


@pytest.mark.parametrize(
    ("off", "same", "said"),
    [
        (0.02, 0.1, "predicts the fifth"),
        (0.08, 0.1, "hardly helps"),
        (0.2, 0.1, "does not predict"),
    ],
)
def test_a_law_predicts_only_if_it_is_better_than_no_growth(off, same, said):
    numbers = drawn("laws").numbers | {"off": [off], "off_by_the_fourth": same}
    assert said in scaling.words_laws(numbers).title


def test_an_average_of_weights_counts_the_latest_most():
    model = nn.Linear(1, 1, bias=False)
    averaged = AveragedModel(model, avg_fn=scaling._average)
    for value in range(1, 51):
        nn.init.constant_(model.weight, value)
        averaged.update_parameters(model)
    # the product of (t) / (t + 9), which is ∝ t (t + 1) … (t + 7)
    shares = np.array([math.prod(range(t, t + scaling.AVERAGE)) for t in range(1, 51)], dtype=float)
    expected = (shares * np.arange(1, 51)).sum() / shares.sum()
    assert averaged.module.weight.item() == pytest.approx(expected, rel=1e-4)


@pytest.mark.slow
def test_laws_draw_and_their_numbers_are_plain(monkeypatch):
    monkeypatch.setattr(scaling, "UNSEEN", 16)
    drawing = show("laws", steps=6, seed=2)
    assert problems(drawing.figure) == []
    assert "seed 2" in drawing.text
    numbers = drawing.numbers
    assert json.loads(json.dumps(numbers, allow_nan=False)) == numbers
    growth = np.array(numbers["sizes"][1:]) / numbers["sizes"][:-1]
    assert np.all((growth > 2.5) & (growth < 4))
    losses = np.array(numbers["losses"])
    assert losses.shape == (5, len(numbers["data"]))
    assert np.all(losses[:, -1] < losses[:, 0])
    assert len(numbers["predicted"]) == len(numbers["off"]) == len(numbers["data"])


def test_points_below_the_least_loss_of_the_law_are_counted_and_said():
    """The law's least loss is an estimate: the largest size, not fitted, may be below it."""
    losses = [HOFFMANN.loss(size, DATA).tolist() for size in SIZES]
    losses[-1] = [loss / 1.3 for loss in losses[-1]]
    runs = [scaling.Run(int(size), line) for size, line in zip(SIZES, losses, strict=True)]
    fitted = scaling.fit_runs(runs, [int(data) for data in DATA])
    count, most = fitted.below()
    least = [[float(fitted.law.frontier(6 * n * d)) for d in fitted.data] for n in fitted.sizes]
    short = 1 - np.array(losses) / np.array(least)
    assert count == np.sum(short > 0) > 0
    assert most == pytest.approx(short.max())
    details = scaling._details(fitted, "text", seed=0)
    assert f"{count} of 35 measured points lie below it, by {most:.1%} at most" in details
    assert "an estimate and no bound" in details
