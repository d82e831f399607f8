"""Overrides of a recipe, such as `train.steps=500`: parsed, and applied to the values of a file.

In: the values of a recipe's text, and overrides as typed. Out: new values, not validated yet. Some
overrides also remove values of the file that no longer apply, such as those of another kind of
data, of another family, or of another size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from regard.config import Config
from regard.data.config import DATA_KINDS
from regard.errors import InputError
from regard.inputs.reader import READERS
from regard.layers.short import STRUCTURE, short_fields, values_of, with_value, without_key
from regard.models.config import ModelConfig
from regard.models.families import CONFIGS
from regard.recipes.keys import Keys
from regard.recipes.messages import override_label
from regard.recipes.yaml import Path, read
from regard.tasks.specs import TASKS

DEFAULT_TASK = "translate"
"""The task that decides the model's family if `model.family` is missing and the task unknown."""
MAY_DIFFER = {
    "dropout", "hidden_dropout", "attention_dropout", "drop_path", "classes", "tags", "widths",
    "head_dropout",
}  # fmt: skip
"""Keys of `model` that a recipe may still set if its weights come from `start.folder`."""
SIZE_KEYS = {"dim", "heads", "kv_heads", "head_dim", "hidden", "layers"}
"""Keys of `model` that say how large it is, in every family; `model.size=…` replaces them, and all
other numbers that a named size of the family gives."""
FILE_KEYS = {("data", "train"), ("data", "valid"), ("data", "test"), ("data", "files")}
"""The keys that take one file or several."""
IMPLIED_KINDS = {"train": "files", "files": "text", "folder": "images", "file": "images"}
"""Setting this key of `data` switches to this kind of data if the present kind has no such key."""
REPLACED_KEYS = {"folder": "file", "file": "folder"}
"""Setting this key of `data` removes that one: images come from a folder or from a file."""
TASKS_WITH_OWN_FORMAT = {
    "vectors": (
        "word vectors",
        "train it with `regard train`, then use `regard vectors RUN nearest WORD`",
    ),
    "compare": ("several models", "train all of them with `regard compare NAME -o FOLDER`"),
}
"""Tasks whose recipes have other sections. `task_of` finds the task before the recipe is read, and
the training code reads it by another `RecipeFormat`. The values say what such a recipe describes,
and how it is used."""


def parse(override: str, keys: Keys) -> tuple[Path, Any]:
    """`train.steps=500` -> `(("train", "steps"), 500)`."""
    what = override_label(override)
    key, equals, text = override.partition("=")
    path = tuple(key.strip().split("."))
    if not all(path):
        raise InputError(what, got="an empty key", expected="key=value, as in train.steps=500")
    if len(path) == 1 and path[0] in keys.sections:
        expected = f"one key of it, as in {path[0]}.{next(iter(keys.fields(path[0])))}=VALUE"
        raise InputError(what, got="a whole section", expected=expected)
    if path not in keys:
        raise InputError(what, got="an unknown key", expected=keys.home(path), fix=keys.help(path))
    if not equals:
        raise InputError(what, got="no value", expected=f"{key.strip()}=VALUE")
    if path in FILE_KEYS and "," in text and text.lstrip()[0] not in "[{'\"":
        # A comma-separated list is accepted, because brackets would need quotes in a shell.
        return path, tuple(part.strip() for part in text.split(","))
    return path, read(text, lambda _: what).values


