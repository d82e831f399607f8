"""Figures that are drawn once for all tests of a process."""

from __future__ import annotations

from functools import cache

import pytest

from regard.explain.drawing import Drawing
from regard_lectures import FIGURES, results, show

SMALL: dict[str, dict[str, int | str]] = {  # options of figures that measure time or train
    "crossover": {"dim": 16, "rounds": 1},
    "fields": {"length": 9, "layers": 2, "dim": 4},
    "growth": {"length": 128, "dim": 8, "rounds": 1},
    "costs": {"length": 64, "dim": 8, "heads": 2, "rounds": 1},
    "exciting": {"steps": 8},
    "lookup": {"model": "tiny/translate", "pairs": 4},
}


@cache
def drawn(name: str) -> Drawing:
    """A figure with its default options, or with small ones if it would take long.

    A figure with stored results is drawn from them. If they are missing it fails at once, as it
    would train for long.
    """
    options, figure = SMALL.get(name, {}), FIGURES[name]
    if figure.measured and results.stored(name, figure.read(options)) is None:
        pytest.fail(f"no stored result of {name} for its default options: train and store it")
    return show(name, **options)


def fast_figures() -> list[str]:
    """The figures whose numbers are stored or computed within two seconds."""
    return [name for name in FIGURES if name not in SMALL]
