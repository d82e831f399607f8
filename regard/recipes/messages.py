"""Error messages for recipes: file, line and key, the value found, what was expected.

In: a pydantic `ValidationError`, the values it is about, and where they came from. Out: one
`InputError` about the first fault, in at most two lines. Expectations are derived from the fields
of the sections, so that there is no second list of what is allowed.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import reduce
from types import NoneType
from typing import Any, Literal, NamedTuple, get_args, get_origin

from pydantic import PositiveInt, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from regard.config import Config, NameIn
from regard.data.config import Column, Files, PartData, Parts
from regard.errors import InputError
from regard.models.config import NormPlace, RotaryScaling
from regard.recipes.yaml import Path, one_line, shown
from regard.train.config import Freeze

_WORDS: dict[Any, str] = {
    bool: "true or false",
    bool | Literal["sampled"]: "true, false or sampled",
    int: "a whole number",
    float: "a number",
    str: "text",
    tuple[PositiveInt, PositiveInt]: "height and width, such as [8, 8]",
    tuple[float, float]: "two numbers, such as [0.9, 0.98]",
    tuple[str, ...]: "a list of names",
    tuple[int, ...]: "a list of whole numbers",
    tuple[PositiveInt, ...]: "a list of whole numbers, such as [6, 16]",
    dict[str, float]: "numbers by name, such as {feed_forward: 0.5}",
    dict[str, NormPlace]: "places by name, such as {feed_forward: post}",
    RotaryScaling: "keys, such as {kind: linear, factor: 2.0}",
    Column: "the name of a column, or its number",
    Files: "a file name, or two as [source, target]",
    Freeze: "none, embeddings, all, or a number of layers",
    Parts: "sets of pairs by name, each with train, prefix, weight",
}


def closest(name: str, names: Iterable[str]) -> list[str]:
    """A list with the known name that is most similar to a misspelt one; empty if none is."""
    return get_close_matches(name.lower(), list(names), n=1)


def expectation(field: FieldInfo) -> str:
    """The values that a field takes, in words: `a number above 0`, `one of pre, post`."""
    choices = _choices(field)
    if choices:
        words = f"one of {', '.join(choices)}" if len(choices) > 1 else choices[0]
    else:
        words = " ".join([_WORDS[_inner(field)], *_bounds(field)])
    return f"{words}, or null" if NoneType in get_args(field.annotation) else words


def _inner(field: FieldInfo) -> Any:
    """The type of a field when it is not None."""
    options = get_args(field.annotation)
    if NoneType not in options:
        return field.annotation
    return reduce(operator.or_, [option for option in options if option is not NoneType])


def _choices(field: FieldInfo) -> list[str]:
    inner = _inner(field)
    named = [list(each.table) for each in field.metadata if isinstance(each, NameIn)]
    literals = get_args(inner) if get_origin(inner) is Literal else ()
    return named[0] if named else [str(choice) for choice in literals]


_BOUNDS = {"ge": "of at least", "gt": "above", "le": "at most", "lt": "below"}


def _bounds(field: FieldInfo) -> list[str]:
    phrases = [
        f"{words} {getattr(bound, name)}"
        for bound in field.metadata
        for name, words in _BOUNDS.items()
        if hasattr(bound, name)
    ]
    return [" and ".join(phrases)] if phrases else []


@dataclass(frozen=True)
class Keys:
    """All keys that a recipe can have.

    Attributes:
        top: The keys at the top level, outside sections.
        sections: For each section its configs by kind; a section without kinds has one, `""`.
        tags: For each section with kinds, the key that selects the kind.
    """

    top: Mapping[str, FieldInfo]
    sections: Mapping[str, Mapping[str, type[Config]]]
    tags: Mapping[str, str]

    def __contains__(self, path: Path) -> bool:
        if len(path) == 1:
            return path[0] in self.top
        return len(path) == 2 and path[1] in self.fields(path[0])

    def fields(self, section: str, kind: str | None = None) -> dict[str, FieldInfo]:
        """The fields of a section, of one kind or of all kinds together."""
        kinds = self.sections.get(section, {})
        configs = [kinds[kind]] if kind is not None and kind in kinds else kinds.values()
        return {name: field for config in configs for name, field in config.model_fields.items()}

    def home(self, path: Path) -> str:
        """What was expected instead of an unknown key."""
        return f"a key of {path[0]}" if path[0] in self.sections else "a key of a recipe"

    def help(self, path: Path, kind: str | None = None) -> str:
        """Advice for an unknown key: the key that was probably meant, else the known keys."""
        section, name = path[0], path[1] if len(path) > 1 else path[0]
        if len(path) > 1:
            near = self._near(section, name, kind)
        else:
            near = next(map("did you mean {}?".format, closest(name, self._outermost())), None)
        if near is not None:
            return near
        elsewhere = [f"{other}.{name}" for other in self.sections if name in self.fields(other)]
        if elsewhere:
            return f"did you mean {' or '.join(elsewhere)}?"
        if section in self.sections:
            return f"keys of {section}: {', '.join(self.fields(section, kind))}"
        return f"keys of a recipe: {', '.join(self._outermost())}"

    def _outermost(self) -> list[str]:
        return [*self.top, *self.sections]

    def _near(self, section: str, name: str, kind: str | None) -> str | None:
        """Advice with the most similar key of the section, or of the section probably meant."""
        if section not in self.sections:
            meant = closest(section, self.sections)
            found = closest(name, self.fields(meant[0])) if meant else []
            return f"did you mean {meant[0]}.{found[0]}?" if found else None
        owners = [owner for owner, config in self.sections[section].items()
                  if name in config.model_fields]  # fmt: skip
        if owners and kind is not None and kind not in owners:
            return f"{name} belongs to {section}.{self.tags[section]}: {' or '.join(owners)}"
        near = closest(name, self.fields(section, kind))
        return f"did you mean {section}.{near[0]}?" if near else None


@dataclass(frozen=True)
class Source:
    """Where values came from: the file's name, the lines of its keys, and overrides as typed."""

    name: str
    lines: Mapping[Path, int]
    overrides: Mapping[Path, str]
    """Path of the key -> the override as typed, in the order in which they were given."""
    causes: Mapping[tuple[int | str, ...], Path] = field(default_factory=dict)
    """Location of an error, as pydantic gives it -> key of the override that causes it."""

    def place(self, path: Path) -> tuple[tuple[int, int], str]:
        """Where a key was set.

        Returns:
            A rank for sorting (lines of the file, then overrides, then unset keys), and the file
            and line, or the override, as text.
        """
        if path in self.overrides:
            order = list(self.overrides).index(path)
            return (1, order), override_label(self.overrides[path])
        for known in (path, path[:1]):
            if known in self.lines:
                return (0, self.lines[known]), f"{self.name}:{self.lines[known]}"
        return (2, 0), self.name

    def what(self, path: Path) -> tuple[tuple[int, int], str]:
        """As `place`, with the key appended unless an override already shows it."""
        rank, place = self.place(path)
        return rank, place if path in self.overrides else f"{place}: {one_line('.'.join(path))}"


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
        fault = _fault(detail, values, source, keys)
        # Each member of a union reports the same value, so one fault for each key is kept.
        faults.setdefault(fault.path, fault)
    first = min(faults.values(), key=lambda fault: fault.rank)
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    if first.expected is None:
        return InputError(first.what + more, fix=first.fix)
    return InputError(first.what, got=first.got, expected=first.expected + more, fix=first.fix)


