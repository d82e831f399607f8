"""Error messages for recipes: file, line and key, the value found, what was expected.

In: a pydantic `ValidationError`, the values it is about, and where they came from. Out: one
`InputError` about the first fault, in at most two lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from regard.data.config import PartData
from regard.errors import LISTED, InputError, did_you_mean, nearest
from regard.models.version_1 import old_path
from regard.recipes.keys import LIST_KEYS, Keys, choices_of, expectation
from regard.recipes.yaml import Path, one_line, shown


@dataclass(frozen=True)
class Source:
    """Where values came from: the file's name, the lines of its keys, and overrides as typed."""

    name: str
    lines: Mapping[Path, int]
    overrides: Mapping[Path, str]
    """Path of the key -> the override as typed, in the order in which they were given."""
    causes: Mapping[tuple[int | str, ...], Path] = field(default_factory=dict)
    """Location of an error, as pydantic gives it -> key of the override that causes it."""

    def location(self, path: Path) -> tuple[tuple[int, int], str]:
        """Where a key was set.

        Returns:
            A rank for sorting (lines of the file, then overrides, then unset keys), and the file
            and line, or the override, as text.
        """
        for order, (overridden, text) in enumerate(self.overrides.items()):
            inside = len(path) > 1 and overridden[: len(path)] == path  # a key of its section
            if inside or overridden == path:
                return (1, order), override_label(text)
        for stated_path in (path, _old(path), path[:1]):
            if stated_path in self.lines:
                return (0, self.lines[stated_path]), f"{self.name}:{self.lines[stated_path]}"
        return (2, 0), self.name

    def what(self, path: Path) -> tuple[tuple[int, int], str]:
        """As `location`, with the key appended unless an override already shows it."""
        rank, where = self.location(path)
        return rank, where if rank[0] == 1 else f"{where}: {one_line('.'.join(path))}"


def _old(path: Path) -> Path:
    """Where version 1 had a key of today."""
    return (*path[:1], *map(str, old_path(path[1:])))


def override_label(override: str) -> str:
    """The name of an override in messages."""
    return f"override {one_line(override)}"


class _Fault(NamedTuple):
    """One fault: its rank for sorting, the key it is about, and the parts of its message."""

    rank: tuple[int, int]
    path: Path
    what: str
    got: str | None = None
    expected: str | None = None
    fix: str | None = None


def first_fault(
    error: ValidationError, values: Mapping[str, Any], source: Source, keys: Keys
) -> InputError:
    """The error for the first fault in the order of the file, with the number of further faults.

    Args:
        error: The errors that pydantic found.
        values: The values that were validated.
        source: Where the values came from.
        keys: All keys that such a recipe can have.
    """
    faults: dict[Path, _Fault] = {}
    for detail in error.errors(include_url=False):
        for fault in _faults(detail, values, source, keys):
            # Each member of a union reports the same value, so one fault for each key is kept.
            faults.setdefault(fault.path, fault)
    first = min(faults.values(), key=lambda fault: fault.rank)
    more_faults = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    if first.expected is None:
        return InputError(first.what + more_faults, fix=first.fix)
    return InputError(
        first.what, got=first.got, expected=first.expected + more_faults, fix=first.fix
    )


def _faults(
    detail: ErrorDetails, values: Mapping[str, Any], source: Source, keys: Keys
) -> list[_Fault]:
    """Converts one error of pydantic, which may be about several keys."""
    if detail["type"] != "unused_key":
        return [_fault(detail, values, source, keys)]
    section = str(detail["loc"][0])
    kind = str(values[section].get(keys.tags[section]))
    faults = []
    for below in detail["ctx"]["paths"]:
        path = (section, *map(str, below))
        rank, what = source.what(path)
        advice = keys.help(path, kind)
        faults.append(_Fault(rank, path, what, "an unknown key", keys.home(path, kind), advice))
    return faults


