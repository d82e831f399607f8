"""How well a model of plain text does on text that it has not seen."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from regard.tasks.measures.report import Report
from regard.tasks.measures.unknown import Unknown


@dataclass(frozen=True)
class WordAccuracy:
    """How often the next word was among those suggested."""

    words: int
    top: int
    right: float
    """Percentage of words that were among the `top` likeliest."""
    first: float
    """Percentage of words that were the likeliest."""


@dataclass(frozen=True)
class SpanAccuracy:
    """How many of the spans that were cut out of texts came back."""

    texts: int
    spans: int
    exact: float
    """Percentage of spans of which every token is right."""


@dataclass(frozen=True)
class TextReport(Report):
    """What `regard eval` says of a model of plain text."""

    name: str
    tokens: int
    loss: float
    perplexity: float
    words: WordAccuracy | None = None
    """Of a model that writes on."""
    spans: SpanAccuracy | None = None
    """Of a model that says what is missing."""
    masked: float | None = None
    """Of a model that fills masks: the share of hidden tokens that it finds, in per cent."""
    unknown: float | None = None
    """The share of the tokens that stand for what the vocabulary cannot spell; None: it spells
    everything."""

    def to_json(self) -> dict[str, Any]:
        """All numbers; one line of `regard eval --json`."""
        return {key: value for key, value in asdict(self).items() if value is not None}

    def table(self) -> str:
        """For people."""
        return "\n".join([self.headline(), *self._details()])

    def check(self) -> None:
        """Refuses scores of a text of which more than half of the tokens are unknown."""
        Unknown(self.unknown or 0.0).check(self.name)

    def headline(self) -> str:
        """What is known first."""
        return (
            f"{self.name}: {self.tokens:,} tokens, loss {self.loss:.3f}, perplexity "
            f"{self.perplexity:.4g}"
        )

    def _details(self) -> list[str]:
        """What else there is, a line each."""
        lines = []
        if self.unknown is not None:
            lines.append(f"unknown tokens: {self.unknown:.1%}")
        if (words := self.words) is not None:
            lines.append(
                f"next word among {words.top} suggested: {words.right:.1f}%, "
                f"the first: {words.first:.1f}% (of {words.words} words)"
            )
        if (spans := self.spans) is not None:
            lines.append(
                f"spans restored exactly: {spans.exact:.1f}% "
                f"(of {spans.spans} in {spans.texts} texts)"
            )
        if self.masked is not None:
            lines.append(f"hidden tokens found: {self.masked:.1f}%")
        return lines
