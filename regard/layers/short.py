"""The short form of a model's config: keys without their nesting.

A key that a level does not have goes down to the parts that have it: `heads: 4` reaches the
attentions of both sides, `encoder: {heads: 4}` those of the encoder. A key that is written nearer
to a part wins over one written farther away. What a person writes wins over the named size, that
over the family's defaults, and these over the defaults of the parts.

In: dicts in the short form, in rising priority. Out: one nested dict for pydantic, and for each of
its values where it was written. `shared` reads a nested config by the same short keys.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from types import NoneType
from typing import Any, NamedTuple, get_args, get_origin

from pydantic import ConfigDict, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from regard.config import Config
from regard.errors import InputError

Path = tuple[str | int, ...]
"""The keys and indices that lead to a value of a config: `("encoder", "block", 0, "heads")`."""
STRUCTURE = {
    "kind", "name", "scale", "front", "block", "encoder", "decoder", "head", "family", "size",
}  # fmt: skip
"""Keys that say what a part is or consists of: they never go down to another part."""


class PartField(NamedTuple):
    """A field that holds a part of a model, or a tuple of parts."""

    classes: Mapping[str, type[Config]]
    """The config class of each kind of part that the field can hold, the default first."""
    many: bool
    optional: bool


@cache
def part_fields(config: type[Config]) -> dict[str, PartField]:
    """The fields of a config class that hold parts."""
    parts = {name: part_field(info) for name, info in config.model_fields.items()}
    return {name: part for name, part in parts.items() if part is not None}


def part_field(info: FieldInfo) -> PartField | None:
    """What parts a field can hold; None if it holds none."""
    many = get_origin(info.annotation) is tuple
    inner: Any = get_args(info.annotation)[0] if many else info.annotation
    inner = inner.__origin__ if hasattr(inner, "__metadata__") else inner  # of Annotated
    options = get_args(inner) or (inner,)
    classes = [option for option in options if option is not NoneType]
    if not all(isinstance(option, type) and issubclass(option, Config) for option in classes):
        return None
    default = info.get_default()
    classes.sort(key=lambda option: option is not type(default))
    kinds = {kind: option for option in classes for kind in kinds_of(option)}
    return PartField(kinds, many, NoneType in options)


def kinds_of(part: type[Config]) -> tuple[str, ...]:
    """The values of `kind` that a part's class takes; one empty text if it has no kinds."""
    info = part.model_fields.get("kind")
    return get_args(info.annotation) if info is not None else ("",)


@cache
def short_fields(config: type[Config]) -> dict[str, FieldInfo]:
    """Every key that a model's config or one of its parts can have, sections of parts included."""
    fields = dict(config.model_fields)
    for parts in part_fields(config).values():
        for part in dict.fromkeys(parts.classes.values()):
            below = {} if parts.optional else short_fields(part)
            fields |= {key: info for key, info in below.items() if key not in fields}
    return fields


def homes_of(config: type[Config], key: str, home: str = "") -> list[str]:
    """Where a key can be written: `encoder`, or `kind: rotary` for a part that is chosen so."""
    homes = [home] if home and key in config.model_fields else []
    for name, parts in part_fields(config).items():
        for kind, part in parts.classes.items():
            chosen = len(parts.classes) > 1
            homes += homes_of(part, key, f"kind: {kind}" if chosen else name)
    return list(dict.fromkeys(homes))


class Statement(NamedTuple):
    """One value of a source, which may be a section with further keys."""

    source: int
    """Which source, counted from 0, the weakest."""
    origin: Path
    """Its path in the source."""
    value: Any

    @property
    def priority(self) -> tuple[int, int]:
        """A stronger source wins; within one, what is written nearer to the part, so deeper."""
        return self.source, len(self.origin)


class Resolved(NamedTuple):
    """What `resolve` returns."""

    values: dict[str, Any]
    """The nested values."""
    origins: dict[Path, Statement]
    """For each value the statement that it comes from, by its path."""
    unused: list[Path]
    """Paths of the last source's keys that no part of the model has."""

    def checked(self) -> dict[str, Any]:
        """The nested values; refuses keys that no part has."""
        if self.unused:
            key = ".".join(map(str, self.unused[0]))
            context = {"key": key, "paths": self.unused}
            raise PydanticCustomError("unused_key", "no part of this model has {key}", context)
        return self.values


