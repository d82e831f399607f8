"""`Family`, the registry entry of a model family, and `PublishedModel` with its training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from regard.models.config import ModelConfig
from regard.runtime.lazy import imported

BROWN = "Brown et al. 2020"
"""Table D.1 of this paper gives training FLOPs of other models, too."""


@dataclass(frozen=True)
class PublishedModel:
    """A model known by name: its sizes, vocabulary and training, as far as published.

    Attributes:
        model: The `model:` section of a recipe.
        vocab: Size of the vocabulary.
        lengths: Lengths of its training texts in tokens: source and target, or the only one.
        step_tokens: Number of tokens of a training step.
        steps: Number of training steps; 0 if not published.
        source: The publication of these figures.
        flops: Published FLOPs of the training, if there is such a figure.
        flops_source: The publication of `flops`, and its formula.
    """

    model: dict[str, Any]
    vocab: int = 8000
    lengths: tuple[int, ...] = (512,)
    step_tokens: int = 0
    steps: int = 0
    source: str = ""
    flops: float | None = None
    flops_source: str = ""

    @property
    def tokens(self) -> int:
        """Number of tokens of the whole training."""
        return self.steps * self.step_tokens


@dataclass(frozen=True)
class Family:
    """A model family.

    Attributes:
        config: The config class, with named sizes.
        model: The class of its models, or a function that builds one with initial weights, from a
            config and the vocabulary sizes. A dotted path is imported when a model is built, so
            that the family's file does not import torch.
        task: The default task of such a model.
        named: The models of this family that `regard plan` knows by name.
    """

    config: type[ModelConfig]
    model: str | Callable[..., Any]
    task: str
    named: Mapping[str, PublishedModel] = field(default_factory=dict)

    def build(self, config: ModelConfig, *vocabularies: int) -> Any:
        """Builds a model with initial weights from a config and the vocabulary sizes."""
        model = imported(self.model) if isinstance(self.model, str) else self.model
        return model(config, *vocabularies)
