"""Several trainings with different seeds: what they say together, in words and as one curve."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from regard.draw import Chart, LineStyle


class Spread(NamedTuple):
    """Several curves as one: at each point the mean, the least and the largest value."""

    mean: list[float]
    least: list[float]
    largest: list[float]


def spread_of(curves: npt.ArrayLike) -> Spread:
    """The mean and the range of curves (tries, points)."""
    table = np.asarray(curves, dtype=float)
    return Spread(table.mean(0).tolist(), table.min(0).tolist(), table.max(0).tolist())


def draw_spread(axes: Chart, x: Sequence[float], spread: Spread, style: LineStyle) -> None:
    """Draw the mean as a curve with points, and the range as a vertical line at each point."""
    axes.curve(x, spread.mean, style=style, marker=style.marker)
    axes.vlines(x, spread.least, spread.largest, color=style.colour, linewidth=2)


def span(values: Iterable[float], form: str = "g") -> str:
    """The range of some numbers in words.

    Example:
        >>> span([8, 8, 16]), span([0.251, 0.249], ".2f")
        ('8 to 16', '0.25')
    """
    numbers = list(values)
    low, high = (format(pick(numbers), form) for pick in (min, max))
    return low if low == high else f"{low} to {high}"


def how_often(hits: Sequence[bool], verb: str = "learns", infinitive: str = "learn") -> str:
    """In how many of several trainings something holds, as a predicate.

    Example:
        >>> how_often([True, True]), how_often([False, False]), how_often([True, False])
        ('learns', 'does not learn', 'learns in 1 of 2 trainings')
    """
    count = sum(hits)
    if count == len(hits):
        return verb
    return f"does not {infinitive}" if not count else f"{verb} in {count} of {len(hits)} trainings"


def listed(names: Sequence[str]) -> str:
    """Names in a row.

    Example:
        >>> listed(["RNN", "GRU", "LSTM"])
        'RNN, GRU and LSTM'
    """
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def trainings(tries: int) -> str:
    """How many trainings, and what may differ between them.

    Example:
        >>> trainings(1), trainings(3)
        ('one seed', '3 seeds')
    """
    return "one seed" if tries == 1 else f"{tries} seeds"