def resolve(config: type[Config], sources: Sequence[Mapping[str, Any]]) -> Resolved:
    """Puts every key of the short form where it belongs.

    Args:
        config: The class of a model's config.
        sources: Dicts in the short form, the weakest first.

    Example:
        >>> from regard.models import TransformerConfig
        >>> short = {"dim": 64, "encoder": {"layers": 6}}
        >>> values, origins, unused = resolve(TransformerConfig, [short])
        >>> values["encoder"]["dim"], values["decoder"]["dim"], values["encoder"]["layers"]
        (64, 64, 6)
        >>> origins["decoder", "dim"].origin
        ('dim',)
    """
    walk = _Walk()
    for source, values in enumerate(sources):
        walk.expand((), Statement(source, (), plain(values)))
    nested = walk.fill(config, ())
    last = len(sources) - 1
    written = [s.origin for options in walk.statements.values() for s in options
               if s.source == last]  # fmt: skip
    unused = [origin for origin in dict.fromkeys(written) if origin not in walk.taken]
    return Resolved(nested, walk.origins, unused)


class Nested(dict[str, Any]):
    """The values of a part that are nested already, and need not be resolved again."""


class _Walk:
    """One pass over the parts of a model, from the outside in."""

    def __init__(self) -> None:
        self.statements: dict[tuple[Path, str], list[Statement]] = defaultdict(list)
        """What the sources say, by the path of the part it is written at, and the key."""
        self.classes: dict[Path, type[Config]] = {}
        """The class of each part on the way."""
        self.origins: dict[Path, Statement] = {}
        self.taken: set[Path] = set()
        """Paths of the statements of the last source that a part has a field for."""

    def expand(self, path: Path, section: Statement) -> None:
        """Adds the keys of a section to what is said about the part at a path."""
        values = {"kind": section.value} if isinstance(section.value, str) else section.value
        for key, value in values.items() if isinstance(values, dict) else ():
            origin = section.origin if values is not section.value else (*section.origin, key)
            self.statements[path, key].append(Statement(section.source, origin, value))

    def about(self, path: Path, key: str) -> list[Statement]:
        """Everything that is said about a key of the part at a path, the strongest last.

        A statement farther up counts unless a level on the way has a field of that name.
        """
        options = list(self.statements.get((path, key), ()))
        for depth in range(len(path) - 1, -1, -1) if key not in STRUCTURE else ():
            level = self.classes.get(path[:depth])
            if level is not None and key in level.model_fields:
                break
            options += self.statements.get((path[:depth], key), ())
        self.taken |= {statement.origin for statement in options}
        return sorted(options, key=lambda statement: statement.priority)

    def fill(self, part: type[Config], path: Path) -> dict[str, Any]:
        """The values of a part and of the parts below it."""
        self.classes[path] = part
        parts, values = part_fields(part), Nested()
        for name in part.model_fields:
            options, below = self.about(path, name), (*path, name)
            if options:
                self.origins[below] = options[-1]
            if name not in parts:
                if options:
                    values[name] = options[-1].value
            elif parts[name].many:
                default = Statement(-1, (), part.model_fields[name].get_default())
                listed = options[-1] if options else default
                values[name] = self._fill_many(parts[name], listed, below)
            elif options and not isinstance(options[-1].value, dict | str):
                values[name] = options[-1].value  # null, or a value that pydantic refuses
            elif options or not parts[name].optional:
                values[name] = self._fill_one(parts[name], options, below)
        return values

    def _fill_one(self, field: PartField, sections: Sequence[Statement], path: Path) -> Any:
        """The values of one part; the strongest statement of its kind decides its class."""
        for section in sections:
            self.expand(path, section)
        kinds = self.about(path, "kind")
        kind = kinds[-1].value if kinds else next(iter(field.classes))
        if not isinstance(kind, str) or kind not in field.classes:
            return {"kind": kind}  # pydantic refuses it
        values = self.fill(field.classes[kind], path)
        if kind:
            values["kind"] = kind
        return values

    def _fill_many(self, field: PartField, section: Statement, path: Path) -> Any:
        """The values of a tuple of parts, which the strongest statement lists."""
        if not isinstance(section.value, tuple | list):
            return section.value
        parts: list[Any] = []
        for i, written in enumerate(section.value):
            item = getattr(written, "kind", written)  # of a part in the class's default
            statement = Statement(section.source, (*section.origin, i), item)
            known = isinstance(item, dict | str)
            parts.append(self._fill_one(field, [statement], (*path, i)) if known else item)
        return tuple(parts)


