"""Prints a recipe with every value, nested as the model is, and where each value comes from.

In: a recipe. Out: YAML that `load` reads as the same recipe; a comment behind each value says the
line of the file, the override, the named size, the family, or that it is a default.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from regard.layers.short import Statement
from regard.models.config import GIVEN
from regard.models.version_1 import old_path
from regard.recipes.overrides import parse
from regard.recipes.recipe import KEYS, Recipe, find_text, from_text
from regard.recipes.yaml import Path, read, write

COLUMN = 44
"""The column in which comments begin, if the values before them are short enough."""


def full_text(name_or_path: str | os.PathLike[str], overrides: Sequence[str] = ()) -> str:
    """A recipe as YAML with every value and its origin.

    Args:
        name_or_path: A file, or a shipped recipe's name.
        overrides: As for `load`.

    Example:
        >>> print(full_text("tiny/copy").splitlines()[1])
        version: 2                                  # line 2
    """
    name, text = find_text(os.fspath(name_or_path))
    recipe = from_text(text, name, overrides)
    lines = read(text, lambda line: f"{name}:{line}").lines
    overridden = {parse(override, KEYS)[0]: override for override in overrides}
    origins = _Origins(recipe, lines, overridden)
    values = {key: value for key, value in recipe.model_dump().items() if value is not None}
    return "\n".join([f"# {name}, with every value", *_rows(values, (), 0, origins)]) + "\n"


class _Origins:
    """Says where the values of a recipe come from."""

    def __init__(
        self, recipe: Recipe, lines: Mapping[Path, int], overrides: Mapping[Path, str]
    ) -> None:
        self.model, self.lines, self.overrides = recipe.model, lines, overrides

    def of(self, path: tuple[str | int, ...]) -> str:
        """The origin of the value at a path of the recipe."""
        if path[0] != "model":
            return self._written(tuple(map(str, path))) or "default"
        statement: Statement | None = self.model.origins.get(path[1:])
        if statement is None or statement.source < 0:
            return "default"
        if statement.source == GIVEN:
            written = ("model", *map(str, statement.origin))
            old = ("model", *map(str, old_path(statement.origin)))
            return self._written(written) or self._written(old) or "implied"
        return f"size {self.model.size}" if statement.source else f"family {self.model.family}"

    def _written(self, path: Path) -> str:
        """The override or line that sets a key, or the list that it is in; empty if none does."""
        for end in range(len(path), 0, -1):
            if path[:end] in self.overrides:
                return f"override {self.overrides[path[:end]]}"
            if path[:end] in self.lines and (end == len(path) or path[end].isdigit()):
                return f"line {self.lines[path[:end]]}"
        return ""


def _rows(
    values: Mapping[str, Any], path: tuple[str | int, ...], depth: int, origins: _Origins
) -> Iterator[str]:
    """The lines of a section."""
    space = "  " * depth
    for key, value in values.items():
        here = (*path, key)
        if isinstance(value, dict) and value:
            yield f"{space}{key}:"
            yield from _rows(value, here, depth + 1, origins)
        elif isinstance(value, tuple) and value and isinstance(value[0], dict):
            yield f"{space}{key}:"
            for index, part in enumerate(value):
                first, *others = _rows(part, (*here, index), depth + 2, origins)
                yield f"{space}  - {first.lstrip()}"
                yield from others
        else:
            first, *others = write({key: value}).splitlines()
            yield f"{space}{first}".ljust(COLUMN - 1) + f" # {origins.of(here)}"
            yield from (space + line for line in others)
