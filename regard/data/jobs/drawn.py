"""What generators of pairs share: chance, people, and splits that have no source in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from random import Random

from regard.data.text.pairs import Pair, Splits


def words(text: str) -> tuple[str, ...]:
    """The words of a text."""
    return tuple(text.split())


PEOPLE = {
    "she": words(
        "Anna Maria Clara Emma Sophie Laura Nina Julia Martha Helen Alice Rosa Ida Lucy Eva "
        "Mary Jane Sarah Paula Vera"
    ),
    "he": words(
        "Tom Paul Max Jonas Felix Peter Simon David Oscar Hugo Leo Karl Ben Adam John George "
        "Victor Martin Anton Robert"
    ),
}
POSSESSIVE = {"she": "her", "he": "his"}


class Draw:
    """One generator of chance, with what is drawn from it."""

    def __init__(self, seed: str) -> None:
        self.chance = Random(seed)

    def one(self, choices: Iterable[str]) -> str:
        """One of several."""
        return self.chance.choice(list(choices))

    def two(self, choices: Sequence[str]) -> tuple[str, str]:
        """Two different ones."""
        first, second = self.chance.sample(choices, 2)
        return first, second

    def person(self) -> tuple[str, str, str]:
        """A name, with its pronoun and possessive."""
        pronoun = self.one(list(PEOPLE))
        return self.one(PEOPLE[pronoun]), pronoun, POSSESSIVE[pronoun]

    def some(self, sentences: list[str], least: int = 1) -> list[str]:
        """A few of several sentences, in any order."""
        return self.chance.sample(sentences, self.chance.randint(least, len(sentences)))

    def mixed(self, told: list[str], aside: list[str]) -> str:
        """A report: what happened, in order, and between it things that do not matter."""
        report = list(told)
        for sentence in aside:
            report.insert(self.chance.randint(0, len(report)), sentence)
        return " ".join(report)


def parted(sample: Callable[[str], Iterator[Pair]], pairs: int, held_out: int, seed: int) -> Splits:
    """The splits of a generator: what one has, no later one has as a source.

    Args:
        sample: From a seed, pairs without end.
        pairs: How many training pairs.
        held_out: How many for validation, and how many for the test.
        seed: What decides everything.
    """
    seen: set[str] = set()

    def fresh(name: str, count: int) -> tuple[Pair, ...]:
        def unseen() -> Iterator[Pair]:
            for pair in sample(f"{seed} {name}"):
                if pair.source not in seen:
                    seen.add(pair.source)
                    yield pair

        return tuple(islice(unseen(), count))

    test, valid = fresh("test", held_out), fresh("valid", held_out)
    return Splits(fresh("train", pairs), valid, {"test": test})
