"""ROUGE-1, ROUGE-2 and ROUGE-L (Lin 2004): the overlap of a summary with its reference."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple


class Overlap(NamedTuple):
    """The overlap of a summary with its reference; each value is from 0 to 1."""

    precision: float
    """The share of the summary's words (or n-grams) that are in the reference."""
    recall: float
    """The share of the reference's words (or n-grams) that are in the summary."""
    f: float
    """The harmonic mean of precision and recall; "ROUGE" alone means this value."""


def rouge(summary: str, reference: str) -> dict[str, Overlap]:
    """ROUGE-1, -2 (words and pairs of words in common) and -L (longest common subsequence).

    Words are runs of letters and digits in lower case, without stemming.

    Example:
        >>> overlaps = rouge("The cat sat.", "The cat sat down.")
        >>> {name: round(overlap.f, 3) for name, overlap in overlaps.items()}
        {'rouge1': 0.857, 'rouge2': 0.8, 'rougeL': 0.857}
    """
    words, ref_words = _words(summary), _words(reference)
    return {
        "rouge1": _common_ngrams(words, ref_words, 1),
        "rouge2": _common_ngrams(words, ref_words, 2),
        "rougeL": _overlap(longest_common(words, ref_words), len(words), len(ref_words)),
    }


def mean_rouge(
    summaries: Sequence[str], references: Sequence[str] | Sequence[Sequence[str]]
) -> dict[str, float]:
    """The mean F value of each ROUGE over all summaries, in percent.

    Args:
        summaries: The summaries.
        references: For each summary one reference, or several, of which the best match counts.

    Example:
        >>> mean_rouge(["a b", "c"], ["a b", "d"])
        {'rouge1': 50.0, 'rouge2': 50.0, 'rougeL': 50.0}
    """
    sums = dict.fromkeys(("rouge1", "rouge2", "rougeL"), 0.0)
    for summary, refs in zip(summaries, references, strict=True):
        texts = [refs] if isinstance(refs, str) else refs
        overlaps = [rouge(summary, text) for text in texts]
        for name in sums:
            sums[name] += max(overlap[name].f for overlap in overlaps)
    return {name: 100 * total / max(1, len(summaries)) for name, total in sums.items()}


def longest_common(first: Sequence[str], second: Sequence[str]) -> int:
    """The length of the longest common subsequence, which may have gaps in both sequences."""
    # best[j] is the length for the words of `first` so far and the first j words of `second`.
    best = [0] * (len(second) + 1)
    for word in first:
        diagonal = 0  # best[j - 1] before this word
        for j, other in enumerate(second, start=1):
            above = best[j]
            best[j] = diagonal + 1 if word == other else max(above, best[j - 1])
            diagonal = above
    return best[-1]


def _words(text: str) -> list[str]:
    """The runs of letters and digits of a text, in lower case."""
    return re.findall(r"[^\W_]+", text.lower())


def _common_ngrams(summary: list[str], reference: list[str], size: int) -> Overlap:
    """The overlap of the n-grams of `size` words."""
    ngrams, ref_ngrams = (
        Counter(zip(*(words[start:] for start in range(size)), strict=False))
        for words in (summary, reference)
    )
    return _overlap((ngrams & ref_ngrams).total(), ngrams.total(), ref_ngrams.total())


def _overlap(common: int, in_summary: int, in_reference: int) -> Overlap:
    """Precision, recall and F from the counts of units in common, and in each text."""
    precision, recall = common / max(1, in_summary), common / max(1, in_reference)
    total = precision + recall
    return Overlap(precision, recall, 2 * precision * recall / total if total else 0.0)
