"""Maps over the patches of an image, beside plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest

from regard.errors import InputError
from regard.explain.images.patches import (
    chosen_row,
    mean_distance,
    over_patches,
    query_rows,
    rollout,
)
from tests.explain.images.photos import photo, pipeline


def stochastic(layers: int, tokens: int) -> list[np.ndarray]:
    random = np.random.default_rng(1)
    weights = random.random((layers, tokens, tokens)) ** 3
    return list(weights / weights.sum(-1, keepdims=True))


def test_rollout_is_the_product_of_the_layers_with_half_of_each_token_kept():
    layers = stochastic(3, 5)
    expected = np.eye(5)
    for weights in layers:  # the first layer is the rightmost factor
        mixed = np.zeros((5, 5))
        for i in range(5):
            for j in range(5):
                mixed[i, j] = 0.5 * weights[i, j] + (0.5 if i == j else 0.0)
        expected = mixed @ expected
    rolled = rollout(layers)
    assert np.allclose(rolled, expected)
    assert np.allclose(rolled.sum(1), 1)
    start = query_rows(5, first=1, row=None)
    assert np.allclose(rollout(layers, start), rolled[1:].mean(0))
    assert np.allclose(rollout(layers, query_rows(5, 1, 0)), rolled[0])


def test_a_layer_whose_heads_are_all_removed_passes_everything_on():
    layers = stochastic(2, 4)
    assert np.allclose(rollout([layers[0], np.full((4, 4), np.nan)]), rollout(layers[:1]))


def test_rows_that_do_not_sum_to_one_are_normalised():
    doubled = [2 * weights for weights in stochastic(2, 4)]
    assert np.allclose(rollout(doubled).sum(1), 1)


@pytest.mark.parametrize("first", [0, 1, 2])
def test_the_mean_distance_is_a_plain_loop(first):
    grid = (2, 3)
    [weights] = stochastic(1, first + 6)
    distances = mean_distance(weights, grid, first)
    for i in range(6):
        spent = total = 0.0
        for j in range(6):
            apart = math.dist(divmod(i, 3), divmod(j, 3))
            spent += weights[first + i, first + j] * apart
            total += weights[first + i, first + j]
        assert distances[i] == pytest.approx(spent / total)
    assert np.isnan(mean_distance(0 * weights, grid, first)).all()


def test_the_row_is_that_of_the_class_token_or_the_mean_of_the_patches():
    look = pipeline().look(photo())
    assert (look.picture.grid, look.picture.first, look.picture.class_row) == ((4, 6), 1, 0)
    choice = look.choose(layer=1, head=2)
    assert np.allclose(chosen_row(look, choice), look.site("encoder.1.self").weights[2, 0])

    mean = pipeline(pool="mean").look(photo())
    choice = mean.choose(layer=1)
    assert choice.row is None
    weights = mean.site("encoder.1.self").weights.mean(0)
    assert np.allclose(chosen_row(mean, choice), weights[1:].mean(0))  # [CLS] is not read

    bare = pipeline(pool="mean", class_token=False).look(photo())
    row = chosen_row(bare, bare.choose(kind="rollout"))
    means = [m.weights.mean(0) for m in bare.maps]
    assert np.allclose(row, rollout(means).mean(0))
    assert over_patches(bare.picture, row).shape == (4, 6)


def test_a_removed_head_does_not_count():
    look = pipeline().look(photo(), knock_out=["encoder.2.self.1"])
    weights = look.site("encoder.2.self").weights
    row = chosen_row(look, look.choose(layer=2))
    assert np.allclose(row, weights[[0, 2, 3], 0].mean(0))
    plain = pipeline().look(photo())
    assert np.allclose(plain.site("encoder.1.self").weights, look.site("encoder.1.self").weights)


def test_edits_act_in_a_look_and_in_its_test():
    from regard.layers import Edit

    p = pipeline()
    even = Edit("encoder.0.self.weights", lambda w: w.new_full(w.shape, 1 / w.shape[-1]))
    plain, edited = p.look(photo()), p.look(photo(), edits=[even])
    assert np.allclose(edited.site("encoder.0.self").weights, 1 / 25)
    assert not np.allclose(
        plain.site("encoder.1.self").weights, edited.site("encoder.1.self").weights
    )
    assert plain.test().before != edited.test().before


def test_windows_are_spread_over_the_image():
    fields = {"class_token": False, "pool": "mean", "grid_window": 2, "grid_bias": "table"}
    look = pipeline(**fields).look(photo())
    for m in look.maps:
        assert m.weights.shape == (4, 24, 24)
        assert np.allclose(m.weights.sum(-1), 1)
    first = look.maps[0].weights[0].reshape(4, 6, 4, 6)
    assert np.allclose(first[0, 0, :2, :2].sum(), 1)  # of the first window
    assert look.maps[1].weights[0].reshape(4, 6, 4, 6)[1, 1, 1:3, 1:3].sum() == pytest.approx(1)
    look.test(look.choose(kind="rollout"))


def test_one_layer_can_be_recorded_alone():
    p = pipeline()
    single, every = p.look(photo(), layer=1), p.look(photo())
    assert [m.site for m in single.maps] == ["encoder.1.self"]
    assert np.array_equal(single.maps[0].weights, every.maps[1].weights)
    assert single.target == every.target


def test_what_a_rollout_does_not_take_is_refused():
    look = pipeline().look(photo())
    with pytest.raises(InputError, match="all layers and heads"):
        look.choose("rollout", layer=1)
    with pytest.raises(InputError, match="--kind"):
        look.choose("roll")
