"""Every example in a docstring runs and says what it shows."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import regard
import regard_lectures

FOUND = [
    module.name
    for package in (regard, regard_lectures)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
]
LEFT_OUT = {"regard.__main__", "regard.atlas", "regard.bench", "regard.tokens"}
"""What would run, and what only says where something has moved."""
MODULES = ["regard", "regard_lectures", *(name for name in FOUND if name not in LEFT_OUT)]

SLOW = {"regard.watch.watching"}
"""Whose examples import transformers."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in MODULES]
)
def test_the_examples_in_docstrings_are_true(name):
    module = importlib.import_module(name)
    assert doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE).failed == 0


def test_there_are_examples_at_all():
    finder = doctest.DocTestFinder()
    examples = [
        test
        for name in MODULES
        if name.startswith("regard.layers")
        for test in finder.find(importlib.import_module(name))
    ]
    assert sum(bool(test.examples) for test in examples) >= 5
