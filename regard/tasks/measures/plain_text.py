"""The evaluation report of a model of plain text: loss, perplexity, accuracies."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from regard.tasks.measures.report import Report
from regard.tasks.measures.unknown import Unknown


@dataclass(frozen=True)
class WordAccuracy:
    """How often the next word was among those suggested."""

    words: int
    top: int
    right: float
    """Percentage of words that were among the `top` suggested words."""
    first: float
    """Percentage of words that were suggested first."""


@dataclass(frozen=True)
class SpanAccuracy:
    """How many of the spans that were cut out of texts were restored."""

    texts: int
    spans: int
    exact: float
    """Percentage of spans of which every token is right."""


@dataclass(frozen=True)
class TextReport(Report):
    """The report of `regard eval` for a model of plain text."""

    name: str
    tokens: int
    loss: float
    perplexity: float
    words: WordAccuracy | None = None
    """The accuracy of suggested next words, for a language model."""
    spans: SpanAccuracy | None = None
    """The accuracy of restored spans, for a model of the task `restore`."""
    masked: float | None = None
    """Percentage of masked tokens that are predicted right, for a masked language model."""
    unknown: float | None = None
    """The share of tokens that are the unknown token; None if the vocabulary can spell any text."""

    def to_json(self) -> dict[str, Any]:
        """All numbers; one line of `regard eval --json`."""
        values = asdict(replace(self, notes={}))
        return {key: value for key, value in values.items() if value is not None and key != "notes"}

    def table(self) -> str:
        """Formats the report as lines of text."""
        return "\n".join([self.headline(), *self._details()])

    def check(self) -> None:
        """Raises an error if more than half of the tokens are unknown."""
        Unknown(self.unknown or 0.0).check(self.name)

    def headline(self) -> str:
        """The first line of the report: loss and perplexity."""
        return (
            f"{self.name}: {self.tokens:,} tokens, loss {self.loss:.3f}, perplexity "
            f"{self.perplexity:.4g}"
        )

    def _details(self) -> list[str]:
        """The other metrics, a line each."""
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
            lines.append(f"masked tokens predicted correctly: {self.masked:.1f}%")
        return lines
