"""Regression, the prediction of numbers: its loss, and R² and RMSE as scikit-learn computes them.

Models predict standardised numbers z = (y - mean) / std, with the mean and the standard deviation
of the training examples, so that the numbers of several columns weigh the same in the loss. The
scores are of y, in its own units.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from regard.tasks.measures.accuracy import Measures, Numbers


def squared_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """The summed loss of examples: Σ_i 1/k Σ_j (ẑ_ij - z_ij)², the mean over the k numbers of each.

    Args:
        outputs: (examples, numbers) Predicted standardised numbers.
        targets: (examples, numbers) The right ones.

    Example:
        >>> import torch
        >>> squared_loss(torch.zeros(2, 2), torch.tensor([[1.0, 3.0], [0.0, 2.0]]))
        tensor(7.)
    """
    return (outputs - targets).square().mean(dim=1).sum()


def means_and_deviations(numbers: ArrayLike) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The mean and the standard deviation of each column; 1 instead of a deviation of 0.

    Args:
        numbers: (examples, numbers)

    Example:
        >>> means_and_deviations([[1.0, 5.0], [3.0, 5.0]])
        ((2.0, 5.0), (1.0, 1.0))
    """
    values = np.asarray(numbers, np.float64)
    deviations = values.std(axis=0)
    return tuple(values.mean(axis=0).tolist()), tuple(
        np.where(deviations > 0, deviations, 1.0).tolist()
    )


def regression_scores(right: ArrayLike, predicted: ArrayLike, names: Sequence[str]) -> Measures:
    """R² and RMSE, in the units of the numbers; of several numbers the means, and those of each.

    Args:
        right: (examples, numbers) The right numbers, in their own units.
        predicted: (examples, numbers) The predicted ones.
        names: The name of each number.

    Example:
        >>> regression_scores([[1.0], [2.0], [6.0]], [[1.0], [3.0], [5.0]], ["price"]).overall
        {'r2': 0.8571428571428572, 'rmse': 0.816496580927726}
    """
    wanted, outputs = np.asarray(right, np.float64), np.asarray(predicted, np.float64)
    columns = {
        name: _column_scores(wanted[:, column], outputs[:, column])
        for column, name in enumerate(names)
    }
    overall = {
        measure: float(np.mean([scores[measure] for scores in columns.values()]))
        for measure in ("r2", "rmse")
    }
    return Measures(overall, columns if len(columns) > 1 else {})


def _column_scores(right: NDArray[np.float64], predicted: NDArray[np.float64]) -> Numbers:
    """R² = 1 - Σ(y - ŷ)² / Σ(y - mean y)² and RMSE = √(1/n Σ(y - ŷ)²) of one number.

    If all right numbers are the same, R² is 1 for exact predictions and 0 for others.
    """
    errors = float(np.square(right - predicted).sum())
    spread = float(np.square(right - right.mean()).sum())
    r2 = 1 - errors / spread if spread else float(errors == 0)
    return {"r2": r2, "rmse": float(np.sqrt(errors / len(right)))}
