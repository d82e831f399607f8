"""What every corpus hands to the tokenizers: pairs of sentences, split for use.

The grammar, the toys and the file reader all give these two types, so that
nothing downstream knows where a sentence came from.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Pair:
    """One sentence and its translation.

    Attributes:
        source: The sentence to translate.
        target: Its translation.
        tags: The phenomena in it ("pronoun", "separable"), for reporting.
        others: Other right translations, to score with.
    """

    source: str
    target: str
    tags: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    @property
    def references(self) -> tuple[str, ...]:
        """Every translation that is right."""
        return self.target, *self.others


def by_source(pairs: Iterable[Pair]) -> tuple[Pair, ...]:
    """One pair for each source, with the translations of all of them.

    Example:
        >>> by_source([Pair("Hi.", "Hallo!"), Pair("Hi.", "Grüß Gott!")])
        (Pair(source='Hi.', target='Hallo!', tags=(), others=('Grüß Gott!',)),)
    """
    found: dict[str, list[Pair]] = {}
    for pair in pairs:
        found.setdefault(pair.source, []).append(pair)
    merged = []
    for first, *more in found.values():
        targets = dict.fromkeys(text for pair in (first, *more) for text in pair.references)
        merged.append(replace(first, others=tuple(t for t in targets if t != first.target)))
    return tuple(merged)


@dataclass(frozen=True)
class Splits:
    """A corpus, parted so that no pair is in two places.

    Attributes:
        train: What the weights are fitted to.
        valid: What chooses between checkpoints; drawn like `train`.
        tests: What is reported, by name; one from files is just "test".
    """

    train: tuple[Pair, ...]
    valid: tuple[Pair, ...]
    tests: dict[str, tuple[Pair, ...]]
