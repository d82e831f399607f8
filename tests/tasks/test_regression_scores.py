"""R² and RMSE against scikit-learn's, and the loss against its formula as plain loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import r2_score, root_mean_squared_error

from regard.tasks.measures.regression import (
    means_and_deviations,
    regression_scores,
    squared_loss,
)


@pytest.mark.parametrize("columns", [1, 3])
def test_scores_are_those_of_scikit_learn(columns):
    random = np.random.default_rng(0)
    right = random.normal(5, 3, (40, columns))
    predicted = right + random.normal(0, 1, (40, columns))
    names = [f"number {column}" for column in range(columns)]
    scores = regression_scores(right, predicted, names)
    assert scores.overall["r2"] == pytest.approx(r2_score(right, predicted))
    assert scores.overall["rmse"] == pytest.approx(root_mean_squared_error(right, predicted))
    assert len(scores.by_label) == (columns if columns > 1 else 0)
    for column, name in enumerate(names if columns > 1 else []):
        expected = r2_score(right[:, column], predicted[:, column])
        assert scores.by_label[name]["r2"] == pytest.approx(expected)


@pytest.mark.parametrize("guess", [4.0, 5.0])
def test_of_numbers_that_are_all_the_same_r2_is_that_of_scikit_learn(guess):
    right, predicted = np.full((6, 1), 4.0), np.full((6, 1), guess)
    expected = r2_score(right, predicted)
    assert regression_scores(right, predicted, ["price"]).overall["r2"] == expected


def test_the_loss_is_the_mean_over_the_numbers_summed_over_the_examples():
    outputs, targets = torch.randn(5, 3), torch.randn(5, 3)
    expected = sum(
        sum((float(outputs[i, j]) - float(targets[i, j])) ** 2 for j in range(3)) / 3
        for i in range(5)
    )
    assert float(squared_loss(outputs, targets)) == pytest.approx(expected, rel=1e-5)


def test_standardised_numbers_have_mean_0_and_deviation_1():
    numbers = np.random.default_rng(1).normal(7, 2, (50, 2)) * [1, 100]
    means, deviations = means_and_deviations(numbers)
    standardised = (numbers - means) / deviations
    assert np.allclose(standardised.mean(axis=0), 0)
    assert np.allclose(standardised.std(axis=0), 1)
