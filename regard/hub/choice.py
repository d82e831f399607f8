"""Chooses the kind of Hugging Face model that computes what a model of Regard does.

In: a model's config. Out: the kind; or an error that lists the settings that stand in the way, and
the overrides of a recipe whose model can be exported.
"""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from regard.errors import InputError
from regard.hub.kind import Kind
from regard.hub.needs import override
from regard.hub.tables import KINDS
from regard.models import FAMILIES
from regard.models.families import CONFIGS

SEPARATE = ("tokens.shared", False)
"""The setting of two tokenizers, one for each side."""


def choose(config: Any, asked: str | None = None, *, separate: bool = False) -> Kind:
    """The first kind that computes what a model of this config does.

    Args:
        config: The model's config.
        asked: The name of a kind, such as `timm`; None: any of transformers.
        separate: Whether source and target have tokenizers of their own, for which transformers
            has no file.

    Raises:
        InputError: There is none.
    """
    kinds = _kinds(config.family, asked)
    kind = _nearest(kinds, config)
    if kind is not None and not kind.obstacles(config) and not separate:
        return kind
    raise _refused(config, asked, separate=separate)


def _kinds(family: str, asked: str | None) -> list[Kind]:
    """The kinds of a family, of transformers or the one that is asked for."""
    kinds = [kind for name, kind in KINDS.items() if (name == asked if asked else kind.typed)]
    return [kind for kind in kinds if kind.family == family]


def _nearest(kinds: list[Kind], config: Any) -> Kind | None:
    """The kind that requires the fewest changes of a config, the first of several."""
    return min(kinds, key=lambda kind: len(kind.obstacles(config)), default=None)


def _refused(config: Any, asked: str | None, *, separate: bool) -> InputError:
    library = asked or "transformers"
    kinds = _kinds(config.family, asked)
    got = _got(config, kinds, separate=separate)
    names = [kind.name for kind in kinds]
    if not names:
        got = f"a {config.family}, which {library} does not have"
        names = [name for name, kind in KINDS.items() if asked in (None, name) and kind.typed]
    return InputError(
        f"export to {asked or 'Hugging Face'}",
        got=got,
        expected=f"what one of {', '.join(names or [library])} computes",
        fix=_fix(config, asked, separate=separate),
    )


def _got(config: Any, kinds: list[Kind], *, separate: bool) -> str:
    """The settings of a config that stand in the way."""
    kind = _nearest(kinds, config)
    settings = {} if kind is None else {n.key: n.got(config) for n in kind.obstacles(config)}
    tokens = [override(*SEPARATE)] if separate else []
    return f"a {config.family} with {', '.join([*settings.values(), *tokens])}"


def _fix(config: Any, asked: str | None, *, separate: bool) -> str | None:
    """The overrides with which a model of this recipe can be exported."""
    changes: list[str] = []
    other = config
    if not _kinds(config.family, asked):
        family = _alike(config, asked)
        if family is None:
            return None
        changes.append(override("model.family", family))
        other = _as_family(config, family)
    kind = _nearest(_kinds(other.family, asked), other)
    assert kind is not None
    changes += {need.key: need.wanted for need in kind.obstacles(other)}.values()
    changes += [override(SEPARATE[0], not SEPARATE[1])] if separate else []
    ready = next(
        (each.name for each in KINDS.values()
         if asked is None and not separate and not each.typed
         and each.family == config.family and not each.obstacles(config)), None
    )  # fmt: skip
    more = f"; or `--to {ready}`" if ready else ""
    return f"trained with {' '.join(changes)} it can be exported, as {kind.name}{more}"


def _alike(config: Any, asked: str | None) -> str | None:
    """A family that can be exported, of the same shape and, if possible, for the same task."""
    families = [
        name for name in dict.fromkeys(kind.family for kind in KINDS.values())
        if _kinds(name, asked) and CONFIGS[name].reads == config.reads
        and CONFIGS[name].shape == config.shape
    ]  # fmt: skip
    task = FAMILIES[config.family].task
    return min(families, key=lambda name: FAMILIES[name].task != task, default=None)


def _as_family(config: Any, family: str) -> Any:
    """The config that a recipe has after `model.family=…`: the settings that both families have."""
    fields = CONFIGS[family].model_fields.keys() - {"family", "size", "max_length"}
    kept = {key: value for key, value in config.model_dump(exclude_unset=True).items()
            if key in fields}  # fmt: skip
    try:
        return CONFIGS[family](family=family, **kept)
    except ValidationError:  # such as a width that the usual number of heads does not divide
        return CONFIGS[family](family=family)
