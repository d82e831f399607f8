"""What `predict` answers: a class with its probability, or a number, or several numbers.

In: the outputs of a model for some examples. Out: a `Prediction` for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Prediction:
    r"""What a model predicts for one example.

    Example:
        >>> prediction = Prediction.of_class({"cat": 0.25, "dog": 0.75})
        >>> prediction.value, prediction.probability, prediction.line()
        ('dog', 0.75, 'dog\t0.750')
        >>> Prediction(21.5).line(), Prediction({"height": 1.8, "weight": 70.0}).line()
        ('21.5', 'height 1.8  weight 70')
    """

    value: Any
    """The class, or the number; of several numbers a dict by their names."""
    classes: Mapping[str, float] = field(default_factory=dict)
    """The probability of each class, most probable first; empty if numbers are predicted."""

    @classmethod
    def of_class(cls, probabilities: Mapping[str, float]) -> Prediction:
        """The most probable class, with the probabilities of all."""
        ranked = dict(sorted(probabilities.items(), key=lambda pair: -pair[1]))
        return cls(next(iter(ranked)), ranked)

    @property
    def probability(self) -> float | None:
        """The probability of the class; None if numbers are predicted."""
        return self.classes.get(self.value) if self.classes else None

    def line(self) -> str:
        """The prediction as a line of text."""
        if self.classes:
            return f"{self.value}\t{self.probability:.3f}"
        if isinstance(self.value, Mapping):
            return "  ".join(f"{name} {number:.6g}" for name, number in self.value.items())
        return f"{self.value:.6g}"

    def to_json(self) -> dict[str, Any]:
        """The prediction as JSON fields."""
        return {"predicted": self.value} | ({"classes": dict(self.classes)} if self.classes else {})


def predicted_classes(
    probabilities: Iterable[Sequence[float]], classes: Sequence[str]
) -> list[Prediction]:
    """The prediction for each row of probabilities, (examples, classes)."""
    return [Prediction.of_class(dict(zip(classes, row, strict=True))) for row in probabilities]


def predicted_numbers(rows: Iterable[Sequence[float]], names: Sequence[str]) -> list[Prediction]:
    """The prediction for each row of numbers in their own units, (examples, numbers)."""
    if len(names) == 1:
        return [Prediction(row[0]) for row in rows]
    return [Prediction(dict(zip(names, row, strict=True))) for row in rows]
