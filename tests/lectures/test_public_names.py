"""The lectures import public names only: those in `__all__` of the packages listed here."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

import regard_lectures

FOLDER = Path(regard_lectures.__file__).parent
FOLDERS = "cost data draw errors explain inputs layers models recipes tasks train vectors"
ROOTS = {"regard", *(f"regard.{folder}" for folder in FOLDERS.split())}


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.py")), ids=lambda path: path.name)
def test_every_name_of_the_library_is_public(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            assert not [alias for alias in node.names if alias.name.startswith("regard.")]
        elif isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "regard":
            assert node.module in ROOTS
            assert {alias.name for alias in node.names} <= {*import_module(node.module).__all__}


@pytest.mark.parametrize("root", sorted(ROOTS))
def test_every_public_name_is_there(root: str) -> None:
    module = import_module(root)
    for name in module.__all__:
        assert getattr(module, name) is not None
