"""Shared parts of the generators of pairs: random choices, names, and disjoint splits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from random import Random

from regard.data.synthetic.tables import read_tables
from regard.data.text.pairs import Pair, Splits

_TABLES = read_tables("jobs/words.txt")


def words_of(table: str) -> tuple[str, ...]:
    """Return the words or phrases of a table of `words.txt`."""
    return tuple(phrase for row in _TABLES[table] for phrase in row.split(", "))


def meanings_of(table: str) -> dict[str, str]:
    """Return a table of `words.txt` that has two columns: what is said, and what it means."""
    return dict([cell.strip() for cell in row.split(":")] for row in _TABLES[table])


PEOPLE = {"she": words_of("women"), "he": words_of("men")}
POSSESSIVE = {"she": "her", "he": "his"}


class Draw(Random):
    """A seeded random generator with helpers that draw words, people and sentences."""

    def one(self, choices: Iterable[str]) -> str:
        """Draw one of the choices."""
        return self.choice(list(choices))

    def two(self, choices: Sequence[str]) -> tuple[str, str]:
        """Draw two different choices."""
        first, second = self.sample(choices, 2)
        return first, second

    def person(self) -> tuple[str, str, str]:
        """Draw a name; return it with its pronoun and possessive."""
        pronoun = self.one(list(PEOPLE))
        return self.one(PEOPLE[pronoun]), pronoun, POSSESSIVE[pronoun]

    def some(self, sentences: list[str], least: int = 1) -> list[str]:
        """Draw at least `least` of the sentences, in random order."""
        return self.sample(sentences, self.randint(least, len(sentences)))

    def mixed(self, facts: list[str], asides: list[str]) -> str:
        """Join the sentences of `facts` in order, with those of `asides` inserted at random."""
        report = list(facts)
        for sentence in asides:
            report.insert(self.randint(0, len(report)), sentence)
        return " ".join(report)


def disjoint_splits(
    sample: Callable[[str], Iterator[Pair]], pairs: int, held_out: int, seed: int
) -> Splits:
    """Draw splits from a generator; no source is in two of them, or twice in one.

    Args:
        sample: Seed -> endless pairs.
        pairs: How many training pairs.
        held_out: How many validation pairs, and how many test pairs.
        seed: Seed of the random choice.
    """
    used_sources: set[str] = set()

    def draw_split(name: str, count: int) -> tuple[Pair, ...]:
        """Draw the pairs of a split whose sources are new."""

        def new_pairs() -> Iterator[Pair]:
            for pair in sample(f"{seed} {name}"):
                if pair.source not in used_sources:
                    used_sources.add(pair.source)
                    yield pair

        return tuple(islice(new_pairs(), count))

    test, valid = draw_split("test", held_out), draw_split("valid", held_out)
    return Splits(draw_split("train", pairs), valid, {"test": test})
