"""Chooses the kind of Hugging Face model that computes what a model of Regard does.

In: a model's config. Out: the kind; or an error that lists the settings that stand in the way, and
the overrides of a recipe whose model can be exported.
"""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from regard.errors import InputError
from regard.hub.kind import HubFormat
from regard.hub.needs import override
from regard.hub.tables import KINDS
from regard.models import FAMILIES
from regard.models.families import CONFIGS
from regard.tasks.specs import TASKS


def choose(config: Any, asked: str | None = None, *, separate: bool = False) -> HubFormat:
    """The kind that computes what a model of this config does, the first of several.

    Args:
        config: The model's config.
        asked: The name of a kind, such as `timm`; None: any of transformers.
        separate: Whether source and target have tokenizers of their own, for which transformers
            has no file.

    Raises:
        InputError: There is none.
    """
    kinds = _kinds(config.family, asked)
    kind = _fewest_obstacles(kinds, config)
    if kind is not None and not kind.obstacles(config) and not separate:
        return kind
    raise _export_error(config, asked, separate=separate)


def _kinds(family: str, asked: str | None) -> list[HubFormat]:
    """The kinds of a family, of transformers or the one that is asked for."""
    kinds = [kind for name, kind in KINDS.items() if (name == asked if asked else kind.typed)]
    return [kind for kind in kinds if kind.family == family]


def _fewest_obstacles(kinds: list[HubFormat], config: Any) -> HubFormat | None:
    """The kind that requires the fewest changes of a config, the first of several."""
    return min(kinds, key=lambda kind: len(kind.obstacles(config)), default=None)


def _export_error(config: Any, asked: str | None, *, separate: bool) -> InputError:
    kinds = _kinds(config.family, asked)
    near = _fewest_obstacles(kinds, config)
    if near is None:
        got = f"a {config.family}, which {asked or 'transformers'} does not have"
        kinds = [kind for family in _alike(config, asked) for kind in _kinds(family, asked)]
    else:
        settings = {need.key: need.got(config) for need in near.obstacles(config)}
        tokens = [override("tokens.shared", value=False)] if separate else []
        got = f"a {config.family} with {', '.join([*settings.values(), *tokens])}"
    names = [kind.name for kind in kinds] or [asked or "the kinds of transformers"]
    return InputError(
        f"export to {asked or 'Hugging Face'}",
        got=got,
        expected=f"what one of {', '.join(names)} computes",
        fix=_fix(config, asked, separate=separate),
    )


def _fix(config: Any, asked: str | None, *, separate: bool) -> str | None:
    """The overrides with which a model of the same recipe can be exported."""
    changes: list[str] = []
    near = _fewest_obstacles(_kinds(config.family, asked), config)
    other = config
    if near is None:
        family = next(iter(_alike(config, asked)), None)
        if family is None:
            return None
        changes.append(override("model.family", family))
        other = _as_family(config, family)
        near = _fewest_obstacles(_kinds(family, asked), other)
        assert near is not None  # families that are alike have kinds
    changes += {need.key: need.wanted for need in near.obstacles(other)}.values()
    changes += [override("tokens.shared", value=True)] if separate else []
    elsewhere = "" if asked or separate else _elsewhere(config)
    return f"trained with {' '.join(changes)} it can be exported, as {near.name}{elsewhere}"


def _elsewhere(config: Any) -> str:
    """The option that writes the model for another library than transformers, if one has it."""
    for name, kind in KINDS.items():
        if not kind.typed and kind.family == config.family and not kind.obstacles(config):
            return f"; or `--to {name}`"
    return ""


def _alike(config: Any, asked: str | None) -> list[str]:
    """The families with the same input and shape that can be exported; the task's usual one first.

    Args:
        config: A config of another family.
        asked: The name of a kind; None: any of transformers.
    """
    families = [
        name
        for name in dict.fromkeys(kind.family for kind in KINDS.values())
        if _kinds(name, asked)
        and (CONFIGS[name].reads, CONFIGS[name].shape) == (config.reads, config.shape)
    ]
    usual = TASKS[FAMILIES[config.family].task].family
    return sorted(families, key=lambda name: name != usual)


def _as_family(config: Any, family: str) -> Any:
    """The config that a recipe has after `model.family=…`: the settings that both families have."""
    fields = CONFIGS[family].model_fields.keys() - {"family", "size", "max_length"}
    settings = config.model_dump(exclude_defaults=True).items()
    values = {"family": family} | {key: value for key, value in settings if key in fields}
    try:
        return CONFIGS[family].model_validate(values)
    except ValidationError:  # such as a width that the usual number of heads does not divide
        return CONFIGS[family].model_validate({"family": family})