def plain(value: Any) -> Any:
    """A value in which every config is a dict."""
    if isinstance(value, Config):
        return plain(value.model_dump())
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return tuple(map(plain, value)) if isinstance(value, tuple | list) else value


def with_value(values: Any, path: Sequence[str | int], value: Any) -> Any:
    """A short form in which one more key is written, stronger than all that is there.

    The key is removed from every part below, which would otherwise win, since it is nearer.

    Example:
        >>> with_value({"dim": 8, "encoder": {"dim": 4, "layers": 1}}, ["dim"], 16)
        {'encoder': {'layers': 1}, 'dim': 16}
    """
    key, *deeper = path
    if isinstance(values, tuple | list):  # the sub-layers of a block
        if not str(key).isdigit() or int(key) >= len(values):
            return {key: value}  # refused later
        parts = [{"kind": part} if isinstance(part, str) else part for part in values]
        parts[int(key)] = with_value(parts[int(key)], deeper, value) if deeper else value
        return tuple(parts)
    if deeper:
        section = values.get(str(key))
        section = section if isinstance(section, Mapping | tuple | list) else {}
        return {**values, key: with_value(section, deeper, value)}
    return {**without_key(values, str(key)), key: value}


def without_key(values: Any, key: str) -> Any:
    """A short form without a key, in all its parts; keys of the structure only at the top."""
    if isinstance(values, tuple | list):
        return tuple(without_key(item, key) for item in values)
    if not isinstance(values, Mapping):
        return values
    if key in STRUCTURE:
        return {name: value for name, value in values.items() if name != key}
    return {name: without_key(value, key) for name, value in values.items() if name != key}


def values_of(config: Config, key: str, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """The values of a short key in a config: the paths of the parts that have it, and theirs."""
    if key in type(config).model_fields:
        yield path, getattr(config, key)
        return
    for name in part_fields(type(config)):
        parts = getattr(config, name)
        if isinstance(parts, tuple):
            for i, part in enumerate(parts):
                yield from values_of(part, key, (*path, name, i))
        elif parts is not None:
            yield from values_of(parts, key, (*path, name))


def value_at(config: Any, path: Path, default: Any = None) -> Any:
    """The value at a path of a nested config; the default if its parts have no such value."""
    for step in path:
        if isinstance(step, int) and isinstance(config, tuple) and step < len(config):
            config = config[step]
        elif isinstance(config, Config) and step in type(config).model_fields:
            config = getattr(config, str(step))
        else:
            return default
    return config


def shared(config: Config, key: str) -> Any:
    """The value of a short key, which all parts that have it must share.

    Raises:
        AttributeError: No part has the key.
        PartsDiffer: Parts have different values.
    """
    part_values = list(values_of(config, key))
    if not part_values:
        raise AttributeError(f"no part of this {type(config).__name__} has {key}")
    (_, first), *others = part_values
    if any(value != first for _, value in others):
        sides = dict.fromkeys(f"{path[0]} {value}" for path, value in part_values)
        got = ", ".join(sides)
        raise PartsDiffer(f"model.{key}", got=got, expected="one value in all parts")
    return first


class PartsDiffer(InputError, AttributeError):
    """A short key is read whose value is not the same in all parts."""


class ShortForm(Config):
    """A config that may be written in the short form.

    Example:
        >>> from regard.layers.config import SequenceStack
        >>> SequenceStack(dim=8, heads=2).attention.heads
        2
    """

    # Keys that no part has are refused by `Resolved.checked`, before pydantic sees them.
    model_config = ConfigDict(extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def _read_short_form(cls, values: Any) -> Any:
        if not isinstance(values, dict) or isinstance(values, Nested):
            return values
        return resolve(cls, [values]).checked()
