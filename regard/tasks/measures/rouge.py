"""How much of a reference a summary has: ROUGE-1, ROUGE-2 and ROUGE-L (Lin 2004)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple


class Overlap(NamedTuple):
    """What a summary shares with its reference, each from 0 to 1."""

    precision: float
    """Of what the summary has, the share that is in the reference."""
    recall: float
    """Of what the reference has, the share that is in the summary."""
    f: float
    """Their harmonic mean, which is what "ROUGE" alone means."""


def rouge(summary: str, reference: str) -> dict[str, Overlap]:
    """ROUGE-1, -2 (words and pairs of words in common) and -L (longest common subsequence).

    Words are runs of letters and digits in lower case, without stemming.

    Example:
        >>> found = rouge("The cat sat.", "The cat sat down.")
        >>> {name: round(each.f, 3) for name, each in found.items()}
        {'rouge1': 0.857, 'rouge2': 0.8, 'rougeL': 0.857}
    """
    ours, theirs = _words(summary), _words(reference)
    return {
        "rouge1": _common_ngrams(ours, theirs, 1),
        "rouge2": _common_ngrams(ours, theirs, 2),
        "rougeL": _overlap(longest_common(ours, theirs), len(ours), len(theirs)),
    }


def mean_rouge(
    summaries: Sequence[str], references: Sequence[str] | Sequence[Sequence[str]]
) -> dict[str, float]:
    """The mean F of each ROUGE over summaries, in per cent.

    Args:
        summaries: The texts.
        references: For each, what is right: a text, or several of which the nearest counts.

    Example:
        >>> mean_rouge(["a b", "c"], ["a b", "d"])
        {'rouge1': 50.0, 'rouge2': 50.0, 'rougeL': 50.0}
    """
    sums = dict.fromkeys(("rouge1", "rouge2", "rougeL"), 0.0)
    for summary, right in zip(summaries, references, strict=True):
        found = [rouge(summary, one) for one in ([right] if isinstance(right, str) else right)]
        for name in sums:
            sums[name] += max(each[name].f for each in found)
    return {name: 100 * total / max(1, len(summaries)) for name, total in sums.items()}


def longest_common(first: Sequence[str], second: Sequence[str]) -> int:
    """The length of the longest sequence that both have in order, perhaps with gaps."""
    # best[j] is that of the words of `first` so far and the first j of `second`.
    best = [0] * (len(second) + 1)
    for word in first:
        diagonal = 0  # best[j - 1] of the row before
        for place, other in enumerate(second, start=1):
            above = best[place]
            best[place] = diagonal + 1 if word == other else max(above, best[place - 1])
            diagonal = above
    return best[-1]


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text.lower())


def _common_ngrams(ours: list[str], theirs: list[str], size: int) -> Overlap:
    mine, yours = (
        Counter(zip(*(words[start:] for start in range(size)), strict=False))
        for words in (ours, theirs)
    )
    return _overlap((mine & yours).total(), mine.total(), yours.total())


def _overlap(common: int, ours: int, theirs: int) -> Overlap:
    precision, recall = common / max(1, ours), common / max(1, theirs)
    total = precision + recall
    return Overlap(precision, recall, 2 * precision * recall / total if total else 0.0)
