"""What every corpus hands to the tokenizers: pairs of sentences, split for use.

The grammar, the toys and the file reader all give these two types, so that
nothing downstream knows where a sentence came from.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Pair:
    """One sentence and its translation.

    Attributes:
        source: The sentence to translate.
        target: Its translation.
        tags: The phenomena in it ("pronoun", "separable"), for reporting.
    """

    source: str
    target: str
    tags: tuple[str, ...] = ()


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
