"""The rule by which claims are judged: intervals of paired differences over seeds.

A part of a claim says that one number is larger than another. Both are measured with the same
seeds, which gives a difference d_s for each seed s, positive if the part is right. Of n seeds

    mean d ± t(n - 1) · std(d) / √n          (Student's 95% interval of a paired difference)

is computed. A part holds if the whole interval is above 0, is contradicted if all of it is below 0,
and otherwise cannot be told. A claim holds if all of its parts do, holds in part if some do, and
does not hold if none does and at least one is contradicted. Otherwise it cannot be told.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from regard_lectures.claims.table import CLAIMS

Verdict = Literal["holds", "holds in part", "does not hold", "cannot tell"]

T_95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""The 97.5th percentile of Student's t, for 1, 2, … degrees of freedom."""
FEWEST = 3
"""Of fewer differences nothing is told."""


@dataclass(frozen=True)
class Interval:
    """The mean of paired differences, and its 95% interval."""

    mean: float
    low: float
    high: float

    @property
    def verdict(self) -> Verdict:
        """Whether the difference is above 0, below 0, or neither for sure."""
        if self.low > 0:
            return "holds"
        return "does not hold" if self.high < 0 else "cannot tell"

    def shown(self, form: str = "+.1f", unit: str = "") -> str:
        """The mean and the interval in words.

        Example:
            >>> Interval(2.0, 1.5, 2.5).shown(unit=" points")
            '+2.0 points (+1.5 to +2.5)'
        """
        low, high = (format(edge, form) for edge in (self.low, self.high))
        span = f" ({low} to {high})" if math.isfinite(self.low) else " (one or two seeds)"
        return f"{format(self.mean, form)}{unit}{span}"


def interval(differences: Sequence[float]) -> Interval:
    """The 95% t-interval of the mean of some paired differences.

    Example:
        >>> interval([1.0, 2.0, 3.0]).shown()
        '+2.0 (-0.5 to +4.5)'
    """
    mean, count = statistics.fmean(differences), len(differences)
    if count < FEWEST:
        return Interval(mean, -math.inf, math.inf)
    t = T_95[min(count - 1, len(T_95)) - 1]
    half = t * statistics.stdev(differences) / math.sqrt(count)
    return Interval(mean, mean - half, mean + half)


@dataclass(frozen=True)
class Judged:
    """A claim with its verdict, and the interval of each of its parts."""

    verdict: Verdict
    parts: Mapping[str, Interval]

    def named(self, verdict: Verdict) -> list[str]:
        """The names of the parts with this verdict."""
        return [name for name, part in self.parts.items() if part.verdict == verdict]


def judge(name: str, differences: Mapping[str, Sequence[float]]) -> Judged:
    """Judge a claim by the differences of all its parts.

    Args:
        name: The claim's name in `CLAIMS`.
        differences: For each part the differences of all seeds, positive if the part is right.

    Raises:
        ValueError: If the parts are not those of the claim.
    """
    parts = CLAIMS[name].parts
    if set(parts) != set(differences):
        raise ValueError(f"{name}: got {sorted(differences)}, expected {sorted(parts)}")
    intervals = {part: interval(differences[part]) for part in parts}
    return Judged(combined([part.verdict for part in intervals.values()]), intervals)


def combined(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict of a claim from those of its parts.

    Example:
        >>> combined(["holds", "cannot tell"]), combined(["does not hold", "cannot tell"])
        ('holds in part', 'does not hold')
    """
    holding = verdicts.count("holds")
    if holding:
        return "holds" if holding == len(verdicts) else "holds in part"
    return "does not hold" if "does not hold" in verdicts else "cannot tell"


def numbers_of(name: str, differences: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """The verdict of a claim and of its parts with their intervals, as numbers of a drawing."""
    judged = judge(name, differences)
    return {
        "verdict": judged.verdict,
        **{
            f"{kind}_{part}": value
            for part, interval_of_part in judged.parts.items()
            for kind, value in (
                ("verdict", interval_of_part.verdict),
                ("differences", list(differences[part])),
            )
        },
    }


def claimed(verdict: Verdict) -> str:
    """The verdict of a claim in a sentence.

    Example:
        >>> claimed("holds in part"), claimed("cannot tell")
        ('The claim holds in part.', 'Whether the claim holds cannot be told.')
    """
    if verdict == "cannot tell":
        return "Whether the claim holds cannot be told."
    return f"The claim {verdict}."
