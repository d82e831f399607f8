"""What a family is, and a training of it that people know by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from regard.models.config import ModelConfig, Shape

BROWN = "Brown et al. 2020"
"""Their table D.1 counts the training of others too."""


@dataclass(frozen=True)
class Named:
    """A model that people know by name: its sizes, vocabulary and training, as far as published.

    Attributes:
        model: The `model:` section of a recipe.
        vocab: Entries of the vocabulary.
        lengths: Tokens of its texts in training: of source and target, or of the only one.
        step_tokens: Tokens of a training step.
        steps: Of the training; 0 where nobody published how many.
        source: Where that was published.
        flops: Of the training, where somebody published a count of their own.
        flops_source: Who, and how they counted.
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
        """Of the whole training."""
        return self.steps * self.step_tokens


@dataclass(frozen=True)
class Family:
    """Models of one kind.

    Attributes:
        config: Their config, with named sizes.
        build: A config and the sizes of the vocabularies -> the model, with fresh weights. It
            imports torch; the family's file does not.
        task: What such a model is for, where nothing else is said.
        named: Models of it that `regard plan` knows by name.
    """

    config: type[ModelConfig]
    build: Callable[..., Any]
    task: str
    named: Mapping[str, Named] = field(default_factory=dict)

    @property
    def shape(self) -> Shape:
        """What its models are made of: an encoder, a decoder, or both."""
        return self.config.shape