def apply_overrides(
    values: dict[str, Any], overrides: Mapping[Path, Any], keys: Keys
) -> dict[str, Any]:
    """Applies overrides to the values of a file.

    Args:
        values: As read from the file; not changed.
        overrides: Path of the key -> value.
        keys: All keys of such a recipe.

    Returns:
        New values, not validated yet.
    """
    # A section without keys (all commented out) is None in YAML and takes its defaults.
    merged = {
        key: dict(value or {}) if key in keys.sections and isinstance(value, dict | None) else value
        for key, value in values.items()
    }
    if ("start", "folder") in overrides and "start" not in values:
        merged |= _without_start_values(merged)
    if ("start", "encoder") in overrides and "start" not in values:
        merged |= _without_encoder_values(merged)
    data, model = (
        {path[1]: value for path, value in overrides.items() if path[0] == name and len(path) > 1}
        for name in ("data", "model")
    )
    if data and isinstance(merged.get("data", {}), dict):
        merged["data"] = _without_former_kind(merged.get("data", {}), data)
    if model and isinstance(merged.get("model", {}), dict):
        default_family = _default_family(values.get("task"))
        merged["model"] = _without_former_model(merged.get("model", {}), model, default_family)
    for path, value in overrides.items():
        section = merged if len(path) == 1 else merged.setdefault(path[0], {})
        if not isinstance(section, dict):  # the file is wrong, which validation reports
            continue
        if path[0] in keys.nested:  # stronger than what the file says about single parts
            merged[path[0]] = with_value(section, path[1:], value)
        else:
            section[path[-1]] = value
    return merged


def replaced_by_size(
    values: Mapping[str, Any], overrides: Mapping[Path, Any], model: ModelConfig
) -> dict[str, Any]:
    """The values of a file's `model` section that `model.size=…` has replaced by others.

    Args:
        values: As read from the file.
        overrides: Path of the key -> value.
        model: The section with all overrides applied.
    """
    section = values.get("model")
    if overrides.get(("model", "size")) is None or not isinstance(section, dict):
        return {}
    written = {key: value for key, value in _single_values(section)
               if key not in ("family", "size") and ("model", key) not in overrides}  # fmt: skip
    replaced = {}
    for key, value in written.items():
        values_now = [now for _, now in values_of(model, key.rpartition(".")[2])]
        if values_now and value not in [getattr(now, "kind", now) for now in values_now]:
            replaced[key] = value
    return replaced


