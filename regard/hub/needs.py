"""The settings that a kind of Hugging Face model requires of a model of Regard.

In: the config of a model. Out: the settings that stand in the way of writing it as that kind, each
with a value that would not.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from regard.layers.config import WritingStack
from regard.layers.short import short_fields, values_of


@dataclass(frozen=True)
class Need:
    """A setting of `model`, and the values that it can have in one kind of their models."""

    key: str
    values: tuple[Any, ...]
    """The possible values; messages recommend the first."""
    when: Callable[[Any], bool] | None = None
    """Whether this is required of a config; None: of every config."""
    by_overrides: ClassVar[bool] = True
    """Whether a recipe that does not meet it does so with the overrides that `wanted` names."""

    def is_met(self, config: Any) -> bool:
        """Whether all parts of a config have one of the values, or do not need to."""
        if self.when is not None and not self.when(config):
            return True
        return all(value in self.values for value in self._settings(config))

    def _settings(self, config: Any) -> list[Any]:
        """The values of the setting in all parts; its default if only other kinds have it."""
        settings = [getattr(value, "kind", value) for _, value in values_of(config, self.key)]
        kind: Any = type(config)
        field = short_fields(kind).get(self.key)
        return settings if settings or field is None else [field.default]

    def got(self, config: Any) -> str:
        """The setting as it is, as an override of a recipe: `model.norm=rms`."""
        value = next(value for value in self._settings(config) if value not in self.values)
        return override(f"model.{self.key}", value)

    def wanted(self, config: Any) -> str:
        """The recommended setting, as an override of a recipe."""
        del config
        return override(f"model.{self.key}", self.values[0])


class StandardBlocks(Need):
    """Blocks of self-attention, cross-attention in a decoder with a memory, and a feed-forward."""

    def is_met(self, config: Any) -> bool:
        """Whether all stacks of a config have such blocks."""
        return not self._others(config)

    def _others(self, config: Any) -> dict[str, Any]:
        """The sides with other blocks: name -> config."""
        others = {}
        for name, side in config.sides.items():
            if side.kind != "blocks":  # a need of its own
                continue
            kinds = tuple(part.kind for part in side.block)
            named = any(
                part.name or part.scale != 1 or part.sublayer_norm_place for part in side.block
            )
            if named or kinds != self._usual(side):
                others[name] = side
        return others

    def _usual(self, side: Any) -> tuple[str, ...]:
        """The kinds of sub-layers that a side should have."""
        cross = ("cross_attention",) if isinstance(side, WritingStack) else ()
        return ("attention", *cross, "feed_forward")

    def got(self, config: Any) -> str:
        """The sub-layers of these sides."""
        blocks = {name: [part.part for part in side.block]
                  for name, side in self._others(config).items()}  # fmt: skip
        return ", ".join(override(f"model.{name}.block", tuple(b)) for name, b in blocks.items())

    def wanted(self, config: Any) -> str:
        """The usual sub-layers of these sides."""
        sides = self._others(config).items()
        return " ".join(override(f"model.{name}.block", self._usual(side)) for name, side in sides)


class SameSides(Need):
    """One value for both sides, in models of transformers whose sides are alike but for layers."""

    def is_met(self, config: Any) -> bool:
        """Whether all parts that have the setting share its value."""
        return len({value for _, value in values_of(config, self.key)}) < 2

    def got(self, config: Any) -> str:
        """The values of both sides."""
        sides = {path[0]: value for path, value in values_of(config, self.key)}
        return ", ".join(override(f"model.{side}.{self.key}", sides[side]) for side in sides)

    def wanted(self, config: Any) -> str:
        """The first side's value, for both."""
        _, value = next(iter(values_of(config, self.key)))
        return override(f"model.{self.key}", value)


class OfSide(Need):
    """A setting of one side, where the sides differ: the key begins with it, as `decoder.norm`.

    Without possible values, all parts of the side must share one.
    """

    def is_met(self, config: Any) -> bool:
        """Whether the side has one of the values, or no blocks: that is a need of its own."""
        if self._side(config).kind != "blocks":
            return True
        settings = self._settings(config)
        return all(value in self._allowed(settings) for value in settings)

    def _side(self, config: Any) -> Any:
        return config.sides[self.key.partition(".")[0]]

    def _settings(self, config: Any) -> list[Any]:
        """The values of the setting in all parts of the side."""
        values = values_of(self._side(config), self.key.partition(".")[2])
        return [getattr(value, "kind", value) for _, value in values]

    def _allowed(self, settings: list[Any]) -> tuple[Any, ...]:
        return self.values or (settings[0],)

    def got(self, config: Any) -> str:
        """The setting as it is."""
        settings = self._settings(config)
        other = next(value for value in settings if value not in self._allowed(settings))
        return override(f"model.{self.key}", other)

    def wanted(self, config: Any) -> str:
        """The recommended setting, or the first that the side has."""
        return override(f"model.{self.key}", self._allowed(self._settings(config))[0])


def override(key: str, value: Any) -> str:
    """One setting as the command line takes it.

    Example:
        >>> override("model.final_norm", None), override("model.classes", ("cat", "dog"))
        ('model.final_norm=null', 'model.classes=[cat,dog]')
    """
    return f"{key}={_as_yaml(value)}"


def _as_yaml(value: Any) -> str:
    """A value as YAML in one word; of a part, its kind."""
    value = getattr(value, "kind", value)
    if isinstance(value, tuple):
        return f"[{','.join(map(_as_yaml, value))}]"
    return value if isinstance(value, str) else json.dumps(value)


def fixed(**values: Any) -> tuple[Need, ...]:
    """Settings with one possible value each."""
    return tuple(Need(key, (value,)) for key, value in values.items())


_SHARED_KEYS = (
    "dim", "heads", "kv_heads", "head_dim", "hidden", "activation", "norm", "norm_place",
    "norm_epsilon", "final_norm", "bias", "dropout", "hidden_dropout", "attention_dropout",
    "positions", "scaled_embedding", "embedding_norm", "max_length",
)  # fmt: skip
BLOCK = StandardBlocks("block", ())
BLOCKS = (
    BLOCK,
    *fixed(block_norm=False),
    *(SameSides(key, ()) for key in _SHARED_KEYS),
)
"""What all models of transformers require: blocks with the structure of published models."""
