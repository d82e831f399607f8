"""The lectures' claims about networks that see, each as a measurement that can come out either way.

`table` has what each claim says and which differences decide it; `rule` judges them. The figure of
a claim's name, `regard show NAME`, measures the differences, once for each seed.
"""

from __future__ import annotations

from regard_lectures.claims.rule import (
    Interval,
    Judged,
    Verdict,
    claimed,
    interval,
    judge,
    numbers_of,
)
from regard_lectures.claims.table import CLAIMS, Claim

__all__ = [
    "CLAIMS",
    "Claim",
    "Interval",
    "Judged",
    "Verdict",
    "claimed",
    "interval",
    "judge",
    "numbers_of",
]