def _single_values(section: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The values of a section that are no sections themselves, by their dotted keys."""
    for key, value in section.items():
        if isinstance(value, dict):
            yield from _single_values(value, f"{prefix}{key}.")
        elif key not in ("kind", "block"):
            yield prefix + key, value


def add_implied_values(values: dict[str, Any]) -> dict[str, Any]:
    """Adds values that follow from others.

    The model's family follows from the task. Sections that may be left out become empty: decode,
    tokens for a model that does not read text, and tokens and model with a `start` section.
    """
    model, task = values.get("model"), values.get("task")
    if str(task) in TASKS_WITH_OWN_FORMAT:
        return values
    values = {"decode": {}, **values}
    if "start" in values:
        values = {"tokens": {}, "model": {}, **values}
        model = values["model"]
    config = CONFIGS.get(str(model.get("family"))) if isinstance(model, dict) else None
    if config is not None and not READERS[config.reads].has_tokens:
        values = {"tokens": {}, **values}
    if not isinstance(model, dict) or "family" in model:
        return values
    return {**values, "model": {"family": _default_family(task), **model}}


def _default_family(task: Any) -> str:
    """The family of a model whose recipe names none."""
    return TASKS.get(str(task), TASKS[DEFAULT_TASK]).family


def _without_start_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """The `tokens` and `model` sections without the values that `start.folder` decides."""
    model = values.get("model")
    return {"tokens": {}} if not isinstance(model, dict) else {"tokens": {}, "model": _free(model)}


def _without_encoder_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """The `model` section without the values that `start.encoder` decides."""
    model = values.get("model")
    encoder = model.get("encoder") if isinstance(model, dict) else None
    if not isinstance(model, dict) or not isinstance(encoder, dict):
        return {}
    return {"model": {**model, "encoder": _free(encoder)}}


def _free(section: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a model's section, and of sections in it, that may differ from the folder's."""
    free = {key: value for key, value in section.items() if key in MAY_DIFFER}
    parts = {key: _free(value) for key, value in section.items() if isinstance(value, dict)}
    return free | {key: part for key, part in parts.items() if part}


def _without_former_kind(data: dict[str, Any], overrides: dict[str, Any]) -> dict[str, Any]:
    """The `data` section for the kind that overrides choose, without keys of the former kind only.

    Args:
        data: The section of the file.
        overrides: The section's overrides.
    """
    removed = {REPLACED_KEYS[key] for key in overrides if key in REPLACED_KEYS}
    data = {key: value for key, value in data.items() if key not in removed}
    old = data.get("kind")
    old_kind_fields = DATA_KINDS.get(str(old), Config).model_fields
    new_keys = [key for key in overrides if key not in old_kind_fields]
    implied_kinds = (kind for key, kind in IMPLIED_KINDS.items() if key in new_keys)
    new = overrides.get("kind") or next(implied_kinds, old)
    if new == old:
        return data
    old_fields, new_fields = (DATA_KINDS.get(str(kind), Config).model_fields for kind in (old, new))
    numbers = {int, float}  # `held_out` is a share of a text, but a number of pairs
    meant_otherwise = {
        key
        for key in {*old_fields} & {*new_fields}
        if {old_fields[key].annotation, new_fields[key].annotation} == numbers
    }
    kept_values = {
        key: value
        for key, value in data.items()
        if (key in new_fields or key not in old_fields) and key not in meant_otherwise
    }
    return kept_values | {"kind": new}


def _without_former_model(
    model: dict[str, Any], overrides: dict[str, Any], default_family: str
) -> dict[str, Any]:
    """The `model` section without values that only the former family or size has.

    Args:
        model: The section of the file.
        overrides: The section's overrides.
        default_family: The family if neither names one.
    """
    old = str(model.get("family", default_family))
    new = str(overrides.get("family", old))
    if new != old and {old, new} <= set(CONFIGS):
        old_fields, new_fields = (short_fields(CONFIGS[family]) for family in (old, new))
        model = {key: value for key, value in model.items()
                 if key in new_fields or key not in old_fields}  # fmt: skip
        unused = {path[0] for path in CONFIGS[new].resolve(model).unused} & {*old_fields}
        model = {key: value for key, value in model.items() if key not in unused}
        if model.get("size") not in (None, *CONFIGS[new].SIZES):
            del model["size"]
    if "size" not in overrides or new not in CONFIGS:
        return model
    return _without_former_size(model, overrides["size"], CONFIGS[new])


def _without_former_size(
    model: dict[str, Any], size: Any, config: type[ModelConfig]
) -> dict[str, Any]:
    """The `model` section of a file for a size that an override names.

    A later source takes precedence: all values that say how large the model is are removed, and all
    that the new size gives. So are other values of the former size, which the recipe in a run's
    folder spells out.

    Args:
        model: The section of the file.
        size: The size that the override names; null or an unknown name replaces nothing.
        config: The config of the family.
    """
    old, new = (config.SIZES.get(str(name), {}) for name in (model.get("size"), size))
    defaults = {key: field.default for key, field in short_fields(config).items()}
    defaults |= {**config.DEFAULTS, **old}
    written = {key.rpartition(".")[2]: value for key, value in _single_values(model)}
    spelled_out = {key for key in {*old, *new} if written.get(key) == defaults[key]}
    replaced = {*new, *_size_keys(config)} if str(size) in config.SIZES else set()
    for key in {*replaced, *spelled_out} - STRUCTURE:
        model = without_key(model, key)
    return {key: value for key, value in model.items() if value != {}}


def _size_keys(config: type[ModelConfig]) -> set[str]:
    """The keys that say how large a model of a family is."""
    numbers = {
        key
        for size in config.SIZES.values()
        for key, value in size.items()
        if isinstance(value, int | tuple) and not isinstance(value, bool)
    }
    return SIZE_KEYS | numbers
