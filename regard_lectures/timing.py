"""Time and memory of calls on this machine, and how certain a comparison of two times is.

Time: that of one core. In each round all contestants take a turn, so that a slow moment of the
machine meets all of them; times are compared within rounds. Memory: the largest sum of what torch
had allocated during a call.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

TURN = 0.002
"""Seconds that a turn takes at least: a quick call is repeated."""
FEWEST_ROUNDS = 3
"""With fewer rounds, times are not compared."""
ALIKE = 1.25
"""Two times count as about the same if neither is larger by more than this factor."""

Call = Callable[[], object]
Name = tuple[str, int]
"""A contestant: its kind, and a length or a number of heads."""


@dataclass(frozen=True)
class Cost:
    """What a call takes."""

    turns: tuple[float, ...]
    """The seconds in each round."""
    bytes: int
    """The peak of its allocations."""

    @property
    def seconds(self) -> float:
        """The median over all rounds."""
        return statistics.median(self.turns)


class Range(NamedTuple):
    """The median of some measurements, and the quartiles: half of them lie between."""

    middle: float
    low: float
    high: float


def range_of(values: Sequence[float]) -> Range:
    """Median and quartiles.

    Example:
        >>> range_of([1.0, 2.0, 3.0, 4.0, 5.0])
        Range(middle=3.0, low=2.0, high=4.0)
    """
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return Range(float(middle), float(low), float(high))


def ratio(first: Cost, other: Cost) -> Range:
    """The time of one call over that of another, compared round by round."""
    return range_of([a / b for a, b in zip(first.turns, other.turns, strict=True)])


def verdict(times: Sequence[float], rounds: int) -> str:
    """What a ratio of times says: `more`, `less`, `the same` within `ALIKE`, or `unknown`.

    Args:
        times: Median and quartiles.
        rounds: Of how many rounds; with fewer than `FEWEST_ROUNDS`, nothing is known.

    Example:
        >>> [verdict(times, 9) for times in ((3, 2.8, 3.1), (1.1, 1.0, 1.2), (1.2, 0.7, 1.9))]
        ['more', 'the same', 'unknown']
    """
    _, low, high = times
    if rounds < FEWEST_ROUNDS:
        return "unknown"
    if low > ALIKE:
        return "more"
    if high < 1 / ALIKE:
        return "less"
    return "the same" if low >= 1 / ALIKE and high <= ALIKE else "unknown"


def measured(calls: Mapping[Name, Call], rounds: int) -> dict[Name, Cost]:
    """Time and memory of each call.

    Args:
        calls: The contestants.
        rounds: How often each takes a turn; each round begins with another contestant.
    """
    names, threads = list(calls), torch.get_num_threads()
    turns: dict[Name, list[float]] = {name: [] for name in names}
    torch.set_num_threads(1)
    try:
        memory = {name: peak_bytes(call) for name, call in calls.items()}
        again = {name: max(1, math.ceil(TURN / _seconds(call, 1))) for name, call in calls.items()}
        for number in range(rounds):
            first = number % len(names)
            for name in names[first:] + names[:first]:
                turns[name].append(_seconds(calls[name], again[name]))
    finally:
        torch.set_num_threads(threads)
    return {name: Cost(tuple(turns[name]), memory[name]) for name in names}


def _seconds(call: Call, again: int) -> float:
    """The mean CPU time of this thread in some calls in a row."""
    begun = time.thread_time()  # other programs on the machine do not count
    for _ in range(again):
        call()
    return max((time.thread_time() - begun) / again, 1e-9)


def peak_bytes(call: Call) -> int:
    """The largest sum of the memory that torch allocated and had not yet freed during a call."""
    with (
        _silent_profiler(),
        profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watched,
    ):
        call()
    now = peak = 0
    for event in watched.profiler.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            peak = max(peak, now)
    return peak


@contextmanager
def _silent_profiler() -> Iterator[None]:
    """Keep the profiler from printing when it starts and stops."""
    before = os.environ.get("KINETO_LOG_LEVEL")
    os.environ["KINETO_LOG_LEVEL"] = "99"
    try:
        yield
    finally:
        if before is None:
            del os.environ["KINETO_LOG_LEVEL"]
        else:
            os.environ["KINETO_LOG_LEVEL"] = before


def measured_line(rounds: int) -> str:
    """The limits of a figure that measures time.

    Example:
        >>> measured_line(9)
        'Measured now on one core of this machine, on random numbers; medians of 9 rounds.'
    """
    often = f"medians of {rounds} rounds" if rounds > 1 else "a single round"
    return f"Measured now on one core of this machine, on random numbers; {often}."