def _fault(detail: ErrorDetails, values: Mapping[str, Any], source: Source, keys: Keys) -> _Fault:
    """Converts one error of pydantic: which key is wrong, where it was set, what is expected."""
    path = _path(detail, values, keys)
    if detail["type"] in ("value_error", "sections_disagree"):
        return _disagreement(detail, path, source)
    section = values.get(path[0])
    tag = keys.tags.get(path[0])
    kind = str(section.get(tag)) if tag is not None and isinstance(section, dict) else None
    rank, what = source.what(path)
    # An unknown key deeper inside is reported as a fault of the known key around it.
    if detail["type"] == "extra_forbidden" and str(detail["loc"][-1]) == path[-1]:
        return _Fault(rank, path, what, "an unknown key", keys.home(path), keys.help(path, kind))
    part_fault = _part_fault(detail, rank, what, path)
    if part_fault is not None:
        return part_fault
    expected, choices = _expected_values(path, keys, kind)
    value = _value_at(values, path)
    if value is _NO_VALUE:
        value = _value_at(values, _old(path))
    if value is _NO_VALUE:
        # Ranked last: it has no line, and a misspelt key elsewhere is often the cause.
        return _Fault(
            (2, 0),
            path,
            what,
            "nothing",
            expected,
            _advice_to_add(path, (choices or [expected])[0], keys),
        )
    close_names = nearest(value, choices) if isinstance(value, str) else []
    fix = did_you_mean(close_names)
    if close_names and len(choices) > LISTED:
        argument = f" {path[0]}" if path[0] in keys.sections else ""
        expected, fix = f"a known {path[-1]}", did_you_mean(close_names, f"{LIST_KEYS}{argument}")
    if path == ("version",):
        fix = "this Regard reads versions 1 and 2 of recipes"
    return _Fault(rank, path, what, shown(value), expected, fix)


def _part_fault(
    detail: ErrorDetails, rank: tuple[int, int], what: str, path: Path
) -> _Fault | None:
    """A fault inside one of the datasets of `data.parts`, such as `data.parts.past.weight`."""
    *_, part, key = ("", *map(str, detail["loc"]))
    if path != ("data", "parts") or key not in PartData.model_fields:
        return None
    got = "nothing" if detail["type"] == "missing" else shown(detail["input"])
    expected = expectation(PartData.model_fields[key])
    return _Fault(rank, (*path, part, key), f"{what}.{part}.{key}", got, expected)


def _expected_values(path: Path, keys: Keys, kind: str | None) -> tuple[str, list[str]]:
    """What a key or section takes, in words, and its allowed names if it is a choice."""
    if len(path) > 1 and keys.tags.get(path[0]) == path[1]:
        kinds = list(keys.sections[path[0]])
        return f"one of {', '.join(kinds)}", kinds
    if path[0] not in keys.sections:
        field = keys.top[path[0]]
    elif len(path) > 1:
        fields = keys.fields(path[0], kind)
        field = fields[next(key for key in reversed(path) if key in fields)]
    else:
        first_config = next(iter(keys.sections[path[0]].values()))
        name, field = next(iter(first_config.model_fields.items()))
        return f"keys, such as {name}: {field.default}", []
    return expectation(field), choices_of(field)


def _advice_to_add(path: Path, example: str, keys: Keys) -> str:
    """Advice on what to add if a key or section is missing."""
    if len(path) > 1:
        return f"add {path[1]}: under {path[0]}:, or {'.'.join(path)}=VALUE as an override"
    if path[0] not in keys.sections:
        return f"add the line {path[0]}: {example}"
    if path[0] == "data":
        return "add the line data: {kind: grammar}"
    return f"add the line {path[0]}: {{}} for its defaults"


def _path(detail: ErrorDetails, values: Mapping[str, Any], keys: Keys) -> Path:
    """The key that an error is about: `("data", "grammar", "pairs")` -> `("data", "pairs")`."""
    section, *keys_below = map(str, detail["loc"] or ("",))
    if detail["type"].startswith("union_tag") and not keys_below:
        return section, keys.tags[section]
    if section in keys.nested and isinstance(values.get(section), dict):
        return keys.origin(section, values[section], detail["loc"][2:])
    if section in keys.tags:  # pydantic names the kind after the section
        keys_below = keys_below[1:]
    # Further parts are the index of an item, or the member of a union.
    return (str(section), *(str(part) for part in keys_below[:1]))


def _disagreement(detail: ErrorDetails, path: Path, source: Source) -> _Fault:
    """A fault of values that are not allowed together; names an override if one is involved."""
    message = detail["msg"].removeprefix("Value error, ")
    named_keys: tuple[Path, ...] = detail.get("ctx", {}).get("keys", ())
    causing_override = source.causes.get(detail["loc"])
    overridden = [key for key in source.overrides if key in named_keys or key[:1] == path]
    involved_keys = [*([causing_override] if causing_override else []), *overridden, *named_keys]
    if involved_keys:
        rank, what = source.location(involved_keys[0])
    else:
        rank, what = source.what(path)
    return _Fault(rank, path, f"{what}: {message}")


_NO_VALUE = object()


def _value_at(values: Mapping[str, Any], path: Path) -> Any:
    """The value at a path of keys; `_NO_VALUE` if there is none."""
    value: Any = values
    for part in path:
        if isinstance(value, tuple) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        elif isinstance(value, dict) and part in value:
            value = value[part]
        else:
            return _NO_VALUE
    return value
