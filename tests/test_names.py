"""Variables say what they hold."""

from __future__ import annotations

import ast
from pathlib import Path

import regard
import regard_lectures

EMPTY_WORDS = {"found", "each", "some", "made", "one", "place", "places"} | {
    "kept", "held", "own", "rest", "room", "rooms",
}  # fmt: skip
"""They could stand for anything; with a noun they are fine: `kept_rows`."""
KEYS_OF_FILES = {"place"}
"""Fields whose name is a key of a stored file."""


def named(tree: ast.Module) -> list[tuple[str, int]]:
    """The names that code gives to variables and parameters, with their lines."""
    fields = {id(node.target) for node in ast.walk(tree)
              if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") in KEYS_OF_FILES
              }  # fmt: skip
    names = [(node.arg, node.lineno) for node in ast.walk(tree) if isinstance(node, ast.arg)]
    names += [
        (node.id, node.lineno) for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in fields
    ]  # fmt: skip
    return names


def test_no_variable_has_a_name_that_could_stand_for_anything():
    lines = [
        f"{path}:{line} {name}"
        for package in (regard, regard_lectures)
        for path in sorted(Path(package.__file__).parent.rglob("*.py"))
        for name, line in named(ast.parse(path.read_text(encoding="utf-8")))
        if name in EMPTY_WORDS
    ]
    assert lines == []
    assert ("found", 1) in named(ast.parse("found = 1"))
    assert ("each", 1) in named(ast.parse("[each for each in x]"))
