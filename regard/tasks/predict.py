"""`PredictTask`, the base class of the tasks that predict numbers or classes: of tables, of images.

Examples and a model with a head for numbers or for classes come in; the loss, the scores and a
`Prediction` for each example go out. Numbers are learned standardised, z = (y - mean) / deviation;
predictions and scores are in their own units.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from regard.data.batch import Batch
from regard.data.text.windows import OnShare
from regard.errors import InputError
from regard.inputs.arrays import Ragged
from regard.inputs.reader import Encoded
from regard.models.config import ModelConfig
from regard.models.mode import evaluating
from regard.runtime.cores import parallel_map
from regard.tasks.labelled_task import LabelledTask, class_loss
from regard.tasks.measures.accuracy import Measures, class_scores
from regard.tasks.measures.regression import (
    means_and_deviations,
    regression_scores,
    squared_loss,
)
from regard.tasks.predictions import Prediction, predicted_classes, predicted_numbers

DATA_KEYS = ("classes", "numbers", "number_means", "number_deviations")
"""The keys of a model's head that its training data decides."""


class PredictTask(LabelledTask[Any], ABC):
    """Base class of the tasks that predict; a subclass reads examples and makes batches of them.

    A batch has a target for each example: the index of its class, or `number_targets`. Examples
    have `numbers`, (examples, numbers) in their own units, or `labels`, a class for each.
    """

    effect = "rise of the loss without the head: nats of classes, squared deviations of numbers"

    @classmethod
    def complete_config(cls, task: str, config: ModelConfig, before: ModelConfig) -> ModelConfig:
        """The config of a resumed run, with what its data decided."""
        del task
        return config.changed(
            **{key: getattr(config, key) or getattr(before, key, ()) for key in DATA_KEYS}
        )

    def targets(self, batch: Batch[Any]) -> int:
        """The number of examples in a batch: each has one target."""
        return len(batch.index)

    def loss(self, model: Any, batch: Batch[Any]) -> Tensor:
        """The loss of a batch, summed over its examples: a scalar.

        Of numbers the mean squared error of each example, of classes the cross-entropy.
        """
        if model.config.head.numbers:
            return squared_loss(model.standardised_numbers(batch.source), batch.targets.values)
        return class_loss(model, batch, self.options.smoothing)

    def measure(self, model: Any, examples: Any, on_progress: OnShare | None = None) -> Measures:
        """Mean loss with R² and RMSE of numbers, or with accuracy and F1 of classes."""
        if not len(examples):
            raise InputError(self.items, got="none", expected="some, with what is to be predicted")
        head = model.config.head
        function = model.standardised_numbers if head.numbers else model.classify
        with evaluating(model):
            batches = [batch.to(model.device) for batch in self.labelled_batches(model, examples)]
            outputs = parallel_map(lambda batch: function(batch.source).cpu(), batches)
            output, total = torch.cat([*outputs]), len(examples)
        for share in accumulate(len(batch.index) / total for batch in batches):
            if on_progress is not None:
                on_progress(min(1.0, share))
        order = [row for batch in batches for row in batch.index]
        targets = torch.cat([batch.targets.values for batch in batches]).cpu()
        if head.numbers:
            loss = float(squared_loss(output, targets)) / total
            predicted = in_units(head, output)
            scores = regression_scores(examples.numbers[order], predicted, head.numbers)
        else:
            loss = float(F.cross_entropy(output, targets))
            names = [head.classes[best] for best in output.argmax(1).tolist()]
            scores = class_scores([examples.labels[row] for row in order], names, head.classes)
        return scores.with_loss(loss)

    def predict(self, model: Any, encoded: Sequence[Encoded], **_: Any) -> list[Prediction]:
        """The class of each example with all probabilities, or its numbers."""
        head = model.config.head
        if head.numbers:
            z = self.apply(model, encoded, model.standardised_numbers, len(head.numbers))
            return predicted_numbers(in_units(head, z).tolist(), head.numbers)
        model.require_head("classes")
        rows = self.apply(model, encoded, lambda x: model.classify(x).softmax(1), len(head.classes))
        return predicted_classes(rows.tolist(), head.classes)

    def items_in(self, argument: Any, skip: Callable[[str], None]) -> list[Any] | None:
        """The items that an argument stands for, such as the images of a folder.

        Args:
            argument: What was typed, or given in Python.
            skip: Is told which files are left out, and why.

        Returns:
            The items; None: the argument is an item itself.
        """
        items: list[Any] = self.reader.files_in([argument], skip)
        is_itself = len(items) == 1 and items[0] is argument
        return None if is_itself else items

    def line_reader(self) -> Callable[[str], Any]:
        """A function that makes an item of each line of a file or pipe; None of one without."""
        return lambda line: line


def with_numbers(
    config: ModelConfig, names: Sequence[str], numbers: NDArray[np.float64]
) -> ModelConfig:
    """The config with a head for numbers, and their means and deviations in the training examples.

    Args:
        config: The config of a recipe.
        names: The names of the numbers.
        numbers: (examples, numbers) Those of the training examples.
    """
    means, deviations = means_and_deviations(numbers)
    names = tuple(names)
    return config.changed(
        classes=(), numbers=names, number_means=means, number_deviations=deviations
    )


def number_targets(head: Any, numbers: NDArray[np.float64]) -> Ragged:
    """The targets of a batch: a row of standardised numbers for each example.

    Args:
        head: The config of the model's head.
        numbers: (examples, numbers) In their own units.
    """
    z = (numbers - np.array(head.number_means)) / np.array(head.number_deviations)
    return Ragged(torch.from_numpy(z.astype(np.float32)), (1,) * len(z))


def in_units(head: Any, z: Tensor) -> NDArray[np.float64]:
    """Predicted numbers in their own units, mean + deviation · z: (examples, numbers)."""
    values: NDArray[np.float64] = z.double().numpy()
    if not head.number_means:  # of a model that was not trained: mean 0, deviation 1
        return values
    numbers: NDArray[np.float64] = np.array(head.number_means) + values * head.number_deviations
    return numbers
