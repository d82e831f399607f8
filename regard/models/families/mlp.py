"""Plain networks on rows of numbers: linear and logistic regression, and the MLP."""

from __future__ import annotations

from typing import ClassVar, Literal

from regard.layers.rows_config import RowLayers
from regard.models.config import ModelConfig, NumbersHead, Sizes
from regard.models.families.family import Family, PublishedModel


class RowHead(NumbersHead):
    """A linear head for the classes of a row, or for its numbers."""

    classes: tuple[str, ...] = ()
    """Names of the classes of an input, for a head on the pooled vector; empty: no such head."""


class MLPConfig(ModelConfig):
    """Hidden layers over a row of a table; without any, linear or logistic regression."""

    HEADS: ClassVar[tuple[str, ...]] = ("classes", "numbers")
    VOCABULARIES: ClassVar[tuple[str, ...]] = ()
    SIZES: ClassVar[Sizes] = {"linear": {"hidden": ()}, "deep": {"hidden": (64, 64)}}
    reads: ClassVar[str] = "table"
    family: Literal["mlp"] = "mlp"
    size: Literal["linear", "deep"] | None = None
    encoder: RowLayers = RowLayers()
    head: RowHead = RowHead()


PIXELS = {"features": 28 * 28, "classes": tuple("0123456789")}
"""What a model of the digits of MNIST, each a row of pixels, reads and predicts."""
FAMILY = Family(
    MLPConfig,
    "regard.models.mlp.MLP",
    task="predict",
    named={
        f"mlp-{size}": PublishedModel({"family": "mlp", "size": size, **PIXELS}, lengths=(1,))
        for size in MLPConfig.SIZES
    },
)
