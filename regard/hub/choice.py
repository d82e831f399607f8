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
from regard.layers.short import STRUCTURE, short_fields
from regard.models import FAMILIES
from regard.models.families import CONFIGS
from regard.tasks.specs import TASKS


def choose_kind(config: Any, kind_name: str | None = None, *, separate: bool = False) -> HubFormat:
    """The kind that computes what a model of this config does, the first of several.

    Args:
        config: The model's config.
        kind_name: The name of a kind, such as `timm`; None: any of transformers.
        separate: Whether source and target have tokenizers of their own, for which transformers
            has no file.

    Raises:
        InputError: There is none.
    """
    kinds = _kinds_of(config.family, kind_name)
    kind = _fewest_obstacles(kinds, config)
    if kind is not None and not kind.obstacles(config) and not separate:
        return kind
    raise _export_error(config, kind_name, separate=separate)


def _kinds_of(family: str, kind_name: str | None) -> list[HubFormat]:
    """The kinds of a family, of transformers or the one that is asked for."""
    kinds = [kind for kind in KINDS.values() if kind.family == family]
    if kind_name:
        return [kind for kind in kinds if KINDS.get(kind_name) is kind]
    return [kind for kind in kinds if kind.has_model_type]


def _fewest_obstacles(kinds: list[HubFormat], config: Any) -> HubFormat | None:
    """The kind that requires the fewest changes of a config, the first of several."""
    return min(kinds, key=lambda kind: len(kind.obstacles(config)), default=None)


def _export_error(config: Any, kind_name: str | None, *, separate: bool) -> InputError:
    """The error for a model that cannot be exported: the settings in the way, and what to do."""
    kinds = _kinds_of(config.family, kind_name)
    closest_kind = _fewest_obstacles(kinds, config)
    if closest_kind is None:
        got = f"a {config.family}, which {kind_name or 'transformers'} does not have"
        families = _similar_families(config, kind_name)
        kinds = [kind for family in families for kind in _kinds_of(family, kind_name)]
    else:
        settings = {need.key: need.got(config) for need in closest_kind.obstacles(config)}
        tokens = [override("tokens.shared", value=False)] if separate else []
        got = f"a {config.family} with {', '.join([*settings.values(), *tokens])}"
    names = [kind.name for kind in kinds] or [kind_name or "the kinds of transformers"]
    return InputError(
        f"export to {kind_name or 'Hugging Face'}",
        got=got,
        expected=f"what one of {', '.join(names)} computes",
        fix=_fix_advice(config, kind_name, separate=separate),
    )


def _fix_advice(config: Any, kind_name: str | None, *, separate: bool) -> str | None:
    """The overrides with which a model of the same recipe can be exported."""
    changes: list[str] = []
    closest_kind = _fewest_obstacles(_kinds_of(config.family, kind_name), config)
    similar_config = config
    if closest_kind is None:
        family = next(iter(_similar_families(config, kind_name)), None)
        if family is None:
            return None
        changes.append(override("model.family", family))
        similar_config = _as_family(config, family)
        closest_kind = _fewest_obstacles(_kinds_of(family, kind_name), similar_config)
        assert closest_kind is not None  # similar families have kinds
    obstacles = closest_kind.obstacles(similar_config)
    changes += {need.key: need.wanted(similar_config) for need in obstacles}.values()
    changes += [override("tokens.shared", value=True)] if separate else []
    other_option = "" if kind_name or separate else _other_library_option(config)
    kind = closest_kind.name
    if not all(need.by_overrides for need in obstacles):
        return f"a {config.family} with {' '.join(changes)} can be exported, as {kind}"
    return f"trained with {' '.join(changes)} it can be exported, as {kind}{other_option}"


def _other_library_option(config: Any) -> str:
    """The option that writes the model for another library than transformers, if one has it."""
    for name, kind in KINDS.items():
        if not kind.has_model_type and kind.family == config.family and not kind.obstacles(config):
            return f"; or `--to {name}`"
    return ""


def _similar_families(config: Any, kind_name: str | None) -> list[str]:
    """The families with the same input and shape that can be exported; the task's usual one first.

    Args:
        config: A config of another family.
        kind_name: The name of a kind; None: any of transformers.
    """
    families = [
        name
        for name in dict.fromkeys(kind.family for kind in KINDS.values())
        if _kinds_of(name, kind_name)
        and CONFIGS[name].reads == config.reads
        and CONFIGS[name](family=name).sides.keys() == config.sides.keys()
    ]
    default_family = TASKS[FAMILIES[config.family].task].family
    return sorted(families, key=lambda name: name != default_family)


def _as_family(config: Any, family: str) -> Any:
    """The config that a recipe has after `model.family=…`: the settings that both families have."""
    fields = short_fields(CONFIGS[family]).keys() - {*STRUCTURE, "max_length"}
    values = {"family": family}
    for path, statement in config.written().items():
        if path[-1] in fields:
            values[str(path[-1])] = statement.value
    unused = {path[0] for path in CONFIGS[family].resolve(values).unused}
    values = {key: value for key, value in values.items() if key not in unused}
    try:
        return CONFIGS[family].model_validate(values)
    except ValidationError:  # such as a width that the usual number of heads does not divide
        return CONFIGS[family].model_validate({"family": family})
