"""What a model's vectors say about word senses, as measured on pairs of sentences.

In: the cosine of a word's two contextual vectors. Out: the same meaning, another one, or that it
cannot be told, by two thresholds: of the pairs with a higher (lower) cosine than the one (other),
four of five had the same (another) sense. Where such verdicts were right too seldom on other words,
there are no thresholds, and no verdicts. `python -m benchmarks.senses MODEL` measures a model; its
card holds the result.
"""

from __future__ import annotations

from pydantic import Field

from regard.config import Config

SAME, OTHER, UNDECIDED = "same meaning", "other meaning", "cannot tell"
VERDICTS = (SAME, OTHER, UNDECIDED)


class SenseRule(Config):
    """Two thresholds that turn a cosine into a verdict."""

    same: float | None = None
    """At this cosine or above, the meaning is called the same; None: never."""
    other: float | None = None
    """At this cosine or below, it is called another; None: never."""

    def verdict(self, cosine: float) -> str:
        """One of `VERDICTS`."""
        if self.same is not None and cosine >= self.same:
            return SAME
        return OTHER if self.other is not None and cosine <= self.other else UNDECIDED


class SenseTest(SenseRule):
    """How well the cosines of one layer tell word senses apart."""

    layer: int | None = None
    """The block whose output was measured, from 0; None: the output of the whole stack."""
    pairs: int = Field(ge=1)
    """Pairs of homonyms that were asked, with the thresholds of other words."""
    decided: int = Field(ge=0)
    """Those of them that were called the same or another."""
    right: int = Field(ge=0)
    """Those of the decided that were right."""
    finer_pairs: int = Field(ge=0)
    """Pairs of WiC, whose senses are finer."""
    finer_decided: int = Field(ge=0)
    finer_right: int = Field(ge=0)

    def describe(self) -> str:
        """The thresholds, and how often verdicts by them are right."""
        right = f"{self._share(self.right, self.decided)} verdicts on {self.pairs} homonym pairs"
        if self.same is None and self.other is None:
            return f"no verdicts: right were {right}, too few"
        sides = ((SAME, "from", self.same), (OTHER, "up to", self.other))
        rules = [f"{name} {word} {at:.2f}" for name, word, at in sides if at is not None]
        finer = self._share(self.finer_right, self.finer_decided)
        return f"{', '.join(rules)}; right: {right}, {finer} on {self.finer_pairs:,} of WiC"

    @staticmethod
    def _share(right: int, decided: int) -> str:
        return f"{right / max(1, decided):.0%} of {decided:,}"