def _fault(detail: ErrorDetails, values: Mapping[str, Any], source: Source, keys: Keys) -> _Fault:
    path = _path(detail, keys)
    if detail["type"] in ("value_error", "sections_disagree"):
        return _disagreement(detail, path, source)
    section = values.get(path[0])
    tag = keys.tags.get(path[0])
    kind = str(section.get(tag)) if tag is not None and isinstance(section, dict) else None
    rank, what = source.what(path)
    # An unknown key deeper inside is reported as a fault of the known key around it.
    if detail["type"] == "extra_forbidden" and str(detail["loc"][-1]) == path[-1]:
        return _Fault(rank, path, what, "an unknown key", keys.home(path), keys.help(path, kind))
    inside = _inside_a_part(detail, rank, what, path)
    if inside is not None:
        return inside
    expected, choices = _expected(path, keys, kind)
    value = _at(values, path)
    if value is _ABSENT:
        # Ranked last: it has no line, and a misspelt key elsewhere is often the cause.
        return _Fault(
            (2, 0),
            path,
            what,
            "nothing",
            expected,
            _addition(path, (choices or [expected])[0], keys),
        )
    near = closest(value, choices) if isinstance(value, str) else []
    fix = f"did you mean {near[0]}?" if near else None
    if path == ("version",):
        fix = "this Regard reads version 1 of recipes"
    return _Fault(rank, path, what, shown(value), expected, fix)


