"""Reads and writes the strict YAML of recipes and overrides.

In: the text of a recipe, or the value of one override. Out: dicts, tuples, text, numbers,
true/false and None, and the line of each key. This module does not know the keys of a recipe.

It reads YAML 1.2's core schema, in which `no`, `on`, `12:30` and `2024-05-01` are text, `012` is
12 and `1e-3` is a number, where PyYAML on its own reads a boolean, 750, a date, 10 and text.
Duplicate keys, tags, anchors and aliases are refused, so that each value is where its key is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import yaml

from regard.errors import InputError

Path = tuple[str, ...]
"""The keys that lead to a value: `("train", "steps")`."""
LineName = Callable[[int], str]
"""Names a line in a message: `12` -> `my.yaml:12`."""

DEEPEST = 20
"""Most levels of nesting; a recipe has three, and a very deep file would exhaust the stack."""

LARGEST = 2**128
"""Upper bound of whole numbers: products of several of them still fit into 64-bit floats."""

WIDEST = 80
"""Most characters of a value in a message."""

_TOO_DEEP = f"more than {DEEPEST} levels", "count the brackets"
_QUOTE = "quote a value that begins with & or *"
_TAG = "tag:yaml.org,2002:"
_CORE: list[tuple[str, str, str]] = [
    ("null", r"(?:~|null|Null|NULL|)\Z", "~nN"),
    ("bool", r"(?:true|True|TRUE|false|False|FALSE)\Z", "tTfF"),
    ("int", r"(?:[-+]?[0-9]{1,300}|0o[0-7]{1,300}|0x[0-9a-fA-F]{1,300})\Z", "-+0123456789"),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z", "-+.0123456789"),
]
"""The core schema: type of an unquoted scalar, its pattern, its possible first characters. The
first match decides."""


class Document(NamedTuple):
    """The values of a text, and the line of each key."""

    values: Any
    lines: dict[Path, int]


class _Loader(yaml.SafeLoader):
    """Composes nodes by the core schema; refuses anchors, aliases, tags and deep nesting."""

    yaml_implicit_resolvers = {}  # noqa: RUF012  PyYAML's own way to start from none
    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if event.anchor is not None:
            _raise_yaml_error(event.start_mark, "an anchor or alias", _QUOTE)
        if event.tag is not None:
            fix = "quote a value that begins with !"
            _raise_yaml_error(event.start_mark, f"the tag {one_line(event.tag)}", fix)
        if self.depth == DEEPEST:
            _raise_yaml_error(event.start_mark, *_TOO_DEEP)
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def fetch_flow_collection_start(self, token: Any) -> None:
        # PyYAML's scanner reads ahead while a bracket may start a key, and checks all open brackets
        # each time; deep nesting is refused here, before that takes long.
        if self.flow_level == DEEPEST:
            _raise_yaml_error(self.get_mark(), *_TOO_DEEP)
        super().fetch_flow_collection_start(token)

    def add_indent(self, column: int) -> bool:
        if len(self.indents) > DEEPEST:
            _raise_yaml_error(self.get_mark(), *_TOO_DEEP)
        return bool(super().add_indent(column))


def _raise_yaml_error(mark: Any, got: str, fix: str) -> None:
    raise yaml.MarkedYAMLError(problem=got, problem_mark=mark, note=fix)


class _Dumper(yaml.SafeDumper):
    """Quotes a text that either YAML 1.1 or the core schema would read as something else."""

    def ignore_aliases(self, _: Any) -> bool:
        """Never write aliases, since the reader refuses them; repeated values are repeated."""
        return True


for _name, _pattern, _first in _CORE:
    for _class in (_Loader, _Dumper):
        _characters = [*_first, ""] if _name == "null" else [*_first]
        _class.add_implicit_resolver(_TAG + _name, re.compile(_pattern), _characters)
_Dumper.add_representer(
    tuple, lambda dumper, items: dumper.represent_sequence(_TAG + "seq", items, flow_style=True)
)
_Dumper.add_representer(  # unusual line breaks are escaped, since folding would change them
    str,
    lambda dumper, text: dumper.represent_scalar(
        _TAG + "str", text, style=None if text.isprintable() else '"'
    ),
)


def read(text: str, location: LineName) -> Document:
    r"""Read a text as values and the lines of its keys.

    Args:
        text: The YAML.
        location: Turns a line's number into its name for messages.

    Raises:
        InputError: It is not YAML, or has a key twice, a tag, an anchor or an alias.

    Example:
        >>> read("steps: 1e3\nname: no", location=str).values
        {'steps': 1000.0, 'name': 'no'}
    """
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        raise _yaml_error(error, location) from None
    except yaml.reader.ReaderError as error:
        where = location(text.count("\n", 0, error.position) + 1)
        got = f"the character U+{error.character:04X}"
        raise InputError(where, got=got, expected="text that can be printed") from None
    lines: dict[Path, int] = {}
    return Document(None if node is None else _value(node, (), lines, location), lines)


def shown(value: object) -> str:
    """A value as messages show it: written as in YAML, on one line, at most `WIDEST` long.

    Example:
        >>> shown(("abc", True, None, 1e-3))
        "['abc', true, null, 0.001]"
    """
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, tuple):
        return one_line(f"[{', '.join(shown(item) for item in value)}]")
    if isinstance(value, dict):
        return one_line(f"keys ({', '.join(value)})" if value else "an empty mapping")
    return one_line(repr(value))


def one_line(text: str) -> str:
    """A text as messages show it: on one line, cut to `WIDEST` characters."""
    line = text if text.isprintable() else repr(text)
    return line if len(line) <= WIDEST else f"{line[: WIDEST - 1]}…"


def write(values: Any) -> str:
    """Write values as YAML; `read` gives the same values back."""
    return yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


def _yaml_error(error: yaml.MarkedYAMLError, location: LineName) -> InputError:
    """The error for a text that is not YAML, or not the strict YAML of recipes."""
    mark = error.problem_mark or error.context_mark
    where = location(mark.line + 1 if mark else 1)
    if error.note:  # raised by `_Loader`, with advice
        return InputError(where, got=error.problem, expected="plain YAML", fix=error.note)
    if error.context and error.context.endswith(("alias", "anchor")):
        return InputError(where, got="an anchor or alias", expected="plain YAML", fix=_QUOTE)
    fix = "check the indentation (spaces, not tabs), colons, brackets and quotes"
    return InputError(f"{where}: cannot be read as YAML: {error.problem}", fix=fix)


def _value(node: yaml.Node, path: Path, lines: dict[Path, int], location: LineName) -> Any:
    """The value of a node at a path; adds the lines of its keys to `lines`."""
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, path, lines, location)
    if isinstance(node, yaml.SequenceNode):
        items = enumerate(node.value)
        return tuple(_value(item, (*path, str(index)), lines, location) for index, item in items)
    return _scalar(node.tag.removeprefix(_TAG), node.value)


def _mapping(
    node: yaml.MappingNode, path: Path, lines: dict[Path, int], location: LineName
) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise InputError(location(line), got="a key in brackets", expected="key: value")
        here = (*path, key.value)
        if key.value in values:
            what, fix = (
                f"{location(line)}: {one_line('.'.join(here))}",
                f"line {lines[here]} has it too",
            )
            raise InputError(what, got="the same key again", expected="each key once", fix=fix)
        lines[here] = line
        values[key.value] = _value(value, here, lines, location)
    return values


def _scalar(kind: str, text: str) -> str | int | float | bool | None:
    """The value of an unquoted text whose type in the core schema is `kind`."""
    if kind == "null":
        return None
    if kind == "bool":
        return text.lower() == "true"
    if kind == "int" and abs(number := int(text, 0 if text[:2] in ("0o", "0x") else 10)) < LARGEST:
        return number
    if kind == "float" and math.isfinite(float(text)):
        return float(text)
    return text  # also numbers that are too large, such as 1e999
