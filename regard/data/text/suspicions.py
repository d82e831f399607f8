"""Detection of usable but suspicious pairs: those with swapped sides.

In: the pairs of a dataset in their order. Out: which pairs look as if source and target were
swapped. This is a guess from the file itself; if both sides are in one language, as in copies and
summaries, no pair is reported.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain
from statistics import median

from regard.data.text.pairs import Pair

COMMON = {
    "en": "the and of is to in that it was with this you not are",
    "de": "der die und das ist nicht ich ein eine zu den mit sie es",
    "fr": "le la les et des est une pas je il dans que pour un",
    "es": "el los las una es que por con del está se en no",
    "it": "il di che una per non gli sono della con un è",
    "nl": "het een van en niet dat ik zijn op te met voor",
    "pt": "o os uma não que para do da com em é um",
}
"""The most common words of some languages."""
LEARNED_PAIRS = 50_000
"""The trigrams of this many first pairs are counted."""
LEAST_MARGIN = 0.35
"""Least median margin, in nats per trigram, by which texts are likelier on their own side; below
it the sides are too similar to report any pair."""
AGAINST, CLEARLY = 0.5, 6.0
"""Nats per trigram, and per text, by which both texts of a swapped pair must be likelier on the
other side."""
FULLY_SCORED = 2000
"""This many first pairs are all scored; later pairs only if a rough score is suspicious."""
FEWEST_HITS = 20
"""The fewest occurrences of a language's common words to recognise the language of a side."""


class Sides:
    """Character trigrams of the words of each side of a dataset, to detect swapped pairs."""

    def __init__(self) -> None:
        self.pairs = 0
        self._words: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
        self._rough: tuple[dict[str, float], dict[str, float]] = ({}, {})

    def learn(self, pair: Pair) -> None:
        """Count the words of a pair, if it is among the first `LEARNED_PAIRS` pairs."""
        self.pairs += 1
        if self.pairs <= LEARNED_PAIRS:
            for words, text in zip(self._words, (pair.source, pair.target), strict=True):
                words.update(_words(text))

    def swapped_lines(self, pairs: Iterable[tuple[int, Pair]]) -> list[int]:
        """Return the line numbers of pairs that look swapped.

        Args:
            pairs: All pairs in the order in which they were learned, with their line numbers.
        """
        suspects, margins = [], []
        for number, (line, pair) in enumerate(pairs):
            sides = _words(pair.source), _words(pair.target)
            if number >= FULLY_SCORED and not all(map(self._may_be_swapped, (0, 1), sides)):
                continue
            texts = [Counter(chain.from_iterable(map(_trigrams, words))) for words in sides]
            counted = number < LEARNED_PAIRS  # its own counts must be subtracted
            scores = [self._own_side_score(side, *ordered, counted=counted)
                      for side, ordered in enumerate((texts, texts[::-1]))]  # fmt: skip
            means = [total / max(1, count) for total, count in scores]
            margins += [min(means)] if number < FULLY_SCORED else []
            if max(means) < -AGAINST and max(total for total, _ in scores) < -CLEARLY:
                suspects.append(line)
        return suspects if margins and median(margins) > LEAST_MARGIN else []

    @cached_property
    def _counts(self) -> tuple[Counter[str], Counter[str]]:
        """The number of occurrences of each trigram, for each side."""
        counts: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
        for counter, words in zip(counts, self._words, strict=True):
            for word, times in words.items():
                for trigram in _trigrams(word):
                    counter[trigram] += times
        return counts

    @cached_property
    def _totals(self) -> tuple[int, int]:
        return self._counts[0].total(), self._counts[1].total()

    def _may_be_swapped(self, side: int, words: Sequence[str]) -> bool:
        """Whether a text may be likelier on the other side, by the sum of cached word scores."""
        rough = self._rough[side]
        for word in words:
            if word not in rough:
                text: Counter[str] = Counter(_trigrams(word))
                rough[word] = self._own_side_score(side, text, Counter(), counted=False)[0]
        return sum(rough[word] for word in words) < 0

    def languages(self) -> tuple[str | None, str | None]:
        """Guess the language of each side by its common words; None if unclear."""
        return self._language(0), self._language(1)

    def _language(self, side: int) -> str | None:
        """Guess the language of a side by its common words; None if it is not clear."""
        words = self._words[side]
        hits = {name: sum(words[word] for word in terms.split()) for name, terms in COMMON.items()}
        best, second = sorted(hits, key=lambda name: -hits[name])[:2]
        return best if hits[best] >= FEWEST_HITS and hits[best] > 2 * hits[second] else None

    def _own_side_score(
        self, side: int, text: Counter[str], partner: Counter[str], *, counted: bool
    ) -> tuple[float, int]:
        """Compute by how many nats a text is likelier on its own side than on the other.

        Args:
            side: 0 for a source, 1 for a target.
            text: The text's trigrams.
            partner: The trigrams of the text that it is paired with.
            counted: Whether both texts are part of the counts; they are then subtracted.

        Returns:
            The sum of log ratios over the trigrams that occur on either side, and their number.
        """
        own_counts, other_counts = self._counts[side], self._counts[1 - side]
        smoothing = 0.5 * (len(own_counts) + len(other_counts))  # add-1/2 smoothing
        own_total = self._totals[side] - (text.total() if counted else 0) + smoothing
        other_total = self._totals[1 - side] - (partner.total() if counted else 0) + smoothing
        total, count = 0.0, 0
        for trigram, times in text.items():
            own_count = own_counts[trigram] - (times if counted else 0)
            other_count = other_counts[trigram] - (partner[trigram] if counted else 0)
            if own_count or other_count:
                ratio = (own_count + 0.5) / own_total * other_total / (other_count + 0.5)
                total += times * math.log(ratio)
                count += times
        return total, count


def named_languages(files: str | tuple[str, str]) -> tuple[str, str] | None:
    """Find the two languages in file names, such as `x.en` and `x.de`, or `en-de.tsv`.

    Example:
        >>> named_languages(("a/train.en.gz", "a/train.de.gz")), named_languages("my-en-de.tsv")
        (('en', 'de'), ('en', 'de'))
    """
    names = (files,) if isinstance(files, str) else files
    parts = [re.split(r"[^a-z]+", re.split(r"[/\\\\]", name)[-1].lower()) for name in names]
    languages = [[part for part in words if part in COMMON] for words in parts]
    pair = languages[0] if len(languages) == 1 else [words[-1] for words in languages if words]
    return (pair[0], pair[1]) if len(pair) == 2 and pair[0] != pair[1] else None


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W\d_]+", text.lower())


def _trigrams(word: str) -> list[str]:
    """Return the trigrams of a word with a space added at each end."""
    padded = f" {word} "
    return [padded[i : i + 3] for i in range(len(padded) - 2)]
