"""The config of the part that reads rows of numbers: layers one after another, or none."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from regard.config import Config
from regard.layers.config import LONGEST


class RowLayers(Config):
    """Hidden layers h_i = f(W_i h_(i-1) + b_i) over the numbers h_0 of a row."""

    reads: ClassVar[str] = "table"
    counted_as: ClassVar[str] = "row"
    max_length: ClassVar[int] = 1
    """What a row counts in `train.batch_tokens`."""
    tokens_before: ClassVar[int] = 0
    kind: Literal["mlp"] = "mlp"
    features: int = Field(default=4, ge=1, le=LONGEST)
    """How many numbers a row has: one for a column of numbers, one for each value of a column of
    categories. The data of a run decides it."""
    hidden: tuple[PositiveInt, ...] = (64,)
    """Widths of the hidden layers. None: linear regression, or logistic regression of classes."""
    activation: Literal["relu", "gelu", "gelu_tanh", "silu"] = "relu"
    """The function f of the hidden layers."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout rate on the output of each hidden layer."""

    @model_validator(mode="before")
    @classmethod
    def _read_one_width(cls, values: Any) -> Any:
        """A single number is one hidden layer."""
        width = values.get("hidden") if isinstance(values, dict) else None
        is_number = isinstance(width, int) and not isinstance(width, bool)
        return {**values, "hidden": (width,)} if is_number else values

    @property
    def dim(self) -> int:
        """Width of the output: of the last hidden layer, or of the row itself."""
        return (self.features, *self.hidden)[-1]

    @property
    def layers(self) -> int:
        """The number of hidden layers."""
        return len(self.hidden)

    @property
    def front(self) -> Self:
        """The part that reads rows: the network itself."""
        return self

    @property
    def bound(self) -> int:
        """What a row counts in a batch."""
        return self.max_length

    @property
    def summary(self) -> str:
        """A short description of the widths."""
        if not self.hidden:
            return "a linear model"
        return f"{'-'.join(map(str, self.hidden))} wide, {self.activation}"