def _inside_a_part(
    detail: ErrorDetails, rank: tuple[int, int], what: str, path: Path
) -> _Fault | None:
    """A fault inside one of the datasets of `data.parts`, such as `data.parts.past.weight`."""
    *_, part, key = ("", *map(str, detail["loc"]))
    if path != ("data", "parts") or key not in PartData.model_fields:
        return None
    got = "nothing" if detail["type"] == "missing" else shown(detail["input"])
    expected = expectation(PartData.model_fields[key])
    return _Fault(rank, (*path, part, key), f"{what}.{part}.{key}", got, expected)


def _expected(path: Path, keys: Keys, kind: str | None) -> tuple[str, list[str]]:
    """What a key or section takes, in words, and its allowed names if it is a choice."""
    if len(path) > 1 and keys.tags.get(path[0]) == path[1]:
        kinds = list(keys.sections[path[0]])
        return f"one of {', '.join(kinds)}", kinds
    if path[0] not in keys.sections:
        field = keys.top[path[0]]
    elif len(path) > 1:
        field = keys.fields(path[0], kind)[path[1]]
    else:
        first = next(iter(keys.sections[path[0]].values()))
        name, field = next(iter(first.model_fields.items()))
        return f"keys, such as {name}: {field.default}", []
    return expectation(field), _choices(field)


def _addition(path: Path, example: str, keys: Keys) -> str:
    """Advice on what to add if a key or section is missing."""
    if len(path) > 1:
        return f"add {path[1]}: under {path[0]}:, or {'.'.join(path)}=VALUE as an override"
    if path[0] not in keys.sections:
        return f"add the line {path[0]}: {example}"
    if path[0] == "data":
        return "add the line data: {kind: grammar}"
    return f"add the line {path[0]}: {{}} for its defaults"


def _path(detail: ErrorDetails, keys: Keys) -> Path:
    """The key that an error is about: `("data", "grammar", "pairs")` -> `("data", "pairs")`."""
    section, *rest = map(str, detail["loc"] or ("",))
    if detail["type"].startswith("union_tag"):
        return section, keys.tags[section]
    if section in keys.tags:  # pydantic names the kind after the section
        rest = rest[1:]
    # Further parts are the index of an item, or the member of a union.
    return (str(section), *(str(part) for part in rest[:1]))


def _disagreement(detail: ErrorDetails, path: Path, source: Source) -> _Fault:
    """A fault of values that are not allowed together; names an override if one is involved."""
    message = detail["msg"].removeprefix("Value error, ")
    named: tuple[Path, ...] = detail.get("ctx", {}).get("keys", ())
    wrong = source.causes.get(detail["loc"])
    overridden = [key for key in source.overrides if key in named or key[:1] == path]
    first = [*([wrong] if wrong else []), *overridden, *named]
    if first:
        rank, what = source.place(first[0])
    else:
        rank, what = source.what(path)
    return _Fault(rank, path, f"{what}: {message}")


_ABSENT = object()


def _at(values: Mapping[str, Any], path: Path) -> Any:
    value: Any = values
    for part in path:
        if not isinstance(value, dict) or part not in value:
            return _ABSENT
        value = value[part]
    return value
