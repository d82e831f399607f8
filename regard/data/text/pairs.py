"""Pairs of sentences in splits: the common output of all sources of pairs, read by the tokenizers.

The grammar, the toy tasks and the file reader all return these two types, so that the steps after
them do not depend on the source.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Pair:
    """One sentence and its translation.

    Attributes:
        source: The sentence to translate.
        target: Its translation.
        tags: The phenomena in it ("pronoun", "separable"), to report scores by.
        others: Other correct translations, to score with.
    """

    source: str
    target: str
    tags: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    @property
    def references(self) -> tuple[str, ...]:
        """All correct translations."""
        return self.target, *self.others


def by_source(pairs: Iterable[Pair]) -> tuple[Pair, ...]:
    """Merge the pairs of each source into one pair that has all their translations.

    Example:
        >>> by_source([Pair("Hi.", "Hallo!"), Pair("Hi.", "Grüß Gott!")])
        (Pair(source='Hi.', target='Hallo!', tags=(), others=('Grüß Gott!',)),)
    """
    groups: dict[str, list[Pair]] = {}
    for pair in pairs:
        groups.setdefault(pair.source, []).append(pair)
    merged = []
    for first, *other_pairs in groups.values():
        targets = dict.fromkeys(text for pair in (first, *other_pairs) for text in pair.references)
        merged.append(replace(first, others=tuple(t for t in targets if t != first.target)))
    return tuple(merged)


@dataclass(frozen=True)
class Splits:
    """A dataset of pairs in splits; no pair is in two of them.

    Attributes:
        train: Training pairs.
        valid: Validation pairs, to choose a checkpoint; from the same distribution as `train`.
        tests: Test pairs to report scores on, by name; a test split from files is called "test".
    """

    train: Sequence[Pair]
    valid: Sequence[Pair]
    tests: Mapping[str, Sequence[Pair]]
