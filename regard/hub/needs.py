"""The settings that a kind of Hugging Face model requires of a model of Regard.

In: the config of a model. Out: the settings that stand in the way of writing it as that kind, each
with a value that would not.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Need:
    """A setting of `model`, and the values that it can have in one kind of their models."""

    key: str
    values: tuple[Any, ...]
    """The possible values; messages recommend the first."""
    when: Callable[[Any], bool] | None = None
    """Whether this is required of a config; None: of every config."""

    def is_met(self, config: Any) -> bool:
        """Whether a config has one of the values, or does not need to."""
        if self.when is not None and not self.when(config):
            return True
        return getattr(config, self.key) in self.values

    def got(self, config: Any) -> str:
        """The setting as it is, as an override of a recipe: `model.norm=rms`."""
        return override(f"model.{self.key}", getattr(config, self.key))

    @property
    def wanted(self) -> str:
        """The recommended setting, as an override of a recipe."""
        return override(f"model.{self.key}", self.values[0])


def override(key: str, value: Any) -> str:
    """One setting as the command line takes it.

    Example:
        >>> override("model.final_norm", None), override("model.classes", ("cat", "dog"))
        ('model.final_norm=null', 'model.classes=[cat,dog]')
    """
    return f"{key}={_as_yaml(value)}"


def _as_yaml(value: Any) -> str:
    """A value as YAML in one word."""
    if isinstance(value, tuple):
        return f"[{','.join(map(_as_yaml, value))}]"
    return value if isinstance(value, str) else json.dumps(value)


def fixed(**values: Any) -> tuple[Need, ...]:
    """Settings with one possible value each."""
    return tuple(Need(key, (value,)) for key, value in values.items())


BLOCKS = fixed(
    sublayers=("self_attention", "feed_forward"),
    scales={},
    norm_places={},
    block_norm=False,
    grid_window=None,
    grid_bias="none",
)
"""What all models of transformers require: blocks with the structure of published models."""
